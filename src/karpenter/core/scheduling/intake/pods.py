"""
Which pods are looked at, and which are turned away before any node is considered.

A pod that asks for something no node of ours can ever have (a label that only we set, a
field instead of a label, a volume that is gone) is refused here, with the reason, so that
the solver never sees a requirement it cannot read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import NODEPOOL, LabelRules
from karpenter.base.quantity import QuantityError
from karpenter.core.model.labels import OPERATORS, RequirementError, requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import pod_requests
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.core.scheduling.plan import Refusal
from karpenter.core.scheduling.relax import ladder, node_terms
from karpenter.core.state.pods import is_protected, runs_again, waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from karpenter.api.meta import LabelSelector
    from karpenter.api.pod import Pod
    from karpenter.core.state.guards import Guards
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def waiting(view: ClusterView) -> tuple[Pod, ...]:
    """Return the pods that want a node."""
    return tuple(pod for pod in view.pods.values() if waits(pod))


def evacuated(nodes: Iterable[StateNode], guards: Guards, now: datetime) -> tuple[Pod, ...]:
    """Return the pods of leaving nodes that need a place elsewhere."""
    return tuple(
        pod for node in nodes if node.is_leaving for pod in node.pods if can_move(pod, guards, now)
    )


def can_move(pod: Pod, guards: Guards, now: datetime) -> bool:
    """Return whether emptying its node would make this pod run elsewhere."""
    return runs_again(pod) and not is_protected(pod, now) and not guards.holds_for_good(pod, now)


def refusal_of(pod: Pod, rules: LabelRules) -> Refusal | None:
    """Return why a pod is turned away, or None when it is worth looking at."""
    try:
        problem = next(_problems(pod, rules), "")
    except (RequirementError, SelectorError, QuantityError) as error:
        problem = str(error)
    return Refusal(pod=pod.key, message=problem) if problem else None


def _problems(pod: Pod, rules: LabelRules) -> Iterator[str]:
    pod_requests(pod)
    spec = pod.spec
    for term in node_terms(spec):
        if term.match_fields:
            yield "node affinity with matchFields asks for nodes that exist already, so none is launched"
    strict = Requirements.from_labels(spec.node_selector)
    entries = [e for term in node_terms(spec) for e in term.match_expressions]
    for each in (*strict, *(requirement(e.key, _known(e.key, e.operator), e.values) for e in entries)):
        yield from _label_problems(each.key, each.values, rules)
    for entry in entries:
        if entry.operator == "In" and not entry.values:
            yield f"label {entry.key}: operator In needs at least one value"
    for rung in ladder(spec, spec.topology_spread_constraints, respect=True, avoidance=False):
        wanted = rung.requirements[NODEPOOL]
        if NODEPOOL in rung.requirements and not wanted.complement and not wanted.values:
            yield f"the pod asks for a node without {NODEPOOL}, so no NodePool may serve it"
    for selector in _selectors(pod):
        parse_selector(selector)


def _known(key: str, operator: str) -> str:
    if operator not in OPERATORS:
        raise RequirementError(f"label {key}: operator {operator!r} is not one of {', '.join(OPERATORS)}")
    return operator


def _label_problems(key: str, values: Iterable[str], rules: LabelRules) -> Iterator[str]:
    if rules.is_restricted(key):
        yield f"label {key} is restricted: pods cannot select nodes by it"
    domain, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _DOMAIN.fullmatch(domain)):
        yield f"label {key!r} is not a valid label key"
    for value in values:
        if value and not _NAME.fullmatch(value):
            yield f"label {key}: {value!r} is not a valid label value"


def _selectors(pod: Pod) -> Iterator[LabelSelector | None]:
    for spread in pod.spec.topology_spread_constraints:
        yield spread.label_selector
    if pod.spec.affinity is None:
        return
    for side in (pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity):
        if side is not None:
            terms = [
                *side.required_during_scheduling_ignored_during_execution,
                *(w.pod_affinity_term for w in side.preferred_during_scheduling_ignored_during_execution),
            ]
            for term in terms:
                yield term.label_selector
                yield term.namespace_selector
