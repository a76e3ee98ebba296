"""
A problem encoded for packing: pods as classes, resources as an axis, pools as templates.

Encoding is done once per problem; each :class:`~karpenter.core.scheduling.pack.scheduler.Scheduler` starts
from it with fresh counts. Every index that packing uses (class, template, resource) is assigned here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karpenter.api.labels import PREFER_NO_SCHEDULE
from karpenter.core.model.resources import CPU, MEMORY, PODS
from karpenter.core.scheduling.dynamicresources.allocator import DeviceInventory
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template, daemon_pod
from karpenter.core.scheduling.encode.pod_classes import classify
from karpenter.core.scheduling.encode.preferences import compile_pod_data
from karpenter.core.scheduling.pack.topology import Topology

if TYPE_CHECKING:
    from karpenter.core.scheduling.encode.preferences import PodData
    from karpenter.core.scheduling.price.bound import DualValues
    from karpenter.core.scheduling.price.market import Item
    from karpenter.core.scheduling.problem import Problem


class EncodedProblem:
    """A problem and everything about it that packing never changes."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.well_known = problem.rules.well_known
        avoidance = any(t.effect == PREFER_NO_SCHEDULE for pool in problem.pools for t in pool.taints)
        self.classes = classify(problem, avoidance=avoidance)
        daemons = [daemon_pod(pod) for pod in problem.daemons]
        names = {CPU, MEMORY, PODS}
        names.update(*(each.requests for each in self.classes), *(daemon.requests for daemon in daemons))
        self.axis = tuple(sorted(names))
        for each in self.classes:
            each.want = tuple(each.requests.get(name, 0) for name in self.axis)
            each.vector = np.array(each.want, np.int64)
        self.templates = [
            Template(number, pool, daemons, self.axis, self.well_known)
            for number, pool in enumerate(problem.pools)
        ]
        self.proved: dict[frozenset[tuple[Item, int]], DualValues] = {}
        """Bounds that were worked out while packing, for the bound of the plan."""

        devices = problem.devices
        self.devices = DeviceInventory(devices, problem.pods, self.templates) if devices is not None else None

    def fresh_topology(self) -> Topology:
        """Return the topology counts before anything is placed."""
        return Topology(self.problem, self.templates)

    def pod_data(self, topology: Topology) -> dict[int, list[PodData]]:
        """Return every class under each of its relaxations, over fresh counts, by class number."""
        return compile_pod_data(self.classes, topology)
