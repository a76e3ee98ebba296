"""Services: each gets an address, though nothing is ever sent there."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

_FIRST_CLUSTER_IP = IPv4Address("10.96.0.10")
# The default range begins here: https://kubernetes.io/docs/concepts/services-networking/service/
_FIRST_NODE_PORT = 30000


class ServiceStrategy(Strategy):
    """Rules for writing services."""

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Hand out addresses and node ports, and keep those that were handed out."""
        _ = resource
        spec = value["spec"]
        if old is not None:
            before = old["spec"]
            for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not spec.get(key) and before.get(key):
                    spec[key] = before[key]
            ports = {(port["port"], port["protocol"]): port for port in before.get("ports") or ()}
            for port in spec.get("ports") or ():
                was = ports.get((port["port"], port["protocol"]))
                if was is not None and was.get("nodePort") and spec["type"] != "ClusterIP":
                    port.setdefault("nodePort", was["nodePort"])
        if spec["type"] == "ExternalName":
            return
        taken = _taken(backend)
        if not spec.get("clusterIP"):
            spec["clusterIP"] = str(
                next(_FIRST_CLUSTER_IP + n for n in range(1 << 16) if str(_FIRST_CLUSTER_IP + n) not in taken)
            )
        if spec["clusterIP"] != "None" or spec.get("selector"):
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["type"] in {"NodePort", "LoadBalancer"}:
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    free = next(n for n in range(_FIRST_NODE_PORT, 32768) if n not in taken)
                    port["nodePort"] = free
                    taken.add(free)


def _taken(backend: Backend) -> set[str | int]:
    taken: set[str | int] = set()
    for entry in backend.store.table("services").entries.values():
        spec = entry.object()["spec"]
        taken.add(spec.get("clusterIP", ""))
        taken |= {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    return taken
