"""
Host port usage: the host ports that pods occupy on a node, and which two pods cannot share a node.

Two pods conflict when they use the same port and protocol on the same address, or when either uses it on
every address. Only ordinary containers count; an init container closes its ports before they run.

Which pods share a node is for the caller to say.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.pod import Pod

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  the address of a claim, nothing listens here
"""Stands for every address of the node, IPv4 and IPv6."""

# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports
_DEFAULT_PROTOCOL: Final = "TCP"


class HostPort(msgspec.Struct, frozen=True, order=True):
    """A port of the node, and the address on it."""

    port: int
    protocol: str = _DEFAULT_PROTOCOL
    address: str = ANY_ADDRESS

    def conflicts_with(self, other: HostPort) -> bool:
        """Say whether two pods cannot have these ports on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        # An empty hostIP or 0.0.0.0 binds every address, as kube-scheduler's NodePorts plugin counts it.
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}/{self.protocol}"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports that `pod` occupies, sorted, each once."""
    claimed = set()
    for container in pod.spec.containers:
        for port in container.ports:
            # With hostNetwork the API server sets hostPort to containerPort; manifests on disk may lack it:
            # https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                claimed.add(
                    HostPort(number, port.protocol or _DEFAULT_PROTOCOL, canonical_address(port.host_ip))
                )
    return tuple(sorted(claimed))


def first_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> tuple[HostPort, HostPort] | None:
    """Return the first wanted port that conflicts, with the taken one that it conflicts with."""
    occupied = tuple(taken)
    for want in wanted:
        for has in occupied:
            if want.conflicts_with(has):
                return want, has
    return None


class HostPortUsage:
    """The host ports that are taken on one node, for any number of questions."""

    __slots__ = ("_ports", "_taken")

    def __init__(self, taken: Iterable[HostPort] = ()) -> None:
        self._ports: set[tuple[int, str]] = set()
        self._taken: set[tuple[int, str, str]] = set()
        self.add(taken)

    def add(self, taken: Iterable[HostPort]) -> None:
        for each in taken:
            self._ports.add((each.port, each.protocol))
            self._taken.add((each.port, each.protocol, each.address))

    def conflicts_with(self, wanted: Iterable[HostPort]) -> bool:
        """Return whether :func:`first_conflict` of `wanted` and the taken ports finds one."""
        taken = self._taken
        return any(
            (each.port, each.protocol) in self._ports
            and (
                each.address == ANY_ADDRESS
                or (each.port, each.protocol, each.address) in taken
                or (each.port, each.protocol, ANY_ADDRESS) in taken
            )
            for each in wanted
        )


@lru_cache(maxsize=1024)
def canonical_address(text: str) -> str:
    """Return one spelling for each address; none, or an unspecified one, means every address."""
    try:
        address = ipaddress.ip_address(text or ANY_ADDRESS)
    except ValueError:
        return text  # not an address: it equals only itself
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return ANY_ADDRESS if address.is_unspecified else str(address)
