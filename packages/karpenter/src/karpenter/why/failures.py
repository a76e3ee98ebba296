"""
Launches that failed lately for want of capacity, from Events, and the catalogue without what was sold out.

The operator leaves what was sold out alone for three minutes. Our Events name every offering; those of
Karpenter in Go do not, and then it is only known that launches fail.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import NODEPOOL, SOLD_OUT
from karpenter.api.meta import find_status_condition
from karpenter.core.events import CAPACITY_FAILURE
from karpenter.core.lifecycle.conditions import LAUNCHED
from karpenter.core.model.catalog import OfferingName
from karpenter.why.answer import CapacityFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.cluster import Event
    from karpenter.core.model.catalog import Catalog, InstanceType
    from karpenter.core.state.cluster import ClusterView
    from karpenter.why.answer import Inquiry

# How long the operator leaves an offering out that was sold out, as upstream's cache does:
# https://github.com/aws/karpenter-provider-aws/blob/main/pkg/cache/cache.go
LEFT_OUT_FOR: Final = timedelta(minutes=3)
_OFFERING: Final = re.compile(r"([\w.-]+)/([\w-]+)/(spot|on-demand|reserved)")
_ABRIDGED: Final = re.compile(r" and \d+ others?")


def capacity_failures(events: Iterable[Event], now: datetime) -> tuple[CapacityFailure, ...]:
    """Return the launches that failed for want of capacity and still count, the first one first."""
    found = []
    for each in events:
        at = each.last_timestamp or each.event_time or each.metadata.creation_timestamp
        if each.reason != CAPACITY_FAILURE or at is None or now - at > LEFT_OUT_FOR:
            continue
        named = each.metadata.annotations.get(SOLD_OUT, "")
        told = named or ("" if _ABRIDGED.search(each.message) else each.message)
        found.append(
            CapacityFailure(
                claim=each.involved_object.name,
                at=at,
                message=each.message.partition(": ")[2] or each.message,
                offerings=tuple(OfferingName(*parts) for parts in _OFFERING.findall(told)),
            )
        )
    return tuple(sorted(found, key=lambda each: (each.at, each.claim)))


def without_sold_out(catalog: Catalog, failures: Iterable[CapacityFailure]) -> Catalog:
    """Return a catalogue in which the offerings that failed are not available."""
    gone = {
        (name.instance_type, name.zone, name.capacity_type) for each in failures for name in each.offerings
    }
    if not gone:
        return catalog
    names = {name for name, *_ in gone}

    def marked(kind: InstanceType) -> InstanceType:
        if kind.name not in names:
            return kind
        offerings = tuple(
            msgspec.structs.replace(each, available=False)
            if (kind.name, each.zone, each.capacity_type) in gone
            else each
            for each in kind.offerings
        )
        return msgspec.structs.replace(kind, offerings=offerings)

    return msgspec.structs.replace(
        catalog,
        types=tuple(map(marked, catalog.types)),
        by_pool={pool: tuple(map(marked, types)) for pool, types in catalog.by_pool.items()},
    )


def launches_fail(inquiry: Inquiry, pool: str) -> bool:
    """Whether the last launch for a NodePool failed for want of capacity."""
    failed = [each.at for each in inquiry.failures if each.node_pool == pool]
    return bool(failed) and max(failed) > _last_launch(inquiry.view, pool)


def _last_launch(view: ClusterView, pool: str) -> datetime:
    """Return when a NodeClaim of a NodePool was launched last."""
    launched = (
        find_status_condition(each.status.conditions, LAUNCHED)
        for each in view.claims.values()
        if each.metadata.labels.get(NODEPOOL) == pool
    )
    times = (each.last_transition_time for each in launched if each is not None and each.status == "True")
    return max(filter(None, times), default=datetime.min.replace(tzinfo=UTC))
