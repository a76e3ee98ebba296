"""The budgets of a pool are not exceeded by what the operator disrupts of its own will."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.disruption.budgets import headroom, read_budgets
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from karpenter_local.simulation.mirror import Wrote


def reason_of(claim: NodeClaim) -> str:
    """Return why the operator disrupts a machine; nothing if it does not."""
    return next(
        (
            each.reason
            for each in claim.status.conditions
            if each.type == "DisruptionReason" and each.status == "True"
        ),
        "",
    )


def is_true(claim: NodeClaim, name: str) -> bool:
    """Say whether a condition of a claim holds."""
    return any(each.type == name and each.status == "True" for each in claim.status.conditions)


class Budgets(Rule):
    """At the moment at which a machine begins to be disrupted, there is room for it in every budget."""

    name = "budgets"

    def wrote(self, wrote: Wrote) -> None:
        """Look at machines that begin to be disrupted."""
        before, after = wrote.before, wrote.after
        if not isinstance(after, NodeClaim) or self.world.is_contested:
            return
        reason = reason_of(after)
        if not reason or (isinstance(before, NodeClaim) and reason_of(before)):
            return
        pool = self.mirror.pools.get(after.metadata.labels.get(NODEPOOL, ""))
        if pool is None:
            return
        own = [
            claim
            for claim in self.mirror.claims.values()
            # A machine that is empty and being shut down is not disrupted any longer.
            if claim.metadata.labels.get(NODEPOOL) == pool.name and not is_true(claim, "InstanceTerminating")
        ]
        size = sum(1 for each in own if is_true(each, "Initialized"))
        others = sum(1 for each in own if reason_of(each) and each.name != after.name)
        left = headroom(
            read_budgets(pool.spec.disruption.budgets),
            reason=reason,
            pool_size=size,
            disrupting=others,
            now=self.world.clock.now(),
        )
        if left <= 0:
            self.violated(
                f"claim {after.name} is disrupted ({reason}) beside {others} others of the {size} machines of"
                f" pool {pool.name}"
            )
