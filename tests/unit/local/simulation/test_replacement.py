"""Machines that are replaced: replacements come first, never cost more, differ, and nothing comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from karpenter_local.simulation.invariants.commands import ReplacementInvariant
from tests.unit.local.simulation.broken import REPLICA, claim, found, machine, node, operator, pod, wrote

if TYPE_CHECKING:
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant

SMALL, LARGE = "c-1x-amd64-linux", "c-4x-amd64-linux"
MEMORY = "m-1x-amd64-linux"


def a_machine(cluster: SimulatedCluster, name: str, kind: str) -> None:
    machine(cluster, name)
    node(cluster, name)
    claim(cluster, name, "Initialized", kind=kind)


def begin(cluster: SimulatedCluster, judge: Invariant, name: str, kind: str) -> None:
    """Let the operator begin to disrupt a machine."""
    before = cluster.mirror.claims[name]
    after = claim(cluster, name, "Initialized", reason="Underutilized", kind=kind)
    wrote(cluster, judge, before, after, REPLICA)


def launch(cluster: SimulatedCluster, judge: Invariant, name: str, kind: str) -> None:
    """Let the operator create a claim and say that it replaces something."""
    wrote(cluster, judge, None, claim(cluster, name, kind=kind), REPLICA)
    cluster.mirror.replacements[name] = None


async def remove(cluster: SimulatedCluster, judge: Invariant, name: str) -> None:
    """Let the operator delete a claim, and wait until that was judged."""
    wrote(cluster, judge, cluster.mirror.claims[name], None, REPLICA)
    await asyncio.sleep(1)


async def exchange(
    cluster: SimulatedCluster, judge: Invariant, old: tuple[str, str], new: tuple[str, str], *, complete: bool
) -> None:
    """Let the operator replace one machine by another."""
    begin(cluster, judge, *old)
    launch(cluster, judge, *new)
    if complete:
        claim(cluster, new[0], "Initialized", kind=new[1])
    await remove(cluster, judge, old[0])


@pytest.mark.parametrize(
    ("old", "new", "complete", "wrong"),
    [
        pytest.param(LARGE, SMALL, True, [], id="a cheaper one that is complete"),
        pytest.param(
            LARGE,
            SMALL,
            False,
            ["machines go (Underutilized: a) before their replacement b is complete"],
            id="too soon",
        ),
        pytest.param(
            SMALL,
            LARGE,
            True,
            ["the bill grows from 0.0271 to 0.1086 an hour by Underutilized: a"],
            id="a dearer one",
        ),
        pytest.param(
            SMALL,
            SMALL,
            True,
            ["b is the like of a machine that it replaces (Underutilized: a)"],
            id="its like",
        ),
    ],
)
def test_replacements_come_first_and_cost_less(old: str, new: str, complete: bool, wrong: list[str]) -> None:
    """Nothing goes before its replacement is complete, nor for one that costs more or is the same."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        a_machine(cluster, "a", old)
        await exchange(cluster, judge, ("a", old), ("b", new), complete=complete)

    assert found(ReplacementInvariant, scene) == wrong


def test_two_commands_that_look_like_one_are_not_judged_too_early() -> None:
    """Where only a part of what was closed together goes, the rest may wait for the replacement."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        for name in ("a", "b"):
            a_machine(cluster, name, LARGE)
            begin(cluster, judge, name, LARGE)
        launch(cluster, judge, "c", SMALL)
        await remove(cluster, judge, "a")

    assert found(ReplacementInvariant, scene) == []


@pytest.mark.parametrize(
    ("more", "wrong"),
    [pytest.param(0, 1, id="the same pods"), pytest.param(1, 0, id="other pods")],
)
def test_what_went_does_not_come_back(more: int, wrong: int) -> None:
    """Within the hour, no exchange leads back to where an earlier one began, unless the pods are others."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pod(cluster, "web")
        a_machine(cluster, "a", MEMORY)
        await exchange(cluster, judge, ("a", MEMORY), ("b", SMALL), complete=True)
        a_machine(cluster, "b", SMALL)
        for number in range(more):
            pod(cluster, f"more-{number}")
        await exchange(cluster, judge, ("b", SMALL), ("c", MEMORY), complete=True)

    assert sum("comes back" in each for each in found(ReplacementInvariant, scene)) == wrong
