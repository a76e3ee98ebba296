"""Supply and demand as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.api.labels import ON_DEMAND, SPOT, ZONE
from karpenter.core.model.requirement import requirement
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.price.bound import Item, Market, market
from karpenter_local.testing.builders import RULES, instance_type, offering, pool

AXIS = ("cpu", "memory", "pods")
GIB = 2**30
SMALL = instance_type("small", cpu=2, memory=4, sold=[offering("zone-1", SPOT, 0.1)])
LARGE = instance_type(
    "large", cpu=8, memory=16, sold=[offering("zone-1", SPOT, 0.3), offering("zone-2", SPOT, 0.4)]
)


def template(*types: object, number: int = 0) -> Template:
    """Return the template of a pool with some types."""
    return Template(number, pool("p", *types), [], AXIS, RULES.well_known)  # type: ignore[arg-type]


def everything(cpu: int, *templates: Template, memory: int = GIB, cap: int = 0) -> Item:
    """Return an item of so many cores that may use every offering."""
    return Item((cpu * 1000, memory, 1), tuple(each.bits for each in templates), cap)


def names(found: Market, *templates: Template) -> list[tuple[str, str]]:
    """Return the type and zone of every machine on a market."""
    return [
        (
            templates[t].table.types[int(templates[t].table.owner[o])].name,
            templates[t].table.offerings[o].zone,
        )
        for t, o in found.sources
    ]


def test_a_market_has_items_and_machines() -> None:
    """Everything that can be said about price is in the arrays."""
    ours = template(SMALL, LARGE)

    found = market([everything(1, ours), everything(4, ours, cap=2)], [5, 3], [ours])

    assert found.count.tolist() == [5, 3]
    assert found.want[:, 0].tolist() == [1000, 4000]
    assert found.cap.tolist() == [np.inf, 2]
    assert names(found, ours) == [("small", "zone-1"), ("large", "zone-1")]
    assert found.price.tolist() == [0.1, 0.3]
    assert found.room[:, 0].tolist() == [2000, 8000]
    assert found.fits.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param(
            [LARGE], [("large", "zone-1")], id="the same machine for more money is not worth a look"
        ),
        pytest.param(
            [SMALL, instance_type("poor", cpu=1, memory=2, sold=[offering("zone-1", SPOT, 0.1)])],
            [("small", "zone-1")],
            id="nor is a smaller one for the same",
        ),
        pytest.param([SMALL, SMALL], [("small", "zone-1")], id="of equals the first is enough"),
        pytest.param(
            [SMALL, instance_type("tall", cpu=1, memory=8, sold=[offering("zone-1", SPOT, 0.1)])],
            [("tall", "zone-1"), ("small", "zone-1")],
            id="larger in anything is worth a look",
        ),
    ],
)
def test_what_another_machine_beats_is_left_out(types: list[object], expected: list[tuple[str, str]]) -> None:
    """A machine that another one equals in everything, for no more money, is not needed."""
    ours = template(*types)

    assert names(market([everything(1, ours)], [1], [ours]), ours) == expected


def test_a_machine_that_others_may_use_is_not_beaten() -> None:
    """A dearer machine stays when some pods may use it that may not use the cheaper one."""
    ours = template(LARGE)
    in_two = ours.table.keep(ours.bits, [requirement(ZONE, "In", ["zone-2"])])

    found = market([everything(1, ours), Item((1000, GIB, 1), (in_two,))], [1, 1], [ours])

    assert names(found, ours) == [("large", "zone-1"), ("large", "zone-2")]
    assert found.fits.tolist() == [[True, False], [True, True]]


def test_machines_that_no_item_may_use_or_that_have_no_room_are_left_out() -> None:
    """What is forbidden, or has no room beside its daemons, is not on the market."""
    ours = template(SMALL, LARGE)
    ours.table.reserve([{"cpu": 3000}, {}])
    in_one = ours.table.keep(ours.bits, [requirement(ZONE, "In", ["zone-1"])])

    found = market([Item((1000, GIB, 1), (in_one,))], [1], [ours])

    assert names(found, ours) == [("large", "zone-1")]


def test_several_pools_are_one_market() -> None:
    """Machines of all pools stand side by side; a pool that sells nothing adds none."""
    sold_out = instance_type("gone", sold=[offering("zone-1", ON_DEMAND, 1, available=False)])
    pools = [template(SMALL), template(sold_out, number=1), template(LARGE, number=2)]

    found = market([everything(1, *pools)], [1], pools)

    assert found.sources == ((0, 0), (2, 0))


def test_a_market_without_machines() -> None:
    """Where everything is sold out there is a market all the same."""
    ours = template(instance_type("gone", sold=[offering("zone-1", ON_DEMAND, 1, available=False)]))

    found = market([everything(1, ours)], [1], [ours])

    assert (found.fits.shape, found.price.tolist(), found.sources) == ((0, 1), [], ())
