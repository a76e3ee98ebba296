"""Attribute bindings: template devices that will have the same attribute value."""

from __future__ import annotations

import pytest

from karpenter.core.model.catalog import AttributeBinding, DeviceName
from karpenter.core.scheduling.dynamicresources.attributebindings import attribute_group, attribute_groups
from karpenter.core.scheduling.dynamicresources.types import DeviceId

ROOT = "resource.kubernetes.io/pcieRoot"


def bound(*groups: str, attribute: str = ROOT) -> list[AttributeBinding]:
    """Return groups of devices, each named by one letter."""
    return [
        AttributeBinding(attribute, tuple(DeviceName("d", "p", name) for name in group)) for group in groups
    ]


@pytest.mark.parametrize(
    ("groups", "together", "expected"),
    [
        pytest.param(["ab"], "ab", True, id="named together"),
        pytest.param(["ab", "cd"], "ac", False, id="named apart"),
        pytest.param(["ab", "bc"], "ac", True, id="through a third"),
        pytest.param(["ab", "cd", "bc"], "ad", True, id="groups that are joined later"),
        pytest.param(["ba"], "ab", True, id="in whichever order"),
    ],
)
def test_who_agrees(groups: list[str], together: str, expected: bool) -> None:
    """Agreeing goes both ways, and through others."""
    known = attribute_groups(bound(*groups))
    found = [attribute_group(known, ROOT, DeviceId("d", "p", name, template=True)) for name in together]

    assert (found[0] == found[1]) is expected


@pytest.mark.parametrize(
    ("bindings", "device"),
    [
        pytest.param(bound("a"), DeviceId("d", "p", "a", template=True), id="alone"),
        pytest.param(bound("aa"), DeviceId("d", "p", "a", template=True), id="with itself"),
        pytest.param(bound("ab"), DeviceId("d", "p", "c", template=True), id="not named"),
        pytest.param(bound("ab"), DeviceId("d", "p", "a"), id="published, so its attributes are known"),
        pytest.param(
            bound("ab", attribute="example.com/x"),
            DeviceId("d", "p", "a", template=True),
            id="on something else",
        ),
    ],
)
def test_devices_without_a_group(bindings: list[AttributeBinding], device: DeviceId) -> None:
    """A device that is not named together with another one is in no group."""
    assert attribute_group(attribute_groups(bindings), ROOT, device) is None
