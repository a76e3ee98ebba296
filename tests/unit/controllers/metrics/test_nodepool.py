"""Pools as metrics show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.controllers.metrics.nodepool import NodePoolMetrics
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.telemetry.metrics import nodepools as declared
from karpenter_local.testing.builders import instance_type
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.core.lifecycle.objects import complete, pool

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim

SMALL = instance_type("small", cpu=2)
OFFER = SMALL.offerings[0]


class Answered:
    """A catalogue that was asked for, or not yet."""

    def __init__(self, latest: Catalog | None) -> None:
        self.latest = latest


def bought(name: str, kind: str = "small") -> NodeClaim:
    """Return a claim that has a machine of some type."""
    labels = {
        NODEPOOL: "default",
        INSTANCE_TYPE: kind,
        ZONE: OFFER.zone,
        CAPACITY_TYPE: OFFER.capacity_type,
    }
    return complete(name=name, meta={"labels": labels}, status={"providerID": f"kwok://{name}"})


def shown(latest: Catalog | None) -> Showing:
    """Return a pool with a limit and two machines, one of which nobody knows the price of."""
    found = Showing()
    limited = pool(spec={"limits": {"cpu": "10", "memory": "1Ki"}}, status={"resources": {"cpu": "2500m"}})
    for each in (limited, bought("a"), bought("b"), bought("c", "unheard-of")):
        found.store.apply(ObjectUpdated(each))
    NodePoolMetrics(found.store, found.metrics, Answered(latest))
    return found


def test_limits_and_usage() -> None:
    """A pool shows what it may have and what it has."""
    found = shown(None)

    assert found.rows(declared.LIMIT, "nodepool", "resource_type") == {
        ("default", "cpu"): 10.0,
        ("default", "memory"): 1024.0,
    }
    assert found.rows(declared.USAGE, "nodepool", "resource_type") == {("default", "cpu"): 2.5}
    assert found.rows(declared.COST) == {}


def test_costs() -> None:
    """A pool shows what its machines cost; one without a price counts for nothing, and once as an error."""
    found = shown(Catalog(types=(SMALL,)))
    assert found.rows(declared.COST, "nodepool") == {("default",): 2 * OFFER.price}
    assert found.rows(declared.COST, "nodepool") == {("default",): 2 * OFFER.price}

    assert found.metrics[declared.COST_TRACKER_ERRORS].value(nodepool="default") == 1.0


def test_pools_that_are_gone() -> None:
    """A pool that is gone is not shown, and neither is a limit that cannot be read."""
    found = shown(Catalog(types=(SMALL,)))
    found.store.apply(ObjectUpdated(pool(spec={"limits": {"cpu": "lots"}})))
    assert found.rows(declared.LIMIT) == {}
    assert len(found.rows(declared.COST)) == 1

    found.store.apply(ObjectDeleted(pool()))
    assert found.rows(declared.COST) == {}
