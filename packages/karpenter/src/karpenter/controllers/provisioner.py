"""
Capacity for pods that wait: collect triggers, decide, create claims.

Pods and leaving nodes trigger when they are seen, and again every ten seconds for as long as they wait, so
that nothing depends on a single event. A decision is made only from a state in which every earlier claim has
its machine; until then the triggers are kept.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from karpenter.api.labels import DISRUPTED, NODEPOOL
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.base.batcher import Batcher
from karpenter.core.events import listing
from karpenter.core.provisioning.nominations import Nomination
from karpenter.core.provisioning.provisioner import (
    Told,
    is_provisionable,
    over_limit,
    provision,
    nomination_events,
)
from karpenter.core.scheduling.build.build import pool_usage
from karpenter.core.scheduling.build.virtualpods import is_virtual
from karpenter.core.state.cluster import Put
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import KubeError
from karpenter.telemetry.metrics import scheduler

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from karpenter.api.meta import Resource
    from karpenter.base.batcher import Window
    from karpenter.base.clock import Clock
    from karpenter.controllers.controller import Worker
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provider import PoolCatalogs
    from karpenter.core.effects import CreateClaim
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.scheduling.build.build import SchedulingPolicy
    from karpenter.core.scheduling.problem import Options
    from karpenter.core.state.cluster import Event, Store
    from karpenter.core.state.view import ClusterView, NodeClass
    from karpenter.telemetry.metrics import Metrics

log = structlog.stdlib.get_logger(__name__)

AGAIN: Final = 10.0
"""Seconds after which whatever still waits triggers again."""

BUDGET: Final = 60.0
"""Seconds that one decision may take; what was found by then is carried out."""


class Search(msgspec.Struct, frozen=True):
    """A search for places."""

    id: str
    pods: int
    began: float


class Provisioner:
    """Decides which machines to launch for pods that wait."""

    name = "provisioner"

    def __init__(
        self,
        *,
        store: Store,
        performer: Performer,
        catalogs: PoolCatalogs,
        worker: Worker,
        clock: Clock,
        metrics: Metrics,
        options: Options,
        policy: SchedulingPolicy,
        window: Window,
        deciding: asyncio.Lock,
    ) -> None:
        self._store = store
        self._performer = performer
        self._catalogs = catalogs
        self._worker = worker
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._policy = policy
        self._promise = timedelta(seconds=max(2 * window.longest, 10.0))
        self._deciding = deciding
        self._batcher: Batcher[str] = Batcher(window)
        self._waiting: dict[tuple[type, str], str] = {}
        self.buffered: frozenset[str] = frozenset()
        """Nodes that hold room for a buffer, as of the last decision."""

        self.decisions = 0
        """How many decisions were made so far."""

        self.search: Search | None = None
        """The search for places that is under way."""

        self._promises: dict[str, Nomination] = {}
        self._hindrances = Told()
        self._listeners: list[Callable[[ProvisioningDecision], None]] = []

    def subscribe(self, listener: Callable[[ProvisioningDecision], None]) -> None:
        """Tell `listener` of every decision, before it is carried out."""
        self._listeners.append(listener)

    def trigger(self, uid: str) -> None:
        """Ask for a decision soon."""
        self._batcher.trigger(uid)

    def hear(self, event: Event, before: Resource | NodeClass | None) -> None:
        """Take note of what waits for capacity."""
        del before
        item = event.object
        if isinstance(item, Pod):
            self._note(item, isinstance(event, Put) and is_provisionable(item))
        elif isinstance(item, Node):
            leaving = any(taint.key == DISRUPTED for taint in item.spec.taints)
            self._note(item, isinstance(event, Put) and leaving)
        elif isinstance(item, NodePool) and self._waiting:
            self._batcher.trigger(item.metadata.uid)

    async def remind(self) -> None:
        """Let whatever still waits trigger again, once in a while."""
        while True:
            await self._clock.sleep(AGAIN)
            for uid in tuple(self._waiting.values()):
                self._batcher.trigger(uid)

    async def run(self) -> None:
        """Decide, batch by batch."""
        while True:
            keys = await self._batcher.wait()
            if not keys:
                continue
            if not self._store.synced:
                for key in keys:
                    self._batcher.trigger(key)
                continue
            async with self._deciding:
                await self._decide()

    def _note(self, item: Pod | Node, waits: bool) -> None:
        key = (type(item), item.key)
        if not waits:
            self._waiting.pop(key, None)
            return
        if isinstance(item, Pod):
            self._store.acknowledge(item.key, self._clock.now())
        self._waiting[key] = item.metadata.uid
        self._batcher.trigger(item.metadata.uid)

    async def _decide(self) -> None:
        catalog = await self._catalogs.of(self._store.view().pools.values())
        view, now, started = self._store.view(), self._clock.now(), self._clock.monotonic()
        options = msgspec.structs.replace(
            self._options, stop=lambda: self._clock.monotonic() - started > BUDGET
        )
        self._promises = {
            key: each
            for key, each in self._promises.items()
            if key in view.pods and each.claim in view.claims
        }
        self._tell_hindrances(view, now)
        self.search = Search(f"{self.decisions:08x}", len(self._waiting), started)
        try:
            decision = await self._worker.run(
                partial(
                    provision,
                    view,
                    catalog,
                    now=now,
                    options=options,
                    policy=self._policy,
                    promised_until=now + self._promise,
                    promises=dict(self._promises),
                )
            )
        finally:
            self.search = None
        self.decisions += 1
        self._measure(decision, self._clock.monotonic() - started)
        self.buffered = decision.buffered
        for listener in self._listeners:
            listener(decision)
        self._promises |= {key: Nomination(claim, now) for key, claim in decision.coming.items()}
        await self._performer.perform(decision.effects)
        await asyncio.gather(*(self._create(each) for each in decision.claims))

    def _tell_hindrances(self, view: ClusterView, now: datetime) -> None:
        """Say, once a day for each pod, which wishes may keep machines from being consolidated."""
        if self._options.preferences == "Ignore":
            return
        waiting = (view.pods.get(key) for kind, key in self._waiting if kind is Pod)
        for wish, pods in self._hindrances.news((pod for pod in waiting if pod is not None), now).items():
            log.info("pods.hard_to_consolidate", pods=listing(pods), count=len(pods), because=wish)

    async def _create(self, effect: CreateClaim) -> None:
        """Create one claim, if its pool is still there and within its limits."""
        name = effect.claim.metadata.labels[NODEPOOL]
        pool, view = self._store.pool(name), self._store.view()
        if pool is None or pool.metadata.deletion_timestamp is not None:
            log.info("nodeclaim.not_created", nodepool=name, because="the pool is gone")
            return
        if problem := over_limit(pool, pool_usage(state_nodes(view)).get(name, {})):
            log.info("nodeclaim.not_created", nodepool=name, because=problem)
            return
        pods = {key: pod for key in effect.pods if (pod := view.pods.get(key)) is not None}
        try:
            claim = await self._performer.create_claim(effect)
        except KubeError as error:
            log.warning("nodeclaim.not_created", nodepool=name, because=str(error))
            return
        made = Nomination(claim.name, self._clock.now())
        self._promises |= {key: made for key, pod in pods.items() if not is_virtual(pod)}
        await self._performer.perform(nomination_events(claim, pods))

    def _measure(self, decision: ProvisioningDecision, seconds: float) -> None:
        metrics, refused = self._metrics, len(decision.plan.refusals)
        metrics[scheduler.SCHEDULING_DURATION].observe(seconds, controller=self.name)
        metrics[scheduler.IGNORED_PODS].set(float(decision.ignored))
        metrics[scheduler.UNSCHEDULABLE_PODS].set(float(refused), controller=self.name)
        metrics[scheduler.PENDING_PODS_BY_ZONE].publish(
            self.name,
            [(float(pods), {"controller": self.name, "zone": zone}) for zone, pods in decision.zones.items()],
        )
        if decision.considered:
            log.info(
                "pods.considered",
                pods=decision.considered,
                ignored=decision.ignored,
                refused=refused,
                nodeclaims=len(decision.claims),
                existing_nodes=len(decision.plan.placed),
                hourly=round(decision.plan.cost.hourly, 4),
                seconds=round(seconds, 3),
                complete=decision.plan.complete,
            )
