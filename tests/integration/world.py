"""
A whole world in one event loop: the embedded cluster, the cloud in memory, and the operator between them.

Runs under the virtual clock. The operator can be killed and started again while the rest goes on.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Self

from karpenter.api.cluster import Event
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider
from karpenter.cloud.kwok.cloudprovider import ObjectClasses, ObjectNodes
from karpenter.kube.rest import MergePatch, untyped
from karpenter.operator.operator import Operator, OperatorDependencies
from karpenter.operator.options import parse_settings
from karpenter.operator.run import KubeClusterObjects
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from karpenter.kube.client import Client

CRDS = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
CLUSTER = "test"
REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


class World:
    """Everything there is."""

    def __init__(
        self, *, seed: int = 1, behaviour: Behaviour | None = None, settings: dict[str, str] | None = None
    ) -> None:
        self.clock = VirtualClock()
        self.seed = seed
        self.settings = parse_settings(settings or {})
        self.cluster = LocalCluster(self.clock, seed=seed)
        self.client = self.cluster.client
        door = KubeClusterObjects(self.cluster.connect("kwok"))
        self.cloud = KwokCloud(
            load_catalog("kwok"),
            nodes=ObjectNodes(door),
            clock=self.clock,
            chance=Random(seed),  # noqa: S311  a simulation's dice
            behaviour=behaviour or Behaviour(launch=1.0),
        )
        self.operator: Operator | None = None

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        for each in DEFINITIONS:
            await self.client.create(CRDS, render(each))
        await self.node_class("default")
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self.cloud.close()
        await self.cluster.__aexit__(kind, error, trace)

    async def start(self, client: Client | None = None) -> Operator:
        """Start an operator that knows nothing."""
        client = client or self.cluster.connect("karpenter")
        provider = KwokProvider(self.cloud, classes=ObjectClasses(KubeClusterObjects(client)), cluster=CLUSTER)
        parts = OperatorDependencies(
            client=client,
            cloud=provider,
            settings=self.settings,
            clock=self.clock,
            chance=Random(self.seed),  # noqa: S311  likewise
            threads=False,
        )
        self.operator = Operator(parts)
        await self.operator.__aenter__()
        return self.operator

    async def stop(self) -> None:
        """End the operator."""
        if self.operator is not None:
            await self.operator.__aexit__(None, None, None)
            self.operator = None

    # What a user does

    async def node_class(self, name: str) -> None:
        """Create a node class."""
        await self.client.create(KWOKNodeClass, {"metadata": {"name": name}})

    async def pool(self, name: str = "default", **spec: Any) -> NodePool:
        """Create a pool of Linux machines on demand that are left alone, unless `spec` says otherwise."""
        spec = {"disruption": {"consolidateAfter": "Never"}, **spec}
        template = spec.pop("template", {})
        body = {
            "metadata": {"name": name},
            "spec": {
                "template": {
                    **template,
                    "spec": {
                        "nodeClassRef": REF,
                        "requirements": [
                            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        ],
                        "expireAfter": "Never",
                        **template.get("spec", {}),
                    },
                },
                **spec,
            },
        }
        return await self.client.create(NodePool, body)

    async def deploy(self, name: str = "inflate", *, replicas: int, cpu: str = "1", **pod: Any) -> Deployment:
        """Create a Deployment."""
        template = {
            "metadata": {"labels": {"app": name}, **pod.pop("metadata", {})},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "app",
                        "image": "pause",
                        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
                    }
                ],
                **pod,
            },
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        return await self.client.create(
            Deployment, {"metadata": {"name": name}, "spec": spec}, namespace="default"
        )

    async def scale(self, name: str, replicas: int) -> None:
        """Change how many pods a Deployment has."""
        change = MergePatch({"spec": {"replicas": replicas}})
        await self.client.patch(Deployment, name, change, namespace="default")

    # What a user sees

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return list((await self.client.list(Pod)).items)

    async def running(self) -> int:
        """Return how many pods run."""
        return sum(1 for pod in await self.pods() if pod.status.phase == "Running")

    async def nodes(self) -> list[Node]:
        """Return all nodes."""
        return list((await self.client.list(Node)).items)

    async def claims(self) -> list[NodeClaim]:
        """Return all claims."""
        return list((await self.client.list(NodeClaim)).items)

    def machines(self) -> int:
        """Return how many machines really exist."""
        return len(self.cloud.control.machines(CLUSTER))

    async def settled(self, running: int) -> None:
        """Let time pass until so many pods run and none waits."""

        async def all_run() -> bool:
            pods = await self.pods()
            return len(pods) == running and all(pod.status.phase == "Running" for pod in pods)

        await self.until(all_run)

    async def empty(self) -> bool:
        """Whether nothing of ours is left, in the cluster or in the cloud."""
        return not await self.claims() and not await self.nodes() and not self.machines()

    async def events(self, reason: str) -> list[Event]:
        """Return the events of one reason."""
        return [each for each in (await self.client.list(Event)).items if each.reason == reason]

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
            await asyncio.sleep(0.25)


def in_world(**options: Any) -> Callable[[Callable[[World], Any]], Callable[[], None]]:
    """Let an async test run in a world of its own, in virtual time."""

    def wrap(test: Callable[[World], Any]) -> Callable[[], None]:
        async def scenario() -> None:
            async with World(**options) as world:
                await test(world)

        def run() -> None:
            run_virtual(scenario())

        run.__name__ = test.__name__
        run.__doc__ = test.__doc__
        run.__module__ = test.__module__
        return run

    return wrap
