"""What is kept up to date on launched claims: their marks, their labels, their age, their last pod event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.errors import MachineNotFound
from karpenter.controllers.patience import answer
from karpenter.core.lifecycle import consistency
from karpenter.core.lifecycle.expire import expire
from karpenter.core.lifecycle.hydrate import hydrate
from karpenter.core.lifecycle.marking import mark
from karpenter.core.lifecycle.podevents import is_pod_event, noted
from karpenter.core.state.store import Put

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.interface import CloudProvider
    from karpenter.controllers.catalogs import Catalogs
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.store import Event, Store
    from karpenter.core.state.view import NodeClass


class ClaimMarks:
    """Marks claims as drifted and as consolidatable."""

    name = "nodeclaim.disruption"

    def __init__(
        self, store: Store, performer: Performer, cloud: CloudProvider, catalogs: Catalogs, clock: Clock
    ) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._catalogs = catalogs
        self._clock = clock

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claims that an event is about."""
        del before
        item = event.object
        if isinstance(item, NodeClaim):
            yield item.name
        elif isinstance(item, NodePool):
            for claim in self._store.view().claims.values():
                if claim.metadata.labels.get(NODEPOOL) == item.name:
                    yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Mark one claim."""
        claim = self._store.claim(key)
        if claim is None or not claim.status.provider_id:
            return None
        pool = self._store.pool(claim.metadata.labels.get(NODEPOOL, ""))
        catalog = await self._catalogs.of(self._store.view().pools.values())
        try:
            drift = await answer(self._cloud.drift(claim))
        except MachineNotFound:
            drift = ""
        due = mark(claim, pool, catalog, self._clock.now(), provider_drift=drift)
        await self._performer.perform(due.effects)
        return due.again


class Expiration:
    """Removes claims that are too old."""

    name = "nodeclaim.expiration"

    def __init__(self, store: Store, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim that an event tells of for the first time."""
        if isinstance(event, Put) and isinstance(event.object, NodeClaim) and before is None:
            yield event.object.name

    async def reconcile(self, key: str) -> float | None:
        """Look at the age of one claim."""
        claim = self._store.claim(key)
        if claim is None:
            return None
        pods = self._store.view().pods_by_node.get(claim.status.node_name, ())
        due = expire(claim, self._clock.now(), pods)
        await self._performer.perform(due.effects)
        return due.again


class Upkeep:
    """Names the class of claims and nodes, and checks that nodes are what was promised."""

    name = "nodeclaim.consistency"

    def __init__(self, store: Store, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claims that an event is about."""
        del before
        if isinstance(event.object, NodeClaim):
            yield event.object.name
        elif isinstance(event.object, Node):
            for claim in self._store.claims_of(event.object.spec.provider_id):
                yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Look at one claim and its node."""
        claim = self._store.claim(key)
        if claim is None:
            return None
        nodes = self._store.nodes_of(claim.status.provider_id)
        if effects := hydrate(claim, nodes):
            await self._performer.perform(effects)
            return 0.0
        due = consistency.check(claim, nodes, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again


class PodEvents:
    """Notes when nodes last saw a pod come or go."""

    name = "nodeclaim.podevents"

    def __init__(self, store: Store, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._started = clock.now()

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim of the node on which a pod came or went."""
        if not isinstance(event.object, Pod):
            return
        assert before is None or isinstance(before, Pod)
        name = is_pod_event(event.object if isinstance(event, Put) else None, before, self._started)
        node = self._store.node(name) if name else None
        if node is not None:
            for claim in self._store.claims_of(node.spec.provider_id):
                yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Write down the time of an event."""
        claim = self._store.claim(key)
        if claim is not None:
            await self._performer.perform(noted(claim, self._clock.now()))
        return None
