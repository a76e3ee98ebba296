"""
Validation of pods before they are scheduled.

The node selector and the required node affinity are checked like the requirements of a pool. Preferences are
not, and terms that select nodes by field rather than label are refused.
"""

from collections.abc import Iterator

from karpenter.api.labels import LabelRules
from karpenter.api.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod
from karpenter.api.schema import field
from karpenter.api.schema.field import FieldProblem, forbidden
from karpenter.api.validation.nodeclaim_validation import check_requirement, check_requirements

_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def validate_pod(pod: Pod, *, rules: LabelRules) -> tuple[FieldProblem, ...]:
    """Return what keeps a pod from being considered at all."""
    return (*_check_selector(pod, rules), *_check_affinity(pod, rules))


def _check_selector(pod: Pod, rules: LabelRules) -> Iterator[FieldProblem]:
    for key, value in pod.spec.node_selector.items():
        requirement = NodeSelectorRequirement(key=key, operator="In", values=(value,))
        place = field.key("spec.nodeSelector", key)
        for problem in check_requirement(requirement, place, rules=rules):
            yield FieldProblem(place, problem.reason, problem.message)


def _check_affinity(pod: Pod, rules: LabelRules) -> Iterator[FieldProblem]:
    for i, term in enumerate(_required_terms(pod)):
        place = field.index(_TERMS, i)
        if term.match_fields:
            yield forbidden(field.child(place, "matchFields"), "nodes that do not exist yet have labels only")
        yield from check_requirements(
            term.match_expressions, field.child(place, "matchExpressions"), rules=rules
        )


def _required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ()
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required is not None else ()
