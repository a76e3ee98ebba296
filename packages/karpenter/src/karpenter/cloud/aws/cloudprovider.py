"""
The CloudProvider of AWS: NodeClaims become EC2 instances.

It decides nothing but what :mod:`.instance.launch` and :mod:`.drift` decide, and keeps nothing but caches.
What must survive a restart is in the tags of instances, or in Kubernetes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws import drift
from karpenter.cloud.aws.controllers import new_controllers
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.aws.instance.launch import ClaimedInstances, InstanceLaunch, InstanceLauncher
from karpenter.cloud.aws.instance.launch_errors import UnknownLaunchOutcome
from karpenter.cloud.aws.instance.types import Instance, annotations_of, instance_id, machine_of
from karpenter.cloud.aws.instancetype.types import Traits, traits_of
from karpenter.cloud.aws.interruption.controller import InstanceClaims, InterruptionQueue
from karpenter.cloud.aws.labels import NODE_CLASS_LABEL
from karpenter.cloud.aws.metrics import METRICS
from karpenter.cloud.aws.nodeclass.status import NodeClassStatusResolver
from karpenter.cloud.aws.nodeclass.validation import DryRunValidator
from karpenter.cloud.aws.pricing import stated_prices
from karpenter.cloud.aws.repair import REPAIRS
from karpenter.cloud.aws.tagging import lacks_partition
from karpenter.cloud.cloudprovider import (
    ControllerContext,
    Hold,
    Interruption,
    Machine,
    NodeClassKind,
    ProviderController,
)
from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
)
from karpenter.core.model.overlays import apply_overlays, parse_overlays, without_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.services import Services
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

NODE_CLASS: Final = NodeClassKind(EC2NodeClass.api_version.partition("/")[0], EC2NodeClass.kind)


class AwsProvider:
    """Launches, finds and terminates the EC2 instances of one cluster."""

    name: str = "aws"
    node_classes = (NODE_CLASS,)
    repair_policies = REPAIRS
    metrics = METRICS

    def __init__(self, services: Services) -> None:
        self.services = services
        self.validation = DryRunValidator(services)
        self.node_class_status = NodeClassStatusResolver(services, self.validation)
        self.interruption_queue = _interruption_queue(services)
        self._launcher = InstanceLauncher(services)
        self._claimed = ClaimedInstances(services)
        self._claims: InstanceClaims | None = None
        self._view: Callable[[], ClusterView] | None = None
        self._launching: dict[str, asyncio.Lock] = {}
        self._terminating: dict[str, str] = {}
        """Instances that are being terminated, and the capacity reservation that each was in."""

    async def launch(self, claim: NodeClaim) -> Machine:
        """Launch an instance for a claim, or return the one that the claim has."""
        uid = claim.metadata.uid
        lock = self._launching.setdefault(uid, asyncio.Lock())
        try:
            async with lock:
                return await self._launch(claim)
        except CloudUnreachable as error:
            raise LaunchFailed(str(error)) from error
        except (UnknownLaunchOutcome, asyncio.CancelledError):
            self._claimed.note_unknown(uid)
            raise
        finally:
            if not lock.locked():
                self._launching.pop(uid, None)

    async def terminate(self, provider_id: str) -> None:
        number = instance_id(provider_id)
        try:
            instance = await self.services.instances.get(number)
            await self.services.instances.terminate(instance)
        except MachineNotFound:
            self._claimed.forget(number)
            reservation = self._terminating.pop(number, "")
            if reservation:
                self.services.reservations.ended(reservation)
            raise MachineNotFound(provider_id) from None
        if instance.reservation:
            self._terminating[number] = instance.reservation

    async def get(self, provider_id: str) -> Machine:
        (machine,) = await self._machines([await self._instance(provider_id)])
        return machine

    async def list(self) -> tuple[Machine, ...]:
        return await self._machines(await self.services.instances.all())

    async def catalog(self, pool: NodePool) -> Catalog:
        """Return the instance types of a NodePool, with offerings marked that failed lately."""
        name = pool.spec.template.spec.node_class_ref.name
        node_class = await self.services.node_classes.get(name)
        if node_class is None:
            raise NodeClassNotReady(node_class=name, because="it does not exist")
        _, catalog = await self._catalog_of(node_class)
        return catalog

    async def drift(self, claim: NodeClaim) -> str:
        """Return the first reason for drift, in the order in which Karpenter checks them."""
        instance = await self._instance(claim.status.provider_id)
        node_class = await self.services.node_classes.get(claim.spec.node_class_ref.name)
        if node_class is None:
            return ""
        reason = drift.class_drift(claim, node_class)
        if reason:
            return reason
        _, catalog = await self._catalog_of(node_class)
        kind = catalog.by_name.get(instance.instance_type)
        group = await self.services.placement_groups.last_known(node_class.spec.placement_group_selector)
        return (
            drift.image_drift(claim, instance, node_class, kind)
            or drift.network_drift(instance, node_class)
            or drift.reservation_drift(instance, node_class)
            or drift.placement_drift(claim, group)
        )

    def controllers(self, context: ControllerContext) -> tuple[ProviderController, ...]:
        """Return the controllers of AWS, which run while the operator leads."""
        self.services.metrics.use(context.metrics)
        self._claims, self._view = InstanceClaims(context.view), context.view
        self.services.node_classes.follow()
        return tuple(new_controllers(self, view=context.view, claims=self._claims))

    async def interruptions(self) -> tuple[Interruption, ...]:
        """Wait for messages of the interruption queue; for ever, if none is set."""
        if self.interruption_queue is None or self._claims is None:
            await asyncio.Event().wait()
            raise AssertionError("this event is never set")
        while True:
            found = await self.interruption_queue.wait(self._claims)
            if found:
                return found

    async def acknowledge(self, interruption: Interruption) -> None:
        if self.interruption_queue is not None:
            await self.interruption_queue.acknowledge(interruption)

    async def registration_holds(self, claim: NodeClaim, node: Node) -> tuple[Hold, ...]:
        """Hold the registration of nodes whose partition is not known: pods may be spread over partitions."""
        del node
        if not lacks_partition(claim):
            return ()
        return (Hold(because="EC2 does not tell yet which partition the machine is in"),)

    async def _launch(self, claim: NodeClaim) -> Machine:
        uid = claim.metadata.uid
        existing = await self._claimed.find(uid)
        if existing is not None:
            return await self._adopted(existing, claim)
        node_class = await self._ready_class(claim)
        joining = await self.services.cluster.joining()
        traits, catalog = await self._catalog_of(node_class)
        launch = InstanceLaunch(
            claim=claim,
            node_class=node_class,
            traits=traits,
            catalog=await self._overlaid(catalog, claim),
        )
        instance = await self._launcher.launch(launch)
        self._claimed.note(uid, instance.id)
        return machine_of(
            instance,
            claim_uid=uid,
            kind=launch.catalog.by_name.get(instance.instance_type),
            info=self.services.instance_types.types.get(instance.instance_type),
            traits=traits,
            annotations=annotations_of(node_class, ca_bundle=joining.ca_bundle, profile=instance.profile),
        )

    async def _adopted(self, instance: Instance, claim: NodeClaim) -> Machine:
        """Return an instance whose launch was not answered, with the annotations of a launch."""
        (machine,) = await self._machines([instance])
        node_class = await self.services.node_classes.get(claim.spec.node_class_ref.name)
        if node_class is None:
            return machine
        joining = await self.services.cluster.joining()
        annotations = annotations_of(node_class, ca_bundle=joining.ca_bundle, profile=instance.profile)
        return msgspec.structs.replace(machine, annotations=annotations)

    async def _ready_class(self, claim: NodeClaim) -> EC2NodeClass:
        name = claim.spec.node_class_ref.name
        found = await self.services.node_classes.get(name)
        if found is None or found.metadata.deletion_timestamp is not None:
            raise InsufficientCapacity(because=f"node class {name} does not exist, or is being deleted")
        ready = next((each for each in found.status.conditions if each.type == "Ready"), None)
        if ready is None or ready.status == "Unknown":
            raise LaunchRefused(
                reason="NodeClassReadinessUnknown",
                message=f"node class {name} does not say yet if it is ready",
            )
        if ready.status != "True":
            raise NodeClassNotReady(node_class=name, because=ready.message or ready.reason)
        if ready.observed_generation != found.metadata.generation:
            raise NodeClassNotReady(node_class=name, because="its last change has not been looked at yet")
        return found

    async def _catalog_of(self, node_class: EC2NodeClass) -> tuple[Traits, Catalog]:
        if self.services.settings.node_overlay:
            self.services.pricing.state(stated_prices(await self._overlays()))
        group = await self.services.placement_groups.last_known(node_class.spec.placement_group_selector)
        traits = traits_of(
            node_class, settings=self.services.settings, region=self.services.aws.region, group=group
        )
        return traits, self.services.catalogs.catalog(traits, node_class=node_class.name)

    async def _instance(self, provider_id: str) -> Instance:
        try:
            return await self.services.instances.get(instance_id(provider_id))
        except MachineNotFound:
            raise MachineNotFound(provider_id) from None

    async def _machines(self, instances: Iterable[Instance]) -> tuple[Machine, ...]:
        """Return instances as machines, with as much as their node classes tell."""
        known: dict[str, tuple[Traits, Catalog] | None] = {}
        # The uids of claims without a provider id, whose instances must not be garbage collected.
        claims = self._view().claims.values() if self._view is not None else ()
        unlaunched = tuple(each.metadata.uid for each in claims if not each.status.provider_id)
        machines = []
        for instance in instances:
            name = instance.tags.get(NODE_CLASS_LABEL, "")
            if name not in known:
                known[name] = await self._known(name)
            held = known[name]
            traits, catalog = held if held is not None else (None, None)
            machines.append(
                machine_of(
                    instance,
                    claim_uid=self._claimed.claim_of(instance.id)
                    or next((uid for uid in unlaunched if is_launched_for(instance.tags, uid)), ""),
                    kind=catalog.by_name.get(instance.instance_type) if catalog is not None else None,
                    info=self.services.instance_types.types.get(instance.instance_type),
                    traits=traits,
                )
            )
        return tuple(machines)

    async def _known(self, node_class: str) -> tuple[Traits, Catalog] | None:
        found = await self.services.node_classes.get(node_class) if node_class else None
        if found is None:
            return None
        try:
            return await self._catalog_of(found)
        except CloudError:
            return None

    async def _overlays(self) -> tuple[NodeOverlay, ...]:
        """Return the NodeOverlays: those that the operator sees, or else those of the API server."""
        if self._view is not None:
            return tuple(self._view().overlays.values())
        return await self.services.objects.list(NodeOverlay)

    async def _pools(self) -> tuple[NodePool, ...]:
        if self._view is not None:
            return tuple(self._view().pools.values())
        return await self.services.objects.list(NodePool)

    async def _overlaid(self, catalog: Catalog, claim: NodeClaim) -> Catalog:
        """Return a catalogue with the NodeOverlays applied that match the NodePool of a claim."""
        name = claim.metadata.labels.get(NODEPOOL, "")
        if not self.services.settings.node_overlay or not name:
            return catalog
        overlays = await self._overlays()
        if not overlays:
            return catalog
        corrections, _ = parse_overlays(overlays, catalog.label_rules)
        pools = {
            pool.name: (pool.spec.template.metadata.labels, (await self.catalog(pool)).types)
            for pool in await self._pools()
            if pool.spec.template.spec.node_class_ref.kind == EC2NodeClass.kind
        }
        if name not in pools:
            return catalog
        kept, _ = without_conflicts(corrections, pools)
        corrected = apply_overlays(name, pools[name][0], catalog.types, kept)
        return msgspec.structs.replace(catalog, types=corrected.types)


def _interruption_queue(services: Services) -> InterruptionQueue | None:
    if services.sqs is None:
        return None
    return InterruptionQueue(
        services.sqs,
        clock=services.clock,
        metrics=services.metrics,
        unavailable=services.unavailable,
        reservations=services.reservations,
    )
