"""
Events about the annotation karpenter.sh/do-not-disrupt of a pod: until when it applies, elapsed, or invalid.

Whether the annotation applies is decided in :mod:`karpenter.core.state.pod`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.effects import NOTHING, Step
from karpenter.core.events import protected_until, protection_elapsed, protection_ignored
from karpenter.core.lifecycle.conditions import render_time
from karpenter.core.state.pod import is_active

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

# https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
_ALWAYS = "true"


def do_not_disrupt_events(pod: Pod, now: datetime) -> Step:
    """Return the Events of a bound pod, and in how many seconds the next one is due."""
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if value is None or value == _ALWAYS or not pod.spec.node_name or not is_active(pod):
        return NOTHING
    try:
        duration = parse_duration(value)
    except DurationError as error:
        return Step(effects=(protection_ignored(pod, f"expected true or a duration: {error}"),))
    if duration <= timedelta(0):
        return Step(effects=(protection_ignored(pod, f"expected a duration above zero, not {value}"),))
    if pod.status.start_time is None:
        return NOTHING
    end = pod.status.start_time + duration
    if now < end:
        event = protected_until(pod, render_time(end))
        return Step(effects=(event,), again=(end - now).total_seconds())
    return Step(effects=(protection_elapsed(pod, render_time(end)),))
