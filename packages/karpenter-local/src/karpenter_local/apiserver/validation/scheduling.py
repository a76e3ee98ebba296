"""The rules for where a pod may go: selectors, affinity, tolerations, spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import FieldError, duplicate, invalid, not_supported, required
from karpenter_local.apiserver.validation import meta, names

if TYPE_CHECKING:
    from collections.abc import Iterator

_NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_LABEL_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SPREAD = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
_MAX_WEIGHT = 100


def placement(spec: dict[str, Any], path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the scheduling constraints of a pod's spec."""
    if spec.get("nodeSelector"):
        yield from meta.labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("tolerations"):
        yield from tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("affinity"):
        yield from _affinity(spec["affinity"], f"{path}.affinity")
    if spec.get("topologySpreadConstraints"):
        yield from _spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        for sentence in names.qualified(name):
            yield invalid(f"{path}.schedulingGates[{index}]", name, sentence)
        if name in seen:
            yield duplicate(f"{path}.schedulingGates[{index}]", name)
        seen.add(name)


def tolerations(given: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(given):
        yield from _toleration(item, f"{path}[{index}]")


def _toleration(item: dict[str, Any], path: str) -> Iterator[FieldError]:
    key, operator, effect = item.get("key", ""), item.get("operator", ""), item.get("effect", "")
    if key:
        for sentence in names.qualified(key):
            yield invalid(f"{path}.key", key, sentence)
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, why)
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    yield from _tolerated_value(item.get("value", ""), operator, path)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def _tolerated_value(value: str, operator: str, path: str) -> Iterator[FieldError]:
    match operator:
        case "" | "Equal":
            for sentence in names.value(value):
                yield invalid(f"{path}.operator", value, sentence)
        case "Exists":
            if value:
                yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
        case "Lt" | "Gt":
            pass
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


def _affinity(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    node = given.get("nodeAffinity")
    if node:
        wanted = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        place = f"{path}.nodeAffinity"
        if wanted is not None:
            yield from node_selector(wanted, f"{place}.requiredDuringSchedulingIgnoredDuringExecution")
        for index, item in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            spot = f"{place}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield from _weight(item, spot)
            yield from _node_term(item.get("preference") or {}, f"{spot}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = given.get(kind) or {}
        for index, term in enumerate(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            yield from _pod_term(
                term, f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
            )
        for index, item in enumerate(pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            spot = f"{path}.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield from _weight(item, spot)
            yield from _pod_term(item.get("podAffinityTerm") or {}, f"{spot}.podAffinityTerm")


def _weight(item: dict[str, Any], path: str) -> Iterator[FieldError]:
    weight = item.get("weight", 0)
    if not 0 < weight <= _MAX_WEIGHT:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def node_selector(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    terms = given.get("nodeSelectorTerms") or ()
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}.nodeSelectorTerms[{index}]")


def _node_term(term: dict[str, Any], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(term.get("matchExpressions") or ()):
        yield from _expression(item, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS)


def _pod_term(term: dict[str, Any], path: str) -> Iterator[FieldError]:
    if term.get("labelSelector") is not None:
        yield from label_selector(term["labelSelector"], f"{path}.labelSelector")
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    for sentence in names.qualified(key):
        yield invalid(f"{path}.topologyKey", key, sentence)


def label_selector(given: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from meta.labels(given.get("matchLabels"), f"{path}.matchLabels")
    for index, item in enumerate(given.get("matchExpressions") or ()):
        yield from _expression(item, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS)


def _expression(item: dict[str, Any], path: str, operators: tuple[str, ...]) -> Iterator[FieldError]:
    operator, values = item.get("operator", ""), item.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield FieldError(f"{path}.values", "FieldValueForbidden", why)
        case "Gt" | "Lt" if "Gt" in operators:
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{path}.values", why)
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    for sentence in names.qualified(item.get("key", "")):
        yield invalid(f"{path}.key", item.get("key", ""), sentence)


def _spread(given: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    pairs = [(item.get("topologyKey", ""), item.get("whenUnsatisfiable", "")) for item in given]
    for index, item in enumerate(given):
        place = f"{path}[{index}]"
        key, when = pairs[index]
        if item.get("maxSkew", 0) <= 0:
            yield invalid(f"{place}.maxSkew", item.get("maxSkew", 0), "must be greater than zero")
        if not key:
            yield required(f"{place}.topologyKey", "can not be empty")
        else:
            for sentence in names.qualified(key):
                yield invalid(f"{place}.topologyKey", key, sentence)
        if when not in _SPREAD:
            yield not_supported(f"{place}.whenUnsatisfiable", when, _SPREAD)
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        yield from _spread_options(item, place)


def _spread_options(item: dict[str, Any], path: str) -> Iterator[FieldError]:
    least, when = item.get("minDomains"), item.get("whenUnsatisfiable", "")
    if least is not None and least <= 0:
        yield invalid(f"{path}.minDomains", least, "must be greater than zero")
    if least is not None and when != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        yield invalid(f"{path}.minDomains", least, why)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if item.get(policy) is not None and item[policy] not in _POLICIES:
            yield not_supported(f"{path}.{policy}", item[policy], _POLICIES)
    if item.get("labelSelector") is not None:
        yield from label_selector(item["labelSelector"], f"{path}.labelSelector")
