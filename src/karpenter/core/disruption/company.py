"""
Which running pods matter to a pod that looks for a place.

Spread and affinity count pods by their labels, and a pod may refuse the company of others. A
question about a few pods needs only the running pods that they could meet in this way; the
rest of a large cluster is left out of it. What comes out may hold too many pods, never too few.

Refuses to know nodes, and whether a pod really matters in the end: the solver counts exactly.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from karpenter.core.scheduling.problem import Located
from karpenter.core.scheduling.relax import required_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from karpenter.api.meta import LabelSelector
    from karpenter.api.placement import TopologySpreadConstraint
    from karpenter.api.pod import Pod, PodSpec

Pair = tuple[str, str]
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class Company:
    """The running pods of a cluster, found by their labels and by whom they refuse."""

    def __init__(
        self, running: Sequence[Located], spreads: Mapping[str, tuple[TopologySpreadConstraint, ...]]
    ) -> None:
        """`spreads` are constraints, by pod key, that pods follow which state none themselves."""
        self.running = running
        self._spreads = spreads
        self._labelled: dict[Pair, list[int]] = {}
        self._refusing: dict[Pair, list[int]] = {}
        self._refusing_any: list[int] = []
        for number, each in enumerate(running):
            for pair in each.pod.metadata.labels.items():
                self._labelled.setdefault(pair, []).append(number)
            if each.pod.spec.affinity is not None:
                self._note_refusals(number, each.pod.spec)

    def of(
        self, pods: Iterable[Pod], *, but: frozenset[str], moved: Mapping[str, str] = _NOBODY
    ) -> tuple[Located, ...]:
        """
        Return the running pods that may matter to `pods`, in their order, `but` some keys.

        Pods that have `moved` since, by key, are found where they went.
        """
        found = set(self._refusing_any)
        for pod in pods:
            for pair in pod.metadata.labels.items():
                found.update(self._refusing.get(pair, ()))
            for selector in self._selectors(pod):
                sure = _pair(selector)
                if sure is None:
                    return _at_home(self.running, but, moved)
                found.update(self._labelled.get(sure, ()))
        return _at_home((self.running[number] for number in sorted(found)), but, moved)

    def _note_refusals(self, number: int, spec: PodSpec) -> None:
        for term in required_apart(spec):
            pair = _pair(term.label_selector)
            if pair is None:
                self._refusing_any.append(number)
            else:
                self._refusing.setdefault(pair, []).append(number)

    def _selectors(self, pod: Pod) -> Iterator[LabelSelector]:
        """Yield everything by which a pod picks others, wishes included."""
        spreads = pod.spec.topology_spread_constraints or self._spreads.get(pod.key, ())
        found = [spread.label_selector for spread in spreads]
        affinity = pod.spec.affinity
        for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
            if side is not None:
                required = side.required_during_scheduling_ignored_during_execution
                found += [term.label_selector for term in required]
                wished = side.preferred_during_scheduling_ignored_during_execution
                found += [each.pod_affinity_term.label_selector for each in wished]
        yield from (selector for selector in found if selector is not None)


def _at_home(
    running: Iterable[Located], but: frozenset[str], moved: Mapping[str, str]
) -> tuple[Located, ...]:
    found = (each for each in running if each.pod.key not in but)
    return tuple(Located(each.pod, moved[each.pod.key]) if each.pod.key in moved else each for each in found)


def _pair(selector: LabelSelector | None) -> Pair | None:
    """Return a label that everyone picked must have; None when no label is that certain."""
    return next(iter(selector.match_labels.items()), None) if selector is not None else None
