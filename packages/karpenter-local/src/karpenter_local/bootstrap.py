"""What a cluster has before anyone has asked for anything: namespaces and system priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.writing import WriteOptions, create

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = (
    ("system-node-critical", 2000001000, "For pods that must stay on the node where they are."),
    ("system-cluster-critical", 2000000000, "For pods that the cluster needs, on whichever node."),
)
_INTENT = WriteOptions(manager="kube-apiserver")


def fill(backend: Backend) -> None:
    for name in NAMESPACES:
        _ensure(backend, "", "namespaces", {"metadata": {"name": name}})
    for name, value, described in _PRIORITIES:
        body = {"metadata": {"name": name}, "value": value, "description": described}
        _ensure(backend, "scheduling.k8s.io", "priorityclasses", body)


def _ensure(backend: Backend, group: str, plural: str, value: Object) -> None:
    resource = backend.registry.stored(group, plural)
    assert resource is not None
    if backend.entry(resource, "", value["metadata"]["name"]) is None:
        create(backend, resource, "", value, _INTENT)
