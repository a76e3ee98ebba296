"""
Why a pod has no place: pool by pool, the first thing that stands in its way, in numbers.

The same questions that placing asks, in the same order, but every answer is kept. Asked
once per class, after everything else was placed, for the least demanding reading of the
pod: whatever it could give up, it has given up.

Why a pod was put where it is: one sentence per placed pod.

Read off a finished run when somebody asks; a run of a hundred thousand pods is not slowed
down by sentences that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.resources import CPU, human_amount, render_amount
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.encode.preferences import host_limit
from karpenter.core.scheduling.pack.reservationmanager import distinct_values, violates_min_values
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.problem import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.node import Taint
    from karpenter.core.model.requirement import Requirement
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Bits, PoolOfferingTable
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.pack.bins import PodPlacement
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState
    from karpenter.core.scheduling.pack.scheduler import Scheduler
    from karpenter.core.scheduling.pack.topologygroup import TopologyGroup
    from karpenter.core.scheduling.problem import NewNode


_SHOWN_DOMAINS: Final = 25
_ABSURD_CPU: Final = 1_000_000
"""A thousand cores: somebody wrote M for m."""


def refusals(run: Scheduler, left: Mapping[int, int]) -> tuple[Refusal, ...]:
    """Return a refusal for every pod that is left, per class number."""
    found: list[Refusal] = []
    for each in run.encoded.classes:
        count = left.get(each.number, 0)
        if not count:
            continue
        wish = run.wishes[each.number][-1]
        reasons = tuple(filter(None, (explain(run, wish, template) for template in run.templates)))
        message = _sentence(run, reasons)
        found.extend(Refusal(pod=pod.key, message=message, reasons=reasons) for pod in each.pods[-count:])
    return tuple(found)


def _sentence(run: Scheduler, reasons: tuple[Reason, ...]) -> str:
    if not run.templates:
        return "no NodePool is ready to launch nodes"
    if len(reasons) < len(run.templates):
        return "the search was stopped before a place for the pod was found"
    if len(reasons) == 1:
        return f"NodePool {reasons[0].pool}: {reasons[0].message}"
    told = "; ".join(f"{reason.pool}: {reason.message}" for reason in reasons)
    return f"none of {len(reasons)} NodePools can serve the pod: {told}"


def explain(run: Scheduler, wish: PodData, template: Template) -> Reason | None:
    """Return the first thing that keeps a new node of one pool from serving a pod; None if nothing does."""
    code, message = next(_obstacles(run, wish, template), ("", ""))
    return Reason(pool=template.pool.name, code=code, message=message) if code else None


def _obstacles(run: Scheduler, wish: PodData, template: Template) -> Iterator[tuple[str, str]]:
    if wish.rung.impossible:
        yield "Contradiction", f"what the pod asks of label {wish.rung.impossible} contradicts itself"
    taint = first_untolerated(wish.tolerations, template.pool.taints)
    if taint is not None:
        yield "TaintNotTolerated", f"the pod does not tolerate the taint {_taint(taint)}"
    refused = template.pool.requirements.refuses(wish.requirements, run.encoded.well_known)
    if refused is not None:
        yield "RequirementsNotMet", str(refused)
    base = run.base(template)
    yield from _catalogue(wish, base)
    state = run.states.step(base, wish.requirements)
    if state is None:
        yield "RequirementsNotMet", f"no instance type satisfies {wish.requirements}"
    else:
        yield from _limits(run, wish, [state])
        yield from _placing(run, wish, state)


def _placing(run: Scheduler, wish: PodData, state: ClaimState) -> Iterator[tuple[str, str]]:
    """What stands in the way of a pod that the pool's labels and taints suit."""
    reachable = [run.states.step(state, each) for each in wish.volumes] or [state]
    possible = [each for each in reachable if each is not None]
    if not possible:
        told = " or ".join(str(each) for each in wish.volumes)
        yield "VolumeNotReachable", f"the pod's volumes can only be reached from {told}"
    elif not _with_room(wish, possible):
        yield "NoInstanceTypeFits", _room(wish, possible[0])
    else:
        yield from _hosts(run, wish)
        yield from _buying(run, wish, state)


def _buying(run: Scheduler, wish: PodData, state: ClaimState) -> Iterator[tuple[str, str]]:
    """What stands in the way of buying a machine for a pod that would have room on it."""
    ways = _with_room(wish, run.choices(wish).ways(run.base(state.template)))
    beside = _with_room(wish, map(partial(run.beside_daemon_ports, wish), ways))
    if not ways:
        yield from _company(wish, state)
    elif not beside:
        ports = ", ".join(str(port) for port in wish.of.ports)
        yield "HostPortTaken", f"a daemon of every node takes a host port that the pod wants ({ports})"
    elif lacking := _lacking(run, wish, beside):
        yield "DevicesNotAvailable", lacking
    else:
        fresh = run.nodes.count + run.claims.count
        given = _with_room(wish, (run.with_devices(wish, fresh, way, wish.of.want) for way in beside))
        yield from _limits(run, wish, given)
        yield from _scarcity(run, wish, given)


def _lacking(run: Scheduler, wish: PodData, ways: Sequence[ClaimState]) -> str:
    """Why a new node lacks the devices that a pod claims."""
    if run.devices is None or not wish.of.devices:
        return ""
    return run.devices.shortfall(wish.of, run.nodes.count + run.claims.count, ways)


def _with_room(wish: PodData, states: Iterable[ClaimState | None]) -> list[ClaimState]:
    return [state for state in states if state is not None and state.fits(wish.of.want)]


def _catalogue(wish: PodData, base: ClaimState) -> Iterator[tuple[str, str]]:
    """Which requirement leaves no offering."""
    universe = base.template.universe
    if not universe.types:
        yield "NoInstanceTypes", "the pool has no instance types"
    if not universe.offerings:
        yield "NoOfferingAvailable", "no offering of any instance type is available"
    unmet, _ = _first_unmet(universe, universe.everything, base.requirements)
    if unmet is not None:
        yield "NoInstanceTypes", f"no available instance type satisfies the pool's requirement {unmet}"
    wanted = [base.requirements[each.key].intersect(each) for each in wish.requirements]
    unmet, left = _first_unmet(universe, base.bits, wanted)
    if unmet is not None:
        kinds, asked = len(universe.types_of(left)), wish.requirements[unmet.key]
        yield (
            "NoInstanceTypeMatches",
            f"none of the {kinds} instance types that are left satisfies {asked} in an available offering",
        )


def _first_unmet(
    universe: PoolOfferingTable, bits: Bits, requirements: Iterable[Requirement]
) -> tuple[Requirement | None, Bits]:
    """Return the first requirement that leaves none of `bits`, and what those before it left."""
    for each in requirements:
        left = bits & universe.left(each)
        if not left:
            return each, bits
        bits = left
    return None, bits


def _limits(run: Scheduler, wish: PodData, ways: Sequence[ClaimState]) -> Iterator[tuple[str, str]]:
    """Which limit leaves none of the machines that would do."""
    template = ways[0].template
    ledger = run.ledgers.get(template.number)
    if ledger is None:
        return
    if not ledger.allows_another:
        yield "LimitReached", "the pool's limit on nodes is reached"
    run.is_scarce(template)  # from here on the limit is counted exactly, if it can bind at all
    want = wish.of.want
    if any(way.fits(want) for way in ways) and not any(run.within_limits(None, way, want) for way in ways):
        told = ", ".join(
            f"{name} {render_amount(name, max(amount, 0))}" for name, amount in ledger.left().items()
        )
        yield (
            "LimitReached",
            f"every instance type that would do exceeds the pool's limits, which leave {told}",
        )


def _room(wish: PodData, state: ClaimState) -> str:
    """How far the largest types are from what the pod asks for."""
    universe = state.template.universe
    kinds = universe.types_of(state.bits)
    misses = []
    for position, (name, want) in enumerate(zip(universe.axis, wish.of.want, strict=True)):
        rooms = universe.room[kinds, position]
        if want > rooms.max(initial=-1):
            best = universe.types[kinds[int(rooms.argmax())]]
            room = max(int(rooms.max(initial=0)), 0)
            wanted, has, of = _told(name, want, room, best.capacity.get(name, 0))
            misses.append(f"wants {name} {wanted}, the most is {has} of {of} on {best.name}")
    told = "; ".join(misses)
    if not told:
        told = f"no single one of {len(kinds)} types has room for all of it: {_nearest(wish, state)}"
    cpu = wish.of.requests.get(CPU, 0)
    hint = " (is M written where m is meant?)" if cpu >= _ABSURD_CPU else ""
    return f"the pod is too large for every instance type left: {told}{hint}"


def _nearest(wish: PodData, state: ClaimState) -> str:
    universe = state.template.universe
    kinds = universe.types_of(state.bits)
    want = np.array(wish.of.want)
    lacking = np.maximum(want - universe.room[kinds], 0) / np.maximum(want, 1)
    nearest = int(lacking.sum(axis=1).argmin())
    room = np.maximum(universe.room[kinds[nearest]], 0).tolist()
    short = [
        f"{name} {' for '.join(_told(name, has, wants))}"
        for name, has, wants in zip(universe.axis, room, wish.of.want, strict=True)
        if has < wants
    ]
    return f"{universe.types[kinds[nearest]].name} comes nearest with {', '.join(short)}"


def _told(name: str, *amounts: int) -> list[str]:
    """Return amounts of which the first two differ, short where that shows the difference."""
    short = [human_amount(name, amount) for amount in amounts]
    return short if short[0] != short[1] else [render_amount(name, amount) for amount in amounts]


def _hosts(run: Scheduler, wish: PodData) -> Iterator[tuple[str, str]]:
    """Who must be on the same node, and is not on a new one."""
    fresh = run.nodes.count + run.claims.count
    for asked in wish.demands.hosts:
        group = asked.group
        if host_limit(asked, fresh) > 0:
            continue
        told = _demand(group)
        if group.kind is TopologyType.NEAR:
            company = f"pods matching {group.spec.selector}"
            told = f"the pod must share a node with {company}, and no such node takes it"
        yield _CODES[group.kind], told


def _company(wish: PodData, state: ClaimState) -> Iterator[tuple[str, str]]:
    """Which spread or affinity leaves no domain."""
    for asked in wish.demands.domains:
        group = asked.group
        allowed = group.permitted(wish.strict[group.key], counts_itself=asked.counts_itself)
        possible = state.domains(group.key)
        if possible is not None and not possible:
            yield "TopologyNotMet", f"nodes of this pool have no label {group.key}"
        if allowed is not None and possible is not None and not possible & allowed.keys():
            yield _CODES[group.kind], f"{_demand(group)}; pods per domain: {_counts(group)}"
    if len(wish.demands.domains) > 1:
        told = "; ".join(_demand(asked.group) for asked in wish.demands.domains)
        yield "TopologyNotMet", f"no domain satisfies all of: {told}"
    group = wish.demands.domains[0].group
    yield _CODES[group.kind], f"{_demand(group)}; pods per domain: {_counts(group)}"


def _scarcity(run: Scheduler, wish: PodData, ways: Sequence[ClaimState]) -> Iterator[tuple[str, str]]:
    """What is left to buy too little of: reserved machines, and different values."""
    template, want = ways[0].template, wish.of.want
    buyable = [bits for bits in (run.buyable(None, way, want) for way in ways) if bits]
    choice = [distinct_values(template, bits) for bits in buyable]
    if not buyable:
        yield "ReservationExhausted", "every reservation that the pod could use is taken"
    elif run.problem.options.min_values == "Strict" and all(
        violates_min_values(found, template.min_values) for found in choice
    ):
        told = ", ".join(
            f"{key} has {choice[0][key]} of {least}"
            for key, least in template.min_values.items()
            if choice[0][key] < least
        )
        yield "MinValuesNotMet", f"minValues of the pool cannot be kept with this pod: {told}"


_CODES: Final = {
    TopologyType.SPREAD: "TopologySpreadNotMet",
    TopologyType.NEAR: "PodAffinityNotMet",
    TopologyType.APART: "PodAntiAffinityNotMet",
    TopologyType.KEPT_OFF: "PodAntiAffinityNotMet",
}


def _demand(group: TopologyGroup) -> str:
    selector, key = group.spec.selector, group.key
    match group.kind:
        case TopologyType.SPREAD:
            skew = group.spec.max_skew
            return f"topology spread over {key} allows a skew of {skew} for pods matching {selector}"
        case TopologyType.NEAR:
            return f"pod affinity wants a {key} that has pods matching {selector}"
        case TopologyType.APART:
            return f"pod anti-affinity wants a {key} without pods matching {selector}"
        case _:
            return f"other pods keep pods matching {selector} out of their {key} by anti-affinity"


def _counts(group: TopologyGroup) -> str:
    shown = sorted(group.counts.items())[:_SHOWN_DOMAINS]
    others = len(group.counts) - len(shown)
    told = ", ".join(f"{domain} {count}" for domain, count in shown) or "there are no domains"
    return f"{told} and {others} others" if others else told


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


class Because(Mapping[str, str]):
    """Pod key to the reason for its place, worked out when asked."""

    def __init__(self, run: Scheduler, new_nodes: tuple[NewNode, ...]) -> None:
        self._run = run
        self._new = new_nodes
        self._moves: dict[str, PodPlacement] | None = None

    def __getitem__(self, pod: str) -> str:
        return self._sentence(self._index()[pod])

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def __len__(self) -> int:
        return len(self._index())

    def _index(self) -> dict[str, PodPlacement]:
        if self._moves is None:
            self._moves = {}
            dealt: dict[int, int] = {}
            for move in self._run.moves:
                start = dealt.get(move.wish.of.number, 0)
                dealt[move.wish.of.number] = start + move.many
                for pod in move.wish.of.pods[start : start + move.many]:
                    self._moves[pod.key] = move
        return self._moves

    def _sentence(self, move: PodPlacement) -> str:
        run = self._run
        if move.bin < run.nodes.count:
            node = run.problem.nodes[move.bin].name
            told = f"node {node} is the first existing node that suits it and has room"
        else:
            told = _bought(self._new[move.bin - run.nodes.count])
        readings = move.wish.of.manner.rungs
        reached = next(number for number, rung in enumerate(readings) if rung is move.wish.rung)
        lost = [rung.given_up for rung in readings[1 : reached + 1]]
        return f"{told}; it gave up {', '.join(lost)}" if lost else told


def _bought(node: NewNode) -> str:
    bought, types, others = node.purchase, len(node.instance_types), len(node.pods) - 1
    choice = f"is the cheapest of {types} types that hold" if types > 1 else "is the only type that holds"
    company = f" together with {others} other {'pods' if others > 1 else 'pod'}" if others else ""
    return (
        f"no existing node takes it; {bought.instance_type} in {bought.zone} ({bought.capacity_type}, "
        f"${bought.price:.4f} an hour) {choice} it{company}"
    )
