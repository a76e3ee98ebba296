"""Plans written by hand, for checking the validator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE
from karpenter.core.model.requirement import Requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.model.resources import merge, pod_requests
from karpenter.core.scheduling.problem import Cost, NewNode, Plan, Pool, Purchase, Refusal

if TYPE_CHECKING:
    from karpenter.api.pod import Pod


class Written(msgspec.Struct, frozen=True):
    """What a new node could be, as it is written here."""

    types: tuple[str, ...]
    required: Requirements
    requested: Mapping[str, int]

    def type_names(self) -> tuple[str, ...]:
        return self.types

    def requirements(self, types: tuple[str, ...]) -> Requirements:
        return self.required.intersect(Requirements.only(INSTANCE_TYPE, frozenset(types)))

    def requests(self) -> Mapping[str, int]:
        """Return what pods and daemons ask for."""
        return self.requested


def machine(
    pool: Pool,
    *pods: Pod,
    bought: tuple[str, str, str],
    types: tuple[str, ...] = (),
    narrowed: Requirements = NOTHING_REQUIRED,
    name: str = "",
    reservation: str = "",
) -> NewNode:
    """Return a new node that would be bought as (type, zone, capacity type), or as one of `types`."""
    kind = next(each for each in pool.types if each.name == bought[0])
    price = next(
        each.price
        for each in kind.offerings
        if (each.zone, each.capacity_type, each.reservation_id) == (*bought[1:], reservation)
    )
    sold = Requirements(
        {CAPACITY_TYPE: Requirement(CAPACITY_TYPE, frozenset({"spot", "on-demand", "reserved"}))}
    )
    required = pool.requirements.intersect(narrowed).intersect(sold)
    return NewNode(
        name=name or f"{pool.name}-1",
        pool=pool.name,
        purchase=Purchase(
            instance_type=bought[0],
            zone=bought[1],
            capacity_type=bought[2],
            price=price,
            reservation_id=reservation,
        ),
        pods=tuple(pod.key for pod in pods),
        instance_type_options=Written(
            types or (bought[0],), required, merge(pod_requests(pod) for pod in pods)
        ),
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        labels={**pool.labels, **required.labels()},
        allocatable=kind.allocatable,
    )


def plan(
    *machines: NewNode, placed: Mapping[str, tuple[str, ...]] | None = None, refused: tuple[str, ...] = ()
) -> Plan:
    """Return a plan that buys these machines."""
    total = sum(each.purchase.price for each in machines)
    return Plan(
        new_nodes=machines,
        placed=placed or {},
        refusals=tuple(Refusal(pod=key, message="there is no room") for key in refused),
        cost=Cost(hourly=total, lower_bound=total / 2),
    )
