"""Whatever is being deleted is gone in the end, and whatever was closed is open again or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT
from karpenter.api.node import Node
from karpenter_local.simulation.invariants.protection import covers
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod


class Leaving(Rule):
    """No finalizer is stuck. What a user's own wish holds (a pod that must not be disrupted) may stay."""

    name = "no finalizer is stuck"

    def unrest(self) -> Iterable[str]:
        """Return what should be gone, or open."""
        for kind, held in (
            ("node", self.mirror.nodes),
            ("claim", self.mirror.claims),
            ("pod", self.mirror.pods),
        ):
            for name, item in held.items():
                if item.metadata.deletion_timestamp is not None and not self._is_held(item):
                    yield f"{kind} {name} is being deleted and does not go"
        for name, node in self.mirror.nodes.items():
            closed = any(taint.key == DISRUPTED for taint in node.spec.taints)
            if closed and node.metadata.deletion_timestamp is None:
                yield f"node {name} is closed and stays"

    def _is_held(self, item: Resource) -> bool:
        """Whether pods that must not be evicted keep a machine where it is."""
        provider_id = item.spec.provider_id if isinstance(item, Node) else _provider_id(item)
        node = next(
            (each for each in self.mirror.nodes.values() if each.spec.provider_id == provider_id), None
        )
        claim = self.mirror.claim_of(provider_id)
        if node is None or (claim is not None and claim.spec.termination_grace_period is not None):
            return False
        return any(self._stays(pod) for pod in self.mirror.pods_on(node.name))

    def _stays(self, pod: Pod) -> bool:
        if pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true":
            return True
        return any(
            budget.status.disruptions_allowed <= 0 and covers(budget, pod)
            for budget in self.mirror.budgets.values()
        )


def _provider_id(item: Resource) -> str:
    status = getattr(item, "status", None)
    found: str = getattr(status, "provider_id", "")
    return found
