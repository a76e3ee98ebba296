"""
The provisioner: collects triggers in batches, decides, creates claims.

Pods and disrupted nodes trigger when they are seen, and again every ten seconds for as long as they wait,
so that nothing depends on a single event; updates of a pod whose node is starting do not, because they would
keep other pods waiting. A decision is made from a state in which every earlier claim has
its instance, or is about to get one that can be foreseen; a batch that is complete waits for that, and then
no longer. The decision is ``core.provisioning.provisioner.provision``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from karpenter.api.labels import NODEPOOL
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.base.batcher import Batcher, BatchWindow
from karpenter.controllers.nomination import NodesOfDecision, PodNominator
from karpenter.core.events import listing
from karpenter.core.provisioning.nomination import is_node_coming
from karpenter.core.provisioning.provisioner import (
    AGAIN,
    MOST_FORESEEN,
    ProvisioningDecision,
    ProvisioningMemory,
    ProvisioningSettings,
    creation_problem,
    foresee_machines,
    is_trigger,
    may_serve_more,
    nomination_events,
    provision,
)
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent
from karpenter.kube.errors import KubeError
from karpenter.telemetry.metrics import Metrics, scheduler
from karpenter.telemetry.tracing import note, traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.catalogs import PoolCatalogs
    from karpenter.controllers.executor import Executor
    from karpenter.controllers.perform import Performer
    from karpenter.core.effects import CreateClaim

log = structlog.stdlib.get_logger(__name__)

BUDGET: Final = 60.0
"""Seconds that one decision may take; what was found by then is carried out."""


_LAUNCH_GRACE: Final = 0.1
"""Seconds that a batch waits for launches that are about to end."""

_LOOK: Final = 1.0
"""Seconds between two looks at whether a decision may be made, while nothing changes."""


class Search(msgspec.Struct, frozen=True):
    """A decision that is being computed."""

    id: str
    pods: int
    began: float


class Provisioner:
    """Launches nodes for pending pods."""

    name = "provisioner"
    kinds: ClassVar = (Pod, Node, NodePool, NodeClaim)

    def __init__(
        self,
        *,
        store: ClusterState,
        performer: Performer,
        catalogs: PoolCatalogs,
        worker: Executor,
        clock: Clock,
        metrics: Metrics,
        settings: ProvisioningSettings,
        window: BatchWindow,
        deciding: asyncio.Lock,
        nominator: PodNominator | None = None,
    ) -> None:
        self._store = store
        self._performer = performer
        self._catalogs = catalogs
        self._worker = worker
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._deciding = deciding
        self._nominator = nominator
        self._batcher: Batcher[str] = Batcher(window)
        self._waiting: dict[tuple[type, str], str] = {}
        self._claims_changed = asyncio.Event()
        self.memory = ProvisioningMemory()
        """What the next decision is made with."""

        self.decisions = 0
        """How many decisions were made so far."""

        self.search: Search | None = None
        """The decision that is being computed."""

        self._listeners: list[Callable[[ProvisioningDecision], None]] = []

    def subscribe(self, listener: Callable[[ProvisioningDecision], None]) -> None:
        """Tell `listener` of every decision, before it is carried out."""
        self._listeners.append(listener)

    def trigger(self, uid: str) -> None:
        self._batcher.trigger(uid)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Take note of what waits for capacity."""
        item = event.object
        if isinstance(item, NodeClaim):
            self._claims_changed.set()
        if isinstance(item, Pod | Node):
            self._note(item, isinstance(event, ObjectUpdated) and is_trigger(item))
        # A change of a NodePool can let pods be scheduled that nothing else would look at again.
        elif isinstance(item, NodePool) and self._waiting:
            assert before is None or isinstance(before, NodePool)
            if may_serve_more(item, before):
                self._batcher.trigger(item.metadata.uid)

    async def remind(self) -> None:
        """Let whatever still waits trigger again, once in a while."""
        while True:
            await self._clock.sleep(AGAIN)
            for uid in self._waiting.values():
                self._batcher.remind(uid)

    async def run(self) -> None:
        while True:
            keys = await self._batcher.wait()
            if not keys:
                continue
            await self._until_synced()
            async with self._deciding:
                await self._decide()

    async def _until_synced(self) -> None:
        """Wait until every claim has its instance: the batch is complete, so it does not wait longer."""
        patient_until = self._clock.monotonic() + _LAUNCH_GRACE
        refused: frozenset[str] | None = None
        while not self._store.synced:
            left = patient_until - self._clock.monotonic() if self._store.complete else 0.0
            # Each claim wakes this up; that the same ones cannot be foreseen need not be found out again.
            if left <= 0 and self._store.launching <= MOST_FORESEEN:
                waiting = self._store.unlaunched
                if waiting != refused and await self._is_foreseeable():
                    return
                refused = waiting if self._store.complete else None
            self._claims_changed.clear()
            # That every kind was listed is no change of an object, so it is looked for once in a while.
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else _LOOK):
                    await self._claims_changed.wait()

    async def _is_foreseeable(self) -> bool:
        """
        Whether the pods of claims that are being launched are known, and what will be launched is.

        Otherwise an unlaunched claim has no capacity yet, and its pods would be given another node.
        """
        nominated = {each.claim for each in self.memory.nominations.values()}
        if not self._store.complete or not self._store.unlaunched <= nominated:
            return False
        view = self._store.view()
        return foresee_machines(view, await self._catalogs.of(view.pools.values())) is not None

    def _note(self, item: Pod | Node, waits: bool) -> None:
        key = (type(item), item.key)
        if not waits:
            self._waiting.pop(key, None)
            return
        if isinstance(item, Pod):
            self._store.acknowledge(item.key, self._clock.now())
        known, self._waiting[key] = self._waiting.get(key), item.metadata.uid
        if known != item.metadata.uid or not self._is_node_coming(item):
            self._batcher.trigger(item.metadata.uid)

    def _is_node_coming(self, item: Pod | Node) -> bool:
        nomination = self.memory.nominations.get(item.key) if isinstance(item, Pod) else None
        return is_node_coming(nomination, self._store.claim(nomination.claim) if nomination else None)

    @traced("provision")
    async def _decide(self) -> None:
        catalog = await self._catalogs.of(self._store.pools())
        view, now, started = self._store.view(), self._clock.now(), self._clock.monotonic()
        settings = msgspec.structs.replace(
            self._settings,
            stop=lambda: self._clock.monotonic() - started > BUDGET,
            nominate=self._nominator is not None and self._nominator.on,
        )
        memory = self.memory
        if self._nominator is not None:
            memory = memory.with_nominations(self._nominator.changed)
        self.search = Search(f"{self.decisions:08x}", len(self._waiting), started)
        try:
            decision = await self._worker.run(
                partial(provision, view, catalog, memory, now=now, settings=settings)
            )
        finally:
            self.search = None
        self.decisions += 1
        self._remember(decision.memory)
        self._report(decision, self._clock.monotonic() - started)
        for listener in self._listeners:
            listener(decision)
        await self._performer.perform(decision.effects)
        # The names of claims come from the API server (generateName), so all can be created at once:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/
        nodes = NodesOfDecision()
        await asyncio.gather(*(self._create(each, decision, nodes) for each in decision.claims))

    @traced("nodeclaim.create")
    async def _create(
        self, effect: CreateClaim, decision: ProvisioningDecision, nodes: NodesOfDecision
    ) -> None:
        """Create one claim, unless the cluster has changed so that it may not be; tell its pods why."""
        name, view = effect.claim.metadata.labels[NODEPOOL], self._store.view()
        # Other claims may have been created since the decision, and a limit must hold for all of them:
        # https://karpenter.sh/docs/concepts/nodepools/#speclimits
        if problem := creation_problem(effect, view):
            log.info("nodeclaim.not_created", nodepool=name, because=problem)
            note(nodepool=name, failed=problem)
            return
        pods = {key: pod for key in effect.pods if (pod := view.pods.get(key)) is not None}
        try:
            claim = await self._performer.create_claim(effect)
        except KubeError as error:
            log.warning("nodeclaim.not_created", nodepool=name, because=str(error))
            note(nodepool=name, failed=str(error))
            return
        note(nodepool=name, nodeclaim=claim.name, pods=effect.pods)
        is_buffered = not decision.virtual.keys().isdisjoint(effect.pods)
        self._remember(
            self.memory.with_claim(claim, pods.values(), self._clock.now(), is_buffered=is_buffered)
        )
        if self._nominator is not None and not is_buffered:
            self._nominator.bought(claim, nodes)
        await self._performer.perform(nomination_events(claim, pods, decision.plan.because))

    def _remember(self, memory: ProvisioningMemory) -> None:
        self.memory = memory
        if self._nominator is not None:
            self._nominator.plan(memory.nominations)

    def _report(self, decision: ProvisioningDecision, seconds: float) -> None:
        metrics, refused = self._metrics, len(decision.plan.refusals)
        metrics[scheduler.SCHEDULING_DURATION].observe(seconds, controller=self.name)
        metrics[scheduler.IGNORED_PODS].set(float(len(decision.ignored)))
        metrics[scheduler.UNSCHEDULABLE_PODS].set(float(refused), controller=self.name)
        metrics[scheduler.PENDING_PODS_BY_ZONE].publish(
            self.name,
            [(float(pods), {"controller": self.name, "zone": zone}) for zone, pods in decision.zones.items()],
        )
        note(
            pods=decision.considered,
            ignored=len(decision.ignored),
            refused=refused,
            nodeclaims=len(decision.claims),
            hourly=round(decision.plan.cost.hourly, 4),
            complete=decision.plan.complete,
        )
        for preference, pods in decision.hindering.items():
            log.info("pods.hard_to_consolidate", pods=listing(pods), count=len(pods), because=preference)
        if decision.considered:
            log.info(
                "pods.considered",
                summary=_summary(decision),
                pods=decision.considered,
                ignored=len(decision.ignored),
                refused=refused,
                nodeclaims=len(decision.claims),
                existing_nodes=len(decision.plan.placed),
                hourly=round(decision.plan.cost.hourly, 4),
                seconds=round(seconds, 3),
                complete=decision.plan.complete,
            )


def _summary(decision: ProvisioningDecision) -> str:
    """Return what was decided in the words that people search logs for."""
    if decision.claims:
        return "computed new nodeclaim(s) to fit pod(s)"
    return "found provisionable pod(s)"
