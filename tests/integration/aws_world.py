"""
A whole world on the embedded AWS: the cluster, machines that boot from their user data, and the operator.

Runs in virtual time. What the SDK does takes real time, during which virtual time stands still.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

import yaml

from karpenter.api.cluster import Event
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.cloud.cloudprovider import ProviderContext
from karpenter.kube.rest import untyped
from karpenter.operator.operator import Operator, OperatorDependencies
from karpenter.operator.options import parse_settings
from karpenter.operator.run import KubeClusterObjects
from karpenter_local.aws.room import MachineRoom, Reach
from karpenter_local.aws.site import Site
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.cloud.aws.world import embedded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

CRDS = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
SEEDS = Path(__file__).parent.parent / "data" / "seeds"
TYPES = ("c5.large", "c5.xlarge", "c6g.large", "m5.large", "m5.metal", "m5.xlarge", "m5.2xlarge", "r5.large")
NEEDED = ("NodePool", "NodeClaim", "EC2NodeClass")
KINDS: dict[str, Any] = {each.kind: each for each in (NodePool, EC2NodeClass, Deployment)}


class AwsWorld:
    """Everything there is."""

    def __init__(self, *, cluster: str = "test", region: str = "us-west-2", **settings: str) -> None:
        self.clock = VirtualClock()
        self.cluster = LocalCluster(self.clock, seed=1)
        self.client = self.cluster.client
        self.site = Site(embedded(), cluster=cluster, region=region, types=TYPES)
        self.reach = Reach(cluster=cluster, endpoint=f"https://{cluster}.example", authority="Q0E=")
        self.site.serve(self.reach)
        self.control = self.site.control
        self._settings = settings
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        await enter(self.cluster)
        self._stack.callback(self.site.close)
        for each in DEFINITIONS:
            if each.kind.name in NEEDED:
                await self.client.create(CRDS, render(each))
        await enter(
            MachineRoom(
                self.site.account,
                self.reach,
                client=self.cluster.connect("kubelet"),
                kubelets=self.cluster.fleet,
                clock=self.clock,
            )
        )
        client = self.cluster.connect("karpenter")
        around = ProviderContext(
            clock=self.clock,
            chance=Random(7),  # noqa: S311  a simulation's dice
            cluster=self.site.cluster,
            objects=KubeClusterObjects(client),
            settings=self._settings,
        )
        provider = await enter(self.site.provider(around, long_poll=0))
        parts = OperatorDependencies(
            client=client,
            cloud=provider,
            settings=parse_settings({}),
            clock=self.clock,
            chance=Random(7),  # noqa: S311  likewise
            threads=False,
        )
        self.operator = await enter(Operator(parts))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def apply(self, text: str) -> None:
        """Create every object of a manifest, as it is written."""
        for body in yaml.safe_load_all(text):
            kind = KINDS[body["kind"]]
            namespace = body["metadata"].get("namespace", "default") if kind is Deployment else ""
            await self.client.create(kind, body, namespace=namespace)

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return list((await self.client.list(Pod)).items)

    async def nodes(self) -> list[Node]:
        """Return all nodes."""
        return list((await self.client.list(Node)).items)

    async def claims(self) -> list[NodeClaim]:
        """Return all claims."""
        return list((await self.client.list(NodeClaim)).items)

    async def node_class(self, name: str = "default") -> EC2NodeClass:
        """Return a class."""
        return await self.client.get(EC2NodeClass, name)

    async def events(self, reason: str) -> list[Event]:
        """Return the events of one reason."""
        return [each for each in (await self.client.list(Event)).items if each.reason == reason]

    async def running(self) -> int:
        """Return how many pods run."""
        return sum(pod.status.phase == "Running" for pod in await self.pods())

    async def until(self, condition: Callable[[], Any], *, within: float = 300.0) -> float:
        """Let time pass until `condition` holds, and return how much did."""
        started = self.clock.monotonic()
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return self.clock.monotonic() - started
            if self.clock.monotonic() - started > within:
                raise AssertionError(f"it did not happen within {within:g} s")
            await asyncio.sleep(1.0)

    async def settled(self, running: int, *, within: float = 300.0) -> float:
        """Let time pass until so many pods run and none waits."""

        async def all_run() -> bool:
            pods = await self.pods()
            return len(pods) == running and all(pod.status.phase == "Running" for pod in pods)

        return await self.until(all_run, within=within)


def in_aws(**options: Any) -> Callable[[Callable[[AwsWorld], Any]], Callable[[], None]]:
    """Let an async test run in a world of its own, in virtual time."""

    def wrap(test: Callable[[AwsWorld], Any]) -> Callable[[], None]:
        async def scenario() -> None:
            async with AwsWorld(**options) as world:
                await test(world)

        def run() -> None:
            run_virtual(scenario())

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        run.__module__ = test.__module__
        return run

    return wrap
