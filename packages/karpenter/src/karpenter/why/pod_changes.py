"""
Changes of pods that may give them a place: what they select, tolerate, request and keep apart from.

What pods select of architecture and operating system is never dropped: a container does not start on another.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import ARCH, OS, ZONE
from karpenter.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from karpenter.core.model.resources import (
    CPU,
    MEMORY,
    PODS,
    human_amount,
    parse_resources,
    pod_requests,
    render_amount,
)
from karpenter.core.model.taints import first_untolerated
from karpenter.core.scheduling.encode.preferences import node_terms
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import with_pods
from karpenter.why.options import values_of
from karpenter.why.pool_changes import allow_value
from karpenter.why.refused import RefusedPods, Trial
from karpenter.why.spelling import misspellings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.api.node import Taint
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Container, TopologySpreadConstraint
    from karpenter.core.scheduling.problem import Reason
    from karpenter.core.state.statenode import StateNode
    from karpenter.why.spelling import Misspelling

_MIB: Final = 1024**2
_PLATFORM: Final = frozenset({ARCH, OS})
_OF_ARCHITECTURES: Final = ("arch", "arm64", "amd64")


def spelling_changes(refused: RefusedPods) -> Iterator[Trial]:
    """Yield what pods select, spelled as was probably meant."""
    for each in misspellings(refused.pod, refused.view, refused.inquiry.catalog):
        yield _with_spec(refused, each.change, partial(_respelled, each))


def _respelled(found: Misspelling, spec: PodSpec) -> PodSpec:
    selector = {}
    for key, value in spec.node_selector.items():
        if key == found.key and (not found.value or value == found.value):
            selector[found.meant_key] = found.meant_value or value
        else:
            selector[key] = value
    changed = msgspec.structs.replace(spec, node_selector=selector)
    return _with_expressions(changed, lambda each: _respelled_expression(each, found))


def _respelled_expression(each: NodeSelectorRequirement, found: Misspelling) -> NodeSelectorRequirement:
    if each.key != found.key:
        return each
    values = tuple(found.meant_value if found.value == value else value for value in each.values)
    return msgspec.structs.replace(each, key=found.meant_key, values=values if found.value else each.values)


def request_changes(refused: RefusedPods, reason: Reason) -> Iterator[Trial]:
    """Yield the pods with as much of one resource as fits on the largest instance type."""
    short = too_large(refused.pod, reason)
    if short is None:
        return
    name, most = short
    overhead = parse_resources(refused.pod.spec.overhead).get(name, 0)
    amount = (most - overhead) // _MIB * _MIB if name == MEMORY else most - overhead
    if amount <= 0:
        return
    wanted = pod_requests(refused.pod)[name] - overhead
    written = f"{amount // _MIB}Mi" if name == MEMORY else render_amount(name, amount)
    text = f"lower the pod's {name} request from {human_amount(name, wanted)} to {written}"
    yield _with_spec(refused, text, lambda spec: _asking(spec, name, amount))


def too_large(pod: Pod, reason: Reason) -> tuple[str, int] | None:
    """Return the one resource that is too much for a NodePool, and the most that would fit of it."""
    requests = pod_requests(pod)
    largest = {name: most for name, most in reason.largest if name != PODS and most < requests.get(name, 0)}
    name = min(largest, key=lambda each: (each not in {CPU, MEMORY}, each), default="")
    return (name, largest[name]) if name else None


def _asking(spec: PodSpec, name: str, amount: int) -> PodSpec:
    """Return the spec with `amount` of one resource in its first container, and none in the others."""

    def without(each: Container) -> Container:
        resources = msgspec.structs.replace(
            each.resources,
            requests={key: value for key, value in each.resources.requests.items() if key != name},
            limits={key: value for key, value in each.resources.limits.items() if key != name},
        )
        return msgspec.structs.replace(each, resources=resources)

    first, *others = map(without, spec.containers)
    requests = {**first.resources.requests, name: render_amount(name, amount)}
    first = msgspec.structs.replace(
        first, resources=msgspec.structs.replace(first.resources, requests=requests)
    )
    init = tuple(map(without, spec.init_containers))
    return msgspec.structs.replace(spec, containers=(first, *others), init_containers=init)


def toleration_changes(refused: RefusedPods, pool: NodePool) -> Iterator[Trial]:
    """Yield the pods with a toleration for the taint of a NodePool that they may have meant."""
    taint = first_untolerated(refused.pod.spec.tolerations, pool.spec.template.spec.taints)
    if taint is None or _is_about_architecture(taint):
        return
    given = Toleration(
        key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
    )
    yield _with_spec(
        refused,
        f"add a toleration for {_taint(taint)} to the pod",
        lambda spec: msgspec.structs.replace(spec, tolerations=(*spec.tolerations, given)),
        pool.name,
    )


def _is_about_architecture(taint: Taint) -> bool:
    return any(word in f"{taint.key}={taint.value}" for word in _OF_ARCHITECTURES)


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def selector_changes(refused: RefusedPods) -> Iterator[Trial]:
    """Yield the pods without each of their node selectors, and without their required node affinity."""
    for key, value in refused.pod.spec.node_selector.items():
        if key not in _PLATFORM:
            yield _with_spec(
                refused,
                f"drop nodeSelector {key}={value} from the pod",
                partial(_without_selector, key),
            )
    if any(e.key not in _PLATFORM for term in node_terms(refused.pod.spec) for e in term.match_expressions):
        yield _with_spec(
            refused,
            "drop the required node affinity from the pod",
            lambda spec: _with_expressions(spec, lambda each: each if each.key in _PLATFORM else None),
        )


def _without_selector(key: str, spec: PodSpec) -> PodSpec:
    left = {each: value for each, value in spec.node_selector.items() if each != key}
    return msgspec.structs.replace(spec, node_selector=left)


def topology_changes(refused: RefusedPods) -> Iterator[Trial]:
    """Yield the pods with other rules of where they are beside each other, the mildest first."""
    spreads = refused.pod.spec.topology_spread_constraints
    hard = [(n, each) for n, each in enumerate(spreads) if each.when_unsatisfiable != "ScheduleAnyway"]
    for number, spread in hard:
        yield from _spread_changes(refused, number, spread)
    for number, spread in hard:
        yield _with_spread(
            refused,
            f"make the topology spread over {spread.topology_key} ScheduleAnyway",
            number,
            None,
        )
    affinity = refused.pod.spec.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        yield _with_affinity(refused, "drop the pod affinity from the pod", pod_affinity=None)
    if affinity is not None and affinity.pod_anti_affinity is not None:
        yield _with_affinity(refused, "drop the pod anti-affinity from the pod", pod_anti_affinity=None)


def _spread_changes(refused: RefusedPods, number: int, spread: TopologySpreadConstraint) -> Iterator[Trial]:
    """Yield what helps where a domain counts that only nodes have which take no more pods."""
    key = spread.topology_key
    nodes = foreign_nodes(refused, spread)
    if not nodes:
        return
    launched = sorted(values_of(key, _open_pools(refused), refused.inquiry.catalog))
    if launched:
        entry = NodeSelectorRequirement(key=key, operator="In", values=tuple(launched))
        yield _with_spec(
            refused,
            f"require {key} In [{' '.join(launched)}], where NodePools launch nodes, by node affinity",
            lambda spec: _requiring(spec, entry),
        )
    if spread.node_taints_policy != "Honor" and all(_keeps_out(node, refused.pod) for node in nodes):
        honoring = msgspec.structs.replace(spread, node_taints_policy="Honor")
        text = f"set nodeTaintsPolicy: Honor in the topology spread over {key}"
        yield _with_spread(refused, text, number, honoring)
    for pool in _open_pools(refused):
        for domain in sorted({node.labels[key] for node in nodes}):
            yield from allow_value(refused.view, pool, key, domain)


def foreign_nodes(refused: RefusedPods, spread: TopologySpreadConstraint) -> list[StateNode]:
    """Return the nodes of domains that count for a spread and in which no NodePool launches nodes."""
    key = spread.topology_key
    launched = values_of(key, _open_pools(refused), refused.inquiry.catalog)
    if key != ZONE and not launched:
        return []
    return [
        node
        for node in state_nodes(refused.view)
        if not node.is_managed and node.labels.get(key) and node.labels[key] not in launched
    ]


def _open_pools(refused: RefusedPods) -> list[NodePool]:
    found = []
    for state in refused.decision.pools:
        taints = state.pool.spec.template.spec.taints
        if not state.obstacle and first_untolerated(refused.pod.spec.tolerations, taints) is None:
            found.append(state.pool)
    return found


def _keeps_out(node: StateNode, pod: Pod) -> bool:
    return first_untolerated(pod.spec.tolerations, node.taints) is not None


def _requiring(spec: PodSpec, entry: NodeSelectorRequirement) -> PodSpec:
    terms = node_terms(spec) or (NodeSelectorTerm(),)
    more = tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, entry)) for term in terms
    )
    return _with_terms(spec, more)


def _with_expressions(
    spec: PodSpec, change: Callable[[NodeSelectorRequirement], NodeSelectorRequirement | None]
) -> PodSpec:
    """Return the spec with other expressions in its required node affinity; those that become None go."""
    terms = tuple(
        msgspec.structs.replace(
            term, match_expressions=tuple(filter(None, map(change, term.match_expressions)))
        )
        for term in node_terms(spec)
    )
    if not terms:
        return spec
    # A term without expressions matches no node, so an affinity that asks nothing is left out.
    return _with_terms(spec, terms if all(each.match_expressions for each in terms) else ())


def _with_terms(spec: PodSpec, terms: tuple[NodeSelectorTerm, ...]) -> PodSpec:
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    required = NodeSelector(node_selector_terms=terms) if terms else None
    nodes = msgspec.structs.replace(nodes, required_during_scheduling_ignored_during_execution=required)
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, node_affinity=nodes))


def _with_affinity(refused: RefusedPods, change: str, **fields: object) -> Trial:
    def changed(spec: PodSpec) -> PodSpec:
        affinity = msgspec.structs.replace(spec.affinity or Affinity(), **fields)
        return msgspec.structs.replace(spec, affinity=affinity)

    return _with_spec(refused, change, changed)


def _with_spread(
    refused: RefusedPods, change: str, number: int, spread: TopologySpreadConstraint | None
) -> Trial:
    def changed(spec: PodSpec) -> PodSpec:
        spreads = spec.topology_spread_constraints
        kept = (*spreads[:number], *([spread] if spread is not None else []), *spreads[number + 1 :])
        return msgspec.structs.replace(spec, topology_spread_constraints=kept)

    return _with_spec(refused, change, changed)


def _with_spec(
    refused: RefusedPods, change: str, changed: Callable[[PodSpec], PodSpec], pool: str = ""
) -> Trial:
    """Return a change that is made to every one of the pods."""
    pods = [msgspec.structs.replace(pod, spec=changed(pod.spec)) for pod in refused.pods]
    return Trial(change, with_pods(refused.view, pods), pool)
