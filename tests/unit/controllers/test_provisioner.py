"""The provisioner: who triggers it, when it decides, and what it does about a decision."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from karpenter.base.batcher import BatchWindow
from karpenter.base.queue import Supervisor
from karpenter.controllers.executor import InlineExecutor
from karpenter.controllers.provisioner import Provisioner
from karpenter.core.effects import Announce, CreateClaim
from karpenter.core.model.catalog import Catalog
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request
from karpenter.telemetry.metrics import Metrics, scheduler
from karpenter_local.testing.builders import RESERVATION, instance_type
from karpenter_local.testing.builders.machines import CORES
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.controllers.harness import CLASS, Shell
from tests.unit.core.lifecycle.objects import claim, complete, launched, node, pod, pool
from tests.unit.core.provisioning.test_provisioner_demand import waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MARKET = Catalog(types=(instance_type("small", cpu=2),), well_known=frozenset({CORES, RESERVATION}))
ASKS: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
CLOSED = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}


class FixedCatalogs:
    """Sells small machines."""

    async def of(self, pools: Any) -> Catalog:
        del pools
        return MARKET


class Harness(Shell):
    """A provisioner and its surroundings."""

    def __init__(self, *objects: Any) -> None:
        super().__init__(CLASS)
        self.time = VirtualClock()
        self.metrics = Metrics(clock=self.time)
        self.provisioner = Provisioner(
            store=self.store,
            performer=self.performer,
            catalogs=FixedCatalogs(),  # type: ignore[arg-type]
            worker=InlineExecutor(),
            clock=self.time,
            metrics=self.metrics,
            settings=ProvisioningSettings(),
            window=BatchWindow(idle=1.0, longest=10.0),
            deciding=asyncio.Lock(),
        )
        self.decided: list[tuple[float, int]] = []
        self.provisioner.subscribe(
            lambda decision: self.decided.append((self.time.monotonic(), decision.considered))
        )
        self.store.complete = True
        self.store.subscribe(self.provisioner.hear)
        self.put(*objects)

    @property
    def created(self) -> int:
        return sum(isinstance(each, CreateClaim) for each in self.performer.effects)


def play(test: Callable[[Harness], Awaitable[None]], *objects: Any) -> Harness:
    """Let a provisioner run while something happens."""

    async def main() -> Harness:
        harness = Harness(*objects)
        async with Supervisor(chance=Random(1)) as supervisor:  # noqa: S311  jitter
            supervisor.start("provisioner", harness.provisioner.run)
            supervisor.start("remind", harness.provisioner.remind)
            await test(harness)
        return harness

    return run_virtual(main())


async def _wait(harness: Harness) -> None:
    del harness
    await asyncio.sleep(5)


def test_a_waiting_pod_gets_a_claim() -> None:
    """After a second without another pod one decision is made, its claim is created, and the pod is told."""
    harness = play(_wait, pool(Ready="True"), waiting(**ASKS))

    assert harness.decided == [(1.0, 1)]
    assert harness.created == 1
    told = [each.reason for each in harness.performer.effects if isinstance(each, Announce)]
    assert told == ["Nominated"]
    assert harness.metrics[scheduler.SCHEDULING_DURATION].count(controller="provisioner") == 1
    assert harness.provisioner.search is None


def test_wishes_that_hinder_consolidation_are_told_once() -> None:
    """A pod that would rather be spread is told of at its first decision, and not at the ones after it."""
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}

    async def happens(harness: Harness) -> None:
        del harness
        await asyncio.sleep(25)

    with capture_logs() as logs:
        play(happens, waiting(topologySpreadConstraints=[spread], **ASKS))

    told = [each for each in logs if each["event"] == "pods.hard_to_consolidate"]
    assert [(each["count"], each["because"]) for each in told] == [(1, "they would rather be spread")]


def test_a_claim_without_a_machine_holds_up_the_next_decision() -> None:
    """Until every claim has its machine nothing is decided; then what waits is looked at again."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(5)
        assert harness.decided == []
        harness.put(launched())
        await asyncio.sleep(3)

    harness = play(happens, pool(Ready="True"), claim(), waiting(**ASKS))
    assert len(harness.decided) == 1


def test_a_pod_does_not_wait_for_the_launch_of_an_earlier_claim() -> None:
    """Which pods the earlier claim is for is known, and which machine it will get can be foreseen."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(1.5)
        harness.put(waiting("second", **ASKS), waiting("third", **ASKS))
        await asyncio.sleep(2)

    harness = play(happens, pool(Ready="True"), waiting(**ASKS))

    (_, first), (when, others) = harness.decided
    assert (first, others) == (1, 2)
    assert 2.5 <= when <= 2.7
    assert harness.created == 2


def test_a_batch_that_waited_for_machines_waits_no_longer_than_for_them() -> None:
    """A batch that was complete before the last claim had its machine is decided as soon as it has."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(2.3)
        harness.put(launched())
        await asyncio.sleep(1)

    harness = play(happens, pool(Ready="True"), claim(), waiting(**ASKS))

    assert harness.decided == [(2.3, 1)]


def test_a_batch_waits_until_every_kind_was_listed() -> None:
    """That the state is complete is no change of an object; it is noticed within a second all the same."""

    async def happens(harness: Harness) -> None:
        harness.store.complete = False
        await asyncio.sleep(2.3)
        harness.store.complete = True
        await asyncio.sleep(2)

    harness = play(happens, pool(Ready="True"), waiting(**ASKS))

    assert harness.decided == [(3.0, 1)]


def test_whatever_still_waits_is_looked_at_again() -> None:
    """A pod without a place is looked at every ten seconds, until it is gone."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(25)
        assert len(harness.decided) == 3
        harness.drop(waiting(**ASKS))
        await asyncio.sleep(30)

    harness = play(happens, waiting(**ASKS))
    assert len(harness.decided) == 3
    assert harness.created == 0


@pytest.mark.parametrize(
    ("item", "triggers"),
    [
        pytest.param(waiting(**ASKS), True, id="a pod that found no node"),
        pytest.param(pod(), False, id="a pod that runs"),
        pytest.param(node(spec=CLOSED), True, id="a node that leaves"),
        pytest.param(node(), False, id="a node that stays"),
        pytest.param(pool(), False, id="a pool, while no pod waits"),
        pytest.param(complete(), False, id="a claim"),
    ],
)
def test_who_triggers(item: Any, triggers: bool) -> None:
    """Pods that wait and nodes that leave ask for a decision."""
    assert bool(play(_wait, item).decided) == triggers


def test_a_new_pool_is_a_reason_to_look_again() -> None:
    """Where a pod waits, a pool that comes is tried at once."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(3)
        harness.store.apply(ObjectUpdated(pool(Ready="True")))
        await asyncio.sleep(2)

    assert play(happens, waiting(**ASKS)).created == 1


async def _reported(harness: Harness, *changed: Any) -> None:
    """Let a pod get its claim, and a second later another one come whose batch is open when things change."""
    await asyncio.sleep(2)
    harness.put(waiting("second", **ASKS))
    await asyncio.sleep(0.8)
    harness.put(*changed)
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(waiting(**ASKS), id="a pod whose node is starting is tried again"),
        pytest.param(pool(Ready="True", status={"nodes": 1}), id="the NodePool reports its nodes"),
    ],
)
def test_reports_keep_no_batch_open(changed: Any) -> None:
    """A pod gets its decision a second after it came, whatever is reported of earlier ones meanwhile."""
    harness = play(lambda it: _reported(it, changed), pool(Ready="True"), waiting(**ASKS))

    assert [when for when, _ in harness.decided] == [1.0, pytest.approx(3.1)]


def test_reminders_keep_no_batch_open() -> None:
    """Pods that wait for long are looked at every ten seconds, and new ones do not wait longer for that."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(9.4)
        harness.put(waiting("second", **ASKS))
        await asyncio.sleep(2)

    assert [when for when, _ in play(happens, waiting(**ASKS)).decided] == [1.0, pytest.approx(10.4)]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda: ObjectDeleted(pool()), id="the pool is gone"),
        pytest.param(
            lambda: ObjectUpdated(pool(Ready="True", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            id="the pool is being deleted",
        ),
        pytest.param(
            lambda: ObjectUpdated(pool(Ready="True", spec={"limits": {"nodes": "-1"}})),
            id="a limit is exceeded",
        ),
    ],
)
def test_what_has_changed_since_the_decision(meanwhile: Callable[[], Any]) -> None:
    """A claim is created only if its pool is still there and within its limits."""

    async def happens(harness: Harness) -> None:
        harness.provisioner.subscribe(lambda _: harness.store.apply(meanwhile()))
        await asyncio.sleep(3)

    assert play(happens, pool(Ready="True"), waiting(**ASKS)).created == 0


def test_a_claim_that_cannot_be_created_is_tried_again() -> None:
    """A failure of the API server is no end: the pod asks again."""

    async def happens(harness: Harness) -> None:
        await asyncio.sleep(0.5)
        harness.performer.error = Unreachable("no", request=Request(method="POST", path="/"))
        await asyncio.sleep(3)
        assert harness.created == 0
        harness.performer.error = None
        await asyncio.sleep(10)

    assert play(happens, pool(Ready="True"), waiting(**ASKS)).created == 1
