"""Columns of autoscalers, ingresses, network policies, admission, aggregated APIs and flow control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.tables.columns import AGE, NAME, NONE, Object, at, column, dig, labels, size

if TYPE_CHECKING:
    from datetime import datetime


_UNKNOWN = "<unknown>"
_UNSET = "<unset>"
_MAX_SHOWN = 3


def _reference(value: Object, _: datetime) -> str:
    target = dig(value, "spec.scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(value: Object, _: datetime) -> str:
    metrics = dig(value, "spec.metrics") or []
    current = dig(value, "status.currentMetrics") or []
    shown = [_target(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(metrics)]
    more = len(shown) - _MAX_SHOWN
    return ", ".join(shown[:_MAX_SHOWN]) + (f" + {more} more..." if more > 0 else "") or "<none>"


def _target(metric: Object, current: Object) -> str:
    key = {
        "Resource": "resource",
        "ContainerResource": "containerResource",
        "Pods": "pods",
        "Object": "object",
        "External": "external",
    }.get(metric.get("type", ""), "")
    source, seen = metric.get(key) or {}, (current.get(key) or {}).get("current") or {}
    target: dict[str, Any] = source.get("target") or {}
    name = f"{source['name']}: " if key in {"resource", "containerResource"} else ""
    if target.get("averageUtilization") is not None:
        used = f"{seen['averageUtilization']}%" if "averageUtilization" in seen else _UNKNOWN
        return f"{name}{used}/{target['averageUtilization']}%"
    for kind, words in (("averageValue", " (avg)"), ("value", "")):
        if target.get(kind) is not None:
            described = words if key in {"object", "external"} else ""
            return f"{name}{seen.get(kind, _UNKNOWN)}/{target[kind]}{described}"
    return f"{name}{_UNKNOWN}/<auto>"


def _least(value: Object, _: datetime) -> str:
    return str(dig(value, "spec.minReplicas") or _UNSET)


AUTOSCALERS = (
    NAME,
    column("Reference", _reference),
    column("Targets", _targets),
    column("MinPods", _least),
    column("MaxPods", at("spec.maxReplicas")),
    column("Replicas", at("status.currentReplicas", 0)),
    AGE,
)


def _hosts(value: Object, _: datetime) -> str:
    rules = [rule["host"] for rule in dig(value, "spec.rules") or () if rule.get("host")]
    more = len(rules) - _MAX_SHOWN
    return ",".join(rules[:_MAX_SHOWN]) + (f" + {more} more..." if more > 0 else "") or "*"


def _addresses(value: Object, _: datetime) -> str:
    found = dig(value, "status.loadBalancer.ingress") or ()
    return ",".join(each.get("ip") or each.get("hostname") or "" for each in found)


def _ports(value: Object, _: datetime) -> str:
    return "80, 443" if dig(value, "spec.tls") else "80"


INGRESSES = (
    NAME,
    column("Class", at("spec.ingressClassName", NONE)),
    column("Hosts", _hosts),
    column("Address", _addresses),
    column("Ports", _ports),
    AGE,
)


def _parameters(value: Object, _: datetime) -> str:
    given = dig(value, "spec.parameters")
    if not given:
        return NONE
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


INGRESS_CLASSES = (NAME, column("Controller", at("spec.controller")), column("Parameters", _parameters), AGE)


def _pods(value: Object, _: datetime) -> str:
    selector = dig(value, "spec.podSelector") or {}
    return labels(selector.get("matchLabels"))


NETWORK_POLICIES = (NAME, column("Pod-Selector", _pods), AGE)
WEBHOOKS = (NAME, column("Webhooks", size("webhooks"), type_="integer"), AGE)


def _validations(value: Object, _: datetime) -> int:
    return len(dig(value, "spec.validations") or ())


def _param_kind(value: Object, _: datetime) -> str:
    kind = dig(value, "spec.paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET


def _param_ref(value: Object, _: datetime) -> str:
    ref = dig(value, "spec.paramRef")
    if not ref:
        return _UNSET
    space = f"{ref['namespace']}/" if ref.get("namespace") else "*/"
    return f"{space}{ref.get('name') or '*'}"


POLICIES = (
    NAME,
    column("Validations", _validations, type_="integer"),
    column("ParamKind", _param_kind),
    AGE,
)
POLICY_BINDINGS = (NAME, column("PolicyName", at("spec.policyName")), column("ParamRef", _param_ref), AGE)


def _service(value: Object, _: datetime) -> str:
    service = dig(value, "spec.service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(value: Object, _: datetime) -> str:
    for each in dig(value, "status.conditions") or ():
        if each.get("type") == "Available":
            why = f" ({each['reason']})" if each.get("status") != "True" and each.get("reason") else ""
            return f"{each['status']}{why}"
    return "Unknown"


API_SERVICES = (NAME, column("Service", _service), column("Available", _available), AGE)


def _missing_level(value: Object, _: datetime) -> str:
    found = (each for each in dig(value, "status.conditions") or () if each.get("type") == "Dangling")
    return next((each["status"] for each in found), "?")


FLOW_SCHEMAS = (
    NAME,
    column("PriorityLevel", at("spec.priorityLevelConfiguration.name")),
    column("MatchingPrecedence", at("spec.matchingPrecedence")),
    column("DistinguisherMethod", at("spec.distinguisherMethod.type", NONE)),
    AGE,
    column("MissingPL", _missing_level),
)
PRIORITY_LEVELS = (
    NAME,
    column("Type", at("spec.type")),
    column("NominalConcurrencyShares", at("spec.limited.nominalConcurrencyShares", NONE)),
    column("Queues", at("spec.limited.limitResponse.queuing.queues", NONE)),
    column("HandSize", at("spec.limited.limitResponse.queuing.handSize", NONE)),
    column("QueueLengthLimit", at("spec.limited.limitResponse.queuing.queueLengthLimit", NONE)),
    AGE,
)
