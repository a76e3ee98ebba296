"""
Validation of NodeOverlays: whether each can be parsed, and whether another overlay conflicts with it.

All overlays are validated together over the instance types of every NodePool. The scheduler applies overlays
with the same functions, so it leaves out exactly the overlays that are refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.lifecycle.conditions import VALIDATION_SUCCEEDED, overlay_conditions, patch_object
from karpenter.core.model.overlays import parse_overlays, without_conflicts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.core.effects import Effect
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeoverlay/controller.go
PERIOD: Final = 6 * 60 * 60.0


def validate_overlays(view: ClusterView, catalog: Catalog, now: datetime) -> tuple[Effect, ...]:
    """Return the condition writes of overlays whose validation has changed."""
    return tuple(_validated(view, catalog, now))


def _validated(view: ClusterView, catalog: Catalog, now: datetime) -> Iterator[Effect]:
    parsed, invalid = parse_overlays(view.overlays.values(), catalog.label_rules)
    pools = {
        pool.name: (pool.spec.template.metadata.labels, catalog.types_of(pool.name))
        for pool in view.pools.values()
    }
    _, conflicting = without_conflicts(parsed, pools)
    for overlay in view.overlays.values():
        condition_set = overlay_conditions(overlay, now)
        if problem := invalid.get(overlay.name):
            condition_set = condition_set.set_false(VALIDATION_SUCCEEDED, "RuntimeValidation", problem)
        elif problem := conflicting.get(overlay.name):
            condition_set = condition_set.set_false(VALIDATION_SUCCEEDED, "Conflict", problem)
        else:
            condition_set = condition_set.set_true(VALIDATION_SUCCEEDED)
        yield from patch_object(
            overlay, condition_set, because="overlays, nodepools or instance types have changed"
        )
