"""Controllers of pools: what wakes them, outcomes of machines, and counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api.labels import ALL_LABEL_RULES
from karpenter.base.queue import WorkQueue
from karpenter.controllers.nodepool import (
    COUNTER_PERIOD,
    UNSYNCED,
    NodePoolController,
    NodePoolCounter,
    RegistrationOutcomes,
)
from karpenter.core.effects import Amend, RegistrationOutcome
from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request
from tests.unit.controllers.harness import CLASS, Shell, wakes
from tests.unit.core.lifecycle.objects import claim, complete, node, pool

LOST = Unreachable("no", request=Request(method="PATCH", path="/"))


def outcome(*, healthy: bool, uid: str = "pool-uid") -> RegistrationOutcome:
    """Return news of a machine of the pool."""
    return RegistrationOutcome(pool="default", pool_uid=uid, healthy=healthy, because="it is so")


def keeper(shell: Shell) -> tuple[NodePoolController, RegistrationOutcomes]:
    """Return the controller of pools, and where it hears of machines."""
    outcomes = RegistrationOutcomes(WorkQueue[str]())
    return NodePoolController(outcomes, shell.store, shell.performer, shell.clock, ALL_LABEL_RULES), outcomes


def healthy(shell: Shell) -> list[str]:
    """Return what was written about the health of registrations, and forget it."""
    found = [
        held["status"]
        for each in shell.performer.effects
        if isinstance(each, Amend)
        for held in each.status.get("conditions", ())
        if held["type"] == "NodeRegistrationHealthy"
    ]
    shell.performer.effects.clear()
    return found


def settled(**more: Any) -> Any:
    """Return a pool that has said all there is to say."""
    return pool(
        status={"nodeClassObservedGeneration": 1},
        ValidationSucceeded="True",
        NodeClassReady="True",
        Ready="True",
        NodeRegistrationHealthy="Unknown",
        **more,
    )


def test_what_wakes_pools() -> None:
    """A pool is woken by itself and by its class."""

    async def main() -> None:
        found, _ = keeper(Shell(pool()))
        assert wakes(found, pool()) == wakes(found, CLASS) == ["default"]
        assert wakes(found, node()) == []
        assert wakes(found, type(CLASS)(group="x", kind="y", name="z")) == []

    asyncio.run(main())


def test_a_pool_says_how_it_stands() -> None:
    """Conditions and hashes are written once; a pool that is gone is left alone."""

    async def main() -> None:
        shell = Shell(pool(), CLASS, claim())
        found, _ = keeper(shell)
        await found.reconcile("default")
        assert "NodeClassReady" in str(shell.performer.effects)
        await found.reconcile("gone")

    asyncio.run(main())


def test_outcomes_of_machines() -> None:
    """Two failures make a pool unhealthy; enough successes make it healthy; others' news do not count."""

    async def main() -> None:
        shell = Shell(settled(), CLASS)
        found, outcomes = keeper(shell)
        outcomes.add(outcome(healthy=False))
        outcomes.add(outcome(healthy=False, uid="another pool of the name"))
        await found.reconcile("default")
        assert healthy(shell) == []
        outcomes.add(outcome(healthy=False))
        await found.reconcile("default")
        assert healthy(shell) == ["False"]
        for _ in range(3):
            outcomes.add(outcome(healthy=True))
        await found.reconcile("default")
        assert healthy(shell)[-1:] == ["True"]
        assert outcomes.first("default") is None

    asyncio.run(main())


def test_an_outcome_that_could_not_be_written_is_kept() -> None:
    """Nothing is lost while the API server cannot be reached."""

    async def main() -> None:
        shell = Shell(settled(), CLASS)
        found, outcomes = keeper(shell)
        outcomes.add(outcome(healthy=True))
        shell.performer.error = LOST
        with pytest.raises(Unreachable):
            await found.reconcile("default")
        shell.performer.error = None
        await found.reconcile("default")
        assert healthy(shell)[-1:] == ["True"]

    asyncio.run(main())


def test_a_change_of_the_class_begins_anew() -> None:
    """What machines of an older generation did is forgotten."""

    async def main() -> None:
        shell = Shell(settled(), CLASS)
        found, outcomes = keeper(shell)
        outcomes.add(outcome(healthy=False))
        await found.reconcile("default")
        shell.put(type(CLASS)(group=CLASS.group, kind=CLASS.kind, name="default", ready=True, generation=2))
        await found.reconcile("default")
        assert healthy(shell) == ["Unknown"]
        outcomes.add(outcome(healthy=False))
        await found.reconcile("default")
        assert "False" not in healthy(shell)

    asyncio.run(main())


def test_counts() -> None:
    """What machines have together is told only once everything is known, so that a restart tells no less."""

    async def main() -> None:
        shell = Shell(pool(), complete(status={"capacity": {"cpu": "4"}}))
        found = NodePoolCounter(shell.store, shell.performer)
        assert await found.look() == UNSYNCED
        assert shell.performer.effects == []
        shell.store.complete = True
        assert await found.look() == COUNTER_PERIOD
        (written,) = shell.performer.effects
        assert isinstance(written, Amend)
        assert written.status["nodes"] == 1
        assert written.status["resources"]["cpu"] == "4"

    asyncio.run(main())
