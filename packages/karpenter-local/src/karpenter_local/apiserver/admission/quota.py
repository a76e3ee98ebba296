"""
The ResourceQuota plugin: how much a namespace uses, and whether one more object is within its quotas.

What is used is counted from the objects themselves, so it is never out of date; the status of a quota is
written whenever that changes. Pods count until they have ended. A quota with scopes is about pods alone.
See https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.base.quantity import Quantity, parse_quantity
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.qos import add, qos_class, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource
    from karpenter_local.apiserver.store import ObjectStore

    Usage = dict[str, Quantity]

TABLE = "resourcequotas"
_ONE = parse_quantity("1")
_NONE = parse_quantity("0")
# https://kubernetes.io/docs/concepts/policy/resource-quotas/#object-count-quota
_CORE = frozenset(
    "configmaps persistentvolumeclaims pods replicationcontrollers resourcequotas secrets services".split()  # noqa: SIM905  words read best as words
)
"""What may be counted by its bare name."""
_PLAIN = ("cpu", "memory", "ephemeral-storage")
"""Requests that may be named without saying that they are requests."""
# Where a quota limits compute, pods without such a request are refused:
# https://kubernetes.io/docs/concepts/policy/resource-quotas/#compute-resource-quota
_REQUIRED = frozenset(
    "cpu memory requests.cpu requests.memory limits.cpu limits.memory".split()  # noqa: SIM905  likewise
)
"""What every container must state where it is limited."""
_CLASS = ".storageclass.storage.k8s.io/"


class ResourceQuotas:
    """The quotas of a cluster."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._quotas = store.table(TABLE)
        self._known: dict[tuple[str, str], tuple[int, Usage, Object]] = {}

    def __bool__(self) -> bool:
        return bool(self._quotas.entries)

    def admit(self, resource: APIResource, value: Object) -> None:
        """
        Refuse a new object that would exceed a quota of its namespace.

        Raises:
            APIStatusError: it would.
        """
        meta = value["metadata"]
        namespace = meta["namespace"]
        asked = usage_of(resource.table, value)
        for quota in self._of(namespace):
            if not _in_scope(quota, resource.table, value):
                continue
            hard = _hard(quota)
            name = quota["metadata"]["name"]
            missing = _missing(resource.table, value, hard)
            if missing:
                raise errors.forbidden(resource, meta.get("name", ""), f"failed quota: {name}: {missing}")
            wanted = {key: amount for key, amount in asked.items() if key in hard and amount}
            used = self.used(quota, namespace) if wanted else {}
            beyond = sorted(key for key in wanted if used[key] + wanted[key] > hard[key])
            if beyond:
                requested, before, limited = (
                    ",".join(f"{key}={part[key]}" for key in beyond) for part in (wanted, used, hard)
                )
                why = f"exceeded quota: {name}, requested: {requested}, used: {before}, limited: {limited}"
                raise errors.forbidden(resource, meta.get("name", ""), why)

    def outdated(self, namespace: str) -> Iterator[tuple[str, Object]]:
        """Yield the quotas of a namespace whose status is not what it should be, and what that is."""
        for quota in self._of(namespace):
            hard = (quota.get("spec") or {}).get("hard") or {}
            used = {key: str(amount) for key, amount in self.used(quota, namespace).items()}
            status = {"hard": hard, "used": used} if hard else {}
            if (quota.get("status") or {}) != status:
                yield quota["metadata"]["name"], status

    def forget(self, table: str, key: str) -> None:
        self._known.pop((table, key), None)

    def used(self, quota: Object, namespace: str) -> Usage:
        hard = _hard(quota)
        found = dict.fromkeys(hard, _NONE)
        for table in {table for key in hard for table in _tables(key)}:
            for usage, value in self._objects(table, namespace):
                if _in_scope(quota, table, value):
                    charged = {key: amount for key, amount in usage.items() if key in hard}
                    found = {key: _sum(found[key], charged.get(key)) for key in found}
        return found

    def _of(self, namespace: str) -> Iterator[Object]:
        for key in self._quotas.between(namespace):
            yield self._quotas.entries[key].object()

    def _objects(self, table: str, namespace: str) -> Iterator[tuple[Usage, Object]]:
        rows = self._store.table(table)
        for key in rows.between(namespace):
            entry = rows.entries[key]
            known = self._known.get((table, key))
            if known is None or known[0] != entry.revision:
                value = entry.object()
                known = self._known[table, key] = (entry.revision, usage_of(table, value), value)
            yield known[1], known[2]


def _sum(one: Quantity, other: Quantity | None) -> Quantity:
    if other is None:
        return one
    return one + other if one else other  # a sum is written as its first part is


def _hard(quota: Object) -> Usage:
    given: Mapping[str, str] = (quota.get("spec") or {}).get("hard") or {}
    return {key: parse_quantity(amount) for key, amount in given.items()}


def _tables(key: str) -> tuple[str, ...]:
    if key.startswith("count/"):
        return (key.removeprefix("count/"),)
    if key in _CORE:
        return (key,)
    if key.startswith("services."):
        return ("services",)
    if key == "requests.storage" or _CLASS in key:
        return ("persistentvolumeclaims",)
    return ("pods",)


def usage_of(table: str, value: Object) -> Usage:
    """Return everything that a quota could charge an object for."""
    found = {f"count/{table}": _ONE}
    if table in _CORE and table != "pods":
        found[table] = _ONE
    match table:
        case "pods" if (value.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}:
            found |= _of_pod(value["spec"])
        case "services":
            found |= _of_service(value.get("spec") or {})
        case "persistentvolumeclaims":
            found |= _of_claim(value.get("spec") or {})
    return found


def _of_pod(spec: Object) -> Usage:
    own = spec.get("resources") or {}
    overhead = {name: parse_quantity(each) for name, each in (spec.get("overhead") or {}).items()}
    found = {"pods": _ONE}
    for part in ("requests", "limits"):
        whole = {name: parse_quantity(each) for name, each in (own.get(part) or {}).items()}
        for name, amount in add({**total(spec, part), **whole}, overhead).items():
            if part == "requests" or name in _PLAIN:
                found[f"{part}.{name}"] = amount
            if part == "requests" and (name in _PLAIN or name.startswith("hugepages-")):
                found[name] = amount
    return found


def _of_service(spec: Object) -> Usage:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    count = len(ports) if kind in {"NodePort", "LoadBalancer"} else 0
    return {
        "services.nodeports": parse_quantity(str(count)),
        "services.loadbalancers": _ONE if kind == "LoadBalancer" else _NONE,
    }


def _of_claim(spec: Object) -> Usage:
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    found: Usage = {"requests.storage": parse_quantity(asked)} if asked is not None else {}
    name = spec.get("storageClassName")
    if name:
        found |= {f"{name}{_CLASS}{key}": amount for key, amount in found.items()}
        found[f"{name}{_CLASS}persistentvolumeclaims"] = _ONE
    return found


def _missing(table: str, value: Object, hard: Usage) -> str:
    """Return what the containers of a pod do not state and must, because it is limited."""
    if table != "pods" or value["spec"].get("resources"):
        return ""
    lacking: dict[str, list[str]] = {}
    for container in (*(value["spec"].get("containers") or ()), *(value["spec"].get("initContainers") or ())):
        given = container.get("resources") or {}
        stated = {f"requests.{name}" for name in given.get("requests") or ()}
        stated |= set(given.get("requests") or ()) | {f"limits.{name}" for name in given.get("limits") or ()}
        for key in (hard.keys() & _REQUIRED) - stated:
            lacking.setdefault(key, []).append(container["name"])
    words = "; ".join(f"{key} for: {','.join(sorted(lacking[key]))}" for key in sorted(lacking))
    return f"must specify {words}" if words else ""


def _in_scope(quota: Object, table: str, value: Object) -> bool:
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return not scopes or (table == "pods" and all(_matches(each, value["spec"]) for each in scopes))


def _matches(scope: Object, spec: Object) -> bool:
    ends = (spec.get("activeDeadlineSeconds") or 0) > 0
    best_effort = qos_class(spec) == "BestEffort"
    match scope["scopeName"]:
        case "Terminating":
            return ends
        case "NotTerminating":
            return not ends
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "PriorityClass":
            name, values = spec.get("priorityClassName") or "", scope.get("values") or ()
            held = {"Exists": bool(name), "DoesNotExist": not name, "In": name in values}
            return held.get(scope.get("operator", "Exists"), name not in values)
        case _:
            return False
