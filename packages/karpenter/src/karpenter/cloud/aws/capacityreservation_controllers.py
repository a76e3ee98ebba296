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
    from collections.abc import Callable, Iterable

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
        """Compare the labels of reserved claims with EC2."""
        reserved = [each for each in self._view().claims.values() if _is_reserved(each)]
        if not reserved:
            return Step(again=PERIOD)
        kinds = {each.provider_id: each.capacity_type for each in await self._instances.all()}
        nodes = self._view().nodes.values()
        effects: list[Effect] = []
        for claim in reserved:
            if kinds.get(claim.status.provider_id) == ON_DEMAND:
                effects.append(_demoted(claim))
                effects += [_demoted(node) for node in _nodes_of(claim, nodes)]
        return Step(effects=tuple(effects), again=PERIOD)


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
            if _is_reserved(each) and each.metadata.deletion_timestamp is None
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


def _is_reserved(claim: NodeClaim) -> bool:
    labels = claim.metadata.labels
    return labels.get(CAPACITY_TYPE) == RESERVED and bool(labels.get(RESERVATION_ID))


def _nodes_of(claim: NodeClaim, nodes: Iterable[Node]) -> list[Node]:
    found = [each for each in nodes if each.spec.provider_id == claim.status.provider_id]
    return [
        each
        for each in found
        if each.metadata.labels.get(REGISTERED) == "true" and each.metadata.deletion_timestamp is None
    ]


def _demoted(item: NodeClaim | Node) -> Amend:
    gone = (RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE)
    labels: dict[str, str | None] = {CAPACITY_TYPE: ON_DEMAND, **dict.fromkeys(gone)}
    because = "its machine has lost its reservation"
    return Amend(kind=item.kind, name=item.name, changes={"metadata": {"labels": labels}}, because=because)
