"""
The life of claims, one at a time: look, ask the core what is due, do it.

What is kept up to date on launched claims: their marks, their labels, their age, their last pod event.

Once in a while: claims without a machine, and machines without a claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.dra import ResourceSlice
from karpenter.api.labels import NODEPOOL
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.cloudprovider import HoldsRegistration
from karpenter.cloud.errors import MachineNotFound
from karpenter.controllers.controller import call_cloud
from karpenter.core.lifecycle import consistency
from karpenter.core.lifecycle.disruption_conditions import disruption_conditions
from karpenter.core.lifecycle.expiration import expire
from karpenter.core.lifecycle.garbagecollection import PERIOD, claims_without_machine, machines_without_claim
from karpenter.core.lifecycle.hydration import hydrate
from karpenter.core.lifecycle.lifecycle import reconcile_nodeclaim
from karpenter.core.lifecycle.podevents import pod_event_node, record_pod_event
from karpenter.core.lifecycle.termination import finalize_nodeclaim
from karpenter.core.state.cluster import ObjectUpdated

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, Hold
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provider import PoolCatalogs
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent


class NodeClaimLifecycle:
    """Brings claims to life, and to their end."""

    name = "nodeclaim.lifecycle"

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: CloudProvider,
        clock: Clock,
        *,
        devices: bool = False,
    ) -> None:
        """`devices` says whether nodes must show the devices that their pods claim."""
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock
        self._devices = devices

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claims that an event is about."""
        if isinstance(event.object, NodeClaim):
            yield event.object.name
        elif isinstance(event.object, Node):
            ids = {each.spec.provider_id for each in (event.object, before) if isinstance(each, Node)}
            for provider_id in sorted(ids):
                for claim in self._store.claims_of(provider_id):
                    yield claim.name
        elif isinstance(event.object, ResourceSlice):
            node = self._store.node(event.object.spec.node_name or "")
            for claim in self._store.claims_of(node.spec.provider_id) if node is not None else ():
                yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Do what is due for one claim."""
        claim = self._store.claim(key)
        if claim is None:
            return None
        nodes = self._store.nodes_of(claim.status.provider_id)
        if claim.metadata.deletion_timestamp is not None:
            due = finalize_nodeclaim(claim, nodes, self._clock.now())
            await self._performer.perform(due.effects)
            return due.again
        holds = await self._holds(claim, nodes)
        slices = self._store.view().resource_slices.values() if self._devices else None
        due = reconcile_nodeclaim(
            claim, nodes, self._clock.now(), holds=[hold.because for hold in holds], slices=slices
        )
        await self._performer.perform(due.effects)
        waits = [hold.look_again for hold in holds] + ([due.again] if due.again is not None else [])
        return min(waits, default=None)

    async def _holds(self, claim: NodeClaim, nodes: Sequence[Node]) -> tuple[Hold, ...]:
        if len(nodes) != 1 or not isinstance(self._cloud, HoldsRegistration):
            return ()
        return await call_cloud(self._cloud.registration_holds(claim, nodes[0]))


class NodeClaimDisruption:
    """Marks claims as drifted and as consolidatable."""

    name = "nodeclaim.disruption"

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: CloudProvider,
        catalogs: PoolCatalogs,
        clock: Clock,
    ) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._catalogs = catalogs
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
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
            drift = await call_cloud(self._cloud.drift(claim))
        except MachineNotFound:
            drift = ""
        due = disruption_conditions(claim, pool, catalog, self._clock.now(), provider_drift=drift)
        await self._performer.perform(due.effects)
        return due.again


class Expiration:
    """Removes claims that are too old."""

    name = "nodeclaim.expiration"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim that an event tells of for the first time."""
        if isinstance(event, ObjectUpdated) and isinstance(event.object, NodeClaim) and before is None:
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


class NodeClaimConsistency:
    """Names the class of claims and nodes, and checks that nodes are what was promised."""

    name = "nodeclaim.consistency"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
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
        due = consistency.check_consistency(claim, nodes, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again


class PodEvents:
    """Notes when nodes last saw a pod come or go."""

    name = "nodeclaim.podevents"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._started = clock.now()

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claim of the node on which a pod came or went."""
        if not isinstance(event.object, Pod):
            return
        assert before is None or isinstance(before, Pod)
        name = pod_event_node(
            event.object if isinstance(event, ObjectUpdated) else None, before, self._started
        )
        node = self._store.node(name) if name else None
        if node is not None:
            for claim in self._store.claims_of(node.spec.provider_id):
                yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Write down the time of an event."""
        claim = self._store.claim(key)
        if claim is not None:
            await self._performer.perform(record_pod_event(claim, self._clock.now()))
        return None


class GarbageCollection:
    """Removes what was left behind."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, store: ClusterState, performer: Performer, cloud: CloudProvider, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock

    async def look(self) -> float:
        """Compare what we have asked for with what there is."""
        before = tuple(self._store.view().claims.values())
        machines = await call_cloud(self._cloud.list())
        view = self._store.view()
        await self._performer.perform(
            claims_without_machine(before, machines, self._store.nodes_of, view.pods_by_node)
        )
        await self._performer.perform(
            machines_without_claim(machines, view.claims.values(), self._clock.now())
        )
        return PERIOD
