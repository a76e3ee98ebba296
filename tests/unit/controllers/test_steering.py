"""Telling workloads and kube-scheduler which machines to let go."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from karpenter.api.node import Node, Taint
from karpenter.controllers.disruption import STEERING_PERIOD, UNSYNCED, Steering
from karpenter.core.effects import Amend
from karpenter.kube.errors import Conflict, KubeError, NotFound, Status, Unreachable
from karpenter.kube.transport import Request
from tests.unit.controllers.harness import Shell
from tests.unit.core.disruption.clusters import machine, pod, pool

REQUEST = Request(method="PATCH", path="/")


def stage() -> Shell:
    shell = Shell(
        pool(), *machine("a"), *machine("b"), pod("web-1", "a"), pod("web-2", "b"), pod("web-3", "b")
    )
    shell.store.complete = True
    return shell


def look(shell: Shell, *, on: bool = True) -> float:
    return asyncio.run(Steering(shell.store, shell.performer, shell.clock, on=on).look())


def names(shell: Shell) -> list[str]:
    return [each.name for each in shell.performer.effects if isinstance(each, Amend)]


def test_pods_are_told_what_their_deletion_costs() -> None:
    """All are, those on the emptiest machine first, which would rather not have new ones."""
    shell = stage()

    assert look(shell) == STEERING_PERIOD
    assert names(shell) == ["a", "web-1", "web-2", "web-3"]


def test_nothing_is_decided_before_everything_was_seen() -> None:
    """A cluster that is half known seems emptier than it is."""
    shell = stage()
    shell.store.complete = False

    assert look(shell) == UNSYNCED
    assert names(shell) == []


def test_where_steering_is_off_machines_are_as_all_others() -> None:
    """What an earlier operator has set on nodes is taken back; pods are not touched."""
    shell = stage()
    soft = Taint(key="karpenter.sh/emptying", effect="PreferNoSchedule")
    (node,) = (each for each in machine("a") if isinstance(each, Node))
    shell.put(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=(soft,))))

    assert look(shell, on=False) == STEERING_PERIOD
    assert names(shell) == ["a"]


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (Conflict(Status(code=409), request=REQUEST), 4),
        (NotFound(Status(code=404), request=REQUEST), 4),
        (Unreachable("no", request=REQUEST), 1),
    ],
)
def test_what_fails_waits_for_the_next_look(error: KubeError, tried: int) -> None:
    """An object that has changed is left for later; a server that does not answer is not asked for more."""
    shell = stage()
    calls = 0

    async def perform(effects: object) -> None:
        nonlocal calls
        del effects
        calls += 1
        raise error

    shell.performer.perform = perform  # type: ignore[method-assign]

    assert look(shell) == STEERING_PERIOD
    assert calls == tried
