"""The embedded AWS as the contract suite sees it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from random import Random

import msgspec

from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.ec2nodeclass_status import SecurityGroup
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeClassReference
from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodePoolSpec, PoolTemplateSpec
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.interruption.controller import InstanceClaims
from karpenter.cloud.aws.options import read_settings
from karpenter.cloud.aws.sdk import AwsApi, AwsClients
from karpenter.cloud.aws.services import new_services
from karpenter.cloud.cloudprovider import CloudProvider, Machine
from karpenter.core.model.catalog import OfferingName
from karpenter.core.state.cluster import ClusterView
from karpenter_local.aws.account import Account, OfferingPattern
from karpenter_local.aws.estate import DISCOVERY, ClusterResources
from karpenter_local.aws.faults import LoseAnswer
from karpenter_local.aws.mail import announce_interruption
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.world import clients_for, embedded

TYPES = ("c6g.large", "c5.large", "m5.large", "m5.xlarge", "m5.metal", "r5.large", "t3.large", "p5.48xlarge")
REFERENCE = NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
NUMBERS = count(1)


@cache
def account() -> tuple[Account, AwsClients]:
    """Return the account that all laboratories are in, each with clusters of its own, and its clients."""
    made = embedded().account(types=TYPES)
    return made, clients_for(embedded(), made)


class AwsLaboratory:
    """Clusters in an account of the embedded AWS, and their providers."""

    def __init__(self) -> None:
        self._account, self.clients = account()
        self._account.restock()
        self._account.now = VirtualClock().now
        self._number = next(NUMBERS)
        self._open: list[AwsApi] = []
        self.objects = ObjectsInMemory()
        self.clock = VirtualClock()
        self.node_class = "default"
        template = NodeClaimTemplate(spec=PoolTemplateSpec(node_class_ref=REFERENCE))
        self.pool = NodePool(metadata=ObjectMeta(name="default"), spec=NodePoolSpec(template=template))

    async def start(self) -> None:
        """Build the estate of the cluster, and resolve its class."""
        ours = self._build("ours")
        provider = await self._begin("ours")
        self.provider: CloudProvider = provider
        terms = {DISCOVERY: ours.cluster}
        node_class = EC2NodeClass(
            metadata=ObjectMeta(name="default", uid="class-uid", generation=1),
            spec=EC2NodeClassSpec(
                role=ours.role,
                ami_selector_terms=(AMISelectorTerm(alias="al2023@latest"),),
                subnet_selector_terms=(SubnetSelectorTerm(tags=terms),),
                security_group_selector_terms=(SecurityGroupSelectorTerm(tags=terms),),
            ),
        )
        resolved = await provider.node_class_status.resolve(node_class)
        assert resolved.errors == ()
        self.objects.put(msgspec.structs.replace(node_class, status=resolved.status))

    def close(self) -> None:
        for aws in self._open:
            aws.close()

    def _name(self, whose: str) -> str:
        return f"{whose}-{self._number}"

    def _build(self, whose: str) -> ClusterResources:
        estate = ClusterResources(self._account, self.clients.by_name, self._name(whose))
        estate.build()
        return estate

    async def _begin(self, whose: str) -> AwsProvider:
        aws = AwsApi(self.clients)
        self._open.append(aws)
        given = {
            "CLUSTER_ENDPOINT": "https://ours",
            "CLUSTER_CA_BUNDLE": "Q0E=",
            "KUBERNETES_VERSION": "1.33",
            "INTERRUPTION_QUEUE": self._name(whose),
        }
        provider = AwsProvider(
            new_services(
                aws,
                read_settings(self._name(whose), given),
                objects=self.objects,
                clock=self.clock,
                chance=Random(7),  # noqa: S311  chance that can be repeated
                long_poll=0,
            )
        )
        # The operator would hand this over to the controllers, none of which runs here.
        provider._claims = InstanceClaims(self._view)
        await provider.services.instance_types.refresh()
        await provider.services.pricing.refresh_spot(self.clock.now())
        return provider

    def _view(self) -> ClusterView:
        claims = {each.name: each for each in self.objects if isinstance(each, NodeClaim)}
        return ClusterView(claims=claims)

    async def restarted(self) -> CloudProvider:
        return await self._begin("ours")

    async def other_cluster(self) -> CloudProvider:
        """Return a provider of another cluster in the same account."""
        self._build("theirs")
        return await self._begin("theirs")

    async def sell_out(self, offerings: Iterable[OfferingName]) -> None:
        for each in offerings:
            self._account.sell_out(
                OfferingPattern(
                    capacity_type=each.capacity_type, instance_type=each.instance_type, zone=each.zone
                )
            )

    async def lose_next_answer(self) -> None:
        self._account.faults.next("CreateFleet", LoseAnswer())

    async def drift(self, machine: Machine) -> str:
        """Let the class find another security group."""
        del machine
        found = await self._class()
        groups = (SecurityGroup(id="sg-other", name="other"),)
        self._put(msgspec.structs.replace(found, status=_changed(found, security_groups=groups)))
        return "SecurityGroupDrift"

    async def spoil_class(self) -> None:
        """Let the class say that it is not ready."""
        found = await self._class()
        spoiled = Condition(type="Ready", status="False", reason="Spoiled", observed_generation=1)
        self._put(msgspec.structs.replace(found, status=_changed(found, conditions=(spoiled,))))

    async def interrupt(self, machine: Machine) -> None:
        """Announce the end of a machine, whose claim knows by now that it has one."""
        self.objects.put(
            NodeClaim(
                metadata=ObjectMeta(name=machine.claim_uid, uid=machine.claim_uid, labels={**machine.labels}),
                spec=NodeClaimSpec(node_class_ref=REFERENCE),
                status=NodeClaimStatus(provider_id=machine.provider_id),
            )
        )
        announce_interruption(self._account, machine.provider_id.rpartition("/")[2])

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def _class(self) -> EC2NodeClass:
        found = await self.objects.get(EC2NodeClass, "default")
        assert found is not None
        return found

    def _put(self, node_class: EC2NodeClass) -> None:
        self.objects.put(node_class)


def _changed(node_class: EC2NodeClass, **changes: object) -> object:
    return msgspec.structs.replace(node_class.status, **changes)


@asynccontextmanager
async def aws_laboratory() -> AsyncIterator[AwsLaboratory]:
    """Build clusters, and let go of them."""
    laboratory = AwsLaboratory()
    try:
        await laboratory.start()
        yield laboratory
    finally:
        laboratory.close()
