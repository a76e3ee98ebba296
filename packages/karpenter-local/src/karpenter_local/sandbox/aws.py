"""
The embedded AWS of a sandbox: an account with the resources of one cluster, and instances that boot.

The provider is the one of production; machines join by the user data that it generated for them. In virtual
time calls are answered while the clock stands still.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import structlog
import yaml

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.cloud.aws.operator import prepare
from karpenter.cloud.cloudprovider import CloudProvider, ProviderContext
from karpenter.cloud.errors import CloudError
from karpenter.kube.errors import AlreadyExists
from karpenter.operator.run import KubeClusterObjects
from karpenter_local.aws.inprocess import AwsInProcess
from karpenter_local.aws.room import ClusterEndpoint, InstanceOperator, InstanceTimings
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import ClusterAccount
from karpenter_local.sandbox.options import NODE_CLASS, AwsOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.cloudprovider import AwsProvider
    from karpenter.cloud.aws.sdk import AwsApi
    from karpenter.kube.client import Client
    from karpenter_local.aws.control import Control
    from karpenter_local.sandbox.cluster import RunningCluster
    from karpenter_local.sandbox.operators import OperatorSeams

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.stdlib.get_logger(__name__)

_NO_DELAYS: Final = InstanceTimings(pending=0.0, boot=0.0, initialize=0.0)
"""How long instances of node groups take that are there from the beginning."""

_RETRY_SECONDS: Final = 5.0
"""Seconds after which an operator that could not learn what it needs of AWS is started again."""


class AwsSandboxCloud:
    """The embedded AWS."""

    node_class: Mapping[str, str] = {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": NODE_CLASS,
    }

    def __init__(self, options: AwsOptions, *, name: str, clock: Clock, seed: int) -> None:
        self.name = name
        self.options = options
        self._clock = clock
        self._seed = seed
        self._stack = AsyncExitStack()
        self.site: ClusterAccount
        """The account with the resources of the cluster; exists once the cloud has started."""

        self.machine_room: InstanceOperator
        """Where instances boot and end; likewise."""

    @property
    def control(self) -> Control:
        """What can be done to this AWS: interrupt instances, sell out offerings, release images."""
        return self.site.control

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs must find in their environment to use this AWS."""
        return self.site.environment

    async def start(self, cluster: RunningCluster) -> None:
        """Build an account, let instances boot there, and create a node class."""
        reach = await self._reach(cluster)
        server = self._server()
        self.site = await self._blocking(self._make_site, server, reach)
        self._stack.callback(self.site.close)
        self.site.serve(reach)
        if isinstance(server, EmbeddedAws) and self.options.server is None:
            server.obey(self.site.control)
        self.machine_room = await self._stack.enter_async_context(
            InstanceOperator(
                self.site.account,
                reach,
                client=cluster.connect("kubelet"),
                kubelets=cluster.kubelets,
                clock=self._clock,
                pace=self.options.pace,
            )
        )
        await self._add_node_groups()
        if self.options.node_class:
            await self._create_node_class(cluster.client)
        self.site.account.forget_calls()  # from here on, calls are those of operators

    async def stop(self) -> None:
        await self._stack.aclose()

    def connect(self, client: Client, *, seams: OperatorSeams, chance: Random) -> AwsConnection:
        aws = seams.aws(self.site)
        context = ProviderContext(
            clock=seams.clock,
            chance=chance,
            cluster=self.name,
            objects=KubeClusterObjects(client),
            settings=self.options.settings,
        )
        return AwsConnection(aws, self.site.new_provider(aws, context, long_poll=0))

    def count(self) -> int:
        return len(self.control.instances())

    def price(self, labels: Mapping[str, str]) -> float:
        """Return what a machine with these labels costs per hour."""
        offering = labels.get(CAPACITY_TYPE, ""), labels[INSTANCE_TYPE], labels.get(ZONE, "")
        return self.site.account.price(*offering) or 0.0

    def _server(self) -> EmbeddedAws | AwsInProcess:
        if self.options.server is not None:
            return self.options.server
        if self.options.in_process:
            return self._stack.enter_context(AwsInProcess(seed=str(self._seed)))
        return self._stack.enter_context(EmbeddedAws())

    async def _blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what takes long: in a thread, unless it has to be done while time stands still."""
        if self.options.in_process or self.options.server is not None:
            return work(*args, **kwargs)
        return await asyncio.to_thread(work, *args, **kwargs)

    def _make_site(self, server: EmbeddedAws | AwsInProcess, reach: ClusterEndpoint) -> ClusterAccount:
        return ClusterAccount(
            server,
            cluster=self.name,
            region=self.options.region,
            kubernetes=reach.version,
            types=self.options.types or None,
            bare=self.options.bare,
            tagged=self.options.tagged,
        )

    async def _reach(self, cluster: RunningCluster) -> ClusterEndpoint:
        """Return how machines reach the cluster; one without a port has an address that leads nowhere."""
        endpoint = f"https://{self.name}.example"
        authority = base64.b64encode(self.name.encode()).decode()
        if cluster.kubeconfig:
            config = yaml.safe_load(cluster.kubeconfig)
            endpoint = cluster.url
            authority = str(config["clusters"][0]["cluster"]["certificate-authority-data"])
        return ClusterEndpoint(
            cluster=self.name,
            endpoint=endpoint,
            authority=authority,
            version=await cluster.client.server_version(),
        )

    async def _add_node_groups(self) -> None:
        """Create the node groups that were asked for, and wait until their instances have joined."""
        groups = self.options.node_groups
        if not groups:
            return
        pace, self.machine_room.pace = self.machine_room.pace, _NO_DELAYS
        for group in groups:
            await self._blocking(self.site.estate.add_node_group, group)
        await self.machine_room.joined(sum(group.count for group in groups))
        self.machine_room.pace = pace

    async def _create_node_class(self, client: Client) -> None:
        body = {"metadata": {"name": NODE_CLASS}, "spec": self.site.estate.node_class()}
        try:
            await client.create(EC2NodeClass, body)
        except AlreadyExists:
            return


class AwsConnection:
    """Connection of one operator to the embedded AWS."""

    def __init__(self, aws: AwsApi, provider: AwsProvider) -> None:
        self._aws = aws
        self._services = provider.services
        self.provider: CloudProvider = provider

    async def open(self) -> None:
        """Let the provider learn what it has to know; where AWS does not answer, start over after a while."""
        while True:
            try:
                await prepare(self._services)
            except CloudError as error:
                log.warning("operator.did_not_begin", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def close(self) -> None:
        self._aws.close()
