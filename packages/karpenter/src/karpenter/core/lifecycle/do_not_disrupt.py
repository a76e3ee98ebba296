"""
What pods are told of their wish not to be disrupted: until when it holds, that it is over or ignored.

Whether the wish holds is asked elsewhere, of ``core.state.pods``; here it is only said.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.effects import NOTHING, Step
from karpenter.core.events import protected_until, protection_elapsed, protection_ignored
from karpenter.core.lifecycle.conditions import render_time
from karpenter.core.state.pod import is_active

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.pod import Pod

_FOR_GOOD = "true"


def do_not_disrupt_events(pod: Pod, now: datetime) -> Step:
    """Return what to tell a pod that runs, and in how many seconds there is more to tell."""
    wish = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if wish is None or wish == _FOR_GOOD or not pod.spec.node_name or not is_active(pod):
        return NOTHING
    try:
        length = parse_duration(wish)
    except DurationError as error:
        return Step(effects=(protection_ignored(pod, f"expected true or a duration: {error}"),))
    if length <= timedelta(0):
        return Step(effects=(protection_ignored(pod, f"{wish} is no time at all"),))
    if pod.status.start_time is None:
        return NOTHING
    end = pod.status.start_time + length
    if now < end:
        told = protected_until(pod, render_time(end))
        return Step(effects=(told,), again=(end - now).total_seconds())
    return Step(effects=(protection_elapsed(pod, render_time(end)),))
