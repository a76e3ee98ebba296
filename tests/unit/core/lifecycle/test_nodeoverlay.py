"""What overlays say about themselves."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.meta import convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.core.effects import Amend
from karpenter.core.lifecycle.conditions import render_conditions
from karpenter.core.lifecycle.nodeoverlay import validate_overlays
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import view_of
from karpenter_local.testing.builders import RESERVATION, instance_type
from tests.unit.core.lifecycle.objects import BORN, NOW, at, pool, told

MARKET = Catalog(
    types=(instance_type("small", cpu=2), instance_type("large", cpu=8)), well_known=frozenset({RESERVATION})
)
SMALL = [{"key": INSTANCE_TYPE, "operator": "In", "values": ["small"]}]
LARGE = [{"key": INSTANCE_TYPE, "operator": "In", "values": ["large"]}]


def overlay(name: str, requirements: list[dict[str, Any]] = SMALL, **spec: Any) -> NodeOverlay:
    """Return an overlay that was made a while ago."""
    meta = {"name": name, "generation": 1, "resourceVersion": "4", "creationTimestamp": at(BORN)}
    return convert({"metadata": meta, "spec": {"requirements": requirements, **spec}}, NodeOverlay)


def standing(*overlays: NodeOverlay) -> dict[str, tuple[str, str]]:
    """Return status and reason of the validation of each overlay that something is written on."""
    effects = validate_overlays(view_of([pool(), *overlays]), MARKET, NOW)
    return {
        each.name: told(each.status["conditions"], "ValidationSucceeded")
        for each in effects
        if isinstance(each, Amend)
    }


GOOD = ("True", "ValidationSucceeded")
CONFLICT = ("False", "Conflict")


@pytest.mark.parametrize(
    ("overlays", "expected"),
    [
        pytest.param([overlay("a", price="1")], {"a": GOOD}, id="one alone holds"),
        pytest.param(
            [overlay("a", price="1", priceAdjustment="+1")],
            {"a": ("False", "RuntimeValidation")},
            id="one that contradicts itself",
        ),
        pytest.param(
            [overlay("a", capacity={"example.com/gpu": "many"})],
            {"a": ("False", "RuntimeValidation")},
            id="one that cannot be read",
        ),
        pytest.param(
            [overlay("a", price="1", weight=5), overlay("b", price="1", weight=5)],
            {"a": CONFLICT, "b": GOOD},
            id="of equal weights the later name holds, though they say the same",
        ),
        pytest.param(
            [overlay("a", price="1", weight=5), overlay("b", price="2", weight=6)],
            {"a": GOOD, "b": GOOD},
            id="of different weights both hold",
        ),
        pytest.param(
            [overlay("a", price="1"), overlay("b", LARGE, price="2")],
            {"a": GOOD, "b": GOOD},
            id="they are about different machines",
        ),
        pytest.param(
            [
                overlay("a", capacity={"example.com/gpu": "1"}),
                overlay("b", capacity={"example.com/gpu": "2"}),
            ],
            {"a": CONFLICT, "b": GOOD},
            id="the same resource twice",
        ),
        pytest.param(
            [
                overlay("a", capacity={"example.com/gpu": "1"}),
                overlay("b", capacity={"example.com/nic": "2"}),
            ],
            {"a": GOOD, "b": GOOD},
            id="different resources",
        ),
    ],
)
def test_standing(overlays: list[NodeOverlay], expected: dict[str, tuple[str, str]]) -> None:
    """An overlay holds when it can be read and no other of its weight is about the same."""
    assert standing(*overlays) == expected


def test_ready_follows() -> None:
    """An overlay that does not hold is not ready, and its message names the other."""
    effects = validate_overlays(
        view_of([pool(), overlay("a", price="1"), overlay("b", price="1")]), MARKET, NOW
    )
    written = next(each for each in effects if isinstance(each, Amend) and each.name == "a")

    assert written.version == "4"
    assert told(written.status["conditions"], "Ready") == ("False", "UnhealthyDependents")
    found = next(each for each in written.status["conditions"] if each["type"] == "ValidationSucceeded")
    assert found["message"] == "conflicts with NodeOverlay b of the same weight"


def test_what_was_said_is_not_said_again() -> None:
    """Nothing is written on an overlay that stands as it stood."""
    (first,) = validate_overlays(view_of([pool(), overlay("a", price="1")]), MARKET, NOW)
    assert isinstance(first, Amend)
    plain = {"metadata": {"name": "a", "generation": 1, "creationTimestamp": at(BORN)}}
    spec = {"requirements": SMALL, "price": "1"}
    settled = convert(
        {**plain, "spec": spec, "status": {"conditions": first.status["conditions"]}}, NodeOverlay
    )

    assert render_conditions(settled.status.conditions) == first.status["conditions"]
    assert validate_overlays(view_of([pool(), settled]), MARKET, NOW) == ()
