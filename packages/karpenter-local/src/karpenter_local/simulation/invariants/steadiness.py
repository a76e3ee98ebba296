"""A steady workload reaches a steady cluster: where nothing is asked for, nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter_local.simulation.invariants.rule import Ledger
    from karpenter_local.simulation.mirror import Wrote
    from karpenter_local.simulation.world import World

QUIET: Final = 600.0
"""Seconds without a claim coming or going after which a cluster counts as steady."""


class Steadiness(Rule):
    """No claim comes or goes, except those that were told to live only so long."""

    name = "steadiness"

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world, ledger)
        self._moved = 0.0
        self._what = "the beginning"

    def wrote(self, wrote: Wrote) -> None:
        """Note when a claim comes or goes."""
        if isinstance(wrote.object, NodeClaim) and (wrote.before is None or wrote.after is None):
            pool = self.mirror.pools.get(wrote.object.metadata.labels.get(NODEPOOL, ""))
            if pool is not None and pool.spec.template.spec.expire_after == "Never":
                self._moved = self.world.clock.monotonic()
                self._what = f"claim {wrote.object.name} {'came' if wrote.before is None else 'went'}"

    def unrest(self) -> Iterable[str]:
        """Return what moved lately."""
        ago = self.world.clock.monotonic() - self._moved
        if ago < QUIET:
            yield f"{self._what} {ago:.0f} s ago"
