"""
Checks spread, affinity and anti-affinity of a plan by the counts in the end.

A plan has no order, and counts only grow while it is made. So of a spread it can be said that the last pod
with it found no more than the skew above the domain that has the fewest pods in the end; pods without it
may have come later. Of affinity, that at most one domain was begun by the pods that have it, and all others
had matching pods from elsewhere. Of anti-affinity, that two pods that exclude each other share no domain
that either could be in.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from karpenter.api.labels import HOSTNAME
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.taints import tolerates
from karpenter_local.testing.validator.constraints import (
    PodSelection,
    RequiredSpread,
    apart,
    near,
    node_terms,
    spreads,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.node import Taint
    from karpenter.api.pod import Pod
    from karpenter.core.scheduling.problem import Pool, Problem
    from karpenter_local.testing.validator.bins import Bin


class PlacedPod(NamedTuple):
    """A pod and where it is: in a bin of the plan, or on a node before it."""

    pod: Pod
    where: Bin | None
    labels: Sequence[Requirements]
    taints: tuple[Taint, ...]
    name: str
    """The node that it was bound to before."""

    def domains(self, key: str) -> frozenset[str]:
        """Return the values of a label that its node has, or could have."""
        if self.where is not None:
            return self.where.domains(key)
        return frozenset({self.name}) if key == HOSTNAME else self.labels[0][key].values


def placed_pods(problem: Problem, bins: Sequence[Bin]) -> list[PlacedPod]:
    """Return every pod that counts: those that ran before, and those that were placed."""
    nodes = {node.name: node for node in problem.topology_nodes}
    found = []
    for bound in problem.bound_pods:
        node = nodes.get(bound.node)
        if node is not None:
            labels = Requirements.from_labels(node.labels)
            found.append(PlacedPod(bound.pod, None, [labels], node.taints, node.name))
    for where in bins:
        found += [PlacedPod(pod, where, where.possibilities, where.taints, "") for pod in where.pods]
    return found


def topology_violations(problem: Problem, bins: Sequence[Bin]) -> Iterator[str]:
    """Yield every violation of spread, affinity and anti-affinity."""
    pods = placed_pods(problem, bins)
    for placed in pods:
        for selection in apart(problem, placed.pod):
            yield from _anti_affinity_violations(placed, selection, pods)
        if placed.where is not None:
            for selection in near(problem, placed.pod):
                yield from _affinity_violations(problem, placed, selection, pods)
            for spread in spreads(problem, placed.pod):
                if spread.selection.key == HOSTNAME:
                    yield from _host_spread_violations(problem, placed, spread, pods)
                else:
                    yield from _spread_violations(problem, placed, spread, pods)


# Anti-affinity.


def _anti_affinity_violations(
    placed: PlacedPod, selection: PodSelection, pods: Sequence[PlacedPod]
) -> Iterator[str]:
    for other in pods:
        if (
            other is placed
            or not selection.selects(other.pod)
            or (placed.where is None and other.where is None)
        ):
            continue
        shared = placed.domains(selection.key) & other.domains(selection.key)
        if shared:
            yield (
                f"{placed.pod.key} must be apart from {other.pod.key},"
                f" but both are or could be in {selection.key} {sorted(shared)}"
            )


# Affinity.


def _affinity_violations(
    problem: Problem, placed: PlacedPod, selection: PodSelection, pods: Sequence[PlacedPod]
) -> Iterator[str]:
    mine = placed.domains(selection.key)
    if not mine:
        yield f"{placed.pod.key} has affinity over {selection.key}, which its node does not have"
    self_selecting = selection.selects(placed.pod)
    alike = [each for each in pods if self_selecting and _asks_alike(problem, each, placed, selection)]
    others = [each for each in pods if selection.selects(each.pod) and each not in alike]
    matching = {domain for each in others for domain in _settled(each, selection.key)}
    begun = {domain for each in alike for domain in each.domains(selection.key)} - matching
    unmatched = mine - matching
    if not self_selecting:
        if unmatched:
            yield f"{placed.pod.key} has no matching pod by {selection.key} in {sorted(unmatched)}"
        return
    if unmatched and len(begun) > 1:
        yield f"{placed.pod.key} and pods like it began several domains of {selection.key}: {sorted(begun)}"
    terms = node_terms(placed.pod)
    before = {d for each in others if each.where is None for d in each.domains(selection.key)}
    open_to_it = {domain for domain in before for term in terms[:1] if term[selection.key].allows(domain)}
    if unmatched and len(terms) == 1 and open_to_it:
        yield (
            f"{placed.pod.key} began {sorted(unmatched)}"
            f" although there were matching pods in {sorted(open_to_it)}"
        )


def _asks_alike(problem: Problem, each: PlacedPod, placed: PlacedPod, selection: PodSelection) -> bool:
    """Say whether a placed pod has the same affinity, is selected by it, and may go to the same nodes."""
    if each.where is None or not selection.selects(each.pod):
        return False
    return selection in near(problem, each.pod) and node_terms(each.pod) == node_terms(placed.pod)


def _settled(placed: PlacedPod, key: str) -> frozenset[str]:
    domains = placed.domains(key)
    return domains if len(domains) == 1 else frozenset()


# Spread.


def _host_spread_violations(
    problem: Problem, placed: PlacedPod, spread: RequiredSpread, pods: Sequence[PlacedPod]
) -> Iterator[str]:
    here = placed.domains(HOSTNAME)
    found = 0
    for each in pods:
        if each.domains(HOSTNAME) == here and _is_counted(each, spread, placed.pod, for_sure=True):
            insists = each.where is not None and spread in spreads(problem, each.pod)
            found += each.where is None or (insists and spread.selection.selects(placed.pod))
    if found > spread.skew:
        yield f"{placed.pod.key} allows {spread.skew} such pods on a node, {min(here)} has {found}"


def _spread_violations(
    problem: Problem, placed: PlacedPod, spread: RequiredSpread, pods: Sequence[PlacedPod]
) -> Iterator[str]:
    key = spread.selection.key
    here = placed.domains(key)
    if len(here) != 1:
        yield f"{placed.pod.key} is spread over {key}, but could be in {sorted(here)}"
        return
    (domain,) = here
    terms = node_terms(placed.pod)
    at_last: Counter[str] = Counter()
    at_least = 0
    for each in pods:
        if _is_counted(each, spread, placed.pod, for_sure=False):
            at_last.update(_settled(each, key))
        if each.domains(key) == here and _is_counted(each, spread, placed.pod, for_sure=True):
            insists = spread in spreads(problem, each.pod) and node_terms(each.pod) == terms
            at_least += each.where is None or (insists and spread.selection.selects(placed.pod))
    if not any(at_least <= spread.skew + _emptiest(problem, spread, at_last, t, placed.pod) for t in terms):
        counts = dict(sorted(at_last.items()))
        yield f"{placed.pod.key} makes {at_least} in {key} {domain}, beyond skew {spread.skew}: {counts}"


def _emptiest(
    problem: Problem, spread: RequiredSpread, counts: Counter[str], wanted: Requirements, pod: Pod
) -> int:
    """Return the count of the emptiest domain that the pod may go to."""
    key = spread.selection.key
    domains = {domain for pool in problem.pools for domain in _sold(problem, pool, spread, key)}
    for node in problem.topology_nodes:
        labels = Requirements.from_labels(node.labels)
        if key in node.labels and _matches_node(spread, pod, [labels], node.taints, for_sure=True):
            domains.add(node.labels[key])
    mine = [counts[domain] for domain in domains if wanted[key].allows(domain)]
    return min(mine, default=0) if len(mine) >= spread.min_domains else 0


def _sold(problem: Problem, pool: Pool, spread: RequiredSpread, key: str) -> Iterator[str]:
    """Yield the domains in which a pool can surely launch something."""
    if not _tolerates(spread, pool.taints):
        return
    for kind in pool.types:
        for offering in kind.available:
            if kind.requirements.conflict(pool.requirements):
                continue
            if pool.requirements.accepts(offering.requirements, problem.rules.well_known):
                labels = pool.requirements.intersect(kind.requirements).intersect(offering.requirements)
                yield from () if labels[key].complement else labels[key].values


def _tolerates(spread: RequiredSpread, taints: Iterable[Taint]) -> bool:
    """Say whether nodes with such taints count; those that would merely rather not have the pod do."""
    forbidding = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return spread.tolerations is None or tolerates(spread.tolerations, forbidding)


def _is_counted(each: PlacedPod, spread: RequiredSpread, pod: Pod, *, for_sure: bool) -> bool:
    """Say whether a spread counts a pod where it is; in doubt, what is asked for."""
    return spread.selection.selects(each.pod) and _matches_node(
        spread, pod, each.labels, each.taints, for_sure=for_sure
    )


def _matches_node(
    spread: RequiredSpread,
    pod: Pod,
    labels: Sequence[Requirements],
    taints: tuple[Taint, ...],
    *,
    for_sure: bool,
) -> bool:
    if not _tolerates(spread, taints):
        return False
    terms = node_terms(pod)
    if not spread.honours_affinity or terms == (Requirements({}),):
        return True
    known = frozenset() if for_sure else frozenset(key for term in terms for key in term.keys())  # noqa: SIM118
    every = [any(each.accepts(term, known) for term in terms) for each in labels]
    return all(every) if for_sure else any(every)
