"""Pods: pending from birth, deleted with grace when they run on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.local.strategy import Strategy

if TYPE_CHECKING:
    from karpenter.local.entry import Object
    from karpenter.local.resources import Resource

_DEFAULT_GRACE = 30
_FINISHED = frozenset({"Succeeded", "Failed"})


class PodStrategy(Strategy):
    """How pods are written."""

    returns_deleted = True

    def prepare_create(self, resource: Resource, value: Object) -> None:
        """Begin pending."""
        _ = resource
        value["status"] = {"phase": "Pending"}

    def grace(self, value: Object, asked: int | None) -> int:
        """Return how long the pod may wind down; what is on no node or has finished goes at once."""
        if asked is None:
            given = (value.get("spec") or {}).get("terminationGracePeriodSeconds")
            asked = _DEFAULT_GRACE if given is None else int(given)
        if not (value.get("spec") or {}).get("nodeName"):
            return 0
        if (value.get("status") or {}).get("phase") in _FINISHED:
            return 0
        return 1 if asked < 0 else asked
