"""Whether new nodes are described truly, bought rightly, and within what their pools allow."""

from __future__ import annotations

import itertools
from collections import Counter
from math import isclose
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import HOSTNAME, MIN_VALUES_RELAXED, NODES
from karpenter.core.model.resources import fits, merge, pod_requests
from karpenter.core.scheduling.problem import MAX_INSTANCE_TYPES, Plan, Pool, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.core.model.catalog import InstanceType
    from karpenter.core.model.requirement import Requirement
    from karpenter_local.testing.validator.bins import NewBin, PossibleLaunch

_CENTS: Final = 1e-9


def description_of(where: NewBin) -> Iterator[str]:
    """Yield where a new node says something else than its pool and its pods."""
    new, pool = where.new, where.pool
    if not where.pods:
        yield f"{where.name} has no pods"
    if new.taints != pool.taints or new.startup_taints != pool.startup_taints:
        yield f"{where.name} has other taints than its pool {pool.name}"
    asked = merge(pod_requests(pod) for pod in where.pods)
    if not fits(asked, new.requests):
        yield f"{where.name} requests {dict(new.requests)}, less than its pods: {asked}"
    if any(not fits(new.requests, kind.allocatable) for kind in where.types):
        yield f"{where.name} requests {dict(new.requests)}, more than some of its types have"


def labels_of(where: NewBin) -> Iterator[str]:
    """Yield where the labels and requirements of a new node contradict each other, or its pool."""
    new, pool = where.new, where.pool
    if HOSTNAME in new.requirements or HOSTNAME in new.labels:
        yield f"{where.name} has a host name before it is launched"
    for key, value in pool.labels.items():
        if new.labels.get(key) != value:
            yield f"{where.name} lacks the label {key}={value} of its pool"
    for key, value in new.labels.items():
        if not new.requirements[key].allows(value):
            yield f"{where.name} has the label {key}={value} against its own requirements"
        if any(not _states(launch, key).allows(value) for launch in where.launches):
            yield f"{where.name} would not come up with the label {key}={value} everywhere"
    for wanted in pool.requirements:
        has = new.requirements[wanted.key].without_min_values()
        if has.intersect(wanted.without_min_values()) != has:
            yield f"{where.name} allows more of {wanted.key} than its pool {pool.name}"


def _states(launch: PossibleLaunch, key: str) -> Requirement:
    return (
        launch.offering.requirements if key in launch.offering.requirements else launch.kind.requirements
    )[key]


def types_of(where: NewBin) -> Iterator[str]:
    """Yield what is wrong with the list of types of a new node, cheapest first."""
    names = where.new.instance_types
    offered = {launch.kind.name for launch in where.launches}
    if not names:
        yield f"{where.name} lists no instance type"
    if len(set(names)) != len(names) or len(names) > MAX_INSTANCE_TYPES:
        yield f"{where.name} lists {len(names)} types, some twice or more than {MAX_INSTANCE_TYPES}"
    for name in names:
        if name not in offered:
            yield f"{where.name} lists {name}, which cannot be bought as it requires"
    prices = [min((o.offering.price for o in where.launches if o.kind.name == n), default=0.0) for n in names]
    if any(later < earlier for earlier, later in itertools.pairwise(prices)):
        yield f"{where.name} does not list its types cheapest first: {prices}"


def purchase_of(where: NewBin) -> Iterator[str]:
    """Yield what is wrong with the offering that would be bought."""
    bought = where.new.purchase
    matching = [
        launch
        for launch in where.launches
        if launch.kind.name == bought.instance_type
        and launch.offering.zone == bought.zone
        and launch.offering.capacity_type == bought.capacity_type
        and launch.offering.reservation_id == bought.reservation_id
    ]
    if not matching:
        yield f"{where.name} would buy {bought}, which its requirements do not allow"
        return
    if not any(isclose(launch.offering.price, bought.price, abs_tol=_CENTS) for launch in matching):
        yield f"{where.name} would buy {bought}, whose price is another"
    cheapest = min(launch.offering.price for launch in where.launches)
    if bought.price > cheapest + _CENTS:
        yield f"{where.name} would cost {bought.price}, though {cheapest} would do"
    if any(launch.kind.allocatable != where.new.allocatable for launch in matching):
        yield f"{where.name} does not have the room of {bought.instance_type}"


def choice_of(problem: Problem, where: NewBin) -> Iterator[str]:
    """Yield which label of a new node has fewer values left than it must."""
    relaxed = where.new.annotations.get(MIN_VALUES_RELAXED) == "true"
    if relaxed and problem.options.min_values == "Strict":
        yield f"{where.name} gave up minValues, though they are strict"
    for wanted in where.pool.requirements:
        if wanted.min_values is None:
            continue
        stated = where.new.requirements[wanted.key].min_values or 0
        found = {v for kind in where.types for v in kind.requirements[wanted.key].values}
        if stated != wanted.min_values and not relaxed:
            yield f"{where.name} states minValues {stated} of {wanted.key}, its pool {wanted.min_values}"
        if len(found) < stated:
            yield f"{where.name} leaves {len(found)} values of {wanted.key}, less than {stated}"


def limits_of(pool: Pool, bins: Sequence[NewBin]) -> Iterator[str]:
    """Yield which limits of a pool its new nodes would exceed, were each as large as it could be."""
    mine = [where for where in bins if where.pool is pool]
    for name, most in pool.limits.items():
        taken = len(mine) if name == NODES else sum(_largest(where.types, name) for where in mine)
        if mine and taken > most:
            yield f"the new nodes of {pool.name} could take {taken} of {name}, its limits leave {most}"


def _largest(types: Sequence[InstanceType], name: str) -> int:
    return max((kind.capacity.get(name, 0) for kind in types), default=0)


def reservations_of(problem: Problem, bins: Sequence[NewBin]) -> Iterator[str]:
    """Yield which reservations would be used more often than they can be."""
    left: dict[str, int] = {}
    for pool in problem.pools:
        for kind in pool.types:
            for each in kind.offerings:
                if each.reservation_id and each.available:
                    capacity = each.reservation_capacity or 0
                    left[each.reservation_id] = min(capacity, left.get(each.reservation_id, capacity))
    used = Counter(where.new.purchase.reservation_id for where in bins)
    for name, capacity in left.items():
        if used[name] > capacity:
            yield f"the reservation {name} would be used {used[name]} times, {capacity} are left"


def cost_of(plan: Plan) -> Iterator[str]:
    total = sum(new.purchase.price for new in plan.new_nodes)
    if not isclose(plan.cost.hourly, total, rel_tol=_CENTS, abs_tol=_CENTS):
        yield f"the plan says {plan.cost.hourly} per hour, its machines cost {total}"
    if plan.cost.lower_bound > plan.cost.hourly * (1 + _CENTS) + _CENTS:
        yield f"the plan costs {plan.cost.hourly}, less than its lower bound {plan.cost.lower_bound}"
