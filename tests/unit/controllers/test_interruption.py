"""Interruptions of spot machines are counted, and make catalogs dearer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference
from karpenter.controllers.catalogs import PoolCatalogs
from karpenter.controllers.interruption import SpotInterruptions
from karpenter.core.model.catalog import Catalog
from karpenter_local.testing.builders import instance_type
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.core.lifecycle.objects import pool

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

MARKET = Catalog(types=(instance_type("small", cpu=2), instance_type("large", cpu=8)))


def claim(way: str = SPOT, zone: str = "zone-1") -> NodeClaim:
    """Return the claim of a small machine."""
    labels = {CAPACITY_TYPE: way, INSTANCE_TYPE: "small", ZONE: zone}
    ref = NodeClassReference(group="example.com", kind="ThingClass", name="main")
    return NodeClaim(metadata=ObjectMeta(name="a", labels=labels), spec=NodeClaimSpec(node_class_ref=ref))


class MarketCloud:
    """A cloud that sells the same all the time."""

    async def catalog(self, item: NodePool) -> Catalog:
        del item
        return MARKET


def test_interruptions_of_spot_machines_are_counted() -> None:
    """Those on spot count, by type and zone and against how many run there; others do not."""

    async def main() -> None:
        spot = SpotInterruptions(VirtualClock())
        before = spot.rates()
        spot.note(claim(ON_DEMAND), [claim(ON_DEMAND)])
        assert spot.rates() is before
        spot.note(claim(), [claim(), claim(), claim(zone="zone-2"), claim(ON_DEMAND)])
        found = spot.rates()
        assert found == {("small", "zone-1"): 1.0}
        assert spot.rates() is found

    run_virtual(main())


def test_catalogs_know_what_was_interrupted() -> None:
    """A catalog is made anew when a rate changes, and is the same value until then."""

    async def main() -> None:
        spot = SpotInterruptions(VirtualClock())
        catalogs = PoolCatalogs(MarketCloud(), spot.rates)  # type: ignore[arg-type]
        first = await catalogs.of([pool()])
        assert first is MARKET
        spot.note(claim(), [claim()])
        second = await catalogs.of([pool()])
        assert await catalogs.of([pool()]) is second
        rates = {
            (each.zone, each.capacity_type): each.interruption_rate for each in second.types[0].offerings
        }
        assert {place for place, rate in rates.items() if rate} == {("zone-1", SPOT)}
        assert second.types[1] is MARKET.types[1]

    run_virtual(main())
