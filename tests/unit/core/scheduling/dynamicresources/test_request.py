"""What a claim may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.dra import Device, DeviceClaim, DeviceClassSpec
from karpenter.api.meta import convert
from karpenter.base.quantity import NANOS
from karpenter.core.scheduling.dynamicresources.request import MatchAttribute, compile_claim
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError
from tests.unit.core.scheduling.dynamicresources.hardware import (
    CLASSES,
    asking,
    cel,
    every,
    exactly,
    first_of,
)


def test_one_request() -> None:
    """A request has the selectors of its class and its own, and one device unless it says otherwise."""
    claim = asking(exactly("r", "true", count=0, capacity={"memory": "2"}, tolerations=[{"key": "t"}]))
    (request,) = compile_claim(claim, CLASSES).requests
    (alternative,) = request.alternatives

    assert (
        alternative.request,
        alternative.name,
        alternative.class_name,
        alternative.count,
        alternative.admin,
    ) == ("r", "r", "gpu", 1, False)
    assert [selector.source for selector in alternative.selectors] == [
        'device.driver == "gpu.example.com"',
        "true",
    ]
    assert (alternative.capacity, alternative.tolerations[0].key) == ({"memory": 2 * NANOS}, "t")


def test_alternatives() -> None:
    """Alternatives keep their order, and have names within their request."""
    claim = asking(first_of("r", exactly("big", count=4), every("all"), exactly("small")))
    (request,) = compile_claim(claim, CLASSES).requests

    assert [
        (alternative.request, alternative.name, alternative.count) for alternative in request.alternatives
    ] == [
        ("r", "r/big", 4),
        ("r", "r/all", None),
        ("r", "r/small", 1),
    ]


@pytest.mark.parametrize(
    ("among", "names", "expected"),
    [
        pytest.param([], ["a", "r/x"], [True, True], id="none named stands for all"),
        pytest.param(["a"], ["a", "r/x"], [True, False], id="a request"),
        pytest.param(["r"], ["a", "r/x"], [False, True], id="a request with all its alternatives"),
        pytest.param(["r/x"], ["r/x", "r/y"], [True, False], id="one alternative"),
    ],
)
def test_constraints(among: list[str], names: list[str], expected: list[bool]) -> None:
    """A constraint is about the requests or alternatives that it names."""
    subs = first_of("r", exactly("x"), exactly("y"))
    wanted = compile_claim(asking(exactly("a"), subs, same="example.com/numa", among=among), CLASSES)
    alternatives = {
        alternative.name: alternative for request in wanted.requests for alternative in request.alternatives
    }

    assert wanted.constraints == (MatchAttribute("example.com/numa", frozenset(among)),)
    assert [wanted.constraints[0].covers(alternatives[name]) for name in names] == expected


PLAIN_CLASS = {"bad": convert({"selectors": [{"cel": {"expression": "=="}}]}, DeviceClassSpec)}


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        pytest.param(
            {"requests": [exactly("r", of="tpu")]},
            "request r asks for DeviceClass tpu, which is not there",
            id="a class that is not there",
        ),
        pytest.param(
            {"requests": [first_of("r", exactly("a"), exactly("b", of="tpu"))]},
            "request r/b asks for DeviceClass tpu, which is not there",
            id="nor for an alternative",
        ),
        pytest.param(
            {"requests": [exactly("r", "device.")]},
            "the selector 'device.' cannot be used",
            id="a bad selector",
        ),
        pytest.param(
            {"requests": [exactly("r", of="bad")]},
            "the selector '==' cannot be used",
            id="a bad selector of a class",
        ),
        pytest.param(
            {"requests": [exactly("r", selectors=[{}])]},
            "request r has a selector that is not understood: expected cel",
            id="a selector of another kind",
        ),
        pytest.param(
            {"requests": [exactly("r", allocationMode="Some")]},
            "request r has allocationMode 'Some': expected ExactCount or All",
            id="a mode that is not known",
        ),
        pytest.param(
            {"requests": [{"name": "r"}]},
            "request r asks for nothing: expected exactly or firstAvailable",
            id="a request of another kind",
        ),
        pytest.param(
            {"requests": [exactly("r", capacity={"memory": "much"})]},
            "request r: 'much' is not a quantity",
            id="an amount that is none",
        ),
        pytest.param(
            {"requests": [exactly("r")], "constraints": [{"distinctAttribute": "example.com/a"}]},
            "it has a constraint that is not understood: expected matchAttribute",
            id="an attribute that must differ",
        ),
        pytest.param(
            {"requests": [exactly("r")], "constraints": [{}]},
            "it has a constraint that is not understood",
            id="a constraint of another kind",
        ),
        pytest.param(
            {"requests": [exactly("a", count=30), exactly("b", count=3)]},
            "it asks for 33 devices, and a claim can have at most 32",
            id="too many devices",
        ),
        pytest.param(
            {
                "requests": [
                    exactly("a", count=30),
                    first_of("b", exactly("x", count=9), exactly("y", count=4)),
                ]
            },
            "it asks for 34 devices",
            id="too many even with the smallest alternative",
        ),
    ],
)
def test_what_is_refused(claim: dict[str, Any], says: str) -> None:
    """What is not there or not understood is refused before anything is searched."""
    with pytest.raises(DeviceClaimError) as refused:
        compile_claim(convert(claim, DeviceClaim), {**CLASSES, **PLAIN_CLASS})

    assert says in str(refused.value)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(asking(exactly("a", count=32)), id="as many as may be"),
        pytest.param(
            asking(exactly("a", count=30), first_of("b", exactly("x", count=9), exactly("y", count=2))),
            id="as many with the smallest alternative",
        ),
        pytest.param(
            asking(exactly("a", count=32), every("b")), id="all there are count when they are known"
        ),
    ],
)
def test_as_many_as_may_be(claim: DeviceClaim) -> None:
    """A claim may have 32 devices."""
    assert compile_claim(claim, CLASSES).requests


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([], [], True, id="no taints"),
        pytest.param([{"key": "a", "effect": "NoSchedule"}], [], False, id="one that is not tolerated"),
        pytest.param([{"key": "a", "effect": "NoExecute"}], [], False, id="one that drives pods away"),
        pytest.param([{"key": "a", "effect": "None"}], [], True, id="one that only informs"),
        pytest.param(
            [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            [{"key": "a", "operator": "Equal", "value": "b"}],
            True,
            id="one that is tolerated by value",
        ),
        pytest.param(
            [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}],
            [{"key": "a", "operator": "Exists"}],
            False,
            id="one of two that is tolerated",
        ),
        pytest.param(
            [{"key": "a", "effect": "NoExecute"}], [{"operator": "Exists"}], True, id="all are tolerated"
        ),
    ],
)
def test_taints(taints: list[dict[str, str]], tolerations: list[dict[str, str]], expected: bool) -> None:
    """A request keeps off devices with taints that it does not tolerate."""
    (request,) = compile_claim(asking(exactly(tolerations=tolerations)), CLASSES).requests
    device = convert({"name": "a", "taints": taints}, Device)

    assert request.alternatives[0].tolerates(device.taints) is expected


def test_looking_after_devices() -> None:
    """A request with admin access is known as one."""
    (request,) = compile_claim(asking(exactly(adminAccess=True, selectors=cel("true"))), CLASSES).requests

    assert request.alternatives[0].admin
