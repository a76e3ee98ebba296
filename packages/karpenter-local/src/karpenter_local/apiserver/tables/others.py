"""Everything else: events, services, configuration, access, leases, devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Object,
    TableColumn,
    ago,
    at,
    column,
    dig,
    labels,
    size,
)

if TYPE_CHECKING:
    from datetime import datetime


CONFIG_MAPS = (NAME, column("Data", size("data", "binaryData")), AGE)
SECRETS = (NAME, column("Type", at("type")), column("Data", size("data")), AGE)
NAMESPACES = (NAME, column("Status", at("status.phase")), AGE)
LEASES = (NAME, column("Holder", at("spec.holderIdentity")), AGE)
RUNTIME_CLASSES = (NAME, column("Handler", at("handler")), AGE)
PLAIN = (NAME, AGE)


def _first_seen(event: Object, now: datetime) -> str:
    return ago(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    last = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    if series.get("lastObservedTime"):
        last = series["lastObservedTime"]
    shown = ago(last, now) if last else _first_seen(event, now)
    times = series.get("count") or event.get("count") or 0
    if times > 1:
        return f"{shown} (x{times} over {_first_seen(event, now)})"
    return shown


def _about(event: Object, _: datetime) -> str:
    ref = event.get("involvedObject") or {}
    kind, name = (ref.get("kind") or "").lower(), ref.get("name") or ""
    return f"{kind}/{name}" if name else kind


def _source(event: Object, _: datetime) -> str:
    source = event.get("source") or {}
    words = [
        source.get("component") or event.get("reportingComponent") or "",
        source.get("host") or event.get("reportingInstance") or "",
    ]
    return ", ".join(word for word in words if word)


def _times(event: Object, _: datetime) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


def _message(event: Object, _: datetime) -> str:
    return str(event.get("message", "")).strip()


EVENTS = (
    column("Last Seen", _last_seen),
    column("Type", at("type")),
    column("Reason", at("reason")),
    column("Object", _about),
    column("Subobject", at("involvedObject.fieldPath"), wide=True),
    column("Source", _source, wide=True),
    column("Message", _message),
    column("First Seen", _first_seen, wide=True),
    column("Count", _times, wide=True),
    TableColumn(name="Name", cell=at("metadata.name"), format="name", priority=1),
)


def _external(service: Object, _: datetime) -> str:
    spec = service.get("spec") or {}
    given = spec.get("externalIPs") or ()
    match spec.get("type"):
        case "ExternalName":
            return spec.get("externalName") or ""
        case "LoadBalancer":
            ingress = dig(service, "status.loadBalancer.ingress") or ()
            found = [item.get("ip") or item.get("hostname") or "" for item in ingress]
            return ",".join([*found, *given]) or "<pending>"
        case _:
            return ",".join(given) or NONE


def _ports(service: Object, _: datetime) -> str:
    shown = []
    for port in dig(service, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _service_selector(service: Object, _: datetime) -> str:
    return labels(dig(service, "spec.selector"))


SERVICES = (
    NAME,
    column("Type", at("spec.type")),
    column("Cluster-IP", at("spec.clusterIP", NONE)),
    column("External-IP", _external),
    column("Port(s)", _ports),
    AGE,
    column("Selector", _service_selector, wide=True),
)


def _endpoints(value: Object, _: datetime) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in value.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    return ",".join(found) or NONE


ENDPOINTS = (NAME, column("Endpoints", _endpoints), AGE)


def _slice_ports(value: Object, _: datetime) -> str:
    return ",".join(str(port.get("port", "*")) for port in value.get("ports") or ()) or "<unset>"


def _slice_endpoints(value: Object, _: datetime) -> str:
    found = [address for item in value.get("endpoints") or () for address in item.get("addresses") or ()]
    return ",".join(found) or "<unset>"


ENDPOINT_SLICES = (
    NAME,
    column("AddressType", at("addressType")),
    column("Ports", _slice_ports),
    column("Endpoints", _slice_endpoints),
    AGE,
)


def _role(value: Object, _: datetime) -> str:
    ref = value.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(kind: str) -> TableColumn:
    def cell(value: Object, _: datetime) -> str:
        found = []
        for subject in value.get("subjects") or ():
            if subject.get("kind") == kind:
                space = f"{subject.get('namespace', '')}/" if kind == "ServiceAccount" else ""
                found.append(f"{space}{subject['name']}")
        return ", ".join(found)

    return column(f"{kind}s", cell, wide=True)


BINDINGS = (
    NAME,
    column("Role", _role),
    AGE,
    *(_subjects(kind) for kind in ("User", "Group", "ServiceAccount")),
)


def _quota(part: str) -> TableColumn:
    name = "Limit" if part == "limits" else "Request"

    def cell(value: Object, _: datetime) -> str:
        hard, used = dig(value, "status.hard") or {}, dig(value, "status.used") or {}
        keys = sorted(key for key in hard if key.startswith("limits.") == (part == "limits"))
        return ", ".join(f"{key}: {used.get(key, '0')}/{hard[key]}" for key in keys)

    return column(name, cell)


QUOTAS = (NAME, _quota("requests"), _quota("limits"), AGE)


def _claim_state(claim: Object, _: datetime) -> str:
    status = claim.get("status") or {}
    words = []
    if claim["metadata"].get("deletionTimestamp"):
        words.append("deleted")
    if status.get("allocation"):
        words.append("allocated")
    if status.get("reservedFor"):
        words.append("reserved")
    return ",".join(words) or "pending"


CLAIMS = (NAME, column("State", _claim_state), AGE)
SLICES = (
    NAME,
    column("Node", at("spec.nodeName", "<unset>")),
    column("Driver", at("spec.driver")),
    column("Pool", at("spec.pool.name")),
    AGE,
)
