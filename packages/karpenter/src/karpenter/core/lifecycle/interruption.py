"""What follows from news that a cloud will take a machine away, or would rather have it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import TERMINATION_TIMESTAMP
from karpenter.core.effects import Amend
from karpenter.core.events import interruption, terminating_on_interruption
from karpenter.core.lifecycle.conditions import delete_claim, render_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import Effect


def handle_interruption(
    claim: NodeClaim, nodes: Sequence[Node], *, kind: str, drains: bool, forceful: bool, now: datetime
) -> tuple[Effect, ...]:
    """Return what to do about a claim whose machine is interrupted; one that leaves already is left alone."""
    concerned = (claim, *nodes)
    told: tuple[Effect, ...] = tuple(interruption(item, kind, drains=drains) for item in concerned)
    if not drains or claim.metadata.deletion_timestamp is not None:
        return told
    hurry: tuple[Effect, ...] = ()
    if forceful:
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: render_time(now)}}}
        hurry = (Amend(kind=claim.kind, name=claim.name, changes=note, because="there is no time to drain"),)
    gone = delete_claim(claim, kind, f"its cloud takes the machine away ({kind})")
    return (*told, *hurry, *gone, *(terminating_on_interruption(item, kind) for item in concerned))
