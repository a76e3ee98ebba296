"""Nodes: registered with their status in one write, as kubelets do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

# The TaintNodesByCondition plugin: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
NOT_READY = ("node.kubernetes.io/not-ready", "NoSchedule")


class NodeStrategy(Strategy):
    """Rules for writing nodes."""

    def default(self, value: Object) -> None:
        """A node has a spec, even an empty one, and allocates all that it has unless it says otherwise."""
        value.setdefault("spec", {})
        status = value.setdefault("status", {})
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Keep pods away from a new node until it has reported; a controller takes this off again."""
        _ = backend, resource
        if old is None:
            taints = value["spec"].setdefault("taints", [])
            if not any((item.get("key"), item.get("effect")) == NOT_READY for item in taints):
                taints.append({"key": NOT_READY[0], "effect": NOT_READY[1]})

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Keep the status that came with it."""
