"""
Controllers of NodeClaims: lifecycle, disruption conditions, expiration, consistency, pod events, garbage
collection.

Each reads the cluster state, calls a pure function of :mod:`karpenter.core.lifecycle`, and performs its
effects.

The termination controller of Nodes drains deleted Nodes and terminates their machines.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from karpenter.api.dra import ResourceSlice
from karpenter.api.labels import NODEPOOL
from karpenter.api.meta import Resource, is_status_condition_true
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.cloud.cloudprovider import CloudProvider, Hold, HoldsRegistration
from karpenter.cloud.errors import CloudError, MachineNotFound
from karpenter.controllers.cloudcalls import call_cloud
from karpenter.core.effects import Step, Terminate
from karpenter.core.lifecycle import consistency
from karpenter.core.lifecycle.conditions import INITIALIZED, INSTANCE_TERMINATING, REGISTERED, has_finalizer
from karpenter.core.lifecycle.disruption_conditions import (
    disruption_conditions,
    disruption_inputs,
    disruption_inputs_of_pool,
    instance_type_found_at,
)
from karpenter.core.lifecycle.expiration import expire
from karpenter.core.lifecycle.garbagecollection import (
    FIRST_PERIOD,
    FIRST_ROUNDS,
    PERIOD,
    claims_without_machine,
    machines_without_claim,
    nodes_without_claim,
)
from karpenter.core.lifecycle.hydration import hydrate
from karpenter.core.lifecycle.initialization import is_ready
from karpenter.core.lifecycle.liveness import lifecycle_inputs, reads_nodes, reconcile_nodeclaim
from karpenter.core.lifecycle.podevents import pod_event_node, record_pod_event
from karpenter.core.lifecycle.termination import (
    TerminatingNode,
    finalize_nodeclaim,
    may_have_node,
    pending_volume_attachments,
    terminate_node,
)
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent
from karpenter.kube.errors import Conflict, KubeError
from karpenter.kube.rest import Selection, named
from karpenter.telemetry.metrics import Metrics, runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.controllers.apireader import APIReader
    from karpenter.controllers.catalogs import PoolCatalogs
    from karpenter.controllers.nomination import PodNominator
    from karpenter.controllers.perform import Performer
    from karpenter.core.model.catalog import Catalog

log = structlog.stdlib.get_logger(__name__)

# EC2 throttles TerminateInstances, and a batch of calls is merged into one:
# https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
_TERMINATIONS_AT_ONCE: Final = 100

_CONFLICTS: Final = 5
CONFLICTED: Final = 0.1
"""Seconds after which a write to a Node that was refused because it has changed is decided again."""


class NodeClaimLifecycle:
    """Launches, registers, initializes and finalizes NodeClaims."""

    name = "nodeclaim.lifecycle"
    kinds: ClassVar = (NodeClaim, Node, ResourceSlice)

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: CloudProvider,
        reader: APIReader,
        clock: Clock,
        *,
        devices: bool = False,
        nominator: PodNominator | None = None,
    ) -> None:
        """`devices` says whether Nodes must publish the ResourceSlices of requested DRA drivers."""
        self._nominator = nominator
        self._conflicts: dict[
            str, int
        ] = {}  # how often the writes of a NodeClaim were refused one after another
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._reader = reader
        self._clock = clock
        self._devices = devices

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the NodeClaims to reconcile after an event that changes what their lifecycle reads."""
        item, known = event.object, before if isinstance(event, ObjectUpdated) else None
        if isinstance(item, NodeClaim):
            if not isinstance(known, NodeClaim) or lifecycle_inputs(known) != lifecycle_inputs(item):
                yield item.name
        elif isinstance(item, Node):
            ids = {each.spec.provider_id for each in (item, before) if isinstance(each, Node)}
            for provider_id in sorted(ids):
                yield from self._reading_nodes(provider_id)
        elif isinstance(item, ResourceSlice):
            node = self._store.node(item.spec.node_name or "")
            yield from self._reading_nodes(node.spec.provider_id) if node is not None else ()

    def _reading_nodes(self, provider_id: str) -> Iterable[str]:
        return (each.name for each in self._store.claims_of(provider_id) if reads_nodes(each))

    async def reconcile(self, key: str) -> float | None:
        claim = self._store.claim(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            self._conflicts.pop(key, None)
            return await self._finalize(claim) if claim is not None else None
        due = await self._decide(claim)
        if not due.effects or not self._store.nodes_of(claim.status.provider_id):
            return await self._carry_out(claim, due)
        # The first look of kube-scheduler at the node should find which pods are planned to run there.
        if self._nominator is not None and not is_status_condition_true(claim.status.conditions, REGISTERED):
            await self._nominator.before_registration(claim)
        # A Node that joins changes within a second, and under load a write waits for longer than that.
        # Decided again when its turn has come, its registration and initialization are one write.
        async with self._performer.turn():
            current = self._store.claim(key)
            if current is None or current.metadata.deletion_timestamp is not None:
                return 0.0
            try:
                again = await self._carry_out(current, await self._decide(current))
            except Conflict:
                # The kubelet and other controllers write to a Node that joins, and pods wait for it.
                tries = self._conflicts[key] = self._conflicts.get(key, 0) + 1
                if tries <= _CONFLICTS:
                    return CONFLICTED
                raise
            self._conflicts.pop(key, None)
            return again

    async def _decide(self, claim: NodeClaim) -> Step:
        nodes = self._store.nodes_of(claim.status.provider_id)
        holds = await self._holds(claim, nodes)
        slices = self._store.view().resource_slices.values() if self._devices else None
        due = reconcile_nodeclaim(
            claim, nodes, self._clock.now(), holds=[hold.because for hold in holds], slices=slices
        )
        waits = [hold.look_again for hold in holds] + ([due.again] if due.again is not None else [])
        return Step(effects=due.effects, again=min(waits, default=None))

    async def _carry_out(self, claim: NodeClaim, due: Step) -> float | None:
        await self._performer.perform(due.effects)
        self._log_progress(claim)
        return due.again

    async def _finalize(self, claim: NodeClaim) -> float | None:
        nodes = self._store.nodes_of(claim.status.provider_id)
        if not nodes and may_have_node(claim):
            nodes = await self._read_nodes(claim)
        due = finalize_nodeclaim(claim, nodes, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again

    async def _read_nodes(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Return the Node of a claim as the API server has it: the cluster state may lack it."""
        found = await self._reader.list(Node, named(claim.status.node_name))
        return tuple(each for each in found.items if each.spec.provider_id == claim.status.provider_id)

    def _log_progress(self, before: NodeClaim) -> None:
        """Log that a NodeClaim has been registered or initialized by the writes of this reconcile."""
        after = self._store.claim(before.name)
        if after is None or after.metadata.uid != before.metadata.uid:
            return
        facts = {"nodeclaim": after.name, "node": after.status.node_name}
        if _became_true(before, after, REGISTERED):
            log.info("nodeclaim.registered", summary="registered nodeclaim", **facts)
        if _became_true(before, after, INITIALIZED):
            log.info("nodeclaim.initialized", summary="initialized nodeclaim", **facts)

    async def _holds(self, claim: NodeClaim, nodes: Sequence[Node]) -> tuple[Hold, ...]:
        if len(nodes) != 1 or not isinstance(self._cloud, HoldsRegistration):
            return ()
        return await call_cloud(self._cloud.registration_holds(claim, nodes[0]))


def _became_true(before: NodeClaim, after: NodeClaim, kind: str) -> bool:
    return is_status_condition_true(after.status.conditions, kind) and not is_status_condition_true(
        before.status.conditions, kind
    )


class NodeClaimDisruption:
    """Keeps the conditions Drifted and Consolidatable of NodeClaims current."""

    name = "nodeclaim.disruption"
    kinds: ClassVar = (NodeClaim, NodePool, NodeClass)

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
        self._found: dict[str, tuple[str, datetime]] = {}  # uid, and when the type was found, by the name

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the NodeClaims to reconcile after an event."""
        item, known = event.object, before if isinstance(event, ObjectUpdated) else None
        if isinstance(item, NodeClaim):
            if not item.status.provider_id and isinstance(event, ObjectUpdated):
                return  # it has no machine yet, and nothing is decided about it
            # Of the writes that bring a claim from its creation to a node, most are about its progress.
            if not isinstance(known, NodeClaim) or disruption_inputs(known) != disruption_inputs(item):
                yield item.name
        elif isinstance(item, NodePool):
            # What a pool counts changes with every claim, and all claims would be looked at for each.
            if isinstance(known, NodePool) and disruption_inputs_of_pool(known) == disruption_inputs_of_pool(
                item
            ):
                return
            for claim in self._store.view().claims.values():
                if claim.metadata.labels.get(NODEPOOL) == item.name:
                    yield claim.name
        elif isinstance(item, NodeClass):
            # Images, subnets and security groups that its selectors find are in its status, of which the
            # state keeps nothing; it is written only when they change.
            for claim in self._store.view().claims.values():
                ref = claim.spec.node_class_ref
                if claim.status.provider_id and (ref.group, ref.kind, ref.name) == (
                    item.group,
                    item.kind,
                    item.name,
                ):
                    yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Reconcile the disruption conditions of one NodeClaim."""
        claim = self._store.claim(key)
        if claim is None or not claim.status.provider_id:
            self._found.pop(key, None)
            return None
        pool = self._store.pool(claim.metadata.labels.get(NODEPOOL, ""))
        catalog = await self._catalogs.of(self._store.pools())
        try:
            drift = await call_cloud(self._cloud.drift(claim))
        except MachineNotFound:
            drift = ""
        now = self._clock.now()
        found = self._look_for_type(claim, pool, catalog, now)
        due = disruption_conditions(claim, pool, catalog, now, provider_drift=drift, found_at=found)
        await self._performer.perform(due.effects)
        return due.again

    def _look_for_type(
        self, claim: NodeClaim, pool: NodePool | None, catalog: Catalog, now: datetime
    ) -> datetime | None:
        """Return when the instance type of a claim was found, and remember it."""
        uid, before = self._found.pop(claim.name, ("", None))
        known = before if uid == claim.metadata.uid else None
        found = instance_type_found_at(claim, pool, catalog, now, known) if pool is not None else None
        if found is not None:
            self._found[claim.name] = (claim.metadata.uid, found)
        return found


class Expiration:
    """Deletes expired NodeClaims."""

    name = "nodeclaim.expiration"
    kinds: ClassVar = (NodeClaim,)

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the NodeClaim of an event when it is seen for the first time."""
        if isinstance(event, ObjectUpdated) and isinstance(event.object, NodeClaim) and before is None:
            yield event.object.name

    async def reconcile(self, key: str) -> float | None:
        claim = self._store.claim(key)
        if claim is None:
            return None
        pods = self._store.pods_on(claim.status.node_name)
        due = expire(claim, self._clock.now(), pods)
        await self._performer.perform(due.effects)
        return due.again


class NodeClaimConsistency:
    """Adds missing node class labels (hydration), and checks that Nodes have the expected resources."""

    name = "nodeclaim.consistency"
    kinds: ClassVar = (NodeClaim, Node)

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the NodeClaims to reconcile after an event that changes what is checked."""
        item, known = event.object, before if isinstance(event, ObjectUpdated) else None
        if not isinstance(item, NodeClaim | Node):
            return
        if isinstance(known, NodeClaim | Node) and consistency.consistency_inputs(
            known
        ) == consistency.consistency_inputs(item):
            return
        claims = (item,) if isinstance(item, NodeClaim) else self._store.claims_of(item.spec.provider_id)
        for claim in claims:
            if self._has_work(claim):
                yield claim.name

    def _has_work(self, claim: NodeClaim) -> bool:
        """Whether a claim is checked yet, or has a label to be added: most events are on the way there."""
        return is_status_condition_true(claim.status.conditions, INITIALIZED) or bool(
            hydrate(claim, self._store.nodes_of(claim.status.provider_id))
        )

    async def reconcile(self, key: str) -> float | None:
        """Hydrate and check one NodeClaim and its Node."""
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
    """Writes the last pod event time of NodeClaims."""

    name = "nodeclaim.podevents"
    kinds: ClassVar = (Pod,)

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock
        self._started = clock.now()

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
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
        """Write the time of a pod event."""
        claim = self._store.claim(key)
        if claim is not None:
            await self._performer.perform(record_pod_event(claim, self._clock.now()))
        return None


class GarbageCollection:
    """Deletes NodeClaims without a machine."""

    name = "nodeclaim.garbagecollection"

    def __init__(self, store: ClusterState, performer: Performer, cloud: CloudProvider) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud

    async def look(self) -> float:
        """Compare NodeClaims with the machines of the cloud."""
        # Claims are read before the list, so that a launch in between is no orphan.
        before = tuple(self._store.view().claims.values())
        machines = await call_cloud(self._cloud.list())
        pods = self._store.view().pods_by_node
        await self._performer.perform(claims_without_machine(before, machines, self._store.nodes_of, pods))
        return PERIOD


class InstanceGarbageCollection:
    """Terminates machines that have no NodeClaim, and deletes their Nodes."""

    name = "instance.garbagecollection"

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: CloudProvider,
        reader: APIReader,
        *,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._reader = reader
        self._clock = clock
        self._orphaned = metrics[runtime.ORPHANED]
        self._rounds = 0
        self._turn = asyncio.Semaphore(_TERMINATIONS_AT_ONCE)

    async def look(self) -> float:
        """Compare the machines of the cloud with NodeClaims."""
        machines = await call_cloud(self._cloud.list())
        view = self._store.view()
        due = machines_without_claim(machines, view.claims.values(), self._clock.now())
        if due:
            claims = (*view.claims.values(), *await self._read_claims())
            due = machines_without_claim(machines, claims, self._clock.now())
        self._orphaned.set(float(len(due)), provider=self._cloud.name)
        failures = await asyncio.gather(*map(self._terminate, due))
        failed = [each for each in failures if each is not None]
        await self._performer.perform(nodes_without_claim(view.nodes.values(), due))
        if failed:
            log.warning("machines.not_collected", count=len(failed), error=str(failed[0]))
        else:
            self._rounds += 1
        return FIRST_PERIOD if self._rounds <= FIRST_ROUNDS else PERIOD

    async def _read_claims(self) -> tuple[NodeClaim, ...]:
        """
        Return the claims that the API server has: the cluster state may lack one, and its pods would be lost.

        Raises:
            KubeError: they cannot be listed, or one cannot be decoded, and any machine may be its own.
        """
        listed = await self._reader.list(NodeClaim)
        if listed.broken:
            raise KubeError(f"no machine is collected: {listed.broken[0]}")
        return listed.items

    async def _terminate(self, due: Terminate) -> CloudError | None:
        """Terminate one machine; one that fails does not keep the others, and is tried again."""
        async with self._turn:
            try:
                await self._performer.perform((due,))
            except CloudError as error:
                return error
        log.info("machine.collected", provider_id=due.provider_id, because=due.because)
        return None


class NodeTermination:
    """Terminates Nodes that are being deleted."""

    name = "node.termination"
    kinds: ClassVar = (Node, NodeClaim)

    def __init__(
        self,
        store: ClusterState,
        performer: Performer,
        cloud: CloudProvider,
        reader: APIReader,
        clock: Clock,
    ) -> None:
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._reader = reader
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the terminating Nodes to reconcile after an event."""
        del before
        item = event.object
        if isinstance(item, Node) and _is_terminating(item):
            yield item.name
        elif isinstance(item, NodeClaim):
            for node in self._store.nodes_of(item.status.provider_id):
                if _is_terminating(node):
                    yield node.name

    async def reconcile(self, key: str) -> float | None:
        node = self._store.node(key)
        if node is None or not _is_terminating(node):
            return None
        gone = await self._is_machine_gone(node)
        due = self._terminate(node, self._store.pods_on(node.name), gone=gone)
        if any(isinstance(each, Terminate) for each in due.effects) and not self._is_ending(node):
            due = self._terminate(node, await self._read_pods(node), gone=gone)
        await self._performer.perform(due.effects)
        return due.again

    def _terminate(self, node: Node, pods: tuple[Pod, ...], *, gone: bool) -> Step:
        claims, view = self._store.claims_of(node.spec.provider_id), self._store.view()
        terminating = TerminatingNode(
            node=node,
            claim=claims[0] if len(claims) == 1 else None,
            pods=pods,
            attachments=pending_volume_attachments(view.attachments, node.name, pods, view.volume_claims),
            machine_gone=gone,
        )
        return terminate_node(terminating, self._clock.now())

    async def _read_pods(self, node: Node) -> tuple[Pod, ...]:
        """
        Return the pods of a Node that the API server has: one that the cluster state lacks would be lost.

        The API server has an index for that.
        """
        return (await self._reader.list(Pod, Selection(fields=f"spec.nodeName={node.name}"))).items

    def _is_ending(self, node: Node) -> bool:
        """Whether the machine of a Node was terminated already, and its end is waited for."""
        return any(
            is_status_condition_true(claim.status.conditions, INSTANCE_TERMINATING)
            for claim in self._store.claims_of(node.spec.provider_id)
        )

    async def _is_machine_gone(self, node: Node) -> bool:
        if is_ready(node):
            return False
        try:
            await call_cloud(self._cloud.get(node.spec.provider_id))
        except MachineNotFound:
            return True
        return False


def _is_terminating(node: Node) -> bool:
    return node.metadata.deletion_timestamp is not None and has_finalizer(node)
