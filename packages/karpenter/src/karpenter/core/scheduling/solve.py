"""
The solver: ``solve(problem) -> Plan``. The operator, `plan` and every simulation call this.

It encodes the problem, packs it greedily, packs it again by price unless the options say otherwise, and
decodes the cheapest schedule. The steps are in ``encode``, ``pack``, ``price`` and ``decode``.

It also explains why a pod cannot be scheduled, and why a placed pod got its node.

A refusal names, NodePool by NodePool, the first thing that keeps a new node from serving the pod, with
figures. It asks the same questions as placing, in the same order, once per class after everything else was
placed, under the last relaxation: every preference has been dropped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from karpenter.api.labels import NODES
from karpenter.core.model.resources import CPU, human_amount, render_amount
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.decode import DecodedPlan
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.poddata import PodData, host_limit
from karpenter.core.scheduling.pack.reservationmanager import distinct_values, violates_min_values
from karpenter.core.scheduling.pack.scheduler import PodPlacement, Scheduler
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType
from karpenter.core.scheduling.price.planner import cheaper, cheaper_with_devices
from karpenter.core.scheduling.price.repack import repacked_schedule
from karpenter.core.scheduling.problem import Cost, NewNode, Plan, Pool, Problem, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from karpenter.api.node import Taint
    from karpenter.core.model.requirement import Requirement
    from karpenter.core.model.requirements import Incompatible
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.offerings import Bits, PoolOfferingTable
    from karpenter.core.scheduling.pack.nodeclaim import ClaimState

_SAID: Final = 2
"""Up to this often the same thing that was given up is said again."""

_SHOWN_DOMAINS: Final = 25
_CLOSE: Final = 0.85
"""How alike a label must be to one that is meant."""

_ABSURD_CPU: Final = 1_000_000
"""A thousand cores: the manifest probably has M where m is meant."""


def refusals(scheduler: Scheduler, left: Mapping[int, int]) -> tuple[Refusal, ...]:
    """Return a refusal for every pod that is left, per class number."""
    found: list[Refusal] = []
    for each in scheduler.encoded.classes:
        count = left.get(each.number, 0)
        if not count:
            continue
        pod_data = scheduler.pod_data[each.number][-1]
        is_stopped = not scheduler.is_complete and scheduler.stop()  # then there is no time for reasons
        templates = () if is_stopped else scheduler.templates
        reasons = tuple(filter(None, (explain(scheduler, pod_data, template) for template in templates)))
        message = _sentence(scheduler, reasons)
        found.extend(Refusal(pod=pod.key, message=message, reasons=reasons) for pod in each.pods[-count:])
    return tuple(found)


def _sentence(scheduler: Scheduler, reasons: tuple[Reason, ...]) -> str:
    if not scheduler.templates:
        return "no NodePool is ready to launch nodes"
    if len(reasons) < len(scheduler.templates):
        return "the search was stopped before a place for the pod was found"
    if len(reasons) == 1:
        return f"NodePool {reasons[0].pool}: {reasons[0].message}"
    text = "; ".join(f"{reason.pool}: {reason.message}" for reason in reasons)
    return f"none of {len(reasons)} NodePools can serve the pod: {text}"


def explain(scheduler: Scheduler, pod_data: PodData, template: Template) -> Reason | None:
    """Return the first reason why a new node of one NodePool cannot serve a pod; None if it can."""
    found = next(_obstacles(scheduler, pod_data, template), None)
    if found is None:
        return None
    return Reason(
        pool=template.pool.name,
        code=found.code,
        message=found.message,
        label=found.label,
        largest=found.largest,
    )


class Obstacle(NamedTuple):
    """What keeps a new node of one NodePool from serving a pod; the fields are those of a Reason."""

    code: str
    message: str
    label: str = ""
    largest: tuple[tuple[str, int], ...] = ()


def _obstacles(scheduler: Scheduler, pod_data: PodData, template: Template) -> Iterator[Obstacle]:
    if pod_data.relaxation.impossible:
        label = pod_data.relaxation.impossible
        yield Obstacle("Contradiction", f"what the pod asks of label {label} contradicts itself", label)
    # The order of the checks is that of placing, so the first reason is the one that refuses the pod.
    taint = first_untolerated(pod_data.tolerations, template.pool.taints)
    if taint is not None:
        yield Obstacle("TaintNotTolerated", f"the pod does not tolerate the taint {_taint(taint)}")
    refused = template.pool.requirements.refuses(pod_data.requirements, scheduler.encoded.well_known)
    if refused is not None:
        yield Obstacle("RequirementsNotMet", _refusal(refused, scheduler.encoded.well_known), refused.key)
    base = scheduler.base(template)
    yield from _catalogue(pod_data, base)
    state = scheduler.states.step(base, pod_data.requirements)
    if state is None:
        yield Obstacle("RequirementsNotMet", f"no instance type satisfies {pod_data.requirements}")
    else:
        yield from _limits(scheduler, pod_data, [state])
        yield from _placing(scheduler, pod_data, state)


def _refusal(refused: Incompatible, known: AbstractSet[str]) -> str:
    """Return why labels do not match, with the label that is meant where one is misspelled."""
    if refused.has or refused.hint:
        return str(refused)
    close = difflib.get_close_matches(refused.key, sorted(known), n=1, cutoff=_CLOSE)
    return str(msgspec.structs.replace(refused, hint=close[0]) if close else refused)


def _placing(scheduler: Scheduler, pod_data: PodData, state: ClaimState) -> Iterator[Obstacle]:
    """Yield what refuses a pod whose requirements and tolerations match the NodePool."""
    reachable = [scheduler.states.step(state, each) for each in pod_data.volumes] or [state]
    possible = [each for each in reachable if each is not None]
    if not possible:
        text = " or ".join(str(each) for each in pod_data.volumes)
        yield Obstacle("VolumeNotReachable", f"the pod's volumes can only be reached from {text}")
    elif not _with_room(pod_data, possible):
        yield Obstacle(
            "NoInstanceTypeFits", _room(pod_data, possible[0]), largest=_largest(pod_data, possible[0])
        )
    else:
        yield from _hosts(scheduler, pod_data)
        yield from _launching(scheduler, pod_data, state)


def _launching(scheduler: Scheduler, pod_data: PodData, state: ClaimState) -> Iterator[Obstacle]:
    """Yield what refuses a pod that would fit on some instance type."""
    next_states = _with_room(pod_data, scheduler.narrowings(pod_data).of(scheduler.base(state.template)))
    beside = _with_room(pod_data, map(partial(scheduler.beside_daemon_ports, pod_data), next_states))
    if not next_states:
        yield from _domains(pod_data, state)
    elif not beside:
        ports = ", ".join(str(port) for port in pod_data.pod_class.ports)
        yield Obstacle(
            "HostPortTaken", f"a daemon of every node takes a host port that the pod wants ({ports})"
        )
    elif lacking := _lacking(scheduler, pod_data, beside):
        yield Obstacle("DevicesNotAvailable", lacking)
    else:
        want, number = pod_data.pod_class.want, scheduler.next_bin
        given = _with_room(
            pod_data, (scheduler.with_devices(pod_data, number, each, want) for each in beside)
        )
        yield from _limits(scheduler, pod_data, given)
        yield from _reserved_and_min_values(scheduler, pod_data, given)


def _lacking(scheduler: Scheduler, pod_data: PodData, next_states: Sequence[ClaimState]) -> str:
    """Return why a new node lacks the devices that a pod claims."""
    if scheduler.devices is None or not pod_data.pod_class.devices:
        return ""
    return scheduler.devices.shortfall(pod_data.pod_class, scheduler.next_bin, next_states)


def _with_room(pod_data: PodData, states: Iterable[ClaimState | None]) -> list[ClaimState]:
    return [state for state in states if state is not None and state.fits(pod_data.pod_class.want)]


def _catalogue(pod_data: PodData, base: ClaimState) -> Iterator[Obstacle]:
    table = base.template.table
    if not table.types:
        yield Obstacle("NoInstanceTypes", "the pool has no instance types")
    if not table.offerings:
        yield Obstacle("NoOfferingAvailable", "no offering of any instance type is available")
    unmet, _ = _first_unmet(table, table.everything, base.requirements)
    if unmet is not None:
        text = f"no available instance type satisfies the pool's requirement {unmet}"
        yield Obstacle("NoInstanceTypes", text, unmet.key)
    wanted = [base.requirements[each.key].intersect(each) for each in pod_data.requirements]
    unmet, left = _first_unmet(table, base.bits, wanted)
    if unmet is not None:
        kinds, asked = len(table.types_of(left)), pod_data.requirements[unmet.key]
        yield Obstacle(
            "NoInstanceTypeMatches",
            f"none of the {kinds} instance types that are left satisfies {asked} in an available offering",
            unmet.key,
        )


def _first_unmet(
    table: PoolOfferingTable, bits: Bits, requirements: Iterable[Requirement]
) -> tuple[Requirement | None, Bits]:
    """Return the first requirement that leaves none of `bits`, and what those before it left."""
    for each in requirements:
        left = bits & table.matching(each)
        if not left:
            return each, bits
        bits = left
    return None, bits


def _limits(scheduler: Scheduler, pod_data: PodData, next_states: Sequence[ClaimState]) -> Iterator[Obstacle]:
    """Yield which limit leaves none of the instance types that fit."""
    template = next_states[0].template
    limits = scheduler.pool_limits.get(template.number)
    if limits is None:
        return
    if not limits.allows_another:
        yield Obstacle(
            "LimitReached", _used_up(template.pool, {NODES: 0}) or "the pool's limit on nodes is reached"
        )
    scheduler.needs_exact_check(template)  # from here on the limit is counted exactly, if it can bind at all
    want = pod_data.pod_class.want
    if any(next_state.fits(want) for next_state in next_states) and not any(
        scheduler.within_limits(None, next_state, want) for next_state in next_states
    ):
        left = limits.left()
        text = ", ".join(f"{name} {render_amount(name, max(amount, 0))}" for name, amount in left.items())
        yield Obstacle(
            "LimitReached",
            _used_up(template.pool, left)
            or f"every instance type that would do exceeds the pool's limits, which leave {text}",
        )


def _used_up(pool: Pool, left: Mapping[str, int]) -> str:
    """Return which limits are used up, by nodes that are there already or by those of the plan."""
    before = limit_sentence(pool.name, pool.whole_limits, pool.limits)
    after = limit_sentence(pool.name, pool.whole_limits, left)
    return before or (f"with the nodes of this plan, {after}" if after else "")


def limit_sentence(pool: str, limits: Mapping[str, int], left: Mapping[str, int]) -> str:
    """Return which limits of a NodePool are used up; nothing where something is left of each."""
    full = [
        f"{human_amount(name, most)} {name}" for name, most in limits.items() if left.get(name, most) <= 0
    ]
    return f"pool {pool} is at its limit of {' and '.join(full)}" if full else ""


def _room(pod_data: PodData, state: ClaimState) -> str:
    """Return how far the largest types are from what the pod requests."""
    table = state.template.table
    kinds = table.types_of(state.bits)
    misses = []
    for position, (name, want) in enumerate(zip(table.axis, pod_data.pod_class.want, strict=True)):
        rooms = table.room[kinds, position]
        if want > rooms.max(initial=-1):
            best = table.types[kinds[int(rooms.argmax())]]
            room = int(rooms.max(initial=0))
            wanted, has, of = _texts(name, want, room, best.capacity.get(name, 0))
            misses.append(f"wants {name} {wanted}, the most is {has} of {of} on {best.name}")
    text = "; ".join(misses)
    if not text:
        text = f"no single one of {len(kinds)} types has room for all of it: {_nearest(pod_data, state)}"
    return f"the pod is too large for every instance type left: {text}{_hint(pod_data)}"


def _largest(pod_data: PodData, state: ClaimState) -> tuple[tuple[str, int], ...]:
    """Return of every resource that alone is too much the most that fits, all else being as it is."""
    table = state.template.table
    rooms = table.room[table.types_of(state.bits)]
    short = rooms < np.array(pod_data.pod_class.want)
    alone = short.sum(axis=1, keepdims=True) == short  # whatever else is asked fits
    most = np.where(alone, rooms, -1).max(axis=0, initial=-1).tolist()
    return tuple((name, amount) for name, amount in zip(table.axis, most, strict=True) if amount >= 0)


def _hint(pod_data: PodData) -> str:
    """Return what may be meant by a request for thousands of cores; nothing for any other."""
    cpu = pod_data.pod_class.requests.get(CPU, 0)
    return " (is M written where m is meant?)" if cpu >= _ABSURD_CPU else ""


def _nearest(pod_data: PodData, state: ClaimState) -> str:
    table = state.template.table
    kinds = table.types_of(state.bits)
    want = np.array(pod_data.pod_class.want)
    lacking = np.maximum(want - table.room[kinds], 0) / np.maximum(want, 1)
    nearest = int(lacking.sum(axis=1).argmin())
    room = np.maximum(table.room[kinds[nearest]], 0).tolist()
    short = [
        f"{name} {' for '.join(_texts(name, has, wants))}"
        for name, has, wants in zip(table.axis, room, pod_data.pod_class.want, strict=True)
        if has < wants
    ]
    return f"{table.types[kinds[nearest]].name} comes nearest with {', '.join(short)}"


def _texts(name: str, *amounts: int) -> list[str]:
    """Return amounts as texts, in short form unless the first two would read the same."""
    short = [human_amount(name, amount) for amount in amounts]
    return short if short[0] != short[1] else [render_amount(name, amount) for amount in amounts]


def _hosts(scheduler: Scheduler, pod_data: PodData) -> Iterator[Obstacle]:
    """Yield the affinity or spread over hostname that a new node cannot meet."""
    for demand in pod_data.demands.hosts:
        group = demand.group
        if host_limit(demand, scheduler.next_bin) > 0:
            continue
        text = _demand(group)
        if group.kind is TopologyType.POD_AFFINITY:
            others = f"pods matching {group.spec.selector}"
            text = f"the pod must share a node with {others}, and no such node takes it"
        yield Obstacle(_CODES[group.kind], text, group.key)


def _domains(pod_data: PodData, state: ClaimState) -> Iterator[Obstacle]:
    for demand in pod_data.demands.domains:
        group = demand.group
        allowed = group.allowed_domains(pod_data.strict[group.key], self_selecting=demand.self_selecting)
        possible = state.domains(group.key)
        if possible is not None and not possible:
            yield Obstacle("TopologyNotMet", f"nodes of this pool have no label {group.key}", group.key)
        if allowed is not None and possible is not None and not possible & allowed.keys():
            yield Obstacle(
                _CODES[group.kind], f"{_demand(group)}; pods per domain: {_counts(group)}", group.key
            )
    if len(pod_data.demands.domains) > 1:
        text = "; ".join(_demand(demand.group) for demand in pod_data.demands.domains)
        yield Obstacle("TopologyNotMet", f"no domain satisfies all of: {text}")
    group = pod_data.demands.domains[0].group
    yield Obstacle(_CODES[group.kind], f"{_demand(group)}; pods per domain: {_counts(group)}", group.key)


def _reserved_and_min_values(
    scheduler: Scheduler, pod_data: PodData, next_states: Sequence[ClaimState]
) -> Iterator[Obstacle]:
    """Yield whether reservations are used up or minValues cannot be met."""
    template, want = next_states[0].template, pod_data.pod_class.want
    buyable = [
        bits for bits in (scheduler.buyable(None, next_state, want) for next_state in next_states) if bits
    ]
    choice = [distinct_values(template, bits) for bits in buyable]
    if not buyable:
        yield Obstacle("ReservationExhausted", "every reservation that the pod could use is taken")
    elif scheduler.problem.options.min_values == "Strict" and all(
        violates_min_values(found, template.min_values) for found in choice
    ):
        text = ", ".join(
            f"{key} has {choice[0][key]} of {least}"
            for key, least in template.min_values.items()
            if choice[0][key] < least
        )
        yield Obstacle("MinValuesNotMet", f"minValues of the pool cannot be kept with this pod: {text}")


_CODES: Final = {
    TopologyType.SPREAD: "TopologySpreadNotMet",
    TopologyType.POD_AFFINITY: "PodAffinityNotMet",
    TopologyType.POD_ANTI_AFFINITY: "PodAntiAffinityNotMet",
    TopologyType.INVERSE_ANTI_AFFINITY: "PodAntiAffinityNotMet",
}


def _demand(group: TopologyGroup) -> str:
    selector, key = group.spec.selector, group.key
    match group.kind:
        case TopologyType.SPREAD:
            skew = group.spec.max_skew
            return f"topology spread over {key} allows a skew of {skew} for pods matching {selector}"
        case TopologyType.POD_AFFINITY:
            return f"pod affinity wants a {key} that has pods matching {selector}"
        case TopologyType.POD_ANTI_AFFINITY:
            return f"pod anti-affinity wants a {key} without pods matching {selector}"
        case _:
            return f"other pods keep pods matching {selector} out of their {key} by anti-affinity"


def _counts(group: TopologyGroup) -> str:
    shown = sorted(group.counts.items())[:_SHOWN_DOMAINS]
    others = len(group.counts) - len(shown)
    text = ", ".join(f"{domain} {count}" for domain, count in shown) or "there are no domains"
    return f"{text} and {others} others" if others else text


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


class Because(Mapping[str, str]):
    """Pod key to the reason for its node; worked out on demand, since few of many pods are read."""

    def __init__(self, scheduler: Scheduler, new_nodes: tuple[NewNode, ...]) -> None:
        self._scheduler = scheduler
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
            assigned: dict[int, int] = {}
            for placement in self._scheduler.placements:
                start = assigned.get(placement.pod_data.pod_class.number, 0)
                assigned[placement.pod_data.pod_class.number] = start + placement.pod_count
                for pod in placement.pod_data.pod_class.pods[start : start + placement.pod_count]:
                    self._moves[pod.key] = placement
        return self._moves

    def _sentence(self, placement: PodPlacement) -> str:
        scheduler = self._scheduler
        if placement.bin < scheduler.nodes.count:
            node = scheduler.problem.nodes[placement.bin].name
            text = f"node {node} is the first existing node that suits it and has room"
        else:
            text = _new_node(self._new[placement.bin - scheduler.nodes.count])
        steps = placement.pod_data.pod_class.constraints.relaxations
        reached = next(
            number for number, relaxation in enumerate(steps) if relaxation is placement.pod_data.relaxation
        )
        lost = [relaxation.given_up for relaxation in steps[: reached + 1] if relaxation.given_up]
        return f"{text}; it gave up {', '.join(_counted(lost))}" if lost else text


def _counted(lost: Iterable[str]) -> Iterator[str]:
    """Yield what was given up; what was given up many times in a row is said once."""
    for name, some in groupby(lost):
        times = len(list(some))
        if times > _SAID:
            yield f"{name} ({times} times)"
        else:
            yield from repeat(name, times)


def _new_node(node: NewNode) -> str:
    others = len(node.pods) - 1
    beside = f" together with {others} other {'pods' if others > 1 else 'pod'}" if others else ""
    return f"no existing node takes it; {_choice(node)} it{beside}"


def bought_for(node: NewNode) -> str:
    count = len(node.pods)
    if count == 1:
        return f"1 pod waits for it; {_choice(node)} it"
    return f"{count} pods wait for it; {_choice(node)} them"


def _choice(node: NewNode) -> str:
    bought, types = node.purchase, len(node.instance_types)
    choice = f"is the cheapest of {types} types that hold" if types > 1 else "is the only type that holds"
    return (
        f"{bought.instance_type} in {bought.zone} ({bought.capacity_type}, ${bought.price:.4f} an hour) "
        f"{choice}"
    )


def solve(problem: Problem, like: EncodedProblem | None = None) -> Plan:
    """
    Decide which node every pod goes to, and which NodeClaims to create.

    The problem shares what it can with one that is `like` it.
    """
    return plan_of(*search(problem, like))


def plan_of(scheduler: Scheduler, left: dict[int, int], cost: Cost | None = None) -> Plan:
    """Return the plan of a schedule and of the pods that it leaves, per class number."""
    decoded = DecodedPlan(scheduler)
    return Plan(
        new_nodes=decoded.new_nodes,
        placed=decoded.placed,
        because=Because(scheduler, decoded.new_nodes),
        refusals=refusals(scheduler, left),
        cost=cost if cost is not None else Cost(hourly=decoded.hourly),
        complete=scheduler.is_complete,
    )


def search(problem: Problem, like: EncodedProblem | None = None) -> tuple[Scheduler, dict[int, int]]:
    """Return the best schedule that was found, and the pods that it leaves, per class number."""
    scheduler = Scheduler(EncodedProblem(problem, like))
    left = _pack(scheduler)
    return packed_by_price(scheduler, left) if problem.options.packing == "price" else (scheduler, left)


def packed_by_price(scheduler: Scheduler, left: dict[int, int]) -> tuple[Scheduler, dict[int, int]]:
    """Return a greedy schedule, or a cheaper one for the same pods, and the pods that it leaves."""
    if not scheduler.claims.count or scheduler.stop():
        return scheduler, left
    if scheduler.devices is not None:
        scheduler, left = cheaper_with_devices(scheduler, left, _pack)
    scheduler = cheaper(scheduler)
    return repacked_schedule(scheduler, left), left


def _pack(scheduler: Scheduler) -> dict[int, int]:
    """Place what can be placed; return the pods that are left, per class number."""
    left = greedy.pack(scheduler, {each.number: len(each.pods) for each in scheduler.encoded.classes})
    if left and scheduler.reservations.left and scheduler.reservations.strict:
        scheduler.reservations.strict = False  # pods that reservations cannot serve may use other capacity
        left = greedy.pack(scheduler, left)
    return left
