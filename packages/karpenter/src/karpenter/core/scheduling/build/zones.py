"""
Which zone waiting pods can only be in, for the metric of pending pods by zone.

Three things bind a pod to zones: what it requires, the zones that its volumes can be reached from, and a
topology spread that leaves only some zones open. What is left of all zones together is one, several, or
none. The scheduler works with the same requirements in more detail.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import ZONE
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.core.scheduling.encode.preferences import relaxations
from karpenter.core.state.pod import is_active
from karpenter.core.state.volumetopology import volume_requirements
from karpenter.core.state.volumeusage import VolumeProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.pod import Pod, TopologySpreadConstraint
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


FLEXIBLE: Final = "flexible"
NONE: Final = "none"


def pods_by_zone(pods: Iterable[Pod], view: ClusterView, catalog: Catalog) -> Mapping[str, int]:
    """Count waiting pods by the only zone that they can be in, or by whether they have a choice or none."""
    zones = _Zones(view, catalog)
    return Counter(zones.of(pod) for pod in pods)


class _Zones:
    """The zones of one cluster at one moment, and what was found out about them."""

    def __init__(self, view: ClusterView, catalog: Catalog) -> None:
        self._view = view
        types = [*catalog.types, *(each for own in catalog.by_pool.values() for each in own)]
        sold = {offering.zone for kind in types for offering in kind.offerings}
        self._zone_of = {
            name: node.metadata.labels[ZONE]
            for name, node in view.nodes.items()
            if ZONE in node.metadata.labels
        }
        self._all = frozenset(sold.union(self._zone_of.values()))
        self._known: dict[tuple[int, str, tuple[tuple[str, str], ...]], str] = {}
        self._counts: dict[tuple[str, bytes], Counter[str]] = {}

    def of(self, pod: Pod) -> str:
        """Return the zone of a pod; pods that nothing tells apart are looked at once."""
        if pod.spec.volumes:
            return self._find(pod)
        key = (id(pod.spec), pod.namespace, tuple(sorted(pod.metadata.labels.items())))
        if key not in self._known:
            self._known[key] = self._find(pod)
        return self._known[key]

    def _find(self, pod: Pod) -> str:
        try:
            left = self._required(pod)
        except RequirementError:  # it is turned away, with a sentence
            return NONE
        left = _both(left, self._reached(pod))
        for spread in pod.spec.topology_spread_constraints:
            if spread.topology_key == ZONE and spread.when_unsatisfiable == "DoNotSchedule":
                left = _both(left, self._open(pod, spread, left))
        if left is None or len(left) > 1:
            return FLEXIBLE
        return next(iter(left), NONE)

    def _required(self, pod: Pod) -> frozenset[str] | None:
        first = next(relaxations(pod.spec, (), respect=False))
        if ZONE not in first.strict:
            return None
        wanted = first.strict[ZONE]
        return frozenset(filter(wanted.allows, self._all)) if wanted.complement else wanted.values

    def _reached(self, pod: Pod) -> frozenset[str] | None:
        if not pod.spec.volumes:
            return None
        try:
            places = volume_requirements(pod, self._view)
        except VolumeProblem:  # it is turned away, with a sentence
            return None
        found: frozenset[str] = frozenset()
        for each in places:
            if ZONE not in each or each[ZONE].complement:
                return None
            found |= each[ZONE].values
        return found if places else None

    def _open(
        self, pod: Pod, spread: TopologySpreadConstraint, left: frozenset[str] | None
    ) -> frozenset[str] | None:
        """Return the zones in which one more pod is not too many."""
        try:
            selector = parse_selector(spread.label_selector)
        except SelectorError:
            return None
        counts = self._count(pod, spread)
        zones = self._all if left is None or spread.node_affinity_policy == "Ignore" else left
        too_few = spread.min_domains is not None and len(zones) < spread.min_domains
        fewest = min((counts[zone] for zone in zones if not too_few), default=0)
        # A pod that its own selector does not select adds nothing to the skew.
        more = 1 if selector.matches(pod.metadata.labels) else 0
        return frozenset(zone for zone in zones if counts[zone] + more - fewest <= spread.max_skew)

    def _count(self, pod: Pod, spread: TopologySpreadConstraint) -> Counter[str]:
        same = {
            name: pod.metadata.labels[name] for name in spread.match_label_keys if name in pod.metadata.labels
        }
        key = (pod.namespace, msgspec.json.encode((spread, same)))
        if key not in self._counts:
            selector = parse_selector(spread.label_selector)
            self._counts[key] = Counter(
                self._zone_of[each.spec.node_name]
                for each in self._view.pods.values()
                if each.spec.node_name in self._zone_of
                and each.namespace == pod.namespace
                and is_active(each)
                and same.items() <= each.metadata.labels.items()
                and selector.matches(each.metadata.labels)
            )
        return self._counts[key]


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """Return what both allow; None allows everything."""
    if one is None or other is None:
        return one if other is None else other
    return one & other
