"""
NodeClaim templates: what every new claim of a NodePool starts from.

A template joins the requirements of a NodePool with its catalog and subtracts what the daemons of each
instance type will use. Daemons differ by type (one may only run on nodes with a GPU), so their overhead is
worked out type by type, once per problem. Its offerings are in :mod:`.offerings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import INITIALIZED, PREFER_NO_SCHEDULE, REGISTERED
from karpenter.api.pod import Pod, Toleration
from karpenter.core.model.hostportusage import HostPort, HostPortUsage, host_ports
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import add, pod_requests
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.encode.offerings import Bits, PoolOfferingTable
from karpenter.core.scheduling.encode.preferences import node_terms

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Pool


# Daemons may select nodes by these labels, which every node has once it is initialized.
_READY: Final = Requirements.of(
    [requirement(REGISTERED, "In", ["true"]), requirement(INITIALIZED, "In", ["true"])]
)
_TOLERATE_PREFER_NO_SCHEDULE: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class Template:
    """A NodePool with its offerings as arrays and the overhead of daemons per instance type."""

    def __init__(
        self,
        number: int,
        pool: Pool,
        daemons: Sequence[DaemonPod],
        axis: Sequence[str],
        well_known: AbstractSet[str],
    ) -> None:
        self.number = number
        self.pool = pool
        self.table = PoolOfferingTable(pool.types, axis, frozenset(well_known - pool.requirements.keys()))
        self.overhead: list[dict[str, int]] = [{} for _ in pool.types]
        self.ports: list[tuple[HostPort, ...]] = [()] * len(pool.types)
        for daemon in daemons:
            self._add_daemon(daemon, well_known)
        self.table.reserve(self.overhead)
        self.bits: Bits = self.table.keep(self.table.everything, pool.requirements)
        self.min_values = {r.key: r.min_values for r in pool.requirements if r.min_values}
        self.reserves = bool(self.table.reserved)
        self.has_daemon_ports = any(self.ports)
        self.taken_ports = list(map(HostPortUsage, self.ports))
        """The host ports that daemons take on each type."""

        self._domains: dict[str, frozenset[str]] = {}

    def domains(self, key: str) -> frozenset[str]:
        """Return the values of `key` that nodes of this NodePool can have."""
        if key not in self._domains:
            held = self.pool.requirements[key]
            found = {v for v in self.table.values(key, self.bits) if held.allows(v)}
            if not held.complement and not self.table.names(key):
                found |= held.values
            self._domains[key] = frozenset(found)
        return self._domains[key]

    def _add_daemon(self, daemon: DaemonPod, well_known: AbstractSet[str]) -> None:
        """Add a daemon to the instance types on which it will run."""
        # Startup taints do not count: they are gone before daemons have to run
        # (https://karpenter.sh/docs/concepts/nodepools/).
        if not tolerates(daemon.tolerations, self.pool.taints):
            return
        known = self.pool.requirements.intersect(_READY)
        wanted = np.zeros(len(self.pool.types), bool)
        for each in daemon.alternatives:
            if known.accepts(each, well_known):
                bits = self.table.keep(self.table.everything, each)
                wanted[self.table.types_of(bits)] = True
        for position in np.flatnonzero(wanted):
            self.overhead[position] = add(self.overhead[position], daemon.requests)
            self.ports[position] += daemon.ports


class DaemonPod(msgspec.Struct, frozen=True):
    """Where a daemon pod runs, and what it requests."""

    alternatives: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    requests: Mapping[str, int]
    ports: tuple[HostPort, ...]


def daemon_pod(pod: Pod) -> DaemonPod:
    """Return where a daemon pod runs, and what it requests."""
    selector = Requirements.from_labels(pod.spec.node_selector)
    terms = [Requirements.from_entries(t.match_expressions) for t in node_terms(pod.spec)]
    return DaemonPod(
        tuple(selector.intersect(term) for term in terms) or (selector,),
        # PreferNoSchedule never keeps a daemon off a node: kube-scheduler has only this node to choose.
        (*pod.spec.tolerations, _TOLERATE_PREFER_NO_SCHEDULE),
        pod_requests(pod),
        host_ports(pod),
    )
