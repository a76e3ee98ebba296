"""
Nothing is paid for in vain: every machine that was launched became the machine of a claim.

An answer that was lost is found again by its tags, by the same operator or by the next one. Not judged are
lives in which two operators led at once, and those in which EC2 hid what it had launched for longer than an
operator waits for it: then a second machine is launched, and the first one is ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.instance.launch import SETTLING
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter_local.simulation.aws.cloud import AwsSky
    from karpenter_local.simulation.invariants.rule import Ledger
    from karpenter_local.simulation.mirror import Wrote
    from karpenter_local.simulation.world import World


class Paid(Rule):
    """No claim is paid for twice."""

    name = "paid once"

    def __init__(self, world: World, ledger: Ledger, sky: AwsSky) -> None:
        super().__init__(world, ledger)
        self._sky = sky
        self._named: set[str] = set()

    def wrote(self, wrote: Wrote) -> None:
        """Note which machines became those of claims."""
        if isinstance(wrote.after, NodeClaim) and wrote.after.status.provider_id:
            self._named.add(wrote.after.status.provider_id.rpartition("/")[2])

    def unrest(self) -> Iterable[str]:
        """Return the machines that nobody ever had."""
        if self.world.contested_until or self._sky.longest_lag >= SETTLING:
            return
        for number in self._sky.launched:
            if number not in self._named:
                yield f"machine {number} was launched, and is that of no claim"
