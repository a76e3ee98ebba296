"""
Existing nodes in groups: nodes that no pod of the problem can tell apart.

Only taints and the labels that some pod constrains make a difference, so a cluster of thousands of nodes
has a handful of groups, and each pod class is compared with each group once. Free room is per node and is
in ``pack.scheduler``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.model.taints import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from karpenter.api.node import Taint
    from karpenter.core.scheduling.encode.preferences import CompiledRelaxation, PodData
    from karpenter.core.scheduling.problem import ExistingNode


class NodeGroup:
    """The labels and taints that all nodes of one group have."""

    __slots__ = ("labels", "number", "requirements", "taints")

    def __init__(self, number: int, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> None:
        self.number = number
        self.labels = labels
        self.taints = taints
        self.requirements = Requirements.from_labels(labels)

    def suits(self, pod_data: PodData) -> bool:
        """Return whether labels, taints and volumes let the pods run here; room and topology aside."""
        known = pod_data.compiled.node_groups
        if self.number not in known:
            known[self.number] = self._suits(pod_data)
        return known[self.number]

    def _suits(self, pod_data: PodData) -> bool:
        if pod_data.relaxation.impossible:
            return False
        if not tolerates(pod_data.tolerations, self.taints):
            return False
        if not self.requirements.accepts(pod_data.requirements):
            return False
        return not pod_data.volumes or any(self.requirements.accepts(each) for each in pod_data.volumes)

    def permits(self, pod_data: PodData) -> bool:
        """Return whether spread and affinity let another pod into the domains of this group now."""
        for demand in pod_data.demands.domains:
            group = demand.group
            domain = self.labels.get(group.key)
            if domain is None:
                return False
            strict = pod_data.strict[group.key]
            allowed = group.allowed_domains(strict, self_selecting=demand.self_selecting)
            if allowed is not None and domain not in allowed:
                return False
        return True


class NodeGroups:
    """The groups of a problem's nodes; ``of[node]`` is the number of the node's group."""

    def __init__(self, nodes: Sequence[ExistingNode], keys: AbstractSet[str]) -> None:
        known: dict[object, NodeGroup] = {}
        numbers = np.zeros(len(nodes), np.int64)
        for position, node in enumerate(nodes):
            labels = {key: node.labels[key] for key in keys if key in node.labels}
            identity = (frozenset(labels.items()), node.taints)
            if identity not in known:
                known[identity] = NodeGroup(len(known), labels, node.taints)
            numbers[position] = known[identity].number
        self.all = list(known.values())
        self.of = numbers


def relevant_label_keys(relaxations: Iterable[CompiledRelaxation]) -> frozenset[str]:
    """Return every label key that decides anything under these relaxations."""
    keys: set[str] = set()
    for compiled in relaxations:
        keys |= compiled.relaxation.requirements.keys()
        keys |= compiled.relaxation.strict.keys()
        for each in compiled.volumes:
            keys |= each.keys()
        keys.update(demand.group.key for demand in compiled.demands.domains)
    return frozenset(keys)
