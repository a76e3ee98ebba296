"""
The operator: creates every controller, connects it to the cluster state, and starts it.

    async with find_provider("aws")(context) as cloud, Operator(dependencies) as operator:
        ...

Entering the context starts the operator; leaving it stops all tasks, newest first. The operator does not
know whether cluster, cloud and clock are real or simulated. Node classes of providers that are not built in
are found through the API server's discovery.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from karpenter import __version__
from karpenter.api.kinds import ALL_KINDS
from karpenter.api.labels import ALL_LABEL_RULES, well_known_to
from karpenter.base.batcher import BatchWindow
from karpenter.base.clock import Clock
from karpenter.base.queue import Backoff, Supervisor, Work, WorkQueue
from karpenter.base.ratelimiting import OPEN, Fence, TokenBucket
from karpenter.cloud.cloudprovider import (
    CloudProvider,
    ControllerContext,
    HasControllers,
    Interruptible,
    NodeClassKind,
    ObjectController,
    SingletonController,
)
from karpenter.cloud.metrics import MeasuredProvider
from karpenter.controllers.capacitybuffer import CapacityBufferController
from karpenter.controllers.catalogs import PoolCatalogs
from karpenter.controllers.controller import (
    Controller,
    ObjectReconciler,
    SingletonReconciler,
    start_singleton,
)
from karpenter.controllers.disruption import (
    DisruptionController,
    DisruptionQueue,
    DoNotDisruptController,
    Steering,
)
from karpenter.controllers.eviction import EvictionController, EvictionQueue
from karpenter.controllers.executor import Executor, InlineExecutor, RecordingExecutor, ThreadExecutor
from karpenter.controllers.health import NodeHealth
from karpenter.controllers.informer import Watches
from karpenter.controllers.interruption import InterruptionReconciler, SpotInterruptions
from karpenter.controllers.metrics.client import client_request_metrics
from karpenter.controllers.metrics.conditions import StatusConditionMetrics
from karpenter.controllers.metrics.node import NodeMetrics
from karpenter.controllers.metrics.nodepool import DisruptionBudgetMetrics, NodePoolMetrics
from karpenter.controllers.metrics.pod import PodLatencyMetrics, PodMetrics
from karpenter.controllers.metrics.savings import BoundMetrics, CostMetrics, SavingsMetrics
from karpenter.controllers.metrics.state import ClusterStateMetrics
from karpenter.controllers.nodeclaim import (
    Expiration,
    GarbageCollection,
    InstanceGarbageCollection,
    NodeClaimConsistency,
    NodeClaimDisruption,
    NodeClaimLifecycle,
    NodeTermination,
    PodEvents,
)
from karpenter.controllers.nodeoverlay import NodeOverlayController
from karpenter.controllers.nodepool import NodePoolController, NodePoolCounter, RegistrationOutcomes
from karpenter.controllers.nomination import PodNominator, nominates
from karpenter.controllers.perform import Performer
from karpenter.controllers.provider import ProviderReconciler, ProviderSingleton
from karpenter.controllers.provisioner import Provisioner
from karpenter.controllers.static import StaticDeprovisioning, StaticProvisioning
from karpenter.core.provisioning.nomination import nomination_period
from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent
from karpenter.core.state.pod import NOMINATION_MANAGER
from karpenter.kube.client import Client, Kind
from karpenter.kube.errors import KubeError
from karpenter.kube.recorder import Recorder
from karpenter.kube.targets import untyped
from karpenter.kube.transport import Request
from karpenter.operator.kinds import watched_kinds
from karpenter.operator.options import (
    COMMON,
    EVICTION,
    LIFECYCLE,
    SETTINGS,
    TERMINATION,
    SettingError,
    Settings,
    disruption_context,
    provisioning_settings,
)
from karpenter.replay.recorder import FlightRecorder
from karpenter.shadow.account import ShadowAccount
from karpenter.shadow.cluster import ShadowCluster
from karpenter.shadow.perform import ShadowClient, ShadowPerformer
from karpenter.telemetry.metrics import Metrics, ProviderLabels

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from karpenter.api.meta import Resource

# What fails here is mostly a cloud API, which answers a faster retry with throttling.
_CLAIM_RETRIES = Backoff(first=1.0, cap=60.0)
# An eviction that a PodDisruptionBudget refuses is asked for again, at most ten seconds later, as upstream
# does:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/node/termination/terminator/eviction.go
_POD_RETRIES = Backoff(first=0.1, cap=10.0)


def flight_recorder(
    settings: Settings, store: ClusterState, classes: Iterable[NodeClassKind], clock: Clock
) -> FlightRecorder | None:
    """
    Return a flight recorder that has started; None if the settings name no file.

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
    """The API server does not serve a node class of the provider."""

    def __init__(self, kind: NodeClassKind, because: str) -> None:
        super().__init__(
            f"the API server does not serve {kind.kind} of {kind.group}: {because};"
            " hint: install its CustomResourceDefinition"
        )


async def class_targets(client: Client, kinds: Iterable[NodeClassKind]) -> dict[tuple[str, str], Kind[Any]]:
    """
    Return the REST target of each kind of node class.

    Raises:
        ClassNotServed: the API server does not serve that group and kind.
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


READING_CONTROLLERS: Final = frozenset(
    {"providers.instancetype", "providers.pricing", "providers.ssm.invalidation", "providers.version"}
)
"""Controllers of providers that a shadow runs: they read prices, instance types and versions, no more."""


def new_shadow(parts: OperatorDependencies) -> ShadowCluster | None:
    """
    Return the cluster of a shadow; None if the settings ask for an operator that leads.

    Raises:
        SettingError: its record cannot be written.
    """
    settings = parts.settings
    if not settings.shadow:
        return None
    record = Path(settings.shadow_record) if settings.shadow_record else None
    try:
        if record is not None:
            record.open("ab").close()
    except OSError as error:
        raise SettingError(f"setting shadow-record: {error.filename}: {error.strerror}") from error
    return ShadowCluster(
        parts.cloud,
        clock=parts.clock,
        account=ShadowAccount(record),
        settings=provisioning_settings(settings),
    )


class OperatorDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator needs and does not create itself."""

    client: Client
    cloud: CloudProvider
    settings: Settings
    clock: Clock
    chance: Random
    threads: bool = True
    """Whether decisions are computed in a thread; a simulation computes them inline."""

    process_metrics: bool = False
    """Whether to show the metrics of the process (cpu, memory, file descriptors)."""

    fence: Fence = OPEN
    """Checked before machines are launched and terminated; the client has it, too."""


class Operator:
    """Everything that runs while this replica is the leader."""

    def __init__(self, parts: OperatorDependencies) -> None:
        self._provider = parts.cloud
        self.shadow = new_shadow(parts)
        if self.shadow is not None:
            parts = msgspec.structs.replace(parts, cloud=self.shadow.cloud, fence=OPEN)
        self.parts = parts
        clock, cloud, client, settings = parts.clock, self._provider, parts.client, parts.settings
        served = ((each.group, each.kind) for each in cloud.node_classes)
        self.store = self.shadow.store if self.shadow is not None else ClusterState(serves=served)
        self.metrics = Metrics(
            clock=clock,
            labels=ProviderLabels(
                well_known=well_known_to(each.group for each in cloud.node_classes),
                node_classes=tuple(each.label for each in cloud.node_classes),
            ),
            also=cloud.metrics if isinstance(cloud, HasControllers) else (),
            process=parts.process_metrics,
        )
        # Events have a rate limit of their own, so that they do not delay other requests.
        event_bucket = TokenBucket(rate=settings.kube_client_qps, burst=settings.kube_client_burst)
        self.recorder = Recorder(client.with_bucket(event_bucket), clock=clock)
        self.cloud = MeasuredProvider(parts.cloud, metrics=self.metrics, clock=clock, fence=parts.fence)
        self.spot_interruptions = SpotInterruptions(self.parts.clock)
        self.catalogs = PoolCatalogs(self.cloud, self.spot_interruptions.rates)
        self.deciding = asyncio.Lock()
        eviction_rate = float(EVICTION.at(settings.cpu_requests))
        self.evictions = EvictionQueue(
            WorkQueue(backoff=_POD_RETRIES, bucket=TokenBucket(rate=eviction_rate, burst=10 * eviction_rate))
        )
        self.outcomes = RegistrationOutcomes(WorkQueue(backoff=_POD_RETRIES))
        self.watches: Watches | None = None
        self._client: Any = client if self.shadow is None else ShadowClient(self.shadow)
        self._worker: Executor = ThreadExecutor() if parts.threads else InlineExecutor()
        self.flight = flight_recorder(settings, self.store, cloud.node_classes, clock)
        if self.flight is not None:
            self._worker = RecordingExecutor(self._worker, self.flight)
        self._controllers: list[Controller] = []
        self._singletons: list[SingletonReconciler] = []
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
            self.store if self.shadow is None else self.shadow.real,
            kinds=watched_kinds(self.parts.settings),
            classes=await class_targets(parts.client, parts.cloud.node_classes),
            chance=parts.chance,
        )
        performer = Performer if self.shadow is None else ShadowPerformer
        self.performer = performer(
            client=parts.client,
            watches=self.watches,
            store=self.store,
            cloud=self.cloud,
            recorder=self.recorder,
            metrics=self.metrics,
            clock=parts.clock,
            evictions=self.evictions,
            outcomes=self.outcomes,
            # Their writes do not delay others; the name tells what we have nominated from what others have.
            nominations=parts.client.with_bucket(self._nomination_bucket(), manager=NOMINATION_MANAGER),
        )
        nominations: WorkQueue[str] = WorkQueue(backoff=_POD_RETRIES)
        self.nominator = PodNominator(
            nominations,
            self.store,
            self.performer,
            parts.clock,
            self.metrics,
            on=self.shadow is None and await nominates(parts.settings.nominate_pods, parts.client),
        )
        self._register(self.nominator, workers=COMMON.at(parts.settings.cpu_requests), queue=nominations)
        if self.flight is not None:
            self.performer.subscribe(self.flight.done)
        self._make_controllers()
        self._make_gated()
        self._make_metrics()
        self._add_provider_controllers()
        if self.shadow is None:
            start("events", self.recorder.run)
        self.watches.start(self._supervisor)
        await self.watches.wait_synced()
        self._begin_shadow()
        for controller in self._controllers:
            controller.start(self._supervisor)
        for each in self._singletons:
            start_singleton(each, self._supervisor, parts.clock, metrics=self.metrics)
        for name, work in self._tasks.items():
            start(name, work)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._supervisor.stop()
        await self.nominator.close()
        if self.shadow is not None:
            self.shadow.close()
        if self.flight is not None:
            self.flight.close()

    def _nomination_bucket(self) -> TokenBucket:
        settings = self.parts.settings
        return TokenBucket(rate=settings.kube_client_qps, burst=settings.kube_client_burst)

    def _begin_shadow(self) -> None:
        """Begin to follow the real cluster, where this is a shadow."""
        if self.shadow is None:
            return
        self.shadow.measure(self.catalogs, self.metrics)
        settings = self.parts.settings
        self.shadow.begin(
            version=__version__,
            settings={each.name: str(getattr(settings, each.field)) for each in SETTINGS if each.ours},
        )
        self._singletons.append(self.shadow)
        self._tasks["shadow.binding"] = self.shadow.bind_pending

    @property
    def synced(self) -> bool:
        return self.store.complete

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the tasks that run."""
        return self._supervisor.running

    def _make_controllers(self) -> None:
        assert self.watches is not None
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
            nominator=self.nominator,
        )
        store.subscribe(self.provisioner.hear, self.provisioner.kinds)
        savings = SavingsMetrics(store, self.metrics, self.catalogs)
        self.disruption_queue = DisruptionQueue(
            store=store,
            performer=performer,
            clock=clock,
            metrics=self.metrics,
            savings=savings,
            rules=ALL_LABEL_RULES,
            nominated_for=nomination_period(parts.settings.batch_max_duration),
            nominator=self.nominator,
        )
        self.disruption = DisruptionController(
            store=store,
            performer=performer,
            catalogs=self.catalogs,
            queue=self.disruption_queue,
            worker=self._worker,
            clock=clock,
            metrics=self.metrics,
            savings=savings,
            context=disruption_context(parts.settings),
            buffered=lambda: self.provisioner.memory.buffered,
            deciding=self.deciding,
        )
        steering = Steering(store, performer, clock, on=parts.settings.steer_scale_down)
        self._singletons += [self.disruption_queue, self.disruption, steering]
        self._make_object_controllers()

    def _make_object_controllers(self) -> None:
        """Create the controllers of NodeClaims, Nodes, pods and NodePools."""
        parts, store, performer, clock = self.parts, self.store, self.performer, self.parts.clock
        cores, reader = parts.settings.cpu_requests, self._client
        common = COMMON.at(cores)
        claims = NodeClaimLifecycle(
            store,
            performer,
            parts.cloud,
            reader,
            clock,
            devices=not parts.settings.ignore_dra_requests,
            nominator=self.nominator,
        )
        self._register(claims, workers=LIFECYCLE.at(cores), queue=WorkQueue(backoff=_CLAIM_RETRIES))
        nodes = NodeTermination(store, performer, self.cloud, reader, clock)
        self._register(nodes, workers=TERMINATION.at(cores), queue=WorkQueue(backoff=_POD_RETRIES))
        self._register(
            NodeClaimDisruption(store, performer, self.cloud, self.catalogs, clock), workers=common
        )
        self._register(Expiration(store, performer, clock), workers=1)
        self._register(NodeClaimConsistency(store, performer, clock), workers=common)
        self._register(PodEvents(store, performer, clock), workers=1)
        self._register(DoNotDisruptController(store, performer, clock), workers=common)
        pools = NodePoolController(self.outcomes, store, performer, clock, ALL_LABEL_RULES)
        self._register(pools, workers=common, queue=self.outcomes.queue)
        self._singletons += [
            NodePoolCounter(store, performer),
            GarbageCollection(store, performer, self.cloud),
            InstanceGarbageCollection(
                store, performer, self.cloud, reader, clock=clock, metrics=self.metrics
            ),
        ]
        if isinstance(parts.cloud, Interruptible):
            self._tasks["interruption"] = InterruptionReconciler(
                store, performer, parts.cloud, clock, spot=self.spot_interruptions
            ).run
        self._tasks |= {"provisioner": self.provisioner.run, "provisioner.remind": self.provisioner.remind}
        eviction = EvictionController(self.evictions, store, reader, performer, clock)
        self._add(Controller(eviction, workers=EVICTION.at(cores), queue=self.evictions.queue))

    def _make_metrics(self) -> None:
        """Create the metrics controllers; most of them can be disabled by a setting."""
        parts, store, metrics, clock = self.parts, self.store, self.metrics, self.parts.clock
        parts.client.listener = client_request_metrics(metrics, parts.client.host)
        assert self.watches is not None
        watches = self.watches
        state = ClusterStateMetrics(store, metrics, clock, self.provisioner, lambda: watches.lost_at)
        store.subscribe(state.hear)
        if parts.settings.disable_cluster_state_observability:
            return
        NodeMetrics(store, metrics, clock)
        NodePoolMetrics(store, metrics, self.catalogs)
        CostMetrics(store, metrics, self.catalogs, clock)
        context = disruption_context(parts.settings)
        self._singletons += [
            DisruptionBudgetMetrics(store, metrics, self.catalogs, self._worker, clock),
            BoundMetrics(store, metrics, self.catalogs, self._worker, clock, context=context),
        ]
        pods, latency = PodMetrics(store, metrics), PodLatencyMetrics(store, metrics, clock)
        conditions = StatusConditionMetrics(
            metrics,
            clock,
            class_labels=[each.label for each in parts.cloud.node_classes],
            announce=self.performer.announce,
        )
        for each in (pods.hear, latency.hear, conditions.hear):
            store.subscribe(each)
        self.provisioner.subscribe(latency.decided)

    def _make_gated(self) -> None:
        """Create the controllers of feature gates that are enabled."""
        parts, store, performer, clock = self.parts, self.store, self.performer, self.parts.clock
        gate, policies = parts.settings.gate, parts.cloud.repair_policies
        if gate("NodeRepair") and policies:
            repair = NodeHealth(store, performer, self._client, clock, policies)
            self._register(repair, workers=COMMON.at(parts.settings.cpu_requests))
        if gate("StaticCapacity"):
            self._register(StaticProvisioning(store, performer, ALL_LABEL_RULES, self.deciding))
            self._register(StaticDeprovisioning(store, performer, clock, self.deciding))
        if gate("NodeOverlay"):
            self._register(NodeOverlayController(store, performer, self.catalogs, clock), workers=1)
        if gate("CapacityBuffer"):
            queue: WorkQueue[str] = WorkQueue(backoff=_CLAIM_RETRIES)
            buffers = CapacityBufferController(queue, store, performer, self.provisioner, clock)
            self.provisioner.subscribe(buffers.decided)
            self._register(buffers, queue=queue)

    def _add_provider_controllers(self) -> None:
        cloud = self._provider
        if not isinstance(cloud, HasControllers):
            return
        for controller in cloud.controllers(ControllerContext(view=self.store.view, metrics=self.metrics)):
            left_out = self.shadow is not None and controller.name not in READING_CONTROLLERS
            if isinstance(controller, SingletonController):
                if not left_out:
                    self._singletons.append(ProviderSingleton(controller, self.performer))
            elif left_out:
                self._only_tell(controller)
            else:
                self._register(ProviderReconciler(controller, self.performer), workers=controller.workers)

    def _only_tell(self, controller: ObjectController) -> None:
        """Let a controller that does not run hear of events: a provider drops changed classes from caches."""

        def hear(event: StateEvent, before: Resource | NodeClass | None) -> None:
            for _ in controller.wakes(event, before):
                pass

        self.store.subscribe(hear, controller.kinds)

    def _register(
        self, reconciler: ObjectReconciler, *, workers: int = 10, queue: WorkQueue[str] | None = None
    ) -> None:
        controller = Controller(reconciler, workers=workers, queue=queue)
        self._add(controller)

        def hear(event: StateEvent, before: Resource | NodeClass | None) -> None:
            for key in reconciler.wakes(event, before):
                controller.queue.add(key)

        self.store.subscribe(hear, reconciler.kinds)

    def _add(self, controller: Controller) -> None:
        self._controllers.append(controller)
        controller.measure(self.metrics, self.parts.clock)
