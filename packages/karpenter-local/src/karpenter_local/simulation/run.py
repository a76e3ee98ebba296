"""
Runs one scenario to its end: users act and faults are injected, then faults end, then the cluster must
settle.

A cluster is settled when every invariant that looks at the whole holds. It has to settle within the time that
the longest timeouts of the operator ask for. The first violation ends a run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.base.memory import SHORT, few_collections
from karpenter_local.simulation.apply import UserAgents, apply
from karpenter_local.simulation.cluster import SimulatedCluster
from karpenter_local.simulation.faults import InjectedFault
from karpenter_local.simulation.inject import FaultInjector
from karpenter_local.simulation.invariants.commands import ReplacementInvariant
from karpenter_local.simulation.invariants.disruption import (
    BudgetInvariant,
    ExplainedInvariant,
    InterruptionInvariant,
    ValidityInvariant,
)
from karpenter_local.simulation.invariants.draining import (
    DrainInvariant,
    FinalizerOrderInvariant,
    ProtectionInvariant,
)
from karpenter_local.simulation.invariants.invariant import CloudCall, Invariant, Violation, ViolationLog
from karpenter_local.simulation.invariants.machines import (
    BelongingInvariant,
    ClosedInvariant,
    EmptyInvariant,
    FinalizerInvariant,
    FittingInvariant,
    InitializedInvariant,
    LaunchInvariant,
    LimitInvariant,
    OwnershipInvariant,
    RegistrationInvariant,
    RepairInvariant,
    StaticPoolInvariant,
    SteadyStateInvariant,
    TemplateInvariant,
)
from karpenter_local.simulation.invariants.workloads import (
    BufferInvariant,
    LeaseInvariant,
    NominationInvariant,
    OverlayInvariant,
    PlacementInvariant,
    ServiceInvariant,
    WaitingInvariant,
    WriteRateInvariant,
)
from karpenter_local.simulation.kwok import kwok_options
from karpenter_local.simulation.timeline import Timeline, capture_logs
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.kube.transport import Request, Response
    from karpenter_local.sandbox.options import CloudOptions
    from karpenter_local.simulation.scenario import Provider, Scenario

SETTLE_SECONDS: Final = 3600.0
"""Seconds within which a cluster must settle once faults have ended."""

_CHECK_SECONDS: Final = 20.0
_INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    OwnershipInvariant,
    FinalizerInvariant,
    ServiceInvariant,
    SteadyStateInvariant,
    LimitInvariant,
    BudgetInvariant,
    ProtectionInvariant,
    ReplacementInvariant,
    WriteRateInvariant,
    StaticPoolInvariant,
    BufferInvariant,
    OverlayInvariant,
    RepairInvariant,
    DrainInvariant,
    FinalizerOrderInvariant,
    BelongingInvariant,
    LaunchInvariant,
    ClosedInvariant,
    EmptyInvariant,
    InitializedInvariant,
    RegistrationInvariant,
    TemplateInvariant,
    FittingInvariant,
    ValidityInvariant,
    ExplainedInvariant,
    InterruptionInvariant,
    WaitingInvariant,
    NominationInvariant,
    PlacementInvariant,
    LeaseInvariant,
)
_TICK_SECONDS: Final = 20.0
"""Seconds between two looks at everything."""

_EXPECTED: Final = frozenset({"lease.lost"})
"""What is logged as an error, and is none of the operator's own."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a simulated run."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    """Every write that was made, as one number."""

    writes: int
    seconds: float
    """How long the run was, in virtual time."""

    machines: int

    timeline: tuple[str, ...] = ()


class SimulatedRun:
    """One scenario being run."""

    def __init__(self, scenario: Scenario, *, settings: Mapping[str, str], timeline: bool) -> None:
        """With `timeline`, everything that happens is written down line by line."""
        self.scenario = scenario
        self.simulated = SimulatedCluster(
            seed=scenario.seed,
            machines=scenario.machines,
            settings=settings,
            on_write=self._on_call,
            cloud=cloud_options(scenario.provider),
            elects=scenario.replicas > 1,
        )
        self.violations = ViolationLog(self.simulated.clock)
        self.timeline = Timeline(self.simulated, enabled=timeline)
        self.invariants: list[Invariant] = [
            *(invariant(self.simulated, self.violations) for invariant in _INVARIANTS),
            *self.simulated.cloud.invariants(self.violations),
        ]
        for invariant in self.invariants:
            if type(invariant).on_write is not Invariant.on_write:
                self.simulated.mirror.subscribe(invariant.on_write)
        self._callers = [each for each in self.invariants if type(each).on_call is not Invariant.on_call]
        self._lookers = [each for each in self.invariants if type(each).on_tick is not Invariant.on_tick]
        self.simulated.cloud.follow(self._on_cloud)
        self.simulated.mirror.subscribe(UserAgents(self.simulated).on_write)

    async def run(self) -> RunResult:
        """Run the scenario; the first violation ends it."""
        async with self.simulated:
            injector = FaultInjector(self.simulated)
            for _ in range(self.scenario.replicas):
                self.simulated.sandbox.begin_operator()
            looking = asyncio.get_running_loop().create_task(self._look())
            try:
                await self._steps(injector)
            finally:
                looking.cancel()
                await injector.close()
            return RunResult(
                seed=self.scenario.seed,
                violations=tuple(self.violations.found),
                digest=self.simulated.mirror.digest,
                writes=self.simulated.mirror.writes,
                seconds=self.simulated.clock.monotonic(),
                machines=self.timeline.launched,
                timeline=tuple(self.timeline.lines),
            )

    def logged(self, level: str, event: str, facts: str) -> None:
        """Take note of what was logged: an error is a violation."""
        self.timeline.logged(event, facts)
        if level in {"error", "critical", "exception"} and event not in _EXPECTED:
            self.violations.add("health", f"{event} {facts}")

    async def _steps(self, injector: FaultInjector) -> None:
        for step in self.scenario.steps:
            if not await self._wait_until(step.at):
                return
            self.timeline.step(step)
            if isinstance(step, InjectedFault):
                injector.inject(step)
            else:
                await apply(self.simulated, step)
        if not await self._wait_until(self.scenario.seconds):
            return
        injector.recover()
        self.simulated.faulty_until = self.simulated.clock.monotonic()
        self.timeline.note("all faults have ended")
        ends = self.simulated.clock.monotonic() + SETTLE_SECONDS
        while unsettled := [(each.name, what) for each in self.invariants for what in each.unsettled()]:
            now = self.simulated.clock.monotonic()
            if now >= ends:
                for name, what in unsettled:
                    self.violations.add(name, f"{what}, and it does not end")
                return
            if not await self._wait_until(now + _CHECK_SECONDS):
                return

    async def _wait_until(self, moment: float) -> bool:
        """Let time pass; return whether nothing was violated meanwhile."""
        wait = moment - self.simulated.clock.monotonic()
        if wait > 0 and not self.violations.found:
            try:
                async with asyncio.timeout(wait):
                    await self.violations.violated.wait()
            except TimeoutError:
                return True
        return not self.violations.found

    def _on_call(self, request: Request, response: Response) -> None:
        self.timeline.on_call(request, response)
        for invariant in self._callers:
            invariant.on_call(request, response)

    def _on_cloud(self, call: CloudCall) -> None:
        for invariant in self.invariants:
            invariant.on_cloud(call)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            for invariant in self._lookers:
                invariant.on_tick()


def cloud_options(provider: Provider) -> CloudOptions:
    if provider == "aws":
        from karpenter_local.simulation.aws.cloud import aws_options  # noqa: PLC0415  it may not be installed

        return aws_options()
    return kwok_options()


def run_scenario(
    scenario: Scenario, *, settings: Mapping[str, str] | None = None, timeline: bool = False
) -> RunResult:

    async def main() -> RunResult:
        run = SimulatedRun(scenario, settings=scenario.settings_with(settings or {}), timeline=timeline)
        with capture_logs(run.logged, level=logging.INFO if timeline else logging.ERROR):
            return await run.run()

    with few_collections(SHORT):
        result = run_virtual(main())
    gc.collect()  # a cluster leaves reference cycles behind, 20 MB of an hour, that nothing else finds
    return result
