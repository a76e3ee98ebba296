"""Nodes: registered with their status in one write, as kubelets do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local.strategy import Strategy

if TYPE_CHECKING:
    from karpenter.local.entry import Object
    from karpenter.local.resources import Resource


class NodeStrategy(Strategy):
    """How nodes are written."""

    def default(self, value: Object) -> None:
        """A node has a spec, even an empty one, and allocates all that it has unless it says otherwise."""
        value.setdefault("spec", {})
        status = value.setdefault("status", {})
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, resource: Resource, value: Object) -> None:
        """Keep the status that came with it."""
