"""
Why a pod has no place: pool by pool, the first thing that stands in its way, in numbers.

The same questions that placing asks, in the same order, but every answer is kept. Asked
once per class, after everything else was placed, for the least demanding reading of the
pod: whatever it could give up, it has given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.resources import CPU, render_amount
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.domains import Kind
from karpenter.core.scheduling.plan import Reason, Refusal
from karpenter.core.scheduling.scarce import falls_short, fitting, variety

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.node import Taint
    from karpenter.core.scheduling.domains import Group
    from karpenter.core.scheduling.run import Run
    from karpenter.core.scheduling.states import State
    from karpenter.core.scheduling.templates import Template
    from karpenter.core.scheduling.wishes import Wish

_SHOWN_DOMAINS: Final = 25
_ABSURD_CPU: Final = 1_000_000
"""A thousand cores: somebody wrote M for m."""


def refusals(run: Run, left: Mapping[int, int]) -> tuple[Refusal, ...]:
    """Return a refusal for every pod that is left, per class number."""
    found: list[Refusal] = []
    for each in run.encoded.classes:
        count = left.get(each.number, 0)
        if not count:
            continue
        wish = run.wishes[each.number][-1]
        reasons = tuple(explain(run, wish, template) for template in run.templates)
        message = _sentence(run, reasons)
        found.extend(Refusal(pod=pod.key, message=message, reasons=reasons) for pod in each.pods[-count:])
    return tuple(found)


def _sentence(run: Run, reasons: tuple[Reason, ...]) -> str:
    if not reasons:
        return "no NodePool is ready to launch nodes"
    if len(reasons) == 1:
        return f"NodePool {reasons[0].pool}: {reasons[0].message}"
    told = "; ".join(f"{reason.pool}: {reason.message}" for reason in reasons)
    return f"none of {len(run.templates)} NodePools can serve the pod: {told}"


def explain(run: Run, wish: Wish, template: Template) -> Reason:
    """Return the first thing that keeps a new node of one pool from serving a pod."""
    code, message = next(_obstacles(run, wish, template))
    return Reason(pool=template.pool.name, code=code, message=message)


def _obstacles(run: Run, wish: Wish, template: Template) -> Iterator[tuple[str, str]]:
    if wish.rung.impossible:
        yield "Contradiction", f"what the pod asks of label {wish.rung.impossible} contradicts itself"
    taint = first_untolerated(wish.tolerations, template.pool.taints)
    if taint is not None:
        yield "TaintNotTolerated", f"the pod does not tolerate the taint {_taint(taint)}"
    refused = template.pool.requirements.refuses(wish.requirements, run.encoded.well_known)
    if refused is not None:
        yield "RequirementsNotMet", str(refused)
    base = run.base(template)
    yield from _catalogue(run, wish, base)
    yield from _limits(run, wish, template)
    state = run.states.step(base, wish.requirements)
    if state is not None:
        yield from _volumes(run, wish, state)
        yield from _room(wish, state)
        yield from _hosts(run, wish)
        yield from _company(wish, state)
        yield from _ports(run, wish, state)
        yield from _scarcity(run, wish, state)
    yield "NoInstanceTypeFits", "no instance type satisfies all of the pod's constraints together"


def _catalogue(run: Run, wish: Wish, base: State) -> Iterator[tuple[str, str]]:
    """Which requirement leaves no offering."""
    universe = base.template.universe
    if not universe.types:
        yield "NoInstanceTypes", "the pool has no instance types"
    if not universe.offerings:
        yield "NoOfferingAvailable", "no offering of any instance type is available"
    if not base.bits:
        bits = universe.everything
        for each in base.requirements:
            left = bits & universe.left(each)
            if not left:
                yield "NoInstanceTypes", f"no available instance type satisfies the pool's requirement {each}"
            bits = left
    bits = base.bits
    for each in wish.requirements:
        merged = base.requirements[each.key].intersect(each)
        left = bits & universe.left(merged)
        if not left:
            kinds = len(universe.types_of(bits))
            yield (
                "NoInstanceTypeMatches",
                f"none of the {kinds} instance types that are left satisfies {each} in an available offering",
            )
        bits = left
    if run.states.step(base, wish.requirements) is None:
        yield "RequirementsNotMet", f"no instance type satisfies {wish.requirements}"


def _limits(run: Run, wish: Wish, template: Template) -> Iterator[tuple[str, str]]:
    ledger = run.ledgers.get(template.number)
    if ledger is None:
        return
    if not ledger.allows_another:
        yield "LimitReached", "the pool's limit on nodes is reached"
    state = run.states.step(run.base(template), wish.requirements)
    run.is_scarce(template)  # from here on the limit is counted exactly, if it can bind at all
    if state is None or not state.fits(wish.of.want):
        return
    if template.universe.keep_types(fitting(state, wish.of.want), ledger.bearable(None)):
        return
    told = ", ".join(
        f"{name} {render_amount(name, max(amount, 0))}" for name, amount in ledger.left().items()
    )
    yield "LimitReached", f"every instance type that would do exceeds the pool's limits, which leave {told}"


def _volumes(run: Run, wish: Wish, state: State) -> Iterator[tuple[str, str]]:
    if wish.volumes and all(run.states.step(state, each) is None for each in wish.volumes):
        told = " or ".join(str(each) for each in wish.volumes)
        yield "VolumeNotReachable", f"the pod's volumes can only be reached from {told}"


def _room(wish: Wish, state: State) -> Iterator[tuple[str, str]]:
    """How far the largest types are from what the pod asks for."""
    if state.fits(wish.of.want):
        return
    universe = state.template.universe
    kinds = universe.types_of(state.bits)
    misses = []
    for position, (name, want) in enumerate(zip(universe.axis, wish.of.want, strict=True)):
        rooms = universe.room[kinds, position]
        if want > rooms.max(initial=-1):
            best = universe.types[kinds[int(rooms.argmax())]]
            room = max(int(rooms.max(initial=0)), 0)
            has, of = render_amount(name, room), render_amount(name, best.capacity.get(name, 0))
            misses.append(
                f"wants {name} {render_amount(name, want)}, the most is {has} of {of} on {best.name}"
            )
    told = "; ".join(misses)
    if not told:
        told = f"no single one of {len(kinds)} types has room for all of it: {_nearest(wish, state)}"
    cpu = wish.of.requests.get(CPU, 0)
    hint = " (is M written where m is meant?)" if cpu >= _ABSURD_CPU else ""
    yield "NoInstanceTypeFits", f"the pod is too large for every instance type left: {told}{hint}"


def _nearest(wish: Wish, state: State) -> str:
    universe = state.template.universe
    kinds = universe.types_of(state.bits)
    want = np.array(wish.of.want)
    lacking = np.maximum(want - universe.room[kinds], 0) / np.maximum(want, 1)
    nearest = int(lacking.sum(axis=1).argmin())
    room = np.maximum(universe.room[kinds[nearest]], 0).tolist()
    short = [
        f"{name} {render_amount(name, has)} for {render_amount(name, wants)}"
        for name, has, wants in zip(universe.axis, room, wish.of.want, strict=True)
        if has < wants
    ]
    return f"{universe.types[kinds[nearest]].name} comes nearest with {', '.join(short)}"


def _hosts(run: Run, wish: Wish) -> Iterator[tuple[str, str]]:
    fresh = run.nodes.count + run.claims.count
    if wish.host_cap(fresh) < 1:
        near = [a.group for a in wish.demands.hosts if a.group.kind is Kind.NEAR]
        for group in near:
            yield (
                "PodAffinityNotMet",
                f"the pod must share a node with pods matching {group.spec.selector}; no such node has room",
            )


def _company(wish: Wish, state: State) -> Iterator[tuple[str, str]]:
    """Which spread or affinity leaves no domain."""
    for asked in wish.demands.domains:
        group = asked.group
        allowed = group.permitted(wish.strict[group.key], counts_itself=asked.counts_itself)
        possible = state.domains(group.key)
        if allowed is None:
            if possible is not None and not possible:
                yield "TopologyNotMet", f"nodes of this pool have no label {group.key}"
            continue
        if possible is not None and not possible & allowed.keys():
            yield _CODES[group.kind], f"{_demand(group)}; pods per domain: {_counts(group)}"
    if len(wish.demands.domains) > 1:
        told = "; ".join(_demand(asked.group) for asked in wish.demands.domains)
        yield "TopologyNotMet", f"no domain satisfies all of: {told}"
    for asked in wish.demands.domains:
        yield _CODES[asked.group.kind], f"{_demand(asked.group)}; pods per domain: {_counts(asked.group)}"


def _ports(run: Run, wish: Wish, state: State) -> Iterator[tuple[str, str]]:
    template = state.template
    if wish.of.ports and template.has_daemon_ports and run.opening(wish, template) is None:
        ports = ", ".join(str(port) for port in wish.of.ports)
        yield "HostPortTaken", f"a daemon of every node takes a host port that the pod wants ({ports})"


def _scarcity(run: Run, wish: Wish, state: State) -> Iterator[tuple[str, str]]:
    template = state.template
    bits = fitting(state, wish.of.want)
    found = variety(template, bits)
    if falls_short(found, template.min_values):
        told = ", ".join(
            f"{key} has {found[key]} of {least}"
            for key, least in template.min_values.items()
            if found[key] < least
        )
        yield "MinValuesNotMet", f"minValues of the pool cannot be kept with this pod: {told}"
    if template.reserves and run.reservations.obtainable(None, template, bits) is None:
        yield "ReservationExhausted", "every reservation that the pod could use is taken"


_CODES: Final = {
    Kind.SPREAD: "TopologySpreadNotMet",
    Kind.NEAR: "PodAffinityNotMet",
    Kind.APART: "PodAntiAffinityNotMet",
    Kind.KEPT_OFF: "PodAntiAffinityNotMet",
}


def _demand(group: Group) -> str:
    selector, key = group.spec.selector, group.key
    match group.kind:
        case Kind.SPREAD:
            skew = group.spec.max_skew
            return f"topology spread over {key} allows a skew of {skew} for pods matching {selector}"
        case Kind.NEAR:
            return f"pod affinity wants a {key} that has pods matching {selector}"
        case Kind.APART:
            return f"pod anti-affinity wants a {key} without pods matching {selector}"
        case _:
            return f"other pods keep pods matching {selector} out of their {key} by anti-affinity"


def _counts(group: Group) -> str:
    shown = sorted(group.counts.items())[:_SHOWN_DOMAINS]
    others = len(group.counts) - len(shown)
    told = ", ".join(f"{domain} {count}" for domain, count in shown) or "there are no domains"
    return f"{told} and {others} others" if others else told


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
