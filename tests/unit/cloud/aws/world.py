"""
The embedded AWS for tests: one for the whole run, and worlds in it.

A world is an account with the estate of one cluster, a node class and a pool, and providers that work on it
in virtual time. What the SDK does takes real time, which is short.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, TypeVar

import boto3
import msgspec
from botocore.session import Session, get_session

from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.meta import ObjectMeta, convert
from karpenter.api.nodeclaim import (
    NodeClaim,
    NodeClaimResources,
    NodeClaimSpec,
    NodeClassReference,
    NodeRequirement,
)
from karpenter.api.nodepool import NodeClaimTemplate, NodePool, NodePoolSpec, PoolTemplateSpec
from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.options import read_settings
from karpenter.cloud.aws.sdk import AwsApi, AwsClients, open_clients
from karpenter.cloud.aws.services import new_services
from karpenter_local.aws.account import Account
from karpenter_local.aws.estate import DISCOVERY, ClusterResources
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.testing.cluster_objects import ObjectsInMemory
from karpenter_local.virtual import VirtualClock, run_virtual

T = TypeVar("T")

CLUSTER = "test-cluster"
GIVEN = {"CLUSTER_ENDPOINT": "https://test-cluster", "CLUSTER_CA_BUNDLE": "Y2EtYnVuZGxlCg=="}
NOW = datetime(2026, 6, 1, tzinfo=UTC)
TYPES = (
    "c5.large",
    "c6g.large",
    "g4dn.xlarge",
    "inf2.xlarge",
    "m5.large",
    "m5.metal",
    "m5.xlarge",
    "p5.48xlarge",
    "r5.large",
    "t3.large",
)
REFERENCE = NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


@cache
def embedded() -> EmbeddedAws:
    """Return the embedded AWS; it is started when it is first asked for, and ends with the process."""
    return EmbeddedAws().__enter__()


@cache
def _descriptions() -> object:
    """Return the SDK's descriptions of services, which take long to read, once for all clients."""
    return get_session().get_component("data_loader")


def clients_for(aws: EmbeddedAws, account: Account) -> AwsClients:
    shared = Session()
    shared.register_component("data_loader", _descriptions())
    session = boto3.Session(botocore_session=shared, **account.credentials)
    return open_clients(session, endpoint=aws.endpoint)


class World:
    """An account with the estate of one cluster."""

    def __init__(self, *, types: tuple[str, ...] = TYPES) -> None:
        self.account = embedded().account(types=types)
        self.clients = clients_for(embedded(), self.account)
        self.ec2 = self.clients.by_name["ec2"]
        self.iam = self.clients.by_name["iam"]
        self.estate = ClusterResources(self.account, self.clients.by_name, CLUSTER)
        self.estate.build()
        self.objects = ObjectsInMemory()
        self._described: tuple[Any, ...] | None = None
        self._resolved: dict[str, EC2NodeClass] = {}
        self.account.forget_calls()

    def run(
        self,
        work: Callable[[AwsProvider], Awaitable[T]],
        *,
        given: Mapping[str, str] | None = None,
        types: bool = False,
        long_poll: int = 0,
    ) -> T:
        """Run work with a provider that knows nothing yet; with `types`, it knows what there is to buy."""

        async def main() -> T:
            aws = AwsApi(self.clients)
            provider = AwsProvider(
                new_services(
                    aws,
                    read_settings(CLUSTER, {**GIVEN, **(given or {})}),
                    objects=self.objects,
                    clock=VirtualClock(),
                    chance=Random(7),  # noqa: S311  chance that can be repeated
                    long_poll=long_poll,
                )
            )
            try:
                if types:
                    await self._learn(provider)
                return await work(provider)
            finally:
                aws.close()

        return run_virtual(main(), start=NOW)

    def launching(
        self,
        work: Callable[[AwsProvider], Awaitable[T]],
        *,
        given: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> T:
        """Run work with a provider that could launch: its class is resolved and put into the cluster."""

        async def main(provider: AwsProvider) -> T:
            known = self._resolved.get(repr((spec, given)))
            if known is None:
                known = await self.resolve(provider, node_class(self, **spec))
                self._resolved[repr((spec, given))] = known
            self.objects.put(known)
            self.account.forget_calls()
            return await work(provider)

        return self.run(main, given=given, types=True)

    async def _learn(self, provider: AwsProvider) -> None:
        """Let a provider know what is sold: EC2 is asked once, and always returns the same."""
        types, prices = provider.services.instance_types, provider.services.pricing
        if self._described is None:
            await types.refresh()
            await prices.refresh_spot(NOW)
            self._described = (types.types, types.zones, prices._spot)
        types.types, types.zones, prices._spot = self._described
        types.version = prices.version = 1

    async def resolve(self, provider: AwsProvider, wanted: EC2NodeClass) -> EC2NodeClass:
        """Resolve a class, which must work, and put it into the cluster."""
        resolved = await provider.node_class_status.resolve(wanted)
        assert [str(error) for error in resolved.errors] == []
        ready = msgspec.structs.replace(wanted, status=resolved.status)
        self.objects.put(ready)
        return ready

    def requests(self, operation: str) -> list[Mapping[str, Any]]:
        return [call.parameters for call in self.account.calls(operation)]

    def template(self, number: int = -1) -> dict[str, Any]:
        """Return what a launch template says that was made."""
        found = self.ec2.describe_launch_templates()["LaunchTemplates"]
        name = found[number]["LaunchTemplateName"]
        versions = self.ec2.describe_launch_template_versions(LaunchTemplateName=name)
        data: dict[str, Any] = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        return data


@cache
def shared_world() -> World:
    """Return a world for tests that only look."""
    return World()


def node_class(world: World | None = None, name: str = "default", **spec: Any) -> EC2NodeClass:
    """Return a class, with fields of its spec as the API spells them."""
    role = world.estate.role if world is not None else f"KarpenterNodeRole-{CLUSTER}"
    usual: dict[str, Any] = {
        "role": role,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {DISCOVERY: CLUSTER}}],
        "securityGroupSelectorTerms": [{"tags": {DISCOVERY: CLUSTER}}],
    }
    wanted = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    return EC2NodeClass(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}", generation=1),
        spec=convert(wanted, EC2NodeClassSpec),
    )


def simple_class(**status: Any) -> EC2NodeClass:
    """Return the smallest class, with what it has found."""
    found = EC2NodeClass(
        metadata=ObjectMeta(name="default", uid="uid-of-default", generation=1),
        spec=EC2NodeClassSpec(
            role="role",
            ami_selector_terms=(AMISelectorTerm(alias="al2023@latest"),),
            subnet_selector_terms=(SubnetSelectorTerm(id="subnet-1"),),
            security_group_selector_terms=(SecurityGroupSelectorTerm(id="sg-1"),),
        ),
    )
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **status))


def pool(name: str = "default", **template: Any) -> NodePool:
    spec = PoolTemplateSpec(node_class_ref=REFERENCE, **template)
    return NodePool(metadata=ObjectMeta(name=name), spec=NodePoolSpec(template=NodeClaimTemplate(spec=spec)))


def requirement(key: str, operator: str, *values: str, least: int | None = None) -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values, min_values=least)


def claim(
    *requirements: NodeRequirement,
    name: str = "default-1",
    requests: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> NodeClaim:
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-of-{name}",
            labels={"karpenter.sh/nodepool": "default", **(labels or {})},
            annotations=dict(annotations or {}),
        ),
        spec=NodeClaimSpec(
            requirements=requirements,
            resources=NodeClaimResources(requests=dict(requests or {"cpu": "1", "pods": "5"})),
            node_class_ref=REFERENCE,
            **spec,
        ),
    )
