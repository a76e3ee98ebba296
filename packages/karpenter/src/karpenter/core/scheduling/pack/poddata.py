"""
Pod classes under each relaxation of their preferences, with the topology groups that limit them.

A relaxation is compiled once per set of pod constraints, before anything is placed; :class:`PodData` joins
it with the requests of one pod class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.pack.topologygroup import TopologyGroup, TopologyType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karpenter.api.pod import Toleration
    from karpenter.core.model.requirements import Requirements
    from karpenter.core.scheduling.encode.encode import PodClass, PodConstraints
    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
    from karpenter.core.scheduling.encode.preferences import Relaxation
    from karpenter.core.scheduling.pack.topology import Topology, TopologyDemand, TopologyDemands


_NO_LIMIT: Final = int(np.iinfo(np.int32).max)


def compile_pod_data(classes: Sequence[PodClass], topology: Topology) -> dict[int, list[PodData]]:
    """Return every class under each of its relaxations, most demanding first, by class number."""
    different = {each.constraints.number: each.constraints for each in classes}
    topology.prepare(different.values())
    compiled = {
        number: [
            CompiledRelaxation(constraints, relaxation, topology.demands(constraints, position))
            for position, relaxation in enumerate(constraints.relaxations)
        ]
        for number, constraints in different.items()
    }
    return {
        each.number: [PodData(each, found) for found in compiled[each.constraints.number]] for each in classes
    }


class PodData:
    """A pod class under one relaxation: what the scheduler asks of a bin for one of its pods."""

    __slots__ = ("compiled", "demands", "pod_class", "relaxation", "volumes")

    def __init__(self, pod_class: PodClass, compiled: CompiledRelaxation) -> None:
        self.pod_class = pod_class
        self.compiled = compiled
        self.relaxation = compiled.relaxation
        self.demands = compiled.demands
        self.volumes = compiled.volumes

    @property
    def requirements(self) -> Requirements:
        """The labels that the node must have."""
        return self.relaxation.requirements

    @property
    def strict(self) -> Requirements:
        """The labels that the node must have, preferences aside."""
        return self.relaxation.strict

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.relaxation.tolerations

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        return self.compiled.tolerates(template)

    def host_cap(self, number: int) -> int:
        """Return how many pods of the class one bin may still take, by the pods that it has."""
        # Two pods of one class would bind the same host port:
        # https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
        cap = 1 if self.pod_class.ports else _NO_LIMIT
        for demand in self.demands.hosts:
            cap = min(cap, host_limit(demand, number))
        return cap

    def host_caps(self, first: int, last: int) -> NDArray[np.int64] | None:
        """Return the caps of a range of bins; None when there are none."""
        caps: NDArray[np.int64] | None = np.ones(last - first, np.int64) if self.pod_class.ports else None
        for demand in self.demands.hosts:
            group = demand.group
            counts = group.hosts.of(first, last).astype(np.int64)
            found = _host_limits(group, counts, self_selecting=demand.self_selecting)
            caps = found if caps is None else np.minimum(caps, found)
        return caps

    def is_closed(self, number: int) -> bool:
        """Return whether a bin can never again take a pod of the class, by the pods that it has."""
        return self.compiled.shrinks and self.host_cap(number) < 1


class CompiledRelaxation:
    """One relaxation of some pod constraints with the topology groups that it names; requests aside."""

    __slots__ = ("_tolerated", "demands", "node_groups", "relaxation", "shrinks", "volumes")

    def __init__(self, constraints: PodConstraints, relaxation: Relaxation, demands: TopologyDemands) -> None:
        self.relaxation = relaxation
        self.demands = demands
        self.volumes = constraints.volumes
        self.node_groups: dict[int, bool] = {}
        """Which groups of existing nodes match, as far as that never changes."""

        self.shrinks = not any(d.group.kind is TopologyType.POD_AFFINITY for d in demands.hosts)
        """Whether a bin that refuses the pods for its counts refuses them for the rest of the run."""

        self._tolerated: dict[int, bool] = {}

    def tolerates(self, template: Template) -> bool:
        """Return whether the pods may run on nodes of a template."""
        found = self._tolerated.get(template.number)
        if found is None:
            found = tolerates(self.relaxation.tolerations, template.pool.taints)
            self._tolerated[template.number] = found
        return found

    def counts_version(self) -> int:
        """Return a number that changes whenever a count that limits the pods does."""
        version = 0
        for demand in self.demands.domains:
            version += demand.group.version
        return version


def host_limit(demand: TopologyDemand, number: int) -> int:
    """Return how many more pods with a demand over kubernetes.io/hostname one bin may take."""
    # A new node has no pods, so the global minimum over hostnames is always 0 and the skew alone is the
    # limit.
    group, count = demand.group, demand.group.hosts[number]
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - count
            return max(left, 0) if demand.self_selecting else (_NO_LIMIT if left >= 0 else 0)
        case TopologyType.POD_AFFINITY:
            return _NO_LIMIT if count or (demand.self_selecting and not group.hosts) else 0
        case _:
            if count:
                return 0
            return 1 if demand.self_selecting else _NO_LIMIT


def _host_limits(
    group: TopologyGroup, counts: NDArray[np.int64], *, self_selecting: bool
) -> NDArray[np.int64]:
    """Return the same as :func:`host_limit` for the bins with these `counts`."""
    match group.kind:
        case TopologyType.SPREAD:
            left = group.spec.max_skew - counts
            return np.maximum(left, 0) if self_selecting else np.where(left >= 0, _NO_LIMIT, 0)
        case TopologyType.POD_AFFINITY:
            first = self_selecting and not group.hosts
            return np.where((counts > 0) | first, _NO_LIMIT, 0)
        case _:
            return np.where(counts > 0, 0, 1 if self_selecting else _NO_LIMIT)
