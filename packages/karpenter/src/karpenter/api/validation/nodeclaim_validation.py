"""
Validation of requirements on labels: operators and their values, restricted labels, and Kubernetes names.

The same for pools, overlays and pods; what differs is an argument. Of pods the node selector and the required
node affinity are checked, and terms that select nodes by field are refused. Preferences are not checked,
because a preference that makes no sense is simply never met. Names follow
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from karpenter.api.labels import LabelRules
from karpenter.api.nodeclaim import OPERATORS
from karpenter.api.pod import NodeSelectorRequirement, NodeSelectorTerm, Pod
from karpenter.api.schema import field
from karpenter.api.schema.field import FieldProblem, forbidden, invalid, not_supported, required

_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_LONGEST_NAME = 63
_LIKENESS = 0.85
"""How alike a label must be to one that is meant."""

_LONGEST_SUBDOMAIN = 253

KEY_RULE = (
    "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, "
    "with a DNS domain and a slash before them or without"
)
VALUE_RULE = (
    "must be empty, or at most 63 letters, digits, '-', '_' or '.', "
    "beginning and ending with a letter or digit"
)
SUBDOMAIN_RULE = (
    "must be at most 253 lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
)


def is_subdomain(text: str) -> bool:
    """Say whether `text` may name an object: a DNS name in lower case."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    domain, slash, name = text.rpartition("/")
    if slash and not is_subdomain(domain):
        return False
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return text == "" or (len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None)


BOUNDS = frozenset({"Gt", "Lt", "Gte", "Lte"})
"""Operators that compare with one number."""

# Karpenter parses the operand of Gt, Lt, Gte and Lte as a signed 64-bit integer.
_MAX_INT64 = 2**63 - 1


class LabelRequirement(Protocol):
    """Common part of the requirements of pools, overlays and pods."""

    @property
    def key(self) -> str: ...

    @property
    def operator(self) -> str:
        """How the label relates to the values."""
        ...

    @property
    def values(self) -> tuple[str, ...]: ...


def check_requirements(
    requirements: Iterable[LabelRequirement],
    path: str,
    *,
    rules: LabelRules,
    not_in_needs_values: bool = False,
) -> Iterator[FieldProblem]:
    """Find what is wrong with requirements; their paths are below `path`."""
    for i, requirement in enumerate(requirements):
        place = field.index(path, i)
        yield from check_requirement(requirement, place, rules=rules)
        if not_in_needs_values and requirement.operator == "NotIn" and not requirement.values:
            yield required(field.child(place, "values"), "operator NotIn needs at least one value")


def check_requirement(
    requirement: LabelRequirement, path: str, *, rules: LabelRules
) -> Iterator[FieldProblem]:
    key = rules.normalize(requirement.key)
    if requirement.operator not in OPERATORS:
        yield not_supported(field.child(path, "operator"), requirement.operator, OPERATORS)
    if rules.is_restricted(key):
        yield forbidden(field.child(path, "key"), restriction(key, rules))
    if not is_qualified_name(key):
        yield invalid(field.child(path, "key"), key, KEY_RULE)
    for i, value in enumerate(requirement.values):
        if not is_label_value(value):
            yield invalid(field.index(field.child(path, "values"), i), value, VALUE_RULE)
    yield from _check_count(requirement, path)
    if requirement.operator == "In":
        yield from _check_known_values(requirement, key, path, rules)


def restriction(key: str, rules: LabelRules) -> str:
    """Say why a label may not be set, and what may."""
    if key in rules.restricted_labels:
        return f"label {key} is set by Kubernetes and may not be asked for"
    domains = ", ".join(sorted(rules.restricted_domains))
    problem = f"label {key} is in a restricted domain ({domains})"
    close = difflib.get_close_matches(key, sorted(rules.well_known), n=1, cutoff=_LIKENESS)
    meant = f'; did you mean "{close[0]}"?' if close else ""
    return f"{problem}; only well-known labels of these may be used{meant}"


def _min_values(requirement: LabelRequirement) -> int | None:
    found: int | None = getattr(requirement, "min_values", None)
    return found


def _check_count(requirement: LabelRequirement, path: str) -> Iterator[FieldProblem]:
    place = field.child(path, "values")
    values, least = requirement.values, _min_values(requirement)
    if requirement.operator == "In" and not values:
        yield required(place, "operator In needs at least one value")
    elif requirement.operator == "In" and least is not None and len(values) < least:
        yield invalid(place, len(values), f"operator In with minValues {least} needs that many values")
    if requirement.operator in BOUNDS and not (len(values) == 1 and _is_count(values[0])):
        detail = f"operator {requirement.operator} needs one value, an integer of at least 0"
        yield invalid(place, list(values), detail)


def _is_count(text: str) -> bool:
    return (
        text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_INT64)) and int(text) <= _MAX_INT64
    )


def _check_known_values(
    requirement: LabelRequirement, key: str, path: str, rules: LabelRules
) -> Iterator[FieldProblem]:
    known = rules.known_values.get(key)
    if known is None or not requirement.values:
        return
    meant = known.intersection(requirement.values)
    place = field.child(path, "values")
    if not meant:
        yield not_supported(place, list(requirement.values), sorted(known))
    elif len(meant) < (_min_values(requirement) or 0):
        detail = f"minValues asks for more values than exist; known are {', '.join(sorted(known))}"
        yield invalid(place, list(requirement.values), detail)


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
