"""Defaults of autoscalers, ingresses, network policies, admission, aggregated APIs and flow control."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

# https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#default-behavior
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
# https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#default-behavior
_SCALE_DOWN: Object = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_HTTPS = 443


def autoscaler(value: Object) -> None:
    """Keep at least one pod, at 80 % of the requested cpu."""
    spec = value.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = {**_SCALE_UP, **(behavior.get("scaleUp") or {})}
        behavior["scaleDown"] = {**_SCALE_DOWN, **(behavior.get("scaleDown") or {})}


def ingress_class(value: Object) -> None:
    parameters = (value.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def network_policy(value: Object) -> None:
    """A policy is about what comes in, and about what goes out where it says so; ports speak TCP."""
    spec = value.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def webhooks(value: Object) -> None:
    """A webhook is asked about everything that its rules name, within ten seconds, or the write fails."""
    for hook in value.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        _match_resources(hook, "rules")
        hook.setdefault("timeoutSeconds", 10)
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", _HTTPS)


def mutating_webhooks(value: Object) -> None:
    """As validating ones, and each is asked once."""
    webhooks(value)
    for hook in value.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def admission_policy(value: Object) -> None:
    """A policy that cannot be evaluated refuses."""
    spec = value.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        _match_resources(spec["matchConstraints"], "resourceRules")


def admission_policy_binding(value: Object) -> None:
    """A binding matches whatever its policy matches."""
    matched = (value.get("spec") or {}).get("matchResources")
    if matched is not None:
        _match_resources(matched, "resourceRules")


def _match_resources(matched: Object, rules: str) -> None:
    matched.setdefault("matchPolicy", "Equivalent")
    matched.setdefault("namespaceSelector", {})
    matched.setdefault("objectSelector", {})
    for key in (rules, "excludeResourceRules"):
        for rule in matched.get(key) or ():
            rule.setdefault("scope", "*")


def api_service(value: Object) -> None:
    """Other API servers are reached over HTTPS."""
    service = (value.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", _HTTPS)


def flow_schema(value: Object) -> None:
    """A schema comes after those that say how early they come."""
    spec = value.setdefault("spec", {})
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def priority_level(value: Object) -> None:
    """A limited level has thirty shares, and lends none."""
    limited = (value.get("spec") or {}).get("limited")
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
