"""Which kinds of objects the operator watches, by its settings: only what decisions read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.controllers.informer import (
    ALWAYS,
    FOR_BUFFERS,
    FOR_DEVICES,
    FOR_OVERLAYS,
    FOR_SPREAD,
    FOR_SURGE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.meta import Resource
    from karpenter.operator.options import Settings


def watched_kinds(settings: Settings) -> Iterator[type[Resource]]:
    """Yield the kinds that decisions read under these settings; some more than once."""
    yield from ALWAYS
    if settings.scheduler_config:
        yield from FOR_SPREAD
    if not settings.ignore_dra_requests:
        yield from FOR_DEVICES
    if settings.gate("CapacityBuffer"):
        yield from FOR_BUFFERS
    if settings.gate("NodeOverlay"):
        yield from FOR_OVERLAYS
    if settings.surge_before_evict:
        yield from FOR_SURGE
