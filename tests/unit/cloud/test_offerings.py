import pytest

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.offerings import InsufficientCapacityCache, mark_unavailable
from karpenter.core.model.catalog import Catalog, OfferingName
from karpenter_local.testing.builders import instance_type, offering

SPOT_1 = OfferingName("small", "zone-1", "spot")
SPOT_2 = OfferingName("small", "zone-2", "spot")
DEMAND = OfferingName("small", "zone-1", "on-demand")

CATALOG = Catalog(
    types=(
        instance_type(
            "small",
            sold=[
                offering("zone-1", "spot", 0.1),
                offering("zone-2", "spot", 0.1),
                offering("zone-1", "on-demand", 0.2),
            ],
        ),
        instance_type("large"),
    )
)


@pytest.mark.parametrize(
    ("sold_out", "zones", "kinds"),
    [
        pytest.param({SPOT_2}, {"zone-1"}, {"spot", "on-demand"}, id="a zone goes with its last offering"),
        pytest.param({SPOT_1}, {"zone-1", "zone-2"}, {"spot", "on-demand"}, id="a zone stays with another"),
        pytest.param({SPOT_1, SPOT_2}, {"zone-1"}, {"on-demand"}, id="a capacity type goes likewise"),
        pytest.param({SPOT_1, SPOT_2, DEMAND}, set(), set(), id="nothing is left"),
    ],
)
def test_without(sold_out: set[OfferingName], zones: set[str], kinds: set[str]) -> None:
    """What is sold out is marked, and the labels of its type say only what can still be bought."""
    marked = mark_unavailable(CATALOG, frozenset(sold_out)).by_name["small"]

    assert {OfferingName.of(marked, each) for each in marked.offerings if not each.available} == sold_out
    assert marked.requirements[ZONE].values == zones
    assert marked.requirements[CAPACITY_TYPE].values == kinds


def test_others_are_not_touched() -> None:
    """Types of which everything is left stay the same objects, and a catalogue without marks is the same."""
    marked = mark_unavailable(CATALOG, frozenset({SPOT_1}))

    assert marked.by_name["large"] is CATALOG.by_name["large"]
    assert mark_unavailable(CATALOG, frozenset()) is CATALOG


def test_memory_fades() -> None:
    """An offering is skipped for so long after it failed last, and then tried again."""
    now = 0.0
    memory = InsufficientCapacityCache(monotonic=lambda: now, ttl=180.0)
    seen = [memory.now()]
    memory.remember([SPOT_1, SPOT_2])
    now = 100.0
    memory.remember([SPOT_2])
    seen.append(memory.now())
    for moment in (180.0, 280.0):
        now = moment
        seen.append(memory.now())

    assert seen == [frozenset(), {SPOT_1, SPOT_2}, {SPOT_2}, frozenset()]
