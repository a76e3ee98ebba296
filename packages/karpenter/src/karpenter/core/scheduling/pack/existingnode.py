"""
Existing nodes in groups: nodes that no pod of the problem can tell apart.

Only taints and the labels that some pod constrains make a difference, so a cluster of thousands of nodes
has a handful of groups, and each pod class is compared with each group once. Free room is per node, and
decides the order in which nodes are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import CPU, MEMORY
from karpenter.core.model.taints import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from karpenter.api.node import Taint
    from karpenter.core.scheduling.encode.offerings import Amounts
    from karpenter.core.scheduling.pack.poddata import CompiledRelaxation, PodData
    from karpenter.core.scheduling.problem import ExistingNode

_NUMBER_BITS: Final = 22
_NUMBER: Final = (1 << _NUMBER_BITS) - 1
"""The bits of a key that hold the number of a node; those above hold how full the node is."""

_FULLNESS: Final = 2.0**40
_RATIO_STEPS: Final = 2
"""The steps in which a better or worse ratio is told apart, so that fullness decides among similar nodes."""


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
            labels = {key: value for key, value in node.labels.items() if key in keys}
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
        keys.update(compiled.relaxation.requirements.keys())  # |= with a view would copy the set each time
        keys.update(compiled.relaxation.strict.keys())
        for each in compiled.volumes:
            keys.update(each.keys())
        keys.update(demand.group.key for demand in compiled.demands.domains)
    return frozenset(keys)


class Nodes:
    """The free room of existing nodes."""

    def __init__(self, free: Amounts) -> None:
        self.free = np.ascontiguousarray(free.T)
        """``free[resource, node]``."""

        self.count: int = free.shape[0]
        self.changed: list[int] = []
        """Nodes that have taken pods since their order was last put right."""

    def with_room(self, want: Sequence[int]) -> NDArray[np.bool_]:
        """Return which nodes have room for one more pod; an overdrawn node has none."""
        room = np.ones(self.count, bool)
        for row, amount in zip(self.free, want, strict=True):
            room &= row >= max(amount, 0)
        return room

    def fits(self, node: int, want: Sequence[int]) -> bool:
        """Return whether one node has room for one more pod."""
        column = self.free[:, node].tolist()
        return all(left >= max(amount, 0) for left, amount in zip(column, want, strict=True))

    def room_for(self, nodes: NDArray[np.int64], want: Sequence[int]) -> NDArray[np.int64]:
        """Return how many pods like this each of `nodes` has room for."""
        count = np.full(len(nodes), np.iinfo(np.int32).max, np.int64)
        for row, amount in zip(self.free, want, strict=True):
            left = row[nodes]
            if amount > 0:
                np.minimum(count, left // amount, out=count)
            count[left < 0] = 0
        return np.maximum(count, 0)

    def take(self, node: int, want: NDArray[np.int64], count: int = 1) -> None:
        """Put `count` pods on a node."""
        self.free[:, node] -= want * count
        self.changed.append(node)


class ResourceRatio:
    """
    Orders existing nodes for a pod by the ratio of memory to cpu.

    A node whose memory is used up while half of its cpu is free is paid for and takes no more pods. So pods
    that request more memory per cpu than usual go to nodes with more free memory per cpu than usual, and
    the other way round; among similar nodes to the fullest, since emptier ones may be consolidated.
    """

    def __init__(self, axis: Sequence[str], nodes: Nodes, usual: float) -> None:
        """`usual` is the usual memory per cpu of pods."""
        self._nodes = nodes
        self._rows = [axis.index(CPU), axis.index(MEMORY)]
        self._most = nodes.free[self._rows].T.max(axis=0, initial=1)[:, None]
        self._usual = usual
        self._surplus, self._keys = self._looked_at(np.arange(nodes.count))
        self._order = np.sort(self._keys)
        nodes.changed.clear()

    def ordered(self, fine: NDArray[np.bool_], want: Sequence[int]) -> NDArray[np.int64]:
        """Return the nodes that are `fine`, the best for a pod first; of equals, in their order."""
        if self._nodes.changed:
            self._put_right()
        fullest = self._order & _NUMBER
        surplus = self._surplus[nodes := fullest[fine[fullest]]]
        wanted = self._usual * want[self._rows[0]] - want[self._rows[1]]
        worse = (np.abs(surplus - wanted) - np.abs(surplus)) / (abs(wanted) or 1.0)
        # There are five steps, from -2 to 2: small numbers, which are sorted by counting them.
        steps = np.round(worse * _RATIO_STEPS).astype(np.int8)
        found: NDArray[np.int64] = nodes[np.argsort(steps, kind="stable")]
        return found

    def _put_right(self) -> None:
        """Move the nodes that have taken pods since to where they belong."""
        changed = np.unique(self._nodes.changed)
        self._nodes.changed.clear()
        kept = np.delete(self._order, np.searchsorted(self._order, self._keys[changed]))
        self._surplus[changed], self._keys[changed] = self._looked_at(changed)
        late = np.sort(self._keys[changed])
        self._order = np.insert(kept, np.searchsorted(kept, late), late)

    def _looked_at(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return how much cpu nodes have beside their memory, and their keys: fullness, then number."""
        room = self._nodes.free[self._rows][:, nodes]
        fullness = np.floor((room / self._most).max(axis=0, initial=-1.0) * _FULLNESS).astype(np.int64)
        return self._usual * room[0] - room[1], (fullness << _NUMBER_BITS) + nodes
