"""
What is bought for the new nodes of a plan, beyond the cheapest offering of each.

The solver prices every node by itself. Three things depend on all of them together, and are settled here:

- Commitments are finite. Nodes that a commitment pays for are kept, as many as it pays for, and the pods of
  the others are solved again at the prices that hold once it is used up, with what others have left.
- A NodePool may keep some of its nodes on demand (the annotation ``karpenter.sh/on-demand-floor``). Of a few
  nodes a share is bought whole, or a share of the pods is packed apart, whichever is cheaper.
- Many spot machines of one type in one zone are lost together. The next one counts as dearer the more there
  are, so that some go to other types and zones where those cost little more.

Each leaves the pods of a node as they are and narrows what the node may be bought as, so a NodeClaim that a
provider launches later follows the plan. The lower bound stays that of the solver, which knows none of this;
where commitments are used up there is none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODES, ON_DEMAND, SPOT, ZONE
from karpenter.api.price_annotations import Floor, annotated_floor
from karpenter.core.model.pricing import COMMITMENT, LIST, Commitment, part, take, without_commitments
from karpenter.core.model.resources import merge
from karpenter.core.scheduling.build.floors import requiring_on_demand
from karpenter.core.scheduling.decode import ClaimInstanceTypeOptions
from karpenter.core.scheduling.encode.offerings import Bits, to_bits
from karpenter.core.scheduling.pack.reservationmanager import distinct_values, violates_min_values
from karpenter.core.scheduling.problem import (
    BoundPod,
    Cost,
    NewNode,
    Plan,
    Pool,
    Problem,
    Purchase,
    TopologyNode,
)
from karpenter.core.scheduling.solve import solve

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool
    from karpenter.core.state.statenode import StateNode

# A score of machines is what people replace without a second thought; below that the cheapest place is best.
UNNOTICED: Final = 20
"""So many spot machines of one type in one zone count as no concentration."""

_MOST: Final = 256
"""Offerings that are considered for one node, the cheapest first."""

_ROUNDS: Final = 4
"""How often pods are solved for commitments that are left, before the rest is bought without any."""

_FEW: Final = 10
"""New nodes of a NodePool up to which pods of its floor are also packed apart."""

_ROUNDING: Final = 1e-9


def options_of(node: NewNode) -> ClaimInstanceTypeOptions:
    """Return the offerings that a new node may be bought as."""
    assert isinstance(node.instance_type_options, ClaimInstanceTypeOptions)
    return node.instance_type_options


def narrowed(node: NewNode, bits: Bits, zone: str = "") -> NewNode | None:
    """Return a new node that is bought as one of `bits`, perhaps in one zone; None when there are none."""
    if not bits:
        return None
    fitting = options_of(node).narrowed(bits, zone)
    table = fitting.table
    candidates = np.flatnonzero(table.flags(bits))
    bought = int(candidates[table.price[candidates].argmin()])
    offering = table.offerings[bought]
    kind = table.types[int(table.owner[bought])]
    purchase = Purchase(
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        price=offering.price,
        reservation_id=offering.reservation_id,
        parts=offering.parts,
    )
    # A fresh struct: what the old one has worked out about its types no longer holds.
    return msgspec.structs.replace(
        node,
        purchase=purchase,
        instance_type_options=fitting,
        allocatable=kind.allocatable,
        labels={**node.labels, ZONE: zone} if zone else node.labels,
    )


def only(node: NewNode, capacity_type: str) -> NewNode | None:
    """Return a new node that is bought only this way, or None when it cannot be."""
    fitting = options_of(node)
    return narrowed(node, fitting.bits() & to_bits(fitting.table.has_capacity_type(capacity_type)))


def keeps_variety(node: NewNode) -> bool:
    """Return whether a new node still has the least choice of values that its pool demands."""
    fitting = options_of(node)
    template = fitting.template
    return not template.min_values or not violates_min_values(
        distinct_values(template, fitting.bits()), template.min_values
    )


def with_commitments(
    nodes: Iterable[NewNode], left: tuple[tuple[Commitment, float], ...]
) -> tuple[NewNode, ...]:
    """Return new nodes that commitments pay for as nothing else while they have enough, and then on spot."""
    found: list[NewNode] = []
    for node in nodes:
        bought = node.purchase
        if not part(bought.parts, COMMITMENT):
            found.append(node)
            continue
        after = take(left, bought.instance_type, bought.zone, part(bought.parts, LIST))
        found.append((only(node, SPOT) or node) if after is None else _as_covered(node))
        left = left if after is None else after
    return tuple(found)


def after_purchases(pool: Pool, nodes: Sequence[NewNode]) -> Pool:
    """Return a pool with what its limits leave once some machines are bought."""
    mine = [node.purchase.instance_type for node in nodes if node.pool == pool.name]
    if not pool.limits or not mine:
        return pool
    sizes = {kind.name: {**kind.capacity, NODES: 1} for kind in pool.types if kind.name in mine}
    taken = merge(sizes[name] for name in mine)
    left = {name: amount - taken.get(name, 0) for name, amount in pool.limits.items()}
    return msgspec.structs.replace(pool, limits=left)


def solve_with_commitments(
    problem: Problem,
    left: tuple[tuple[Commitment, float], ...],
    rounds: int = _ROUNDS,
    *,
    solver: Callable[[Problem], Plan] = solve,
) -> Plan:
    """
    Return the plan for a problem in which commitments have so much left.

    In the pools of the problem what a commitment could pay for costs next to nothing. Of the nodes that are
    bought so, the fullest come first. After so many `rounds` what is left is not used any more.
    """
    plan = solver(problem)
    covered = [node for node in plan.new_nodes if part(node.purchase.parts, COMMITMENT)]
    if not covered:
        return plan
    kept: list[NewNode] = []
    for node in sorted(covered, key=_fullness, reverse=True):
        bought = node.purchase
        list_price = part(bought.parts, LIST)
        found = take(left, bought.instance_type, bought.zone, list_price)
        if found is not None:
            left = found
            kept.append(_as_covered(node))
    if len(kept) == len(covered):
        return _exchanged(plan, {node.name: node for node in kept})
    left = left if rounds > 1 else ()
    return _combined(
        plan, kept, solve_with_commitments(_remaining(problem, kept, left), left, rounds - 1, solver=solver)
    )


def _fullness(node: NewNode) -> float:
    """Return how much of a node is used, of the resource that it has the least of."""
    shares = [node.requests.get(name, 0) / amount for name, amount in node.allocatable.items() if amount > 0]
    return max(shares, default=0.0)


def _as_covered(node: NewNode) -> NewNode:
    """Return a node that is bought only as what commitments pay for, where minValues allow that."""
    fitting = options_of(node)
    table = fitting.table
    bought = node.purchase
    flags = table.flags(fitting.bits())
    for number in np.flatnonzero(flags).tolist():
        offering, kind = table.offerings[number], table.types[int(table.owner[number])]
        same = kind.name == bought.instance_type and offering.capacity_type == ON_DEMAND
        flags[number] = same and bool(part(offering.parts, COMMITMENT))
    found = narrowed(node, to_bits(flags))
    return found if found is not None and keeps_variety(found) else node


def _remaining(
    problem: Problem, kept: Sequence[NewNode], left: tuple[tuple[Commitment, float], ...]
) -> Problem:
    """Return the problem of the other pods, with the kept nodes full and so much left of commitments."""
    by_key = {pod.key: pod for pod in problem.pods}
    placed = {key: node.name for node in kept for key in node.pods}
    names = {node.name: f"{number}/{node.name}" for number, node in enumerate(kept)}  # no node is called that
    places = tuple(
        TopologyNode(
            name=names[node.name],
            labels={**node.labels, ZONE: node.purchase.zone, HOSTNAME: names[node.name]},
            taints=node.taints,
        )
        for node in kept
    )
    pools = (after_purchases(pool, kept) for pool in problem.pools)
    return msgspec.structs.replace(
        problem,
        pods=tuple(pod for pod in problem.pods if pod.key not in placed),
        bound_pods=(
            *problem.bound_pods,
            *(BoundPod(by_key[key], names[name]) for key, name in placed.items()),
        ),
        topology_nodes=(*problem.topology_nodes, *places),
        pools=tuple(
            msgspec.structs.replace(pool, types=without_commitments(pool.types, left)) for pool in pools
        ),
    )


def _combined(first: Plan, kept: Sequence[NewNode], second: Plan) -> Plan:
    """Return the kept nodes of the first plan and all of the second as one; names count on."""
    numbers = Counter[str]()
    nodes = []
    for node in (*kept, *second.new_nodes):
        numbers[node.pool] += 1
        nodes.append(msgspec.structs.replace(node, name=f"{node.pool}-{numbers[node.pool]}"))
    stayed = {key for node in kept for key in node.pods}
    because = {key: reason for key, reason in first.because.items() if key in stayed}
    whole = msgspec.structs.replace(
        second,
        because={**because, **second.because},
        complete=first.complete and second.complete,
        # The first bound holds as if commitments had no end, which says nothing; the second, without them.
        cost=Cost(),
    )
    return _with_nodes(whole, tuple(nodes))


class OnDemandFloors(msgspec.Struct, frozen=True):
    """How much of some NodePools is kept on demand, and how many nodes they have by capacity type."""

    floors: Mapping[str, Floor] = {}
    running: Mapping[str, Mapping[str, int]] = {}

    @classmethod
    def of(cls, pools: Iterable[NodePool], nodes: Iterable[StateNode]) -> OnDemandFloors:
        """Return the floors that annotations of NodePools state."""
        stated = {pool.name: annotated_floor(pool.metadata.annotations)[0] for pool in pools}
        floors = {name: floor for name, floor in stated.items() if floor is not None}
        running: dict[str, Counter[str]] = {name: Counter() for name in floors}
        for node in nodes if floors else ():
            if node.pool in floors and not node.is_deleting:
                running[node.pool][node.labels.get(CAPACITY_TYPE, "")] += 1
        return cls(floors, running)

    def without(self, nodes: Iterable[StateNode]) -> OnDemandFloors:
        """Return the same once some nodes are gone."""
        return self._changed(Counter((node.pool, node.labels.get(CAPACITY_TYPE, "")) for node in nodes), -1)

    def with_nodes(self, nodes: Iterable[NewNode]) -> OnDemandFloors:
        """Return the same once some nodes are bought."""
        return self._changed(Counter((node.pool, node.purchase.capacity_type) for node in nodes), 1)

    def broken_by(self, nodes: Iterable[StateNode]) -> str:
        """Return which floor the going of `nodes` has broken, as a sentence; nothing when none."""
        lost = sorted(
            {node.pool for node in nodes if node.labels.get(CAPACITY_TYPE) != SPOT} & self.floors.keys()
        )
        broken = next((name for name in lost if self._short(name)), "")
        return f"NodePool {broken} keeps {self.floors[broken]} of its nodes on demand" if broken else ""

    def apply(self, plan: Plan) -> Plan:
        """Return a plan that keeps every floor where it can, by the nodes that become the least dearer."""
        changed: dict[str, NewNode] = {}
        here = self.with_nodes(plan.new_nodes)
        for pool in self.floors:
            missing = here._short(pool)  # noqa: SLF001  one of us
            spot = (n for n in plan.new_nodes if n.pool == pool and n.purchase.capacity_type == SPOT)
            found = [
                (node, safer)
                for node in (spot if missing else ())
                if (safer := only(node, ON_DEMAND)) is not None and keeps_variety(safer)
            ]
            found.sort(key=lambda pair: pair[1].purchase.price - pair[0].purchase.price)
            changed |= {node.name: safer for node, safer in found[:missing]}
        return _exchanged(plan, changed)

    def apart(self, problem: Problem, plan: Plan) -> Problem | None:
        """
        Return the problem in which a share of the pods requires on-demand nodes.

        Nodes are exchanged whole, which of a few is much more than a share; None where there are many.
        """
        here = self.with_nodes(plan.new_nodes)
        chosen: set[str] = set()
        for pool, floor in self.floors.items():
            nodes = [node for node in plan.new_nodes if node.pool == pool]
            keys = [key for node in nodes for key in node.pods]
            count = floor.nodes(len(keys))
            few = floor.percent and len(nodes) <= _FEW and count < len(keys)
            if few and here._short(pool):  # noqa: SLF001  one of us
                chosen.update(keys[number * len(keys) // count] for number in range(count))
        if not chosen:
            return None
        return msgspec.structs.replace(problem, pods=tuple(requiring_on_demand(problem.pods, chosen)))

    def missing(self, nodes: Iterable[NewNode]) -> int:
        """Return how many nodes are on spot and should not be once some nodes are bought."""
        here = self.with_nodes(nodes)
        return sum(map(here._short, self.floors))  # noqa: SLF001  one of us

    def _short(self, pool: str) -> int:
        """Return how many nodes of a NodePool are on spot and should not be."""
        there = self.running[pool]
        total = sum(there.values())
        return max(0, self.floors[pool].nodes(total) - (total - there.get(SPOT, 0)))

    def _changed(self, nodes: Mapping[tuple[str, str], int], sign: int) -> OnDemandFloors:
        running = {pool: dict(ways) for pool, ways in self.running.items()}
        for (pool, way), count in nodes.items():
            if pool in running:
                running[pool][way] = running[pool].get(way, 0) + sign * count
        return msgspec.structs.replace(self, running=running)


def with_floors(
    plan: Plan, problem: Problem, floors: OnDemandFloors, left: tuple[tuple[Commitment, float], ...]
) -> Plan:
    """
    Return a plan that keeps every floor where it can: of two that keep as much, the cheaper one.

    Either whole nodes are bought on demand, or a share of the pods is packed apart from the others.
    """
    whole = floors.apply(plan)
    apart = floors.apart(problem, plan)
    if apart is None:
        return whole
    other = floors.apply(solve_with_commitments(apart, left))

    def worth(found: Plan, spare: float = 0.0) -> tuple[int, int, float]:
        return len(found.refusals), floors.missing(found.new_nodes), found.cost.hourly + spare

    if worth(other, _ROUNDING) >= worth(whole):
        return whole
    added = plan.cost.added + other.cost.hourly - plan.cost.hourly
    cost = msgspec.structs.replace(plan.cost, hourly=other.cost.hourly, added=added)
    return msgspec.structs.replace(other, cost=cost)


def spread_over_spot(plan: Plan, running: Iterable[StateNode], strength: float) -> Plan:
    """
    Return a plan whose spot machines are not all of one type in one zone, where others cost little more.

    Of `total` spot machines, `running` ones included, the one after the first `n` of a type in a zone counts
    as dearer by ``strength * (n - UNNOTICED) / total``.
    """
    nodes = [node for node in plan.new_nodes if node.purchase.capacity_type == SPOT]
    counts = Counter(
        (node.labels.get(INSTANCE_TYPE, ""), node.labels.get(ZONE, ""))
        for node in (running if nodes else ())
        if node.labels.get(CAPACITY_TYPE) == SPOT and not node.is_deleting
    )
    planned = Counter((node.purchase.instance_type, node.purchase.zone) for node in nodes)
    if not strength or all(counts[key] + many <= UNNOTICED for key, many in planned.items()):
        return plan
    rate = strength / (counts.total() + len(nodes))
    alike: dict[tuple[int, Bits], list[NewNode]] = defaultdict(list)
    for node in nodes:
        fitting = options_of(node)
        alike[id(fitting.table), fitting.bits()].append(node)
    changed: dict[str, NewNode] = {}
    for members in sorted(alike.values(), key=lambda some: options_of(some[0]).bits().bit_count()):
        places = _SpotPlaces(members[0])
        for node in members:
            number = places.cheapest(counts, rate)
            counts[places.keys[number]] += 1
            found = places.bought_there(node, number)
            if found is not node:
                changed[node.name] = found
    return _exchanged(plan, changed)


class _SpotPlaces:
    """The types and zones in which one kind of new node could be bought on spot, the cheapest first."""

    def __init__(self, node: NewNode) -> None:
        fitting = options_of(node)
        self._table, self._bits = fitting.table, fitting.bits()
        table = self._table
        spot = np.flatnonzero(table.flags(self._bits) & table.has_capacity_type(SPOT))
        order = spot[np.argsort(table.price[spot], kind="stable")][:_MOST]
        self._price = table.price[order]
        self.keys = [(table.types[int(table.owner[n])].name, table.offerings[n].zone) for n in order.tolist()]
        self._narrow: dict[int, Bits] = {}

    def cheapest(self, counts: Counter[tuple[str, str]], rate: float) -> int:
        """Return the number of the place for the next machine."""
        many = np.array([counts[key] for key in self.keys], np.float64)
        return int((self._price * (1 + rate * np.maximum(0.0, many - UNNOTICED))).argmin())

    def bought_there(self, node: NewNode, number: int) -> NewNode:
        """Return a node that is bought in this place; the same where that is so already or cannot be."""
        kind, zone = self.keys[number]
        if (kind, zone) == (node.purchase.instance_type, node.purchase.zone):
            return node
        if number not in self._narrow:
            self._narrow[number] = self._from(zone, float(self._price[number]))
        found = narrowed(node, self._narrow[number], zone)
        return found if found is not None and keeps_variety(found) else node

    def _from(self, zone: str, price: float) -> Bits:
        """
        Return the offerings in a zone of types that cost no less than `price` there.

        A claim names types and zones, not pairs of them; of these the wanted one is the cheapest, and the
        provider has others to fall back on.
        """
        table = self._table
        there = table.flags(self._bits) & np.array([each.zone == zone for each in table.offerings], bool)
        cheaper = np.zeros(len(table.types), bool)
        cheaper[table.owner[there & (table.price < price - _ROUNDING)]] = True
        return to_bits(there & ~cheaper[table.owner])


def _exchanged(plan: Plan, changed: Mapping[str, NewNode]) -> Plan:
    """Return a plan with some new nodes exchanged, by name, and what that adds to its cost."""
    if not changed:
        return plan
    found = _with_nodes(plan, tuple(changed.get(node.name, node) for node in plan.new_nodes))
    added = plan.cost.added + found.cost.hourly - sum(node.purchase.price for node in plan.new_nodes)
    return msgspec.structs.replace(found, cost=msgspec.structs.replace(found.cost, added=added))


def _with_nodes(plan: Plan, nodes: tuple[NewNode, ...]) -> Plan:
    hourly = sum(node.purchase.price for node in nodes)
    return msgspec.structs.replace(
        plan, new_nodes=nodes, cost=msgspec.structs.replace(plan.cost, hourly=hourly)
    )
