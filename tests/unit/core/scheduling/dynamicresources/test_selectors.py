"""Which devices an expression selects."""

from __future__ import annotations

import pytest

from karpenter.core.scheduling.dynamicresources.selectors import SelectorMatcher, compile_selector
from karpenter.core.scheduling.dynamicresources.types import DeviceClaimError
from tests.unit.core.scheduling.dynamicresources.hardware import DRIVER, device, gpu

GPU = gpu("gpu-0", model="A100", cores=3, fast=True, memory_="40Gi")
GPU["attributes"]["driverVersion"] = {"version": "1.10.2"}
GPU["attributes"]["net.example.com/rack"] = {"string": "r7"}
GPU["capacity"]["net.example.com/lanes"] = {"value": "16"}
OWN = f'device.attributes["{DRIVER}"]'
HAS = f'device.capacity["{DRIVER}"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f'device.driver == "{DRIVER}"', True, id="the driver"),
        pytest.param('device.driver == "other"', False, id="another driver"),
        pytest.param(f'{OWN}.model == "A100"', True, id="a text"),
        pytest.param(f"{OWN}['model'].startsWith('A')", True, id="an attribute by its key"),
        pytest.param(f"{OWN}.cores >= 3", True, id="a number"),
        pytest.param(f"{OWN}.fast", True, id="a truth"),
        pytest.param(f"!{OWN}.fast", False, id="the opposite of a truth"),
        pytest.param(f'{OWN}.model in ["A100", "H100"]', True, id="one of several"),
        pytest.param('device.attributes["net.example.com"].rack == "r7"', True, id="another domain"),
        pytest.param(f"{HAS}.memory.compareTo(quantity('40Gi')) == 0", True, id="an amount"),
        pytest.param(f"{HAS}.memory.isGreaterThan(quantity('80Gi'))", False, id="a larger amount"),
        pytest.param(
            "device.capacity['net.example.com'].lanes.isLessThan(quantity('17'))", True, id="other amounts"
        ),
        pytest.param(f"{OWN}.driverVersion.isGreaterThan(semver('1.9.0'))", True, id="a version"),
        pytest.param(f"{OWN}.driverVersion.major() == 1", True, id="a number of a version"),
        pytest.param(f"cel.bind(a, {OWN}, a.fast && a.cores == 3)", True, id="a name for a part"),
        pytest.param("!device.allowMultipleAllocations", True, id="whether it can be shared"),
        pytest.param(f'"model" in {OWN}', True, id="an attribute that is there"),
        pytest.param(f'has({OWN}.colour) && {OWN}.colour == "red"', False, id="one that is not there"),
        pytest.param(
            '"x" in device.attributes["unknown.example.com"]', False, id="a domain that is not there"
        ),
        pytest.param('!("x" in device.capacity["unknown.example.com"])', True, id="nor among the amounts"),
        pytest.param(f'{OWN}.colour == "red"', False, id="asking for what is not there selects nothing"),
        pytest.param(f'!({OWN}.colour == "red")', False, id="nor does its opposite"),
        pytest.param(
            f'{OWN}.colour == "red" || {OWN}.fast', True, id="unless the answer is known without it"
        ),
        pytest.param(f"{OWN}.model", False, id="what is neither true nor false"),
        pytest.param(f"{OWN}.exists(name, name == 'model')", True, id="all attributes"),
    ],
)
def test_what_is_selected(expression: str, expected: bool) -> None:
    """An expression sees the driver, attributes and capacities by domain, and whether a device is shared."""
    assert SelectorMatcher().matches([compile_selector(expression)], device(GPU)) is expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        pytest.param("device.driver ==", "not a CEL expression", id="no expression"),
        pytest.param("url(device.driver).getHost() == 'a'", "calls getHost, url", id="an unknown function"),
        pytest.param("devices.driver == 'a'", "asks for devices, which is not there", id="an unknown name"),
        pytest.param("true" + " || true" * 1500, "is longer than 10240 characters", id="a very long one"),
    ],
)
def test_what_cannot_be_asked(expression: str, says: str) -> None:
    """An expression that can never be evaluated is refused when it is read."""
    with pytest.raises(DeviceClaimError, match="the selector ") as refused:
        compile_selector(expression)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param(["device.driver == 'other'"], "", id="a plain no"),
        pytest.param(["true"], "", id="a yes"),
        pytest.param([f"{OWN}.colour == 'red'"], "no such key: colour", id="a failure"),
        pytest.param(["false", f"{OWN}.colour == 'red'"], "", id="a no before the failure"),
        pytest.param([f"{OWN}.cores"], "it says 3 instead of true or false", id="no truth"),
    ],
)
def test_failures_are_known(expressions: list[str], expected: str) -> None:
    """Whether an expression failed on a device is kept, for allocationMode All."""
    assert SelectorMatcher().failure(map(compile_selector, expressions), device(GPU)) == expected


def test_devices_that_look_alike_are_asked_once() -> None:
    """What an expression says depends on what a device is, not on what it is called."""
    matcher = SelectorMatcher()
    selector = compile_selector(f"{OWN}.cores == 1")
    answers = [matcher.matches([selector], device(gpu(name, cores=1))) for name in "abc"]

    assert (answers, len(matcher._results)) == ([True, True, True], 1)


def test_the_longest_expression_that_is_read() -> None:
    """Of 10240 characters; one more is refused."""
    assert SelectorMatcher().matches([compile_selector("true".ljust(10240))], device(GPU))
    with pytest.raises(DeviceClaimError, match="is longer than 10240 characters"):
        compile_selector("true".ljust(10241))
