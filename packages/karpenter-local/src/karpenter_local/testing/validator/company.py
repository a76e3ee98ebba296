"""
Whether pods may be beside each other: spread, affinity and anti-affinity, of the counts in the end.

A plan has no order, and counts only grow while it is made. So of a spread it can be said
that the last pod which insisted on it found no more than the skew above the domain that is
emptiest in the end; pods that do not insist may have come later. Of affinity, that at most
one domain was begun by the pods that ask for it, all others had company from elsewhere. Of
anti-affinity, that two pods which do not go together share no domain that either could be in.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from karpenter.api.labels import HOSTNAME
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.taints import tolerates
from karpenter_local.testing.validator.stated import apart, near, node_terms, spreads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from karpenter.api.node import Taint
    from karpenter.api.pod import Pod
    from karpenter.core.scheduling.problem import Pool, Problem
    from karpenter_local.testing.validator.bins import Bin
    from karpenter_local.testing.validator.stated import About, Spread


class Someone(NamedTuple):
    """A pod and where it is: in a bin of the plan, or on a node before it."""

    pod: Pod
    where: Bin | None
    labels: Sequence[Requirements]
    taints: tuple[Taint, ...]
    name: str
    """Of the node it ran on before."""

    def domains(self, key: str) -> frozenset[str]:
        """Return the values of a label that its node has, or could have."""
        if self.where is not None:
            return self.where.domains(key)
        return frozenset({self.name}) if key == HOSTNAME else self.labels[0][key].values


def everyone(problem: Problem, bins: Sequence[Bin]) -> list[Someone]:
    """Return every pod that counts: those that ran before, and those that were placed."""
    places = {place.name: place for place in problem.topology_nodes}
    found = []
    for located in problem.bound_pods:
        place = places.get(located.node)
        if place is not None:
            labels = Requirements.from_labels(place.labels)
            found.append(Someone(located.pod, None, [labels], place.taints, place.name))
    for where in bins:
        found += [Someone(pod, where, where.possibilities, where.taints, "") for pod in where.pods]
    return found


def company_of(problem: Problem, bins: Sequence[Bin]) -> Iterator[str]:
    """Yield what is wrong with who is beside whom."""
    people = everyone(problem, bins)
    for someone in people:
        for about in apart(problem, someone.pod):
            yield from _too_near(someone, about, people)
        if someone.where is not None:
            for about in near(problem, someone.pod):
                yield from _too_far(problem, someone, about, people)
            for spread in spreads(problem, someone.pod):
                if spread.about.key == HOSTNAME:
                    yield from _too_many(problem, someone, spread, people)
                else:
                    yield from _too_uneven(problem, someone, spread, people)


# Anti-affinity.


def _too_near(someone: Someone, about: About, people: Sequence[Someone]) -> Iterator[str]:
    for other in people:
        if other is someone or not about.means(other.pod) or (someone.where is None and other.where is None):
            continue
        shared = someone.domains(about.key) & other.domains(about.key)
        if shared:
            yield (
                f"{someone.pod.key} must be apart from {other.pod.key},"
                f" but both are or could be in {about.key} {sorted(shared)}"
            )


# Affinity.


def _too_far(problem: Problem, someone: Someone, about: About, people: Sequence[Someone]) -> Iterator[str]:
    mine = someone.domains(about.key)
    if not mine:
        yield f"{someone.pod.key} needs company by {about.key}, which its node does not have"
    counts_itself = about.means(someone.pod)
    alike = [each for each in people if counts_itself and _asks_alike(problem, each, someone, about)]
    others = [each for each in people if about.means(each.pod) and each not in alike]
    company = {domain for each in others for domain in _settled(each, about.key)}
    begun = {domain for each in alike for domain in each.domains(about.key)} - company
    lonely = mine - company
    if not counts_itself:
        if lonely:
            yield f"{someone.pod.key} has no company by {about.key} in {sorted(lonely)}"
        return
    if lonely and len(begun) > 1:
        yield f"{someone.pod.key} and pods like it began several domains of {about.key}: {sorted(begun)}"
    terms = node_terms(someone.pod)
    before = {d for each in others if each.where is None for d in each.domains(about.key)}
    open_to_it = {domain for domain in before for term in terms[:1] if term[about.key].allows(domain)}
    if lonely and len(terms) == 1 and open_to_it:
        yield f"{someone.pod.key} began {sorted(lonely)} although there was company in {sorted(open_to_it)}"


def _asks_alike(problem: Problem, each: Someone, someone: Someone, about: About) -> bool:
    """Say whether a placed pod asks for the same company, counts for it, and may go to the same nodes."""
    if each.where is None or not about.means(each.pod):
        return False
    return about in near(problem, each.pod) and node_terms(each.pod) == node_terms(someone.pod)


def _settled(someone: Someone, key: str) -> frozenset[str]:
    domains = someone.domains(key)
    return domains if len(domains) == 1 else frozenset()


# Spread.


def _too_many(problem: Problem, someone: Someone, spread: Spread, people: Sequence[Someone]) -> Iterator[str]:
    here = someone.domains(HOSTNAME)
    found = 0
    for each in people:
        if each.domains(HOSTNAME) == here and _is_counted(each, spread, someone.pod, for_sure=True):
            insists = each.where is not None and spread in spreads(problem, each.pod)
            found += each.where is None or (insists and spread.about.means(someone.pod))
    if found > spread.skew:
        yield f"{someone.pod.key} allows {spread.skew} such pods on a node, {min(here)} has {found}"


def _too_uneven(
    problem: Problem, someone: Someone, spread: Spread, people: Sequence[Someone]
) -> Iterator[str]:
    key = spread.about.key
    here = someone.domains(key)
    if len(here) != 1:
        yield f"{someone.pod.key} is spread over {key}, but could be in {sorted(here)}"
        return
    (domain,) = here
    terms = node_terms(someone.pod)
    at_last: Counter[str] = Counter()
    at_least = 0
    for each in people:
        if _is_counted(each, spread, someone.pod, for_sure=False):
            at_last.update(_settled(each, key))
        if each.domains(key) == here and _is_counted(each, spread, someone.pod, for_sure=True):
            insists = spread in spreads(problem, each.pod) and node_terms(each.pod) == terms
            at_least += each.where is None or (insists and spread.about.means(someone.pod))
    if not any(at_least <= spread.skew + _emptiest(problem, spread, at_last, t, someone.pod) for t in terms):
        counts = dict(sorted(at_last.items()))
        yield f"{someone.pod.key} makes {at_least} in {key} {domain}, beyond skew {spread.skew}: {counts}"


def _emptiest(problem: Problem, spread: Spread, counts: Counter[str], wanted: Requirements, pod: Pod) -> int:
    """Return the count of the emptiest domain that the pod may go to."""
    key = spread.about.key
    domains = {domain for pool in problem.pools for domain in _sold(problem, pool, spread, key)}
    for place in problem.topology_nodes:
        labels = Requirements.from_labels(place.labels)
        if key in place.labels and _admits(spread, pod, [labels], place.taints, for_sure=True):
            domains.add(place.labels[key])
    mine = [counts[domain] for domain in domains if wanted[key].allows(domain)]
    return min(mine, default=0) if len(mine) >= spread.min_domains else 0


def _sold(problem: Problem, pool: Pool, spread: Spread, key: str) -> Iterator[str]:
    """Yield the domains in which a pool can surely launch something."""
    if not _minds_no_taint(spread, pool.taints):
        return
    for kind in pool.types:
        for offering in kind.available:
            if kind.requirements.conflict(pool.requirements):
                continue
            if pool.requirements.accepts(offering.requirements, problem.rules.well_known):
                labels = pool.requirements.intersect(kind.requirements).intersect(offering.requirements)
                yield from () if labels[key].complement else labels[key].values


def _minds_no_taint(spread: Spread, taints: Iterable[Taint]) -> bool:
    """Say whether nodes with such taints count; those that would merely rather not have the pod do."""
    forbidding = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return spread.tolerations is None or tolerates(spread.tolerations, forbidding)


def _is_counted(each: Someone, spread: Spread, pod: Pod, *, for_sure: bool) -> bool:
    """Say whether a spread counts a pod where it is; in doubt, what is asked for."""
    return spread.about.means(each.pod) and _admits(spread, pod, each.labels, each.taints, for_sure=for_sure)


def _admits(
    spread: Spread, pod: Pod, labels: Sequence[Requirements], taints: tuple[Taint, ...], *, for_sure: bool
) -> bool:
    if not _minds_no_taint(spread, taints):
        return False
    terms = node_terms(pod)
    if not spread.honours_affinity or terms == (Requirements({}),):
        return True
    known = frozenset() if for_sure else frozenset(key for term in terms for key in term.keys())  # noqa: SIM118
    every = [any(each.accepts(term, known) for term in terms) for each in labels]
    return all(every) if for_sure else any(every)
