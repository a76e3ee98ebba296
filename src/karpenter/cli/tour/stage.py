"""
The stage of the demo: an embedded cluster, a cloud in memory, and the operator between them.

All in one process and one event loop, under a clock of its own; nothing listens anywhere and
nothing is left behind. The operator is the one that runs in production.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from karpenter.api.cluster import Event
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.kwok import KWOKNodeClass
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.base.aio.virtual import VirtualClock
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.kwok import Behaviour, KwokCloud, KwokProvider
from karpenter.cloud.kwok.seams import ObjectClasses, ObjectNodes
from karpenter.kube.patch import MergePatch
from karpenter.kube.target import untyped
from karpenter.local.cluster import LocalCluster
from karpenter.operator.doors import Objects
from karpenter.operator.settings import parse_settings
from karpenter.operator.wiring import Operator, Parts

if TYPE_CHECKING:
    from types import TracebackType

_CRDS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
_CLUSTER: Final = "demo"
_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
NAMESPACE: Final = "default"


class Stage:
    """Everything the demo needs. Entering builds it up; leaving takes it down."""

    def __init__(self, *, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.catalog = load_catalog("kwok")
        self._seed = seed
        self._cluster = LocalCluster(self.clock, seed=seed)
        self.client = self._cluster.client
        self._cloud = KwokCloud(
            self.catalog,
            nodes=ObjectNodes(Objects(self._cluster.connect("kwok"))),
            clock=self.clock,
            chance=Random(seed),  # noqa: S311  the demo's dice, not a secret
            behaviour=Behaviour(launch=2.0),
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._cluster)
        self._stack.push_async_callback(self._cloud.close)
        for each in DEFINITIONS:
            await self.client.create(_CRDS, render(each))
        await self.client.create(KWOKNodeClass, {"metadata": {"name": "default"}})
        client = self._cluster.connect("karpenter")
        provider = KwokProvider(self._cloud, classes=ObjectClasses(Objects(client)), cluster=_CLUSTER)
        parts = Parts(
            client=client,
            cloud=provider,
            settings=parse_settings({}),
            clock=self.clock,
            chance=Random(self._seed),  # noqa: S311  likewise
            threads=False,
        )
        await self._stack.enter_async_context(Operator(parts))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def apply_pool(self) -> None:
        """Create the NodePool of the tour: Linux on amd64, bought on demand, consolidated soon."""
        wanted = {"kubernetes.io/os": ["linux"], "kubernetes.io/arch": ["amd64"]}
        wanted["karpenter.sh/capacity-type"] = ["on-demand"]
        requirements = [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]
        await self.client.create(
            NodePool,
            {
                "metadata": {"name": "default"},
                "spec": {
                    "template": {"spec": {"nodeClassRef": _CLASS, "requirements": requirements}},
                    "disruption": {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
                },
            },
        )

    async def deploy(self, name: str, replicas: int) -> None:
        """Create a Deployment whose pods want a core each and are spread over zones."""
        labels = {"app": name}
        pod: dict[str, Any] = {
            "terminationGracePeriodSeconds": 0,
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": labels},
                }
            ],
            "containers": [
                {"name": name, "image": "pause", "resources": {"requests": {"cpu": "1", "memory": "1536Mi"}}}
            ],
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.client.create(Deployment, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)

    async def scale(self, name: str, replicas: int) -> None:
        """Change how many pods a Deployment has."""
        await self.client.patch(
            Deployment, name, MergePatch({"spec": {"replicas": replicas}}), namespace=NAMESPACE
        )

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return list((await self.client.list(Pod)).items)

    async def nodes(self) -> list[Node]:
        """Return all nodes."""
        return list((await self.client.list(Node)).items)

    async def claims(self) -> list[NodeClaim]:
        """Return all claims."""
        return list((await self.client.list(NodeClaim)).items)

    async def events(self) -> list[Event]:
        """Return what was announced so far."""
        return list((await self.client.list(Event)).items)

    def machines(self) -> int:
        """Return how many machines really exist."""
        return len(self._cloud.control.machines(_CLUSTER))
