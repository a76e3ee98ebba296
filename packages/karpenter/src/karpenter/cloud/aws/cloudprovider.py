"""
The provider for AWS: the promises of a cloud provider, kept with EC2.

It has no opinions of its own. What it remembers is a cache, or what failed lately; whatever must survive a
restart stands in the tags of instances, or in Kubernetes.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws import drift
from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
from karpenter.cloud.aws.cluster import EksCluster
from karpenter.cloud.aws.instance.createfleet import is_launched_for
from karpenter.cloud.aws.instance.instance import InstanceProvider, annotations_of, instance_id, machine_of
from karpenter.cloud.aws.instance.launch import ClaimedInstances, InstanceLaunch, InstanceLauncher
from karpenter.cloud.aws.instance.launch_errors import UnknownLaunchOutcome
from karpenter.cloud.aws.instancetype.instancetype import traits_of
from karpenter.cloud.aws.instancetype.offering import InstanceTypeProvider, InstanceTypeStore
from karpenter.cloud.aws.interruption.controller import InstanceClaims, InterruptionQueue
from karpenter.cloud.aws.labels import NODE_CLASS_LABEL
from karpenter.cloud.aws.metrics import METRICS, ProviderMetrics
from karpenter.cloud.aws.nodeclass.status import NodeClassCache
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.placementgroup import PlacementGroupProvider
from karpenter.cloud.aws.pricing import PricingProvider, stated_prices
from karpenter.cloud.aws.tagging import lacks_partition
from karpenter.cloud.cloudprovider import ClusterObjects, Hold, NodeClassKind, RepairPolicy
from karpenter.cloud.errors import (
    CloudError,
    CloudUnreachable,
    InsufficientCapacity,
    LaunchFailed,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
)
from karpenter.core.scheduling.build.overlay import apply_overlays, parse_overlays, without_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.instance.instance import Instance
    from karpenter.cloud.aws.instancetype.instancetype import Traits
    from karpenter.cloud.cloudprovider import ControllerContext, Interruption, Machine, ProviderController
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.view import ClusterView

NODE_CLASS: Final = NodeClassKind(EC2NodeClass.api_version.partition("/")[0], EC2NodeClass.kind)


def _policy(condition: str, status: str, minutes: int) -> RepairPolicy:
    return RepairPolicy(
        condition_type=condition, condition_status=status, toleration=timedelta(minutes=minutes)
    )


REPAIRS: Final = (
    _policy("Ready", "False", 30),
    _policy("Ready", "Unknown", 30),
    _policy("AcceleratedHardwareReady", "False", 10),
    _policy("StorageReady", "False", 30),
    _policy("NetworkingReady", "False", 30),
    _policy("KernelReady", "False", 30),
    _policy("ContainerRuntimeReady", "False", 30),
)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider is made of."""

    settings: AwsSettings
    region: str
    objects: ClusterObjects
    classes: NodeClassCache
    cluster: EksCluster
    shop: InstanceTypeStore
    prices: PricingProvider
    catalogs: InstanceTypeProvider
    instances: InstanceProvider
    reservations: CapacityReservationProvider
    placement_groups: PlacementGroupProvider
    ledger: ClaimedInstances
    launcher: InstanceLauncher
    meters: ProviderMetrics
    queue: InterruptionQueue | None = None
    """None when no interruption queue is set."""


class AwsProvider:
    """Turns claims into EC2 instances, for one cluster."""

    name: str = "aws"
    node_classes = (NODE_CLASS,)
    repair_policies = REPAIRS
    metrics = METRICS

    def __init__(
        self, parts: Parts, *, duties: Callable[[ControllerContext, InstanceClaims], Iterable[ProviderController]] = lambda *_: ()
    ) -> None:
        self.parts = parts
        self._duties = duties
        self._roster: InstanceClaims | None = None
        self._view: Callable[[], ClusterView] | None = None
        self._busy: dict[str, asyncio.Lock] = {}
        self._ending: dict[str, str] = {}

    async def launch(self, claim: NodeClaim) -> Machine:
        """Start the machine that suits a claim best, or return the one that the claim has."""
        uid = claim.metadata.uid
        lock = self._busy.setdefault(uid, asyncio.Lock())
        try:
            async with lock:
                return await self._launch(claim)
        except CloudUnreachable as error:
            raise LaunchFailed(str(error)) from error
        except (UnknownLaunchOutcome, asyncio.CancelledError):
            self.parts.ledger.lost(uid)
            raise
        finally:
            if not lock.locked():
                self._busy.pop(uid, None)

    async def terminate(self, provider_id: str) -> None:
        """Begin the end of a machine."""
        number = instance_id(provider_id)
        try:
            instance = await self.parts.instances.get(number)
            await self.parts.instances.terminate(instance)
        except MachineNotFound:
            self.parts.ledger.forget(number)
            reservation = self._ending.pop(number, "")
            if reservation:
                self.parts.reservations.ended(reservation)
            raise MachineNotFound(provider_id) from None
        if instance.reservation:
            self._ending[number] = instance.reservation

    async def get(self, provider_id: str) -> Machine:
        """Return a machine as it is now."""
        (machine,) = await self._machines([await self._instance(provider_id)])
        return machine

    async def list(self) -> tuple[Machine, ...]:
        """Return all machines of the cluster."""
        return await self._machines(await self.parts.instances.all())

    async def catalog(self, pool: NodePool) -> Catalog:
        """Return everything that a pool may buy, what failed lately marked as not available."""
        name = pool.spec.template.spec.node_class_ref.name
        node_class = await self.parts.classes.get(name)
        if node_class is None:
            raise NodeClassNotReady(node_class=name, because="it does not exist")
        _, catalog = await self._sold_to(node_class)
        return catalog

    async def drift(self, claim: NodeClaim) -> str:
        """Return why a machine is not what its class asks for, in the order of what matters most."""
        instance = await self._instance(claim.status.provider_id)
        node_class = await self.parts.classes.get(claim.spec.node_class_ref.name)
        if node_class is None:
            return ""
        reason = drift.class_drift(claim, node_class)
        if reason:
            return reason
        _, catalog = await self._sold_to(node_class)
        kind = catalog.by_name.get(instance.instance_type)
        group = await self.parts.placement_groups.last_known(node_class.spec.placement_group_selector)
        return (
            drift.image_drift(claim, instance, node_class, kind)
            or drift.network_drift(instance, node_class)
            or drift.reservation_drift(instance, node_class)
            or drift.placement_drift(claim, group)
        )

    def chores(self, office: ControllerContext) -> tuple[ProviderController, ...]:
        """Return what is to be done for the cluster while the operator leads."""
        self.parts.meters.use(office.metrics)
        self._roster, self._view = InstanceClaims(office.view), office.view
        self.parts.classes.follow()
        return tuple(self._duties(office, self._roster))

    async def interruptions(self) -> tuple[Interruption, ...]:
        """Wait for news of the interruption queue; for ever, if there is none."""
        if self.parts.queue is None or self._roster is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets this event")
        while True:
            found = await self.parts.queue.wait(self._roster)
            if found:
                return found

    async def acknowledge(self, interruption: Interruption) -> None:
        """Let a message go that was acted on."""
        if self.parts.queue is not None:
            await self.parts.queue.acknowledge(interruption)

    async def registration_holds(self, claim: NodeClaim, node: Node) -> tuple[Hold, ...]:
        """Hold nodes back whose partition is not known: pods may be spread over partitions."""
        del node
        if not lacks_partition(claim):
            return ()
        return (Hold(because="EC2 does not tell yet which partition the machine is in"),)

    async def _launch(self, claim: NodeClaim) -> Machine:
        uid = claim.metadata.uid
        existing = await self.parts.ledger.find(uid)
        if existing is not None:
            return await self._found_again(existing, claim)
        node_class = await self._ready_class(claim)
        joining = await self.parts.cluster.joining()
        traits, catalog = await self._sold_to(node_class)
        launch = InstanceLaunch(
            claim=claim,
            node_class=node_class,
            traits=traits,
            catalog=await self._overlaid(catalog, claim),
        )
        instance = await self.parts.launcher.launch(launch)
        self.parts.ledger.note(uid, instance.id)
        return machine_of(
            instance,
            claim_uid=uid,
            kind=launch.catalog.by_name.get(instance.instance_type),
            sold=self.parts.shop.types.get(instance.instance_type),
            traits=traits,
            annotations=annotations_of(node_class, ca_bundle=joining.ca_bundle, profile=instance.profile),
        )

    async def _found_again(self, instance: Instance, claim: NodeClaim) -> Machine:
        """Return a machine whose launch was not answered, with the notes that the answer would have had."""
        (machine,) = await self._machines([instance])
        node_class = await self.parts.classes.get(claim.spec.node_class_ref.name)
        if node_class is None:
            return machine
        joining = await self.parts.cluster.joining()
        notes = annotations_of(node_class, ca_bundle=joining.ca_bundle, profile=instance.profile)
        return msgspec.structs.replace(machine, annotations=notes)

    async def _ready_class(self, claim: NodeClaim) -> EC2NodeClass:
        name = claim.spec.node_class_ref.name
        found = await self.parts.classes.get(name)
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

    async def _sold_to(self, node_class: EC2NodeClass) -> tuple[Traits, Catalog]:
        if self.parts.settings.node_overlay:
            self.parts.prices.state(stated_prices(await self._overlays()))
        group = await self.parts.placement_groups.last_known(node_class.spec.placement_group_selector)
        traits = traits_of(node_class, settings=self.parts.settings, region=self.parts.region, group=group)
        return traits, self.parts.catalogs.catalog(traits, node_class=node_class.name)

    async def _instance(self, provider_id: str) -> Instance:
        try:
            return await self.parts.instances.get(instance_id(provider_id))
        except MachineNotFound:
            raise MachineNotFound(provider_id) from None

    async def _machines(self, instances: Iterable[Instance]) -> tuple[Machine, ...]:
        """Return instances as machines, with as much as their classes let us know."""
        known: dict[str, tuple[Traits, Catalog] | None] = {}
        waiting = self._waiting()
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
                    claim_uid=self.parts.ledger.claim_of(instance.id)
                    or next((uid for uid in waiting if is_launched_for(instance.tags, uid)), ""),
                    kind=catalog.by_name.get(instance.instance_type) if catalog is not None else None,
                    sold=self.parts.shop.types.get(instance.instance_type),
                    traits=traits,
                )
            )
        return tuple(machines)

    def _waiting(self) -> tuple[str, ...]:
        """Return the claims that may have a machine and do not know it: nobody else must take it away."""
        claims = self._view().claims.values() if self._view is not None else ()
        return tuple(each.metadata.uid for each in claims if not each.status.provider_id)

    async def _known(self, node_class: str) -> tuple[Traits, Catalog] | None:
        found = await self.parts.classes.get(node_class) if node_class else None
        if found is None:
            return None
        try:
            return await self._sold_to(found)
        except CloudError:
            return None

    async def _overlays(self) -> tuple[NodeOverlay, ...]:
        """Return the corrections of users: those that the operator sees, or else those that there are."""
        if self._view is not None:
            return tuple(self._view().overlays.values())
        return await self.parts.objects.list(NodeOverlay)

    async def _pools(self) -> tuple[NodePool, ...]:
        if self._view is not None:
            return tuple(self._view().pools.values())
        return await self.parts.objects.list(NodePool)

    async def _overlaid(self, catalog: Catalog, claim: NodeClaim) -> Catalog:
        """Return a catalogue with the corrections that users have made for the pool of a claim."""
        name = claim.metadata.labels.get(NODEPOOL, "")
        if not self.parts.settings.node_overlay or not name:
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
