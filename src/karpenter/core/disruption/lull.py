"""
Until when a cluster in which nothing changes stays as it is: the next moment at which time alone matters.

A pass that found nothing need not be repeated before something changes or such a moment comes:
a quiet time ends, a budget's window opens or closes, a pod's own protection runs out, a claim
is old enough for its instance type to count as gone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DO_NOT_DISRUPT, NODEPOOL
from karpenter.core.disruption.budgets import read_budgets
from karpenter.core.lifecycle.marks import SETTLING, expires_at, quiet_until
from karpenter.core.state.pods import protected_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.core.disruption.windows import Window
    from karpenter.core.state.view import ClusterView

_TICK: Final = timedelta(seconds=1)


def next_moment(view: ClusterView, now: datetime) -> datetime | None:
    """Return when time alone may change what a pass decides; None when it never does."""
    return min((moment for moment in _moments(view, now) if moment > now), default=None)


def _moments(view: ClusterView, now: datetime) -> Iterator[datetime]:
    for claim in view.claims.values():
        pool = view.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        found = [expires_at(claim), quiet_until(claim, pool) if pool is not None else None]
        if claim.metadata.creation_timestamp is not None:
            found.append(claim.metadata.creation_timestamp + SETTLING)
        yield from (moment for moment in found if moment is not None)
    for pool in view.pools.values():
        for budget in read_budgets(pool.spec.disruption.budgets):
            if budget.window is not None:
                yield from _turns(budget.window, now)
    for pod in view.pods.values():
        if DO_NOT_DISRUPT in pod.metadata.annotations:
            until = protected_until(pod)
            if until is not None:
                yield until


def _turns(window: Window, now: datetime) -> Iterator[datetime]:
    """Yield when a window opens next, and when it closes if it is open."""
    begun = window.schedule.next_after(now - window.duration)
    closes = begun + window.duration + _TICK if begun is not None and begun <= now else None
    yield from (moment for moment in (window.schedule.next_after(now), closes) if moment is not None)
