"""How much of a device a request takes."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.base.quantity import parse_quantity
from karpenter.core.scheduling.dynamicresources.consumable_capacity import consumed_capacity, is_large_enough
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, device, gpu

RANGE = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "2Gi"}}
OPEN = {"default": "2Gi", "validRange": {"min": "4Gi"}}
STEPS = {"validRange": {"step": "3Gi"}}
VALUES = {"default": "2Gi", "validValues": ["8Gi", "2Gi", "4Gi"]}


def nanos(amount: str) -> int:
    return parse_quantity(amount).nanos


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        pytest.param(None, None, "16Gi", id="nothing asked, no policy: the whole"),
        pytest.param(None, "3Gi", "3Gi", id="something asked, no policy: just that"),
        pytest.param(None, "16Gi", "16Gi", id="everything asked"),
        pytest.param(None, "17Gi", None, id="more asked than there is"),
        pytest.param(RANGE, None, "2Gi", id="nothing asked: the policy's default"),
        pytest.param({"validValues": ["1Gi"]}, None, "16Gi", id="nothing asked, no default: the whole"),
        pytest.param(RANGE, "1", "1Gi", id="less than the least is raised to it"),
        pytest.param(RANGE, "1Gi", "1Gi", id="the least itself"),
        pytest.param(RANGE, "1025Mi", "3Gi", id="off-step is raised to the next step from the least"),
        pytest.param(RANGE, "3Gi", "3Gi", id="on a step"),
        pytest.param(RANGE, "7Gi", "7Gi", id="the last step below the most"),
        pytest.param(RANGE, "8Gi", None, id="the next step is above the most"),
        pytest.param(RANGE, "9Gi", None, id="above the most"),
        pytest.param(RANGE, "2Gi", "2Gi", id="the default may be off-step"),
        pytest.param({"validRange": {"max": "8Gi"}}, "8Gi", "8Gi", id="the most itself"),
        pytest.param(OPEN, "1Gi", "4Gi", id="a range without steps has a least"),
        pytest.param(OPEN, "5Gi", "5Gi", id="a range without steps or most takes anything"),
        pytest.param(OPEN, "20Gi", None, id="but not more than there is"),
        pytest.param(STEPS, "4Gi", "6Gi", id="steps without a least start at nothing"),
        pytest.param(STEPS, "0", "0", id="nothing is a step of its own"),
        pytest.param(VALUES, "1", "2Gi", id="the smallest value that is enough"),
        pytest.param(VALUES, "3Gi", "4Gi", id="the next value"),
        pytest.param(VALUES, "8Gi", "8Gi", id="the largest value"),
        pytest.param(VALUES, "9Gi", None, id="no value is enough"),
    ],
)
def test_portions(policy: dict[str, Any] | None, asked: str | None, expected: str | None) -> None:
    """A request is rounded up to the next portion there is; what is not asked for follows the policy."""
    memory = {"value": "16Gi", **({"requestPolicy": policy} if policy else {})}
    found = consumed_capacity(
        device(gpu("a", shared=True, memory_=memory)), {"memory": nanos(asked)} if asked is not None else {}
    )

    assert found == ({f"{DRIVER}/memory": nanos(expected)} if expected is not None else None)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"cores": "1"}, None, id="a capacity it does not have"),
        pytest.param({f"{DRIVER}/memory": "1Gi"}, {f"{DRIVER}/memory": "1Gi"}, id="a name with its domain"),
        pytest.param({"other.example.com/memory": "1Gi"}, None, id="the same name of another domain"),
    ],
)
def test_asking_for_shares(asked: dict[str, str], expected: dict[str, str] | None) -> None:
    """Every capacity that is asked for must be there."""
    found = consumed_capacity(
        device(gpu("a", memory_="16Gi")), {name: nanos(each) for name, each in asked.items()}
    )

    exact = {name: nanos(each) for name, each in expected.items()} if expected is not None else None

    assert found == exact


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({}, True, id="nothing in particular"),
        pytest.param({"memory": "16Gi"}, True, id="as much as it has"),
        pytest.param({"memory": "17Gi"}, False, id="more than it has"),
        pytest.param({"cores": "1"}, False, id="something it does not have"),
    ],
)
def test_devices_of_ones_own(asked: dict[str, str], expected: bool) -> None:
    """A device that is not shared only has to be large enough."""
    found = is_large_enough(device(gpu("a", memory_="16Gi")), {k: nanos(v) for k, v in asked.items()})

    assert found is expected
