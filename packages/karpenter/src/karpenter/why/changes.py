"""
Which single change would let pods in, and how far each NodePool is from serving them.

A change is a NodePool, a DaemonSet or the pods with one field different. Only a change that was tried and
gives a place is returned, and none that would start a container on another architecture than it is built
for. Changes that would let pods in by more than one field are not looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.core.model.resources import MEMORY, human_amount, pod_requests
from karpenter.why.answer import HelpfulChange, PoolMiss, places_of
from karpenter.why.options import unfit_pods
from karpenter.why.pod_changes import (
    request_changes,
    selector_changes,
    spelling_changes,
    toleration_changes,
    too_large,
    topology_changes,
)
from karpenter.why.pool_changes import limit_needed, pool_changes, readiness_changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.core.scheduling.problem import Reason
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.refused import LimitNeeds, RefusedPods, Trial

_GIB: Final = 1024**3
_MOST_TRIES: Final = 16
_MOST_CHANGES: Final = 6
_TAINT: Final = "TaintNotTolerated"
NOT_READY: Final = "NotReady"

_RANKS: Final = {
    code: rank
    for rank, codes in enumerate(
        (
            ("LimitReached", NOT_READY),
            ("MinValuesNotMet", "NoOfferingAvailable", "ReservationExhausted"),
            (),
            ("NoInstanceTypeMatches", "RequirementsNotMet", "NoInstanceTypes", "Contradiction"),
            (_TAINT,),
        )
    )
    for code in codes
}
"""How far a NodePool is from serving pods, by what keeps it from doing so."""

_OTHER_RANK: Final = 2


class FoundChanges(NamedTuple):
    """What helps, and the NodePools that do not serve the pods, the nearest first."""

    changes: tuple[HelpfulChange, ...]
    misses: tuple[PoolMiss, ...]


def found_changes(refused: RefusedPods) -> FoundChanges:
    """Return every single change that lets pods in, and what keeps each NodePool from serving them."""
    needs = {
        each.pool: limit_needed(refused, refused.view.pools[each.pool])
        for each in refused.reasons
        if each.code == "LimitReached"
    }
    found: dict[str, HelpfulChange] = {}
    opened: set[str] = set()
    tries = 0
    for trial in _trials(refused, needs, found):
        if trial.change in found or tries >= _MOST_TRIES or len(found) >= _MOST_CHANGES:
            continue
        tries += 1
        result = _result(refused, trial.view)
        if result:
            found[trial.change] = HelpfulChange(change=trial.change, result=result)
            opened.add(trial.pool)
    return FoundChanges(tuple(found.values()), _misses(refused, needs, opened))


def _trials(refused: RefusedPods, needs: LimitNeeds, found: dict[str, HelpfulChange]) -> Iterator[Trial]:
    """
    Yield what may help, the most probable first.

    A taint keeps pods out on purpose, so that a toleration is tried only where the pods select the NodePool,
    or where nothing else helps.
    """
    yield from spelling_changes(refused)
    if found:
        return
    reasons = sorted(refused.reasons, key=lambda each: _rank(refused, each))
    for reason in reasons:
        yield from pool_changes(refused, reason, needs)
        if reason.code == _TAINT and refused.selects(refused.view.pools[reason.pool]):
            yield from toleration_changes(refused, refused.view.pools[reason.pool])
    yield from readiness_changes(refused)
    for reason in reasons:
        if reason.code == "NoInstanceTypeFits":
            yield from request_changes(refused, reason)
    yield from topology_changes(refused)
    yield from selector_changes(refused)
    if not found:
        for reason in reasons:
            if reason.code == _TAINT:
                yield from toleration_changes(refused, refused.view.pools[reason.pool])


def _rank(refused: RefusedPods, reason: Reason) -> int:
    if reason.code == _TAINT and refused.selects(refused.view.pools[reason.pool]):
        return 0
    return _RANKS.get(reason.code, _OTHER_RANK)


def _result(refused: RefusedPods, view: ClusterView) -> str:
    """Return where pods would go in a view; empty where none has a place, or none can be started there."""
    decision = refused.inquiry.ask(view)
    places = places_of(decision, [pod.key for pod in refused.pods])
    if not places:
        return ""
    catalog = refused.inquiry.catalog
    unfit = unfit_pods(decision, refused.demand, view, catalog)
    served = [places[pod.key] for pod in refused.pods if pod.key in places and pod.key not in unfit]
    if not served or len(refused.pods) == 1:
        return "".join(served)
    return f"{len(served)} of {len(refused.pods)} pods would have a place, the first on {served[0]}"


def _misses(refused: RefusedPods, needs: LimitNeeds, opened: set[str]) -> tuple[PoolMiss, ...]:
    found = [
        (
            each.pool not in opened,
            _rank(refused, each),
            PoolMiss(
                node_pool=each.pool,
                code=each.code,
                message=each.message,
                nearest=_nearest(refused, each, needs),
            ),
        )
        for each in refused.reasons
    ]
    found += [
        (
            each.pool.name not in opened,
            _RANKS[NOT_READY] if each.pool.spec.replicas is None else len(_RANKS),
            PoolMiss(node_pool=each.pool.name, code=NOT_READY, message=each.obstacle),
        )
        for each in refused.decision.pools
        if each.obstacle
    ]
    found.sort(key=lambda each: each[:2])
    return tuple(miss for *_, miss in found)


def _nearest(refused: RefusedPods, reason: Reason, needs: LimitNeeds) -> str:
    """Return how far a NodePool is from serving pods; nothing where that is no amount."""
    if reason.code == "LimitReached":
        need = needs.get(reason.pool, {})
        text = " and ".join(f"{human_amount(name, amount)} {name}" for name, amount in need.items())
        return f"would fit if the limit were {text}" if text else ""
    if reason.code == "NoInstanceTypeFits" and (short := too_large(refused.pod, reason)) is not None:
        name, most = short
        return f"needs {_more(name, pod_requests(refused.pod)[name] - most)} on the largest type"
    return ""


def _more(name: str, amount: int) -> str:
    """Return how much more of a resource is missing, as people say it."""
    if name == MEMORY:
        return f"{amount / _GIB:.1f} more GiB"
    return f"{human_amount(name, amount)} more {name}"
