"""What pods may ask of nodes and of each other, in few words."""

from typing import Any

from tests.contract.kubernetes.objects import Object

HOSTNAME = "kubernetes.io/hostname"


def require(*expressions: Object) -> Object:
    """Return a required node affinity with one term."""
    terms = [{"matchExpressions": list(expressions)}]
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    }


def expression(key: str, operator: str, *values: str) -> Object:
    found: Object = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def beside(kind: str, labels: dict[str, str], key: str = HOSTNAME) -> Object:
    """Return a required pod affinity or anti-affinity."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(labels: dict[str, str], key: str = "zone", when: str = "DoNotSchedule", **fields: Any) -> Object:
    """Return a topology spread constraint of skew one."""
    found = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [{**found, **fields}]}
