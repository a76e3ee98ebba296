"""The rules for configuration, services, nodes, storage, priorities, access and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter.base.quantity import parse_quantity
from karpenter_local.apiserver.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from karpenter_local.apiserver.validation import meta, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Object

# https://kubernetes.io/docs/concepts/configuration/configmap/
_MAX_DATA = 1024 * 1024
_MAX_PORT = 65535
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
# Larger values are for system classes: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
_HIGHEST_PRIORITY = 1_000_000_000
# https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def config_map(value: Object, old: Object | None) -> Iterator[FieldError]:
    yield from _data(value, ("data", "binaryData"))
    if old is not None and old.get("immutable"):
        if not value.get("immutable"):
            yield forbidden("immutable", "field is immutable when `immutable` is set")
        for key in ("data", "binaryData"):
            if value.get(key) != old.get(key):
                yield forbidden(key, "field is immutable when `immutable` is set")


def secret(value: Object, old: Object | None) -> Iterator[FieldError]:
    yield from _data(value, ("data",))
    if old is not None:
        if value.get("type") != old.get("type"):
            yield invalid("type", value.get("type"), "field is immutable")
        if old.get("immutable"):
            if not value.get("immutable"):
                yield forbidden("immutable", "field is immutable when `immutable` is set")
            if value.get("data") != old.get("data"):
                yield forbidden("data", "field is immutable when `immutable` is set")


def _data(value: Object, keys: tuple[str, ...]) -> Iterator[FieldError]:
    total = 0
    for part in keys:
        for key, given in (value.get(part) or {}).items():
            text = given or ""  # bytes may be null
            total += len(text) if part == "data" and len(keys) > 1 else len(text) * 3 // 4
            for sentence in names.config_key(key):
                yield invalid(f"{part}[{key}]", key, sentence)
    if total > _MAX_DATA:
        where = "[]" if len(keys) > 1 else "data"
        yield FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {_MAX_DATA} bytes")


def service(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    headless = spec.get("clusterIP") == "None"
    if not spec.get("ports") and not headless and spec.get("type") != "ExternalName":
        yield required("spec.ports")
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")
    if spec.get("type") not in {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}:
        yield not_supported(
            "spec.type", spec.get("type"), ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
        )
    yield from meta.labels(spec.get("selector"), "spec.selector")
    yield from _service_ports(spec.get("ports") or [])
    if old is not None:
        before = old["spec"]
        if (
            before.get("clusterIP")
            and spec.get("clusterIP") != before["clusterIP"]
            and spec["type"] != "ExternalName"
        ):
            yield invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set")


def _service_ports(ports: list[dict[str, Any]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            for sentence in names.label(name):
                yield invalid(f"{path}.name", name, sentence)
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
        if not 0 < port.get("port", 0) <= _MAX_PORT:
            yield invalid(
                f"{path}.port", port.get("port", 0), f"must be between 1 and {_MAX_PORT}, inclusive"
            )
        if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
            yield not_supported(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))


def node(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    taints = spec.get("taints") or []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path = f"metadata.taints[{index}]"  # sic
        key, effect = taint.get("key", ""), taint.get("effect", "")
        for sentence in names.qualified(key):
            yield invalid(f"{path}.key", key, sentence)
        for sentence in names.value(taint.get("value", "")):
            yield invalid(f"{path}.value", taint.get("value", ""), sentence)
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in _EFFECTS:
            yield not_supported(f"{path}.effect", effect, _EFFECTS)
        if (key, effect) in seen:
            yield FieldError(
                path,
                "FieldValueDuplicate",
                f"{duplicate(path, taint).message}: taints must be unique by key and effect pair",
            )
        seen.add((key, effect))
    if old is not None:
        before = old["spec"]
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            yield forbidden(
                "spec.providerID", 'node updates may not change providerID except from "" to valid'
            )
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')


def claim(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    if old is None:
        yield from _access_modes(spec, "spec.accessModes")
        asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if asked is None:
            yield required("spec.resources[storage]")
        elif parse_quantity(asked).nanos <= 0:
            yield invalid("spec.resources[storage]", asked, "must be greater than zero")
    elif _frozen(spec, old["spec"]):
        loose = "resources.requests and volumeAttributesClassName for bound claims"
        yield forbidden("spec", f"spec is immutable after creation except {loose}")


def _frozen(spec: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether an update changes what is fixed: all but the size, and the volume once it is found."""
    loose = {"resources", "volumeAttributesClassName"}
    if not before.get("volumeName"):
        loose.add("volumeName")
    if before.get("storageClassName") is None:
        loose.add("storageClassName")
    return any(spec.get(key) != before.get(key) for key in {*spec, *before} - loose)


def _access_modes(spec: dict[str, Any], path: str) -> Iterator[FieldError]:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in _MODES:
            yield not_supported(path, mode, _MODES)


def volume(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    else:
        yield from _access_modes(spec, "spec.accessModes")
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported("spec.capacity", capacity or None, ("storage",))
    sources = {
        key
        for key, part in spec.items()
        if isinstance(part, dict) and key not in {"capacity", "claimRef", "nodeAffinity"}
    }
    if not sources:
        yield required("spec", "must specify a volume type")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in {"Retain", "Delete", "Recycle"}:
        yield not_supported("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"))
    if old is not None:
        before = old["spec"]
        changed = [key for key in sources if key in before and spec.get(key) != before.get(key)]
        if changed:
            yield forbidden(
                "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
            )


def storage_class(value: Object, old: Object | None) -> Iterator[FieldError]:
    if not value.get("provisioner"):
        yield required("provisioner")
    if value.get("reclaimPolicy") not in {"Delete", "Retain"}:
        yield not_supported("reclaimPolicy", value.get("reclaimPolicy"), ("Delete", "Retain"))
    if value.get("volumeBindingMode") not in {"Immediate", "WaitForFirstConsumer"}:
        known = ("Immediate", "WaitForFirstConsumer")
        yield not_supported("volumeBindingMode", value.get("volumeBindingMode"), known)
    if old is not None:
        for key in ("parameters", "provisioner", "volumeBindingMode"):
            if value.get(key) != old.get(key):
                yield invalid(key, value.get(key), "field is immutable")
        if value.get("reclaimPolicy") != old.get("reclaimPolicy"):
            yield forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden.")


def priority_class(value: Object, old: Object | None) -> Iterator[FieldError]:
    name, number = value["metadata"].get("name", ""), value.get("value", 0)
    if old is None and name.startswith("system-") and _SYSTEM_PRIORITIES.get(name) != number:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        known = (
            f"{name} is not a known system priority class"
            if name not in _SYSTEM_PRIORITIES
            else "its value is fixed"
        )
        yield forbidden("metadata.name", f"{why}. error: {known}")
    elif number > _HIGHEST_PRIORITY and name not in _SYSTEM_PRIORITIES:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        yield forbidden("value", why)
    policy = value.get("preemptionPolicy")
    if policy not in {"Never", "PreemptLowerPriority"}:
        yield not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if old is not None:
        for key in ("value", "preemptionPolicy"):
            if value.get(key) != old.get(key):
                yield forbidden(key, "may not be changed in an update.")


def binding(value: Object, old: Object | None) -> Iterator[FieldError]:
    ref = value.get("roleRef") or {}
    known = ("ClusterRole",) if value["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if ref.get("kind") not in known:
        yield not_supported("roleRef.kind", ref.get("kind", ""), known)
    if not ref.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(value.get("subjects") or ()):
        path = f"subjects[{index}]"
        if not subject.get("name"):
            yield required(f"{path}.name")
        if subject.get("kind") not in {"User", "Group", "ServiceAccount"}:
            yield not_supported(f"{path}.kind", subject.get("kind", ""), ("ServiceAccount", "User", "Group"))
        elif (
            subject["kind"] == "ServiceAccount"
            and not subject.get("namespace")
            and value["kind"] == "ClusterRoleBinding"
        ):
            yield required(f"{path}.namespace")
    if old is not None and ref != old.get("roleRef"):
        yield invalid("roleRef", ref, "cannot change roleRef")


def role(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    for index, rule in enumerate(value.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if value["kind"] == "Role":
                why = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def lease(value: Object, old: Object | None) -> Iterator[FieldError]:
    _ = old
    spec = value.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if (spec.get("leaseTransitions") or 0) < 0:
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def event(value: Object, old: Object | None) -> Iterator[FieldError]:
    if old is not None:
        return
    about = (value.get("involvedObject") or {}).get("namespace", "")
    space = value["metadata"].get("namespace", "")
    if about != space and not (not about and space == "default"):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    if value.get("eventTime"):  # a reporter that keeps a series says who it is and what it did
        for field in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not value.get(field):
                yield required(field)
