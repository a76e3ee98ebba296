"""Interruption: what follows from a cloud's message that it will reclaim, stop or maintain a machine."""

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
    """Return the effects of an interruption for a claim; a claim that is being deleted gets Events only."""
    objects = (claim, *nodes)
    events: tuple[Effect, ...] = tuple(interruption(item, kind, drains=drains) for item in objects)
    if not drains or claim.metadata.deletion_timestamp is not None:
        return events
    deadline: tuple[Effect, ...] = ()
    if forceful:
        note = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: render_time(now)}}}
        deadline = (
            Amend(
                kind=claim.kind,
                name=claim.name,
                changes=note,
                because="the interruption leaves no time to drain",
            ),
        )
    deletion = delete_claim(claim, kind, f"its machine is interrupted ({kind})")
    return (*events, *deadline, *deletion, *(terminating_on_interruption(item, kind) for item in objects))
