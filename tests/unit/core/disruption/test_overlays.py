"""Overlays correct the prices of machines that are there as well as of those that could replace them."""

from __future__ import annotations

import pytest

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.meta import Resource, convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.validation import ValidCommand, validate
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, facts, held, machine, pod, pool

OVERLAYS = SchedulingPolicy(overlays=True)
FITTING: list[Resource | list[Resource]] = [pool(), machine("node-1", "small"), pod("web-0", "node-1")]


def overlay(adjustment: str, *types: str) -> NodeOverlay:
    """Return an overlay that changes the price of some types, or of all."""
    wanted = [{"key": INSTANCE_TYPE, "operator": "In", "values": list(types)}] if types else []
    spec = {"requirements": wanted, "priceAdjustment": adjustment}
    return convert({"metadata": {"name": "prices"}, "spec": spec}, NodeOverlay)


@pytest.mark.parametrize("adjustment", ["-50%", "+50%"])
def test_a_machine_is_not_replaced_by_its_like(adjustment: str) -> None:
    """Where everything costs half, so does what is there: nothing is saved by launching the same again."""
    verdict = decided(cluster(*FITTING, overlay(adjustment)), policy=OVERLAYS)

    assert held(verdict) == {"node-1": "NoSaving"}


def test_a_machine_that_users_know_to_be_dear_goes() -> None:
    """A machine whose type is dearer than the cloud says is replaced by one that is cheaper."""
    view = cluster(pool(), machine("node-1", "small"), pod("web-0", "node-1"), overlay("+900%", "small"))
    (command,) = decided(view, policy=OVERLAYS).commands
    second = validate(command, view, MARKET, DisruptionMemory(), now=NOW, context=facts({}, OVERLAYS))

    assert command.candidates == ("node-1",)
    assert isinstance(second, ValidCommand)
    assert not decided(view, policy=SchedulingPolicy()).commands


def test_pools_that_are_not_known_see_what_the_cloud_says() -> None:
    """A type is found for any pool; only a known pool has corrections."""
    known = overlaid_catalog(cluster(*FITTING, overlay("-50%")), MARKET, OVERLAYS)
    mine, others = known.find("default", "small"), known.find("gone", "small")

    assert mine is not None
    assert others is not None
    assert mine.offerings[0].price == others.offerings[0].price / 2
    assert known.find("default", "nothing") is None
