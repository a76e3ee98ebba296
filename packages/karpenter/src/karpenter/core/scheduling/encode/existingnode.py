"""
Existing nodes sorted into kinds: nodes that no pod of the run can tell apart.

Only labels that some pod asks about, and taints, make a difference, so a cluster of
thousands of nodes has a handful of kinds, and each is compared with each wish once.
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
    """What all nodes of one kind have in common."""

    __slots__ = ("labels", "number", "requirements", "taints")

    def __init__(self, number: int, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> None:
        self.number = number
        self.labels = labels
        self.taints = taints
        self.requirements = Requirements.from_labels(labels)

    def suits(self, wish: PodData) -> bool:
        """Return whether a wish can ever be met here, room and company aside."""
        known = wish.reading.kinds
        if self.number not in known:
            known[self.number] = self._suits(wish)
        return known[self.number]

    def _suits(self, wish: PodData) -> bool:
        if wish.rung.impossible:
            return False
        if not tolerates(wish.tolerations, self.taints) or not self.requirements.accepts(wish.requirements):
            return False
        return not wish.volumes or any(self.requirements.accepts(each) for each in wish.volumes)

    def permits(self, wish: PodData) -> bool:
        """Return whether spread and affinity let another pod into this kind's domains now."""
        for asked in wish.demands.domains:
            domain = self.labels.get(asked.group.key)
            if domain is None:
                return False
            allowed = asked.group.permitted(wish.strict[asked.group.key], counts_itself=asked.counts_itself)
            if allowed is not None and domain not in allowed:
                return False
        return True


class NodeGroups:
    """The kinds of a problem's nodes, and which node is of which."""

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


def relevant_label_keys(readings: Iterable[CompiledRelaxation]) -> frozenset[str]:
    """Return every label key that decides anything for these readings."""
    keys: set[str] = set()
    for reading in readings:
        keys |= reading.rung.requirements.keys()
        keys |= reading.rung.strict.keys()
        for each in reading.volumes:
            keys |= each.keys()
        keys.update(asked.group.key for asked in reading.demands.domains)
    return frozenset(keys)
