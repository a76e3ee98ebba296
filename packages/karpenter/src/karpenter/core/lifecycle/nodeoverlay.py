"""
What overlays say about themselves: whether they can be read, and whether another contradicts them.

All overlays are judged together, over everything that every pool may buy: what is refused here is what a
decision leaves out, since both ask the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.lifecycle.conditions import VALIDATION_SUCCEEDED, overlay_conditions, patch_object
from karpenter.core.scheduling.build.overlay import parse_overlays, without_conflicts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.core.effects import Effect
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

PERIOD: Final = 6 * 60 * 60.0


def validate_overlays(view: ClusterView, catalog: Catalog, now: datetime) -> tuple[Effect, ...]:
    """Return what to write on overlays whose standing has changed."""
    return tuple(_judged(view, catalog, now))


def _judged(view: ClusterView, catalog: Catalog, now: datetime) -> Iterator[Effect]:
    readable, unread = parse_overlays(view.overlays.values(), catalog.label_rules)
    pools = {
        pool.name: (pool.spec.template.metadata.labels, catalog.types_of(pool.name))
        for pool in view.pools.values()
    }
    _, contradicted = without_conflicts(readable, pools)
    for overlay in view.overlays.values():
        board = overlay_conditions(overlay, now)
        if problem := unread.get(overlay.name):
            board = board.false(VALIDATION_SUCCEEDED, "RuntimeValidation", problem)
        elif problem := contradicted.get(overlay.name):
            board = board.false(VALIDATION_SUCCEEDED, "Conflict", problem)
        else:
            board = board.true(VALIDATION_SUCCEEDED)
        yield from patch_object(overlay, board, because="overlays, pools or what is sold have changed")
