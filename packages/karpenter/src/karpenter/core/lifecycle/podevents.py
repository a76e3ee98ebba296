"""
Pod events: ``status.lastPodEventTime`` of a NodeClaim, from which consolidateAfter counts.

A pod that is bound to the node, becomes terminal or starts terminating is a pod event; DaemonSet pods are
not. The time is written at most once in ten seconds per claim.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from karpenter.core.effects import Amend, Effect
from karpenter.core.lifecycle.conditions import MOST_AHEAD, render_time
from karpenter.core.state.pod import is_owned_by_daemonset, is_owned_by_node, is_terminal, is_terminating

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

# A rollout binds hundreds of pods a second; one write per pod would exhaust the client's rate limit.
DEDUPE_TIMEOUT: Final = timedelta(seconds=10)


def pod_event_node(pod: Pod | None, before: Pod | None, started: datetime) -> str:
    """Return the node of a pod event that happened after we `started`; empty if it is none."""
    last = pod or before
    if last is None or is_owned_by_daemonset(last) or not last.spec.node_name:
        return ""
    if pod is None:
        return last.spec.node_name
    if before is None:
        # First sight of a bound pod: it was created before our start, or while a watch was interrupted.
        born = pod.metadata.creation_timestamp
        missed = born is not None and born > started and not is_owned_by_node(pod)
        return last.spec.node_name if missed else ""
    bound = not before.spec.node_name
    ended = is_terminal(pod) and not is_terminal(before)
    leaves = is_terminating(pod) and not is_terminating(before)
    return last.spec.node_name if bound or ended or leaves else ""


def record_pod_event(claim: NodeClaim, now: datetime) -> tuple[Effect, ...]:
    """Return the write of the last pod event time of a claim."""
    last = claim.status.last_pod_event_time
    if last is not None and -MOST_AHEAD <= now - last < DEDUPE_TIMEOUT:
        return ()
    return (
        Amend(
            kind=claim.kind,
            name=claim.name,
            status={"lastPodEventTime": render_time(now)},
            because="a pod event happened on its node",
        ),
    )
