from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import structlog

from karpenter.base.ratelimiting import Fence, LeaseNotHeld
from karpenter.cloud.cloudprovider import CloudProvider
from karpenter.cloud.errors import CloudError, MachineNotFound, Throttled
from karpenter.cloud.kwok import Behaviour, Fail
from karpenter.cloud.metrics import MeasuredProvider
from karpenter.telemetry.metrics import Metrics, runtime
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.kwok.world import POOL, World, claim

CALLS: list[tuple[str, Callable[[CloudProvider], Awaitable[object]]]] = [
    ("Create", lambda cloud: cloud.launch(claim())),
    ("Delete", lambda cloud: cloud.terminate("kwok://gone")),
    ("Get", lambda cloud: cloud.get("kwok://gone")),
    ("List", lambda cloud: cloud.list()),
    ("GetInstanceTypes", lambda cloud: cloud.catalog(POOL)),
    ("IsDrifted", lambda cloud: cloud.drift(claim())),
]


@pytest.mark.parametrize(("method", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_calls_are_timed_and_errors_counted(
    method: str, call: Callable[[CloudProvider], Awaitable[object]]
) -> None:
    """Each call is observed under the name that dashboards know, and an error under its own."""

    async def measure() -> tuple[int, float]:
        world = World(behaviour=Behaviour(call=2.0, launch=2.0))
        metrics = Metrics(clock=VirtualClock())
        measured = MeasuredProvider(world.provider, metrics=metrics, clock=VirtualClock())
        labels = {"controller": "nodeclaim.lifecycle", "method": method, "provider": "kwok"}
        context = structlog.contextvars.bound_contextvars(controller="nodeclaim.lifecycle")
        with context, suppress(MachineNotFound):
            await call(measured)
        await world.cloud.close()
        errors = metrics[runtime.CLOUD_ERRORS].value(**labels, error="NodeClaimNotFoundError")
        return metrics[runtime.CLOUD_DURATION].count(**labels), errors

    fails = method in {"Delete", "Get", "IsDrifted"}
    assert run_virtual(measure()) == (1, float(fails))


def test_an_error_without_a_name() -> None:
    """Errors that dashboards have no name for are counted without one, and reach the caller."""

    async def measure() -> tuple[float, CloudError]:
        world = World()
        world.control.next("list", Fail(Throttled()))
        metrics = Metrics(clock=VirtualClock())
        measured = MeasuredProvider(world.provider, metrics=metrics, clock=VirtualClock())
        with pytest.raises(Throttled) as caught:
            await measured.list()
        count = metrics[runtime.CLOUD_ERRORS].value(controller="", method="List", provider="kwok", error="")
        return count, caught.value

    count, error = run_virtual(measure())
    assert (count, type(error)) == (1.0, Throttled)


def test_the_rest_is_passed_on() -> None:
    """Name, classes and repair policies are those of the provider itself."""

    async def both() -> tuple[CloudProvider, CloudProvider]:
        inner = World().provider
        return inner, MeasuredProvider(inner, metrics=Metrics(clock=VirtualClock()), clock=VirtualClock())

    inner, measured = run_virtual(both())
    assert (measured.name, measured.node_classes, measured.repair_policies) == (
        inner.name,
        inner.node_classes,
        inner.repair_policies,
    )


@pytest.mark.parametrize(("method", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_replica_that_does_not_lead_changes_nothing(
    method: str, call: Callable[[CloudProvider], Awaitable[object]]
) -> None:
    """Behind a closed fence machines are neither launched nor terminated; reads pass."""

    async def refused() -> bool:
        world, fence = World(), Fence()
        fence.close()
        metrics = Metrics(clock=VirtualClock())
        measured = MeasuredProvider(world.provider, metrics=metrics, clock=VirtualClock(), fence=fence)
        try:
            with suppress(MachineNotFound):
                await call(measured)
        except LeaseNotHeld:
            assert not world.control.machines()
            return True
        finally:
            await world.cloud.close()
        return False

    assert run_virtual(refused()) is (method in {"Create", "Delete"})
