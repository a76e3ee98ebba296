"""
The operator, put together: the only place where its parts are made.

    async with connect(surroundings) as cloud, Operator(parts) as operator:
        ...

Entering starts it; leaving stops it, newest task first. Nothing in it knows whether the cluster is real, the
cloud is real, or time is.

How the node classes of a provider are spelled on the API server.

The flight recorder, if the settings ask for one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

import msgspec

from karpenter.api.kinds import ALL_KINDS
from karpenter.api.labels import ALL_LABEL_RULES, well_known_to
from karpenter.base.batcher import BatchWindow
from karpenter.base.clock import Clock
from karpenter.base.queue import Backoff, Supervisor, WorkQueue
from karpenter.base.ratelimiting import TokenBucket
from karpenter.cloud.cloudprovider import (
    CloudProvider,
    ControllerContext,
    HasControllers,
    Interruptible,
    SingletonController,
)
from karpenter.cloud.metrics import MeasuredProvider
from karpenter.controllers import informer
from karpenter.controllers.capacitybuffer import CapacityBufferController
from karpenter.controllers.controller import (
    InlineExecutor,
    Loop,
    RecordingExecutor,
    ThreadExecutor,
    start_singleton,
)
from karpenter.controllers.disruption import Disruption
from karpenter.controllers.disruption_queue import DisruptionQueue
from karpenter.controllers.do_not_disrupt import DoNotDisruptController
from karpenter.controllers.eviction import EvictionController, EvictionQueue
from karpenter.controllers.health import NodeHealth
from karpenter.controllers.informer import Watches
from karpenter.controllers.interruption import InterruptionReconciler
from karpenter.controllers.metrics.conditions import StatusConditionMetrics
from karpenter.controllers.metrics.node import NodeMetrics
from karpenter.controllers.metrics.nodepool import DisruptionBudgetMetrics, NodePoolMetrics
from karpenter.controllers.metrics.pod import PodLatencyMetrics, PodMetrics
from karpenter.controllers.metrics.runtime import ClusterStateMetrics, client_request_metrics
from karpenter.controllers.nodeclaim import (
    Expiration,
    GarbageCollection,
    NodeClaimConsistency,
    NodeClaimDisruption,
    NodeClaimLifecycle,
    PodEvents,
)
from karpenter.controllers.nodeoverlay import NodeOverlayController
from karpenter.controllers.nodepool import NodePoolController, NodePoolCounter, RegistrationOutcomes
from karpenter.controllers.perform import Performer
from karpenter.controllers.provider import PoolCatalogs, ProviderReconciler, ProviderSingleton
from karpenter.controllers.provisioner import Provisioner
from karpenter.controllers.static import StaticDeprovisioning, StaticProvisioning
from karpenter.controllers.steering import Steering
from karpenter.controllers.termination import NodeTermination
from karpenter.core.provisioning.nominations import nomination_period
from karpenter.core.state.cluster import ClusterState
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError
from karpenter.kube.recorder import Recorder
from karpenter.kube.rest import untyped
from karpenter.kube.transport import Request
from karpenter.operator.options import (
    COMMON,
    EVICTION,
    LIFECYCLE,
    TERMINATION,
    SettingError,
    Settings,
    disruption_context,
    provisioning_settings,
)
from karpenter.replay.recorder import FlightRecorder
from karpenter.telemetry.metrics import Metrics, ProviderLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from karpenter.api.meta import Resource
    from karpenter.base.queue import Work
    from karpenter.cloud.cloudprovider import NodeClassKind
    from karpenter.controllers.controller import Executor, SingletonReconciler
    from karpenter.core.state.cluster import NodeClass, StateEvent
    from karpenter.kube.client import Kind


def flight_recorder(
    settings: Settings, store: ClusterState, classes: Iterable[NodeClassKind], clock: Clock
) -> FlightRecorder | None:
    """
    Return a recorder that has begun; None if none is asked for.

    Raises:
        SettingError: the file cannot be written.
    """
    if not settings.flight_record:
        return None
    recorder = FlightRecorder(
        Path(settings.flight_record),
        limit=settings.flight_record_size,
        store=store,
        serves=((each.group, each.kind) for each in classes),
        clock=clock,
    )
    try:
        recorder.open()
    except OSError as error:
        raise SettingError(f"setting flight-record: {error.filename}: {error.strerror}") from error
    return recorder


class ClassNotServed(RuntimeError):  # noqa: N818  says what is wrong
    """The API server does not know a node class that the provider needs."""

    def __init__(self, kind: NodeClassKind, because: str) -> None:
        super().__init__(
            f"the API server does not serve {kind.kind} of {kind.group}: {because};"
            " hint: install its CustomResourceDefinition"
        )


async def class_targets(client: Client, kinds: Iterable[NodeClassKind]) -> dict[tuple[str, str], Kind[Any]]:
    """
    Return how to read each kind of node class.

    Raises:
        ClassNotServed: the API server knows none of that group and kind.
    """
    return {(kind.group, kind.kind): await _target(client, kind) for kind in kinds}


async def _target(client: Client, kind: NodeClassKind) -> Kind[Any]:
    for each in ALL_KINDS:
        if (each.group, each.name) == (kind.group, kind.kind):
            return each.struct
    try:
        group = await _read(client, f"/apis/{kind.group}")
        version = group["preferredVersion"]["groupVersion"]
        resources = (await _read(client, f"/apis/{version}"))["resources"]
    except (KubeError, KeyError) as error:
        raise ClassNotServed(kind, str(error)) from error
    for each in resources:
        if each.get("kind") == kind.kind and "/" not in each["name"]:
            return untyped(version, each["name"], kind=kind.kind, namespaced=False)
    raise ClassNotServed(kind, f"{version} has no such kind")


async def _read(client: Client, path: str) -> dict[str, Any]:
    response = await client.send(Request(method="GET", path=path, headers=(("accept", "application/json"),)))
    found: dict[str, Any] = msgspec.json.decode(response.body)
    return found


_CLAIMS = Backoff(first=1.0, cap=60.0)
_PODS = Backoff(first=0.1, cap=10.0)


class OperatorDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator is made of and does not make itself."""

    client: Client
    cloud: CloudProvider
    settings: Settings
    clock: Clock
    chance: Random
    threads: bool = True
    """Whether decisions are computed in a thread; in a simulation they must not be."""

    process_metrics: bool = False
    """Whether to show what the operating system knows of this process; a simulation has none of its own."""


class Operator:
    """Everything that runs while we lead."""

    def __init__(self, parts: OperatorDependencies) -> None:
        self.parts = parts
        clock, cloud, client, settings = parts.clock, parts.cloud, parts.client, parts.settings
        self.store = ClusterState(serves=((each.group, each.kind) for each in cloud.node_classes))
        self.metrics = Metrics(
            clock=clock,
            labels=ProviderLabels(
                well_known=well_known_to(each.group for each in cloud.node_classes),
                node_classes=tuple(each.label for each in cloud.node_classes),
            ),
            also=cloud.metrics if isinstance(cloud, HasControllers) else (),
            process=parts.process_metrics,
        )
        # Events must not hold up what they tell of.
        telling = TokenBucket(rate=settings.kube_client_qps, burst=settings.kube_client_burst)
        self.recorder = Recorder(client.beside(telling), clock=clock)
        self.cloud = MeasuredProvider(cloud, metrics=self.metrics, clock=clock)
        self.catalogs = PoolCatalogs(self.cloud)
        self.deciding = asyncio.Lock()
        leaving = float(EVICTION.at(settings.cpu_requests))
        self.departures = EvictionQueue(
            WorkQueue(backoff=_PODS, bucket=TokenBucket(rate=leaving, burst=10 * leaving))
        )
        self.outcomes = RegistrationOutcomes(WorkQueue(backoff=_PODS))
        self.watches: Watches | None = None
        self._worker: Executor = ThreadExecutor() if parts.threads else InlineExecutor()
        self.flight = flight_recorder(settings, self.store, cloud.node_classes, clock)
        if self.flight is not None:
            self._worker = RecordingExecutor(self._worker, self.flight)
        self._loops: list[Loop] = []
        self._rounds: list[SingletonReconciler] = []
        self._tasks: dict[str, Work] = {}
        self._supervisor = Supervisor(chance=parts.chance)
        self._window = BatchWindow(
            idle=settings.batch_idle_duration.total_seconds(),
            longest=settings.batch_max_duration.total_seconds(),
            timeout=None,
        )

    async def __aenter__(self) -> Self:
        parts, start = self.parts, self._supervisor.start
        self.watches = Watches(
            parts.client,
            self.store,
            kinds=self._kinds(),
            classes=await class_targets(parts.client, parts.cloud.node_classes),
            chance=parts.chance,
        )
        self.performer = Performer(
            client=parts.client,
            watches=self.watches,
            store=self.store,
            cloud=self.cloud,
            recorder=self.recorder,
            metrics=self.metrics,
            clock=parts.clock,
            departures=self.departures,
            outcomes=self.outcomes,
        )
        if self.flight is not None:
            self.performer.subscribe(self.flight.done)
        self._make_controllers()
        self._make_gated()
        self._make_gauges()
        self._add_provider_controllers()
        start("events", self.recorder.run)
        self.watches.start(self._supervisor)
        await self.watches.wait_synced()
        for loop in self._loops:
            loop.start(self._supervisor)
        for each in self._rounds:
            start_singleton(each, self._supervisor, parts.clock, metrics=self.metrics)
        for name, work in self._tasks.items():
            start(name, work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._supervisor.stop()
        if self.flight is not None:
            self.flight.close()

    @property
    def synced(self) -> bool:
        """Whether everything in the cluster was seen once."""
        return self.store.complete

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the tasks that run."""
        return self._supervisor.running

    def _kinds(self) -> Iterable[type[Resource]]:
        settings = self.parts.settings
        yield from informer.ALWAYS
        if settings.scheduler_config:
            yield from informer.FOR_SPREAD
        if not settings.ignore_dra_requests:
            yield from informer.FOR_DEVICES
        if settings.gate("CapacityBuffer"):
            yield from informer.FOR_BUFFERS
        if settings.gate("NodeOverlay"):
            yield from informer.FOR_OVERLAYS
        if settings.surge_before_evict:
            yield from informer.FOR_SURGE

    def _make_controllers(self) -> None:
        parts, store, performer, clock = self.parts, self.store, self.performer, self.parts.clock
        self.provisioner = Provisioner(
            store=store,
            performer=performer,
            catalogs=self.catalogs,
            worker=self._worker,
            clock=clock,
            metrics=self.metrics,
            settings=provisioning_settings(parts.settings),
            window=self._window,
            deciding=self.deciding,
        )
        store.subscribe(self.provisioner.hear)
        self.disruption_queue = DisruptionQueue(
            store=store,
            performer=performer,
            clock=clock,
            metrics=self.metrics,
            rules=ALL_LABEL_RULES,
            nominated_for=nomination_period(parts.settings.batch_max_duration),
        )
        self.disruption = Disruption(
            store=store,
            performer=performer,
            catalogs=self.catalogs,
            queue=self.disruption_queue,
            worker=self._worker,
            clock=clock,
            metrics=self.metrics,
            context=disruption_context(parts.settings),
            buffered=lambda: self.provisioner.memory.buffered,
            deciding=self.deciding,
        )
        steering = Steering(store, performer, clock, on=parts.settings.steer_scale_down)
        self._rounds += [self.disruption_queue, self.disruption, steering]
        cores = parts.settings.cpu_requests
        common = COMMON.at(cores)
        claims = NodeClaimLifecycle(
            store, performer, parts.cloud, clock, devices=not parts.settings.ignore_dra_requests
        )
        self._loop(Loop(claims, workers=LIFECYCLE.at(cores), backoff=_CLAIMS), claims.wakes)
        nodes = NodeTermination(store, performer, self.cloud, clock)
        self._loop(Loop(nodes, workers=TERMINATION.at(cores), backoff=_PODS), nodes.wakes)
        marks = NodeClaimDisruption(store, performer, self.cloud, self.catalogs, clock)
        self._loop(Loop(marks, workers=common), marks.wakes)
        expiration = Expiration(store, performer, clock)
        self._loop(Loop(expiration, workers=1), expiration.wakes)
        upkeep = NodeClaimConsistency(store, performer, clock)
        self._loop(Loop(upkeep, workers=common), upkeep.wakes)
        events = PodEvents(store, performer, clock)
        self._loop(Loop(events, workers=1), events.wakes)
        wishes = DoNotDisruptController(store, performer, clock)
        self._loop(Loop(wishes, workers=common), wishes.wakes)
        pools = NodePoolController(self.outcomes, store, performer, clock, ALL_LABEL_RULES)
        self._loop(Loop(pools, workers=common, queue=self.outcomes.queue), pools.wakes)
        self._rounds += [
            NodePoolCounter(store, performer),
            GarbageCollection(store, performer, self.cloud, clock),
        ]
        if isinstance(parts.cloud, Interruptible):
            self._tasks["interruption"] = InterruptionReconciler(store, performer, parts.cloud, clock).run
        self._tasks |= {"provisioner": self.provisioner.run, "provisioner.remind": self.provisioner.remind}
        evictor = EvictionController(self.departures, store, parts.client, performer, clock)
        self._loop(Loop(evictor, workers=EVICTION.at(cores), queue=self.departures.queue), None)

    def _make_gauges(self) -> None:
        """Let metrics show how things stand, as far as anybody wants to see it."""
        parts, store, metrics, clock = self.parts, self.store, self.metrics, self.parts.clock
        parts.client.listener = client_request_metrics(metrics, parts.client.host)
        state = ClusterStateMetrics(store, metrics, clock, self.provisioner)
        store.subscribe(state.hear)
        if parts.settings.disable_cluster_state_observability:
            return
        NodeMetrics(store, metrics, clock)
        NodePoolMetrics(store, metrics, self.catalogs)
        self._rounds.append(DisruptionBudgetMetrics(store, metrics, self.catalogs, self._worker, clock))
        pods, waits = PodMetrics(store, metrics), PodLatencyMetrics(store, metrics, clock)
        conditions = StatusConditionMetrics(
            metrics,
            clock,
            class_labels=[each.label for each in parts.cloud.node_classes],
            announce=self.performer.announce,
        )
        for each in (pods.hear, waits.hear, conditions.hear):
            store.subscribe(each)
        self.provisioner.subscribe(waits.decided)

    def _make_gated(self) -> None:
        """Make what only works behind a gate that is open."""
        parts, store, performer, clock = self.parts, self.store, self.performer, self.parts.clock
        gate, policies = parts.settings.gate, parts.cloud.repair_policies
        if gate("NodeRepair") and policies:
            repair = NodeHealth(store, performer, clock, policies)
            self._loop(Loop(repair, workers=COMMON.at(parts.settings.cpu_requests)), repair.wakes)
        if gate("StaticCapacity"):
            growing = StaticProvisioning(store, performer, ALL_LABEL_RULES, self.deciding)
            self._loop(Loop(growing), growing.wakes)
            shrinking = StaticDeprovisioning(store, performer, clock, self.deciding)
            self._loop(Loop(shrinking), shrinking.wakes)
        if gate("NodeOverlay"):
            overlays = NodeOverlayController(store, performer, self.catalogs, clock)
            self._loop(Loop(overlays, workers=1), overlays.wakes)
        if gate("CapacityBuffer"):
            queue: WorkQueue[str] = WorkQueue(backoff=_CLAIMS)
            buffers = CapacityBufferController(queue, store, performer, self.provisioner, clock)
            self.provisioner.subscribe(buffers.decided)
            self._loop(Loop(buffers, queue=queue), buffers.wakes)

    def _add_provider_controllers(self) -> None:
        """Add the controllers that the provider has of its own."""
        cloud = self.parts.cloud
        if not isinstance(cloud, HasControllers):
            return
        for controller in cloud.controllers(ControllerContext(view=self.store.view, metrics=self.metrics)):
            if isinstance(controller, SingletonController):
                self._rounds.append(ProviderSingleton(controller, self.performer))
            else:
                reconciler = ProviderReconciler(controller, self.performer)
                self._loop(Loop(reconciler, workers=controller.workers), controller.wakes)

    def _loop(
        self, loop: Loop, wakes: Callable[[StateEvent, Resource | NodeClass | None], Iterable[str]] | None
    ) -> None:
        self._loops.append(loop)
        loop.measure(self.metrics, self.parts.clock)
        if wakes is None:
            return

        def hear(event: StateEvent, before: Resource | NodeClass | None) -> None:
            for key in wakes(event, before):
                loop.queue.add(key)

        self.store.subscribe(hear)
