"""
Topology groups: how many pods of a constraint there are in each domain of its topology key.

A spread constraint, an affinity term and an anti-affinity term count the same thing: pods that a selector
matches in some namespaces, per value of a label. Pods that state the same share a group. A group says which
domains its counts allow; which bin a pod takes is decided by the packer.

The domains of ``kubernetes.io/hostname`` are the bins themselves, counted by number.
"""

from __future__ import annotations

from array import array
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.api.labels import HOSTNAME
from karpenter.core.model.selectors import Selector
from karpenter.core.scheduling.pack.topologynodefilter import NodeFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from karpenter.core.model.requirement import Requirement


_SPARSE: Final = 48
"""Up to this many bins a dictionary is smaller and faster than an array."""


class TopologyType(Enum):
    """The kind of constraint that a group belongs to."""

    SPREAD = "topology spread"
    POD_AFFINITY = "pod affinity"
    POD_ANTI_AFFINITY = "pod anti-affinity"
    INVERSE_ANTI_AFFINITY = "anti-affinity of another pod"
    """Counts the pods that have an anti-affinity term; limits the pods that the term selects."""


class TopologyGroupKey(msgspec.Struct, frozen=True):
    """The identity of a group: equal constraints of different pods share one group."""

    kind: TopologyType
    key: str
    namespaces: frozenset[str] | None
    """None means every namespace."""

    selector: Selector
    max_skew: int = 0
    min_domains: int = 1
    filter: NodeFilter = NodeFilter()


class TopologyGroup:
    """How many pods of one constraint there are in each domain of its topology key."""

    __slots__ = ("counts", "hosts", "key", "kind", "spec", "version")

    def __init__(self, spec: TopologyGroupKey) -> None:
        self.spec = spec
        self.key = spec.key
        self.kind = spec.kind
        self.counts: dict[str, int] = {}
        """Domain to count; zero for domains that exist or could be launched but have no such pods."""

        self.hosts = HostCounts()
        self.version = 0
        """Changes whenever the domains that the counts allow may do so."""

    @property
    def by_host(self) -> bool:
        """Whether the topology key is kubernetes.io/hostname, whose domains are the bins themselves."""
        return self.key == HOSTNAME

    def selects(self, namespace: str, labels: dict[str, str]) -> bool:
        """Return whether the group selects pods of this namespace with these labels."""
        spec = self.spec
        return (spec.namespaces is None or namespace in spec.namespaces) and spec.selector.matches(labels)

    def add_domains(self, domains: Iterable[str]) -> None:
        """Register domains that pods could be in."""
        for domain in domains:
            self.counts.setdefault(domain, 0)

    def add(self, domain: str, count: int = 1) -> None:
        before = self.counts.get(domain, 0)
        self.counts[domain] = before + count
        if not before or self.kind is TopologyType.SPREAD:  # affinity asks only whether there is any pod
            self.version += 1

    def allowed_domains(self, strict: Requirement, *, self_selecting: bool) -> dict[str, int] | None:
        """
        Return the domains a pod may go to, with their counts; None asks for a first domain.

        `strict` is what the pod itself allows; `self_selecting` says that the group selects the pod.
        """
        mine = {d: c for d, c in self.counts.items() if strict.allows(d)}
        match self.kind:
            case TopologyType.SPREAD:
                return self._level(mine, self_selecting=self_selecting)
            case TopologyType.POD_AFFINITY:
                taken = {d: c for d, c in mine.items() if c}
                # The first pod of a group that selects itself may start any domain, else it could never be
                # placed:
                # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
                return None if not taken and self_selecting else taken
            case _:
                # Anti-affinity allows no pod of the group in the domain, however many may be elsewhere:
                # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
                return {d: 0 for d, c in mine.items() if not c}

    def pattern(self, domains: Sequence[str]) -> tuple[int, ...]:
        """
        Return what matters of the counts in some domains: equal patterns allow the same domains.

        For a spread it is how far each domain is above the emptiest one, up to the skew that closes it;
        for affinity and anti-affinity it is whether the domain has any pod.
        """
        counts = [self.counts[domain] for domain in domains]
        if self.kind is not TopologyType.SPREAD:
            return tuple([count > 0 for count in counts])
        least = self._least(counts)
        closed = self.spec.max_skew + 1
        return tuple([min(count - least, closed) for count in counts])

    def _least(self, counts: Collection[int]) -> int:
        """Return the pods of the emptiest domain, to which the others are compared."""
        # With fewer domains than minDomains the global minimum counts as 0:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
        return min(counts) if len(counts) >= self.spec.min_domains else 0

    def _level(self, mine: dict[str, int], *, self_selecting: bool) -> dict[str, int]:
        # maxSkew compares with the domain that has the fewest matching pods. A pod that its own selector
        # matches adds one to the domain that it goes to:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
        ceiling = self.spec.max_skew + self._least(mine.values()) - self_selecting
        return {d: c for d, c in mine.items() if c <= ceiling}


class HostCounts:
    """Pods per bin: a dictionary while few bins have any, then an array."""

    __slots__ = ("_dense", "_sparse", "elsewhere")

    def __init__(self) -> None:
        self._sparse: dict[int, int] = {}
        self._dense: array[int] | None = None
        self.elsewhere = 0
        """Pods on nodes that are not part of the run."""

    def __bool__(self) -> bool:
        return bool(self.elsewhere or self._sparse or self._dense is not None)

    def __getitem__(self, number: int) -> int:
        if self._dense is None:
            return self._sparse.get(number, 0)
        return self._dense[number] if number < len(self._dense) else 0

    def add(self, number: int, count: int = 1) -> None:
        if self._dense is None:
            self._sparse[number] = self._sparse.get(number, 0) + count
            if len(self._sparse) > _SPARSE:
                self._spread_out()
            return
        while number >= len(self._dense):
            self._dense.extend([0] * len(self._dense))
        self._dense[number] += count

    def of(self, first: int, last: int) -> NDArray[np.int32]:
        """Return the counts of the bins from `first` up to `last`."""
        found = np.zeros(last - first, np.int32)
        if self._dense is None:
            for number, count in self._sparse.items():
                if first <= number < last:
                    found[number - first] = count
            return found
        known = np.frombuffer(self._dense, np.int32)[first:last]
        found[: len(known)] = known
        return found

    def _spread_out(self) -> None:
        sparse, self._sparse = self._sparse, {}
        self._dense = array("i", [0])
        for number, count in sparse.items():
            self.add(number, count)
