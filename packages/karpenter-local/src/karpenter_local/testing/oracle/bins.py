"""
What a pod can be put on: a node that is there, or a claim of this run.

A claim carries the list of instance types that it could still become. Both kinds of bin
say in which domains of a label their pods are, or could still be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import HOSTNAME, INITIALIZED, PREFER_NO_SCHEDULE, REGISTERED, RESERVED
from karpenter.api.pod import Pod, Toleration
from karpenter.core.model.hostportusage import HostPort, host_ports
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, merge, pod_requests, subtract
from karpenter.core.model.taints import tolerates
from karpenter_local.testing.oracle.preferences import alternatives

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.api.node import Taint
    from karpenter.core.model.catalog import InstanceType, Offering
    from karpenter.core.scheduling.problem import ExistingNode, Pool


class NodeBin:
    """A node that is there."""

    def __init__(self, node: ExistingNode) -> None:
        self.node = node
        self.name = node.name
        self.pods: list[Pod] = []

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.taints

    @property
    def requirements(self) -> Requirements:
        return Requirements.from_labels(self.node.labels)

    def free(self) -> dict[str, int]:
        """Return what is left of the node's room."""
        return subtract(self.node.free, merge(map(pod_requests, self.pods)))

    def ports(self) -> list[HostPort]:
        return [*self.node.ports, *(port for pod in self.pods for port in host_ports(pod))]

    def domains(self, key: str) -> frozenset[str]:
        if key == HOSTNAME:
            return frozenset({self.name})
        return frozenset({self.node.labels[key]} if key in self.node.labels else ())


class OracleClaim:
    """A machine that this run would launch."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.name = f"{pool.name} #{number}"
        self.requirements = pool.requirements
        self.types = list(pool.types)
        """What it could become, all things considered."""

        self.sold = list(pool.types)
        """What it could become if only its labels counted, and not what is on it."""

        self.min_values = {each.key: each.min_values for each in pool.requirements if each.min_values}
        self.counted_types: list[InstanceType] = []
        """What it would be bought as, the cheapest that holds its pods, and what it must be able to be."""

        self.held: frozenset[str] = frozenset()
        self.pods: list[Pod] = []

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.pool.taints

    def ports(self) -> list[HostPort]:
        return [port for pod in self.pods for port in host_ports(pod)]

    def domains(self, key: str) -> frozenset[str]:
        if key == HOSTNAME:
            return frozenset({self.name})
        return possible_values(self.pool, self.sold, self.requirements, key)


def fitting_offerings(
    kind: InstanceType, requirements: Requirements, known: AbstractSet[str]
) -> list[Offering]:
    if kind.requirements.conflict(requirements):
        return []
    return [
        each for each in kind.offerings if each.available and requirements.accepts(each.requirements, known)
    ]


def possible_values(
    pool: Pool, types: Iterable[InstanceType], requirements: Requirements, key: str
) -> frozenset[str]:
    """Return the values that `key` has in what can be bought; those required where no type knows the key."""
    if not any(_values(kind, each, key) for kind in pool.types for each in kind.available):
        return frozenset() if requirements[key].complement else requirements[key].values
    return frozenset(
        value
        for kind in types
        for offering in kind.available
        if (
            kind.requirements.conflict(requirements) is None
            and offering.requirements.conflict(requirements) is None
        )
        for value in _values(kind, offering, key)
        if requirements[key].allows(value)
    )


def is_open(pool: Pool, requirements: Requirements, key: str) -> bool:
    """Say whether `key` may have any value that it is not forbidden: it was named, and no type knows it."""
    named = any(_values(kind, each, key) for kind in pool.types for each in kind.available)
    return key in requirements and requirements[key].complement and not named


def _values(kind: InstanceType, offering: Offering, key: str) -> frozenset[str]:
    return (offering.requirements if key in offering.requirements else kind.requirements)[key].values


def daemons_on(kind: InstanceType, pool: Pool, daemons: Sequence[Pod], known: AbstractSet[str]) -> list[Pod]:
    ready = Requirements.from_labels({REGISTERED: "true", INITIALIZED: "true"})
    template = pool.requirements.intersect(ready)
    found = []
    for daemon in daemons:
        tolerations = [*daemon.spec.tolerations, Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)]
        if tolerates(tolerations, pool.taints) and any(
            template.accepts(each, known) and kind.requirements.conflict(each) is None
            for each in alternatives(daemon)
        ):
            found.append(daemon)
    return found


def has_room(kind: InstanceType, pods: Iterable[Pod], daemons: Iterable[Pod]) -> bool:
    return fits(merge(map(pod_requests, (*pods, *daemons))), kind.allocatable)


def reserved_ids(kind: InstanceType, requirements: Requirements, known: AbstractSet[str]) -> set[str]:
    """Return the reservations through which a type could be had."""
    return {
        each.reservation_id
        for each in fitting_offerings(kind, requirements, known)
        if each.capacity_type == RESERVED
    }
