"""
The hand of whoever tests, shows or simulates: what the cloud in memory can be made to do.

    control.sell_out(zone="test-zone-a")            # launches there fail, until restock()
    control.next("launch", LoseAnswer())            # the machine is made, the answer never comes
    control.interrupt(provider_id)                  # news now, and the machine is gone two minutes later
    control.kill(provider_id)                       # gone, without a word
    control.drift(provider_id, "ImageDrift")        # not what its class asks for any longer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.kwok.stock import Shelf

if TYPE_CHECKING:
    from karpenter.cloud.interface import Machine
    from karpenter.cloud.kwok.cloud import KwokCloud
    from karpenter.cloud.kwok.faults import Fault, Rule
    from karpenter.core.model.catalog import Catalog

NOTICED: float = 60.0
"""Seconds after which a cluster notices that a machine is gone."""


class KwokControl:
    """Makes the cloud misbehave."""

    def __init__(self, cloud: KwokCloud) -> None:
        self._cloud = cloud

    def machines(self, cluster: str | None = None) -> tuple[Machine, ...]:
        """Return what really exists, of one cluster or of all, in the order of launch."""
        return tuple(each.machine for each in self._cloud if cluster in {None, each.cluster})

    def sell(self, catalog: Catalog) -> None:
        """Sell something else from now on, such as the same at other prices."""
        self._cloud.stock.sell(catalog)

    def sell_out(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Let launches of these offerings fail; whatever is left empty does not matter."""
        self._cloud.stock.sell_out(Shelf(instance_type=instance_type, zone=zone, capacity_type=capacity_type))

    def restock(self, *, instance_type: str = "", zone: str = "", capacity_type: str = "") -> None:
        """Undo the sell_out of the same words; with no words, all of them."""
        shelf = Shelf(instance_type=instance_type, zone=zone, capacity_type=capacity_type)
        self._cloud.stock.restock(shelf if shelf != Shelf() else None)

    def next(self, method: str, *faults: Fault | None) -> None:
        """Let the next calls of `method` go wrong in turn; None is a call that goes well."""
        self._cloud.faults.write(method, *faults)

    def follow(self, rule: Rule | None) -> None:
        """Let a rule decide what goes wrong with each call that no script is written for."""
        self._cloud.faults.rule = rule

    def interrupt(
        self, provider_id: str, *, kind: str = "spot_interrupted", notice: float | None = None
    ) -> None:
        """
        Tell of an interruption, and take the machine away after the notice.

        Raises:
            MachineNotFound: there is no such machine.
        """
        after = self._cloud.behaviour.notice if notice is None else notice
        self._cloud.announce(self._cloud.find(provider_id), kind, taken_after=after)

    def recommend_rebalance(self, provider_id: str) -> None:
        """
        Tell that a machine may be interrupted some time; nothing follows.

        Raises:
            MachineNotFound: there is no such machine.
        """
        instance = self._cloud.find(provider_id)
        self._cloud.announce(instance, "rebalance_recommendation", taken_after=None, drains=False)

    def kill(self, provider_id: str, *, noticed_after: float = NOTICED) -> None:
        """
        Let a machine be gone without a word; its Node goes when the cluster notices.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.vanish(self._cloud.find(provider_id), noticed_after=noticed_after)

    def drift(self, provider_id: str, reason: str = "ImageDrift") -> None:
        """
        Let a machine drift for a reason; for none, let it be what its class asks for again.

        Raises:
            MachineNotFound: there is no such machine.
        """
        self._cloud.find(provider_id).drift = reason

    def behave(self) -> None:
        """Let everything go well from now on: faults are forgotten, and everything is in stock."""
        self._cloud.faults.clear()
        self._cloud.stock.restock(None)
