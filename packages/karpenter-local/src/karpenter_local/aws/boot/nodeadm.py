"""
Amazon Linux 2023: nodeadm reads NodeConfig documents, merges them in their order, and starts the kubelet.

What a later document says wins; tables are merged entry by entry, and lists are replaced.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api.manifests import read_document
from karpenter.api.meta import InvalidObject
from karpenter.api.node import Taint
from karpenter_local.aws.boot.archive import NODE_CONFIG, documents
from karpenter_local.aws.boot.bootconfig import BootConfig, CannotJoin, KubeletArguments
from karpenter_local.aws.boot.flags import labels_of, read_words, split_flags, taints_of, whole

# https://awslabs.github.io/amazon-eks-ami/nodeadm/
_VERSIONS: Final = frozenset({"node.eks.aws/v1alpha1"})
_NEEDED: Final = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def read_al2023(user_data: str) -> BootConfig:
    """
    Return what the documents say.

    Raises:
        CannotJoin: there are none, or they are not complete.
    """
    merged: dict[str, Any] = {}
    for each in documents(user_data):
        if each.type == NODE_CONFIG:
            merged = _merge(merged, _parse(each.text))
    if not merged:
        raise CannotJoin("nodeadm: no NodeConfig was found in the user data")
    spec = _table(merged, "spec")
    cluster = _table(spec, "cluster")
    for name in _NEEDED:
        if not cluster.get(name):
            raise CannotJoin(f"nodeadm: {name} is missing in the cluster of the NodeConfig")
    kubelet = _table(spec, "kubelet")
    flags = _flags(kubelet.get("flags") or [])
    config = _table(kubelet, "config")
    storage = _table(_table(spec, "instance"), "localStorage")
    return BootConfig(
        cluster=str(cluster["name"]),
        endpoint=str(cluster["apiServerEndpoint"]),
        authority=str(cluster["certificateAuthority"]),
        labels=labels_of(flags),
        taints=taints_of(flags) or _taints(config.get("registerWithTaints") or []),
        kubelet=_kubelet(config),
        raid0=storage.get("strategy") == "RAID0",
    )


def _parse(text: str) -> dict[str, Any]:
    try:
        found = read_document(text, source="a NodeConfig")
    except InvalidObject as error:
        raise CannotJoin(f"nodeadm: a NodeConfig is {error.problem} ({error.field})") from None
    if not isinstance(found, dict) or found.get("kind") != "NodeConfig":
        raise CannotJoin("nodeadm: a document is no NodeConfig")
    if found.get("apiVersion") not in _VERSIONS:
        raise CannotJoin(f"nodeadm: a NodeConfig has the unknown version {found.get('apiVersion')!r}")
    return found


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        held = merged.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            merged[key] = _merge(held, value)
        elif value is not None:
            merged[key] = value
    return merged


def _table(table: dict[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name) or {}
    if not isinstance(found, dict):
        raise CannotJoin(f"nodeadm: {name} is {found!r}, where a table is expected")
    return found


def _flags(said: Any) -> dict[str, str]:
    if not isinstance(said, list):
        raise CannotJoin(f"nodeadm: the flags of the kubelet are {said!r}, where a list is expected")
    flags: dict[str, str] = {}
    for each in said:
        flags |= split_flags(str(each)) if '"' in str(each) else read_words([str(each)])
    return flags


def _taints(said: list[dict[str, Any]]) -> tuple[Taint, ...]:
    try:
        return tuple(
            Taint(key=str(each["key"]), value=str(each.get("value") or ""), effect=str(each["effect"]))
            for each in said
        )
    except (KeyError, TypeError, AttributeError):
        raise CannotJoin(f"kubelet: registerWithTaints is {said!r}, which are no taints") from None


def _kubelet(config: dict[str, Any]) -> KubeletArguments:
    def amounts(name: str) -> dict[str, str]:
        return {str(key): str(value) for key, value in _table(config, name).items()}

    return KubeletArguments(
        max_pods=whole("maxPods", config["maxPods"]) if config.get("maxPods") is not None else None,
        pods_per_core=whole("podsPerCore", config.get("podsPerCore") or 0),
        kube_reserved=amounts("kubeReserved"),
        system_reserved=amounts("systemReserved"),
        eviction_hard=amounts("evictionHard"),
    )
