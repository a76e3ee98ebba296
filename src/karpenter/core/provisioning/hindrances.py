"""
Wishes of pods that may keep machines from being consolidated; whoever made them should know.

A wish is treated as a demand as long as it can be met, so that pods which would rather be apart are given
machines of their own, and are not brought together again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api.pod import Pod

AGAIN: Final = timedelta(hours=24)
"""After this long the same pod is told of again."""

APART: Final = "they would rather be apart from other pods"
SPREAD: Final = "they would rather be spread"


def hindrance(pod: Pod) -> str:
    """Return which wish of a pod may hinder consolidation; nothing where none does."""
    affinity = pod.spec.affinity
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if apart is not None and apart.preferred_during_scheduling_ignored_during_execution:
        return APART
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in pod.spec.topology_spread_constraints):
        return SPREAD
    return ""


class Told:
    """Which pods were told of, and when."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}

    def news(self, pods: Iterable[Pod], now: datetime) -> dict[str, list[str]]:
        """Return the pods with wishes that were not told of within the day, by wish."""
        self._at = {uid: at for uid, at in self._at.items() if now - at < AGAIN}
        found: dict[str, list[str]] = {}
        for pod in pods:
            if (wish := hindrance(pod)) and pod.metadata.uid not in self._at:
                self._at[pod.metadata.uid] = now
                found.setdefault(wish, []).append(pod.key)
        return found
