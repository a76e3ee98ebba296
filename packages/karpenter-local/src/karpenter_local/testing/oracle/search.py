"""
The search itself: the queue of pods, and what each bin says to each pod.

Every check is made in the open, one after the other, on the whole list of instance types.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import NODES, PREFER_NO_SCHEDULE, RESERVED
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.hostportusage import first_conflict, host_ports
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import fits, pod_requests
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.problem import NO_VOLUMES, Pool, Problem
from karpenter_local.testing.oracle.bins import (
    NodeBin,
    OracleClaim,
    daemons_on,
    fitting_offerings,
    has_room,
    reserved_ids,
)
from karpenter_local.testing.oracle.preferences import OraclePreferences
from karpenter_local.testing.oracle.topology import OracleTopology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.pod import Pod


class OraclePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Decision of the oracle, in a form that can be compared with a plan."""

    placed: dict[str, tuple[str, ...]]
    """Existing node to the pods that go there."""

    claims: tuple[tuple[str, tuple[str, ...]], ...]
    """The pool and the pods of every new machine, in the order in which they were opened."""

    refused: frozenset[str]
    hourly: float


class NoReservedCapacity(Exception):  # noqa: N818  not an error of the program: the pod has to wait
    """Reserved machines would suit, but none is left: the pod waits rather than buying elsewhere."""


def slow_solve(problem: Problem) -> OraclePlan:
    search = _Search(problem)
    refused = search.run(problem.pods)
    if refused and search.strict and search.reserved_left:
        search.strict = False
        refused = search.run(refused)
    return OraclePlan(
        placed={each.name: tuple(p.key for p in each.pods) for each in search.nodes if each.pods},
        claims=tuple((each.pool.name, tuple(p.key for p in each.pods)) for each in search.claims),
        refused=frozenset(pod.key for pod in refused),
        hourly=sum(search.price(claim) for claim in search.claims),
    )


class ClaimFit(msgspec.Struct, frozen=True):
    """Change of a claim by taking a pod."""

    requirements: Requirements
    types: list[InstanceType]
    sold: list[InstanceType]
    held: frozenset[str]
    min_values: dict[str, int]
    counted_types: list[InstanceType]


class _Search:
    """The state of one search."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.options = problem.options
        self.known = problem.rules.well_known
        self.topology = OracleTopology(problem)
        self.nodes = [NodeBin(node) for node in problem.nodes]
        self.claims: list[OracleClaim] = []
        left: dict[str, int] = {}
        for pool in problem.pools:
            for kind in pool.types:
                for each in kind.available:
                    if each.capacity_type == RESERVED:
                        capacity = each.reservation_capacity or 0
                        left[each.reservation_id] = min(left.get(each.reservation_id, capacity), capacity)
        self.reserved_left = left
        self.strict = problem.options.reserved == "strict"
        """Whether a pod that reserved capacity would suit waits for it rather than buying elsewhere."""

    def run(self, pods: Iterable[Pod]) -> list[Pod]:
        """Place pods until a whole round brings nothing; return those without a place."""
        queue = sorted(pods, key=_order)
        length_when_pushed: dict[str, int] = {}
        while queue:
            pod = queue.pop(0)
            if length_when_pushed.get(pod.key) == len(queue) + 1:
                return [pod, *queue]
            if not self._place(pod):
                queue.append(pod)
                length_when_pushed[pod.key] = len(queue)
        return []

    def _place(self, pod: Pod) -> bool:
        spreads = pod.spec.topology_spread_constraints or self.problem.spread_defaults.get(pod.key, ())
        preferences = OraclePreferences(pod, spreads, respect=self.options.preferences == "Respect")
        avoided = any(t.effect == PREFER_NO_SCHEDULE for pool in self.problem.pools for t in pool.taints)
        while True:
            try:
                if preferences.contradicts_itself():
                    pass
                elif (
                    self._on_node(preferences)
                    or self._on_claim(preferences)
                    or self._on_new_claim(preferences)
                ):
                    return True
            except NoReservedCapacity:
                return False
            if not preferences.relax(some_pool_is_avoided=avoided):
                return False

    # Nodes that are there.

    def _on_node(self, preferences: OraclePreferences) -> bool:
        for node in self.nodes:
            if self._node_takes(node, preferences):
                node.pods.append(preferences.pod)
                self.topology.record(preferences.pod, node)
                return True
        return False

    def _node_takes(self, node: NodeBin, preferences: OraclePreferences) -> bool:
        pod = preferences.pod
        if node.node.quiet and pod.key in self.problem.moved:
            return False
        if not tolerates(preferences.tolerations, node.taints) or not self._attaches(node, pod):
            return False
        if first_conflict(host_ports(pod), node.ports()) or not fits(pod_requests(pod), node.free()):
            return False
        if not node.requirements.accepts(preferences.requirements):
            return False
        places = self.problem.volumes.get(pod.key, NO_VOLUMES).alternatives
        if places and not any(node.requirements.accepts(each) for each in places):
            return False
        return self.topology.permits_node(preferences, node)

    def _attaches(self, node: NodeBin, pod: Pod) -> bool:
        for driver, most in node.node.volume_limits.items():
            held = set(node.node.volumes.get(driver, ()))
            for each in node.pods:
                held |= self.problem.volumes.get(each.key, NO_VOLUMES).claims.get(driver, frozenset())
            wanted = self.problem.volumes.get(pod.key, NO_VOLUMES).claims.get(driver, frozenset())
            if wanted and len(held | wanted) > most:
                return False
        return True

    # Claims of this run, and new ones.

    def _on_claim(self, preferences: OraclePreferences) -> bool:
        for claim in sorted(self.claims, key=lambda each: len(each.pods)):
            try:
                found = self._fit(claim, preferences, is_new=False)
            except NoReservedCapacity:
                continue
            if found is not None:
                self._take(claim, preferences.pod, found)
                return True
        return False

    def _on_new_claim(self, preferences: OraclePreferences) -> bool:
        for pool in self.problem.pools:
            if len(self._claims_of(pool)) >= pool.limits.get(NODES, sys.maxsize):
                continue
            claim = OracleClaim(pool, len(self.claims) + 1)
            found = self._fit(claim, preferences, is_new=True)
            if found is not None:
                self.claims.append(claim)
                self._take(claim, preferences.pod, found)
                return True
        return False

    def _take(self, claim: OracleClaim, pod: Pod, fit: ClaimFit) -> None:
        claim.pods.append(pod)
        claim.requirements, claim.min_values = fit.requirements, fit.min_values
        claim.types, claim.sold, claim.counted_types = fit.types, fit.sold, fit.counted_types
        for each in claim.held - fit.held:
            self.reserved_left[each] += 1
        for each in fit.held - claim.held:
            self.reserved_left[each] -= 1
        claim.held = fit.held
        self.topology.record(pod, claim)

    def _fit(self, claim: OracleClaim, preferences: OraclePreferences, *, is_new: bool) -> ClaimFit | None:
        """Return how a claim would change by taking a pod, or None when it cannot take it."""
        pod = preferences.pod
        if not tolerates(preferences.tolerations, claim.taints) or first_conflict(
            host_ports(pod), claim.ports()
        ):
            return None
        if not claim.requirements.accepts(preferences.requirements, self.known):
            return None
        refusal: NoReservedCapacity | None = None
        for requirements in self._narrowed_requirements(claim, preferences):
            sold = self._sold(claim, pod, requirements)
            names = {kind.name for kind in sold}
            roomy = [
                k
                for k in claim.types
                if k.name in names and has_room(k, [*claim.pods, pod], self._daemons(claim.pool, k))
            ]
            types = [kind for kind in roomy if self._is_within_limits(claim, kind)]
            if not types or self._min_values(claim, types, is_new=is_new) is None:
                continue
            try:
                held = self._reserve(claim, types, requirements)
            except NoReservedCapacity as error:
                refusal = error
                continue
            types = [kind for kind in types if self._offers(kind, requirements, held)]
            min_values = self._min_values(claim, types, is_new=is_new)
            if types and min_values is not None:
                counted_types = self._counted_types(types, requirements, held, min_values)
                return ClaimFit(requirements, roomy, sold, held, min_values, counted_types)
        if refusal is not None:
            raise refusal
        return None

    def _narrowed_requirements(
        self, claim: OracleClaim, preferences: OraclePreferences
    ) -> Iterator[Requirements]:
        own = claim.requirements.intersect(preferences.requirements)
        for place in self.problem.volumes.get(preferences.pod.key, NO_VOLUMES).alternatives or (None,):
            if place is None:
                yield from self.topology.narrowed_requirements(preferences, claim, own)
            elif own.accepts(place, self.known):
                yield from self.topology.narrowed_requirements(preferences, claim, own.intersect(place))

    def _sold(self, claim: OracleClaim, pod: Pod, requirements: Requirements) -> list[InstanceType]:
        """Return the types that can be had with these labels and whose daemons leave the pod its ports."""
        return [
            kind
            for kind in claim.sold
            if fitting_offerings(kind, requirements, self.known)
            and not first_conflict(
                host_ports(pod), [p for d in self._daemons(claim.pool, kind) for p in host_ports(d)]
            )
        ]

    def _daemons(self, pool: Pool, kind: InstanceType) -> list[Pod]:
        return daemons_on(kind, pool, self.problem.daemons, self.known)

    def _min_values(
        self, claim: OracleClaim, types: list[InstanceType], *, is_new: bool
    ) -> dict[str, int] | None:
        """Return how much choice the claim must keep; None when `types` do not give it."""
        choice = {key: _choice(types, key) for key in claim.min_values}
        if all(choice[key] >= min_values for key, min_values in claim.min_values.items()):
            return claim.min_values
        if is_new and self.options.min_values == "BestEffort":
            return {key: min(choice[key], min_values) for key, min_values in claim.min_values.items()}
        return None

    def _reserve(
        self, claim: OracleClaim, types: list[InstanceType], requirements: Requirements
    ) -> frozenset[str]:
        suiting = {each for kind in types for each in reserved_ids(kind, requirements, self.known)}
        held = frozenset(each for each in suiting if each in claim.held or self.reserved_left[each] > 0)
        if self.strict and not held and (suiting or claim.held):
            raise NoReservedCapacity
        return held

    def _offers(self, kind: InstanceType, requirements: Requirements, held: frozenset[str]) -> list[Offering]:
        """Return what can be bought of a type: held reservations, or else what is not reserved."""
        return [
            each
            for each in fitting_offerings(kind, requirements, self.known)
            if (each.reservation_id in held if held else each.capacity_type != RESERVED)
        ]

    def _counted_types(
        self,
        types: list[InstanceType],
        requirements: Requirements,
        held: frozenset[str],
        min_values: dict[str, int],
    ) -> list[InstanceType]:
        """Return the cheapest type, and as many of the next as it takes for the choice there must be."""
        order = sorted(types, key=lambda kind: min(o.price for o in self._offers(kind, requirements, held)))
        for count in range(1, len(order)):
            if all(_choice(order[:count], key) >= wanted for key, wanted in min_values.items()):
                return order[:count]
        return order

    def price(self, claim: OracleClaim) -> float:
        return min(
            each.price for each in self._offers(claim.counted_types[0], claim.requirements, claim.held)
        )

    # Limits.

    def _claims_of(self, pool: Pool) -> list[OracleClaim]:
        return [claim for claim in self.claims if claim.pool is pool]

    def _is_within_limits(self, claim: OracleClaim, kind: InstanceType) -> bool:
        """Say whether a claim may become a type, beside what the other claims of its pool take."""
        others = [each.counted_types for each in self._claims_of(claim.pool) if each is not claim]
        for name, most in claim.pool.limits.items():
            taken = sum(
                max(anchor.capacity.get(name, 0) for anchor in counted_types) for counted_types in others
            )
            if name != NODES and kind.capacity.get(name, 0) + taken > most:
                return False
        return True


def _choice(types: list[InstanceType], key: str) -> int:
    """Return how many values of a label some types have between them."""
    return len({value for kind in types for value in kind.requirements[key].values})


def _order(pod: Pod) -> tuple[int, int, float, str]:
    wants = pod_requests(pod)
    created = pod.metadata.creation_timestamp
    age = created.timestamp() if created else 0.0
    return -wants.get("cpu", 0), -wants.get("memory", 0), age, pod.metadata.uid
