"""The limits of a pool are never exceeded by the machines that really exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter_local.simulation.invariants.resources import cores, cores_of_pool
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from karpenter_local.simulation.mirror import Wrote


class Limits(Rule):
    """No pool has more cores than it may."""

    name = "limits"

    def wrote(self, wrote: Wrote) -> None:
        """Count whenever a claim comes or is launched."""
        after = wrote.after
        if not isinstance(after, NodeClaim) or self.world.is_contested:
            return
        pool = self.mirror.pools.get(after.metadata.labels.get(NODEPOOL, ""))
        if pool is None or "cpu" not in pool.spec.limits:
            return
        used, allowed = cores_of_pool(self.world, pool.name), cores(pool.spec.limits)
        if used > allowed:
            self.violated(f"pool {pool.name} has {used / 1000:g} cores and may have {allowed / 1000:g}")
