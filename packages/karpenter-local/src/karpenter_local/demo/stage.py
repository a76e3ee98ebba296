"""
The stage of the demo: an embedded cluster, a cloud above it, and the operator between them.

All in one process and one event loop, under a clock of its own; nothing is left behind. The operator is the
one that runs in production. Which cloud it is, is up to the :mod:`.sky`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from karpenter.api.cluster import Event
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.kube.rest import MergePatch, untyped
from karpenter.operator.operator import Operator, OperatorDependencies
from karpenter.operator.options import parse_settings
from karpenter_local.cluster import LocalCluster
from karpenter_local.demo.cloud import KwokSky
from karpenter_local.virtual import VirtualClock

if TYPE_CHECKING:
    from types import TracebackType

    from karpenter_local.demo.cloud import Sky

_CRDS: Final = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
NAMESPACE: Final = "default"


def requirements(*bought: str) -> list[dict[str, Any]]:
    """Return what the pool of the tour buys: Linux on amd64, in these ways."""
    wanted = {"kubernetes.io/os": ["linux"], "kubernetes.io/arch": ["amd64"]}
    wanted["karpenter.sh/capacity-type"] = list(bought)
    return [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]


class Stage:
    """Everything the demo needs. Entering builds it up; leaving takes it down."""

    def __init__(self, sky: Sky | None = None, *, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.sky: Sky = sky or KwokSky()
        self._seed = seed
        self._cluster = LocalCluster(self.clock, seed=seed)
        self.client = self._cluster.client
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        await enter(self._cluster)
        for each in DEFINITIONS:
            await self.client.create(_CRDS, render(each))
        client = self._cluster.connect("karpenter")
        provider = await enter(self.sky.begin(self._cluster, client, clock=self.clock, seed=self._seed))
        parts = OperatorDependencies(
            client=client,
            cloud=provider,
            settings=parse_settings({}),
            clock=self.clock,
            chance=Random(self._seed),  # noqa: S311  the demo's dice, not a secret
            threads=False,
        )
        await enter(Operator(parts))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def apply_pool(self) -> None:
        """Create the NodePool of the tour: Linux on amd64, bought on demand, consolidated soon."""
        template = {"nodeClassRef": dict(self.sky.node_class), "requirements": requirements("on-demand")}
        await self.client.create(
            NodePool,
            {
                "metadata": {"name": "default"},
                "spec": {
                    "template": {"spec": template},
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
