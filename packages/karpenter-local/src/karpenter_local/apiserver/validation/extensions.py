"""The rules for autoscalers, ingresses and admission policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.admission.policies import check_expression
from karpenter_local.apiserver.field_errors import FieldError, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Object

_ACTIONS = ("Audit", "Deny", "Warn")
_FAILURES = ("Fail", "Ignore")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def autoscaler(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value["spec"]
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for key in ("kind", "name"):
        if not target.get(key):
            yield required(f"spec.scaleTargetRef.{key}")


def ingress(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid("spec", [], "either `defaultBackend` or `rules` must be specified")
    for number, rule in enumerate(spec.get("rules") or ()):
        for index, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            place = f"spec.rules[{number}].http.paths[{index}].pathType"
            if not path.get("pathType"):
                yield required(place, "pathType must be specified")
            elif path["pathType"] not in _PATH_TYPES:
                yield not_supported(place, path["pathType"], _PATH_TYPES)


def admission_policy(value: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield what is wrong with an admission policy; its expressions must be ones that can be evaluated."""
    _ = old
    spec = value.get("spec") or {}
    if spec.get("failurePolicy") not in _FAILURES:
        yield not_supported("spec.failurePolicy", spec.get("failurePolicy"), _FAILURES)
    matched = spec.get("matchConstraints")
    if matched is None:
        yield required("spec.matchConstraints")
    elif not matched.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        why = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", why)
        yield required("spec.auditAnnotations", why)
    variables = {each.get("name", ""): each.get("expression", "") for each in spec.get("variables") or ()}
    for part, key in (
        ("matchConditions", "expression"),
        ("variables", "expression"),
        ("validations", "expression"),
        ("validations", "messageExpression"),
        ("auditAnnotations", "valueExpression"),
    ):
        for index, each in enumerate(spec.get(part) or ()):
            place, source = f"spec.{part}[{index}].{key}", each.get(key) or ""
            if not source.strip():
                if key != "messageExpression":
                    yield required(place, f"{key} is not specified")
            elif why := check_expression(source, variables):
                yield invalid(place, source, why)


def admission_policy_binding(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value.get("spec") or {}
    if not spec.get("policyName"):
        yield required("spec.policyName")
    actions = spec.get("validationActions") or ()
    if not actions:
        yield required("spec.validationActions", "validationActions is required")
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"spec.validationActions[{index}]", action, _ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information "
            "in the API response and headers serves no purpose)"
        )
        yield invalid("spec.validationActions", list(actions), why)
