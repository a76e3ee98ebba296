"""
Who may be where beside whom: spread, affinity and anti-affinity, counted anew for every question.

A rule is what a pod states about other pods: which pods it means, and in which domains. It
knows no numbers of its own; the ledger of what has been placed is read each time.
"""

from __future__ import annotations

from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from karpenter.api.labels import HOSTNAME
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.api.pod import Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.selectors import EVERYTHING, Selector, parse_selector
from karpenter.core.model.taints import tolerates
from karpenter_local.testing.oracle.bins import (
    NodeBin,
    OracleClaim,
    fitting_offerings,
    is_open,
    possible_values,
)
from karpenter_local.testing.oracle.preferences import (
    OraclePreferences,
    alternatives,
    required_anti_affinity_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.node import Taint
    from karpenter.core.scheduling.problem import Problem


class OracleTopologyType(Enum):
    """Kind of a topology rule."""

    SPREAD = "spread"
    POD_AFFINITY = "near"
    POD_ANTI_AFFINITY = "apart"
    KEPT_OFF = "kept off"


class TopologyRule(msgspec.Struct, frozen=True):
    """Which pods are meant, and what is asked about them per value of a label."""

    kind: OracleTopologyType
    key: str
    namespaces: frozenset[str] | None
    """None means every namespace."""

    selector: Selector
    skew: int = 0
    min_domains: int = 0
    nodes: tuple[Requirements, ...] = ()
    """Which nodes count, by their labels; none means all."""

    tolerations: tuple[Toleration, ...] | None = None
    """Which nodes count, by their taints; None means that taints do not matter."""

    def selects(self, pod: Pod) -> bool:
        near_enough = self.namespaces is None or pod.metadata.namespace in self.namespaces
        return near_enough and self.selector.matches(pod.metadata.labels)

    def counts_tainted(self, taints: tuple[Taint, ...]) -> bool:
        """Say whether nodes with such taints count; those that would merely rather not have the pod do."""
        kept_away = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
        return self.tolerations is None or tolerates(self.tolerations, kept_away)

    def counts_node(self, labels: Requirements, taints: tuple[Taint, ...]) -> bool:
        if not self.counts_tainted(taints):
            return False
        return not self.nodes or any(labels.accepts(each) for each in self.nodes)


class OraclePlacement(NamedTuple):
    """A pod of this run and its bin, as it was when the pod came."""

    pod: Pod
    bin: NodeBin | OracleClaim
    labels: Requirements
    sold: tuple[str, ...]
    """The names of the types that could be had by their labels."""


class OracleTopology:
    """Placed pods, and the domains that they permit."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.known = problem.rules.well_known
        self.placed: list[OraclePlacement] = []
        self.topology_nodes = {place.name: place for place in problem.topology_nodes}

    def record(self, pod: Pod, where: NodeBin | OracleClaim) -> None:
        sold = tuple(kind.name for kind in where.sold) if isinstance(where, OracleClaim) else ()
        self.placed.append(OraclePlacement(pod, where, where.requirements, sold))

    # What a pod is bound by.

    def rules_of(self, preferences: OraclePreferences) -> list[TopologyRule]:
        """Return the rules a pod states, and those of others that keep it off."""
        pod = preferences.pod
        rules = [self._spread(pod, each) for each in preferences.spreads if each.label_selector is not None]
        rules += [
            self._term(pod, each, OracleTopologyType.POD_AFFINITY) for each in preferences.all_pod_affinity()
        ]
        rules += [
            self._term(pod, each, OracleTopologyType.POD_ANTI_AFFINITY)
            for each in preferences.all_pod_anti_affinity()
        ]
        owners = [each.pod for each in self.problem.bound_pods] + list(self.problem.pods)
        for owner in owners:
            for term in required_anti_affinity_of(owner):
                rule = self._term(owner, term, OracleTopologyType.KEPT_OFF)
                if rule.selects(pod) and rule not in rules:
                    rules.append(rule)
        return rules

    def _spread(self, pod: Pod, spread: TopologySpreadConstraint) -> TopologyRule:
        honours = spread.node_affinity_policy != "Ignore"
        asks = [each for each in alternatives(pod) if len(each)] if honours else []
        return TopologyRule(
            OracleTopologyType.SPREAD,
            spread.topology_key,
            frozenset({pod.metadata.namespace}),
            parse_selector(_narrowed(spread.label_selector, pod, spread.match_label_keys, ())),
            spread.max_skew,
            spread.min_domains or 0,
            tuple(asks),
            pod.spec.tolerations if spread.node_taints_policy == "Honor" else None,
        )

    def _term(self, pod: Pod, term: PodAffinityTerm, kind: OracleTopologyType) -> TopologyRule:
        selector = _narrowed(term.label_selector, pod, term.match_label_keys, term.mismatch_label_keys)
        return TopologyRule(kind, term.topology_key, self._namespaces(pod, term), parse_selector(selector))

    def _namespaces(self, pod: Pod, term: PodAffinityTerm) -> frozenset[str] | None:
        if term.namespace_selector is None:
            return frozenset(term.namespaces or (pod.metadata.namespace,))
        selector = parse_selector(term.namespace_selector)
        if selector == EVERYTHING:
            return None
        found = {name for name, labels in self.problem.namespaces.items() if selector.matches(labels)}
        return frozenset(found | set(term.namespaces))

    # What there is.

    def counts(self, rule: TopologyRule) -> dict[str, int]:
        """Return how many pods a rule finds in each domain, also in those that are merely possible."""
        counts = dict.fromkeys(self._possible_domains(rule), 0)
        for domain in self._taken(rule):
            counts[domain] = counts.get(domain, 0) + 1
        return counts

    def _possible_domains(self, rule: TopologyRule) -> Iterator[str]:
        if rule.key == HOSTNAME:
            return
        for pool in self.problem.pools:
            if rule.counts_tainted(pool.taints):
                yield from possible_values(pool, pool.types, pool.requirements, rule.key)
        for place in self.topology_nodes.values():
            if rule.key in place.labels and rule.counts_node(
                Requirements.from_labels(place.labels), place.taints
            ):
                yield place.labels[rule.key]

    def _taken(self, rule: TopologyRule) -> Iterator[str]:
        for bound in self.problem.bound_pods:
            place = self.topology_nodes.get(bound.node)
            if place is None or not self._concerns(rule, bound.pod):
                continue
            domain = place.name if rule.key == HOSTNAME else place.labels.get(rule.key)
            if domain is not None and rule.counts_node(Requirements.from_labels(place.labels), place.taints):
                yield domain
        for each in self.placed:
            if self._concerns(rule, each.pod) and rule.counts_node(each.labels, each.bin.taints):
                yield from self._domains_of(rule, each)

    def _concerns(self, rule: TopologyRule, pod: Pod) -> bool:
        """Say whether a rule counts `pod`: it means the pod, or (kept off) the pod states it."""
        if rule.kind is OracleTopologyType.KEPT_OFF:
            return any(
                self._term(pod, term, OracleTopologyType.KEPT_OFF) == rule
                for term in required_anti_affinity_of(pod)
            )
        return rule.selects(pod)

    def _domains_of(self, rule: TopologyRule, each: OraclePlacement) -> frozenset[str]:
        if rule.kind in {
            OracleTopologyType.POD_ANTI_AFFINITY,
            OracleTopologyType.KEPT_OFF,
        }:  # wherever it could still have gone
            if rule.key == HOSTNAME or not isinstance(each.bin, OracleClaim):
                return each.bin.domains(rule.key)
            types = [kind for kind in each.bin.pool.types if kind.name in each.sold]
            return possible_values(each.bin.pool, types, each.labels, rule.key)
        now = each.bin.domains(rule.key)
        return now if len(now) == 1 else frozenset()

    # What that permits.

    def allowed_domains(self, rule: TopologyRule, preferences: OraclePreferences) -> dict[str, int] | None:
        """Return the domains a rule lets a pod into, with their counts; None stands for a first domain."""
        counts = self.counts(rule)
        mine = {d: c for d, c in counts.items() if preferences.strict[rule.key].allows(d)}
        match rule.kind:
            case OracleTopologyType.SPREAD:
                min_values = min(mine.values(), default=0) if len(mine) >= rule.min_domains else 0
                extra = 1 if rule.selects(preferences.pod) else 0
                return {d: c for d, c in mine.items() if c + extra - min_values <= rule.skew}
            case OracleTopologyType.POD_AFFINITY:
                taken = {d: c for d, c in mine.items() if c}
                return None if not taken and rule.selects(preferences.pod) else taken
            case _:
                return {d: c for d, c in mine.items() if not c}

    def permits_host(
        self, rule: TopologyRule, preferences: OraclePreferences, where: NodeBin | OracleClaim
    ) -> bool:
        """Say whether a rule about single nodes lets a pod into a bin."""
        counts = self.counts(rule)
        here = counts.get(where.name, 0)
        match rule.kind:
            case OracleTopologyType.SPREAD:
                return here + (1 if rule.selects(preferences.pod) else 0) <= rule.skew
            case OracleTopologyType.POD_AFFINITY:
                return here > 0 or (rule.selects(preferences.pod) and not any(counts.values()))
            case _:
                return here == 0

    def permits_node(self, preferences: OraclePreferences, where: NodeBin) -> bool:
        """Say whether every rule lets a pod onto a node."""
        for rule in self.rules_of(preferences):
            if rule.key == HOSTNAME:
                if not self.permits_host(rule, preferences, where):
                    return False
                continue
            domains = where.domains(rule.key)
            allowed = self.allowed_domains(rule, preferences)
            if not domains or (allowed is not None and not domains & allowed.keys()):
                return False
        return True

    def narrowed_requirements(
        self, preferences: OraclePreferences, claim: OracleClaim, requirements: Requirements
    ) -> Iterator[Requirements]:
        """Yield what a claim may be narrowed to, best first, so that every rule lets a pod in."""
        rules = self.rules_of(preferences)
        if not all(self.permits_host(rule, preferences, claim) for rule in rules if rule.key == HOSTNAME):
            return
        keys = list(dict.fromkeys(rule.key for rule in rules if rule.key != HOSTNAME))
        options = [
            self._options(key, [r for r in rules if r.key == key], preferences, claim, requirements)
            for key in keys
        ]
        for combination in product(*options):
            narrow = Requirements.of(each[key] for key, each in zip(keys, combination, strict=True))
            if requirements.accepts(narrow, self.known):
                yield requirements.intersect(narrow)

    def _options(
        self,
        key: str,
        rules: list[TopologyRule],
        preferences: OraclePreferences,
        claim: OracleClaim,
        requirements: Requirements,
    ) -> list[Requirements]:
        if is_open(claim.pool, requirements, key):
            allowed = {d for rule in rules for d in self.counts(rule) if requirements[key].allows(d)}
        else:
            allowed = set(possible_values(claim.pool, claim.sold, requirements, key))
        total: dict[str, int] = {}
        one_only = False
        for rule in rules:
            found = self.allowed_domains(rule, preferences)
            one_only |= found is None or rule.kind is OracleTopologyType.SPREAD
            if found is None:
                found = {d: 0 for d in self.counts(rule) if preferences.strict[key].allows(d)}
            elif rule.kind is OracleTopologyType.SPREAD:
                for domain, count in found.items():
                    total[domain] = total.get(domain, 0) + count
            allowed &= found.keys()
        if not allowed:
            return []
        if not one_only:
            return [Requirements.only(key, frozenset(allowed))]
        prices = {
            d: self._price(claim, requirements, Requirements.only(key, frozenset({d}))) for d in allowed
        }
        order = sorted(allowed, key=lambda d: (total.get(d, 0), prices[d], d))
        return [Requirements.only(key, frozenset({domain})) for domain in order]

    def _price(self, claim: OracleClaim, requirements: Requirements, there: Requirements) -> float:
        narrowed = requirements.intersect(there)
        offered = [o.price for kind in claim.sold for o in fitting_offerings(kind, narrowed, self.known)]
        return min(offered, default=0.0)


def _narrowed(
    selector: LabelSelector | None, pod: Pod, same: tuple[str, ...], other: tuple[str, ...]
) -> LabelSelector | None:
    """Return a selector narrowed to pods that share some label values with `pod`, and differ in others."""
    if selector is None:
        return None
    own = pod.metadata.labels
    extra = [LabelSelectorRequirement(key=k, operator="In", values=(own[k],)) for k in same if k in own]
    extra += [LabelSelectorRequirement(key=k, operator="NotIn", values=(own[k],)) for k in other if k in own]
    return msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, *extra))
