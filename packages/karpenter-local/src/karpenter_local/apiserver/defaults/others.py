"""Defaults of services, configuration, access, priorities, devices and definitions of custom kinds."""

from __future__ import annotations

import base64
from typing import Any

Object = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"


def service(value: Object) -> None:
    """Reach any backend over TCP, on the port that is asked for."""
    spec = value.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in {None, 0, ""}:
            port["targetPort"] = port.get("port", 0)
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def secret(value: Object) -> None:
    """An opaque secret; plain text is taken into the encoded data."""
    value.setdefault("type", "Opaque")
    plain = value.pop("stringData", None)
    if plain:
        data = value.setdefault("data", {})
        data |= {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}


def endpoints(value: Object) -> None:
    for subset in value.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def endpoint_slice(value: Object) -> None:
    """Ports speak TCP and need no name."""
    for port in value.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def role_binding(value: Object) -> None:
    """Roles and people belong to the group of access control."""
    ref = value.get("roleRef")
    if ref is not None and not ref.get("apiGroup"):
        ref["apiGroup"] = _RBAC
    for subject in value.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
            subject["apiGroup"] = _RBAC


def priority_class(value: Object) -> None:
    """Those with priority may push others out."""
    value.setdefault("preemptionPolicy", "PreemptLowerPriority")


def limit_range(value: Object) -> None:
    """Fill in limits from maxima, and requests from limits, as container limits do."""
    for item in (value.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = item.setdefault("default", {})
        requests = item.setdefault("defaultRequest", {})
        for name, quantity in (item.get("max") or {}).items():
            default.setdefault(name, quantity)
        for name, quantity in default.items():
            requests.setdefault(name, quantity)
        for name, quantity in (item.get("min") or {}).items():
            requests.setdefault(name, quantity)
        for key in ("default", "defaultRequest"):
            if not item[key]:
                del item[key]


def resource_claim(value: Object) -> None:
    claim_spec(value.get("spec") or {})


def resource_claim_template(value: Object) -> None:
    claim_spec(((value.get("spec") or {}).get("spec")) or {})


def claim_spec(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if wanted is None:
                continue
            if not wanted.get("allocationMode"):
                wanted["allocationMode"] = "ExactCount"
            if wanted["allocationMode"] == "ExactCount" and not wanted.get("count"):
                wanted["count"] = 1
            for toleration in wanted.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def definition(value: Object) -> None:
    """Names follow from the kind; versions are not converted."""
    spec = value.setdefault("spec", {})
    names = spec.get("names") or {}
    if names.get("kind"):
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = f"{names['kind']}List"
    conversion = spec.setdefault("conversion", {})
    if not conversion.get("strategy"):
        conversion["strategy"] = "None"
