"""
Nodes in capacity reservations that end or are cancelled.

An instance whose reservation is cancelled runs on as an on-demand instance, and the labels of its claim and
node are changed. A capacity block ends with its instances, so their claims are deleted before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.ec2nodeclass import CapacityReservationSelectorTerm
from karpenter.api.ec2nodeclass_status import EXPIRING
from karpenter.api.labels import CAPACITY_TYPE, ON_DEMAND, REGISTERED, RESERVED
from karpenter.cloud.aws.labels import RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE
from karpenter.core.effects import Amend, Step
from karpenter.core.lifecycle.conditions import delete_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
    from karpenter.cloud.aws.instance.instance import InstanceProvider
    from karpenter.core.effects import Effect
    from karpenter.core.state.cluster import ClusterView

PERIOD: Final = 60.0


class CapacityTypeController:
    """Relabels nodes that have lost their reservation as on-demand."""

    name = "capacityreservation.capacitytype"

    def __init__(self, *, view: Callable[[], ClusterView], instances: InstanceProvider) -> None:
        self._view = view
        self._instances = instances

    async def look(self) -> Step:
        """Compare the labels of reserved claims and their nodes with EC2."""
        if not _reserved(self._view()):
            return Step(again=PERIOD)
        kinds = {each.provider_id: each.capacity_type for each in await self._instances.all()}
        # A node is looked at for itself: an operator may have ended after it had written the claim.
        demoted = [item for number, item in _reserved(self._view()) if kinds.get(number) == ON_DEMAND]
        return Step(effects=tuple(map(_demoted, demoted)), again=PERIOD)


class ReservationExpirationController:
    """Deletes claims whose capacity block is about to end."""

    name = "capacityreservation.expiration"

    def __init__(self, *, view: Callable[[], ClusterView], reservations: CapacityReservationProvider) -> None:
        self._view = view
        self._reservations = reservations

    async def look(self) -> Step:
        """Ask for the reservations that instances are in."""
        held = [
            each
            for each in self._view().claims.values()
            if _is_reserved(each)
            and each.metadata.labels.get(RESERVATION_ID)
            and each.metadata.deletion_timestamp is None
        ]
        numbers = sorted({each.metadata.labels[RESERVATION_ID] for each in held})
        terms = tuple(CapacityReservationSelectorTerm(id=number) for number in numbers)
        found = await self._reservations.find(terms) if terms else ()
        ending = {each.id for each in found if each.state == EXPIRING}
        effects: list[Effect] = []
        for claim in held:
            number = claim.metadata.labels[RESERVATION_ID]
            if number in ending:
                because = f"capacity block {number} is about to end"
                effects += delete_claim(claim, "capacity_reservation_expiring", because)
        return Step(effects=tuple(effects), again=PERIOD)


def _is_reserved(item: NodeClaim | Node) -> bool:
    return item.metadata.labels.get(CAPACITY_TYPE) == RESERVED


def _reserved(view: ClusterView) -> list[tuple[str, NodeClaim | Node]]:
    """Return the claims and registered nodes that say they are reserved and stay, with their machines."""
    items: list[tuple[str, NodeClaim | Node]] = [
        (each.status.provider_id, each) for each in view.claims.values()
    ]
    items += [
        (each.spec.provider_id, each)
        for each in view.nodes.values()
        if each.metadata.labels.get(REGISTERED) == "true"
    ]
    return [
        (number, item)
        for number, item in items
        if number and _is_reserved(item) and item.metadata.deletion_timestamp is None
    ]


def _demoted(item: NodeClaim | Node) -> Amend:
    gone = (RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)
    labels: dict[str, str | None] = {CAPACITY_TYPE: ON_DEMAND, **dict.fromkeys(gone)}
    because = "its machine has lost its reservation"
    return Amend(kind=item.kind, name=item.name, changes={"metadata": {"labels": labels}}, because=because)
