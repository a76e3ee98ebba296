"""
Everything that a fault needs: a control plane, an embedded AWS, kubelets, a proxy, two replicas, an observer.

The work is the same in every round: a Deployment takes another size, and now and then the template of the
pool changes, so that machines are launched, drained and replaced while a fault lasts.
"""

from __future__ import annotations

import asyncio
import base64
import time
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any, Self

import yaml

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.nodepool import NodePool
from karpenter.api.workloads import Deployment
from karpenter.base.clock import SystemClock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError
from karpenter.kube.patches import MergePatch
from karpenter_local.aws.room import InstanceTimings
from karpenter_local.kubelets import Kubelets
from karpenter_local.sandbox.aws import AwsSandboxCloud
from karpenter_local.sandbox.cluster import RunningCluster, http_transport, install_definitions
from karpenter_local.sandbox.options import AwsOptions
from tests.chaos.observer import (
    Observer,
    Rules,
    claims_without_instance,
    orphaned_instances,
    wanted_and_running,
)
from tests.chaos.planes import EmbeddedPlane, KillablePlane
from tests.chaos.proxy import FaultProxy
from tests.chaos.replicas import ReplicaSetOfOperators

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

TYPES = ("c5.large", "m5.large", "c5.xlarge", "m5.xlarge", "r5.large")
CLUSTER = "chaos"
GUARDED, CHURN = "guarded", "churn"
RULES = Rules(budget=2, guarded=GUARDED, available=3)
MOST_CHURN = 9
SETTLE_WITHIN = 240.0
PACE = InstanceTimings(pending=0.5, boot=1.0, initialize=0.2, shutdown=1.0, notice=1.0)
SETUP_TRIES = 60


class NotSettled(Exception):  # noqa: N818  reads as what is the matter
    """Pods or machines were not in order in time."""


class ChaosWorld:
    """Entering starts everything; leaving ends it."""

    def __init__(self, server: str, directory: Path, *, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311  the moments of faults, not secrets
        self.directory = directory
        self.rounds = 0
        self.plane: EmbeddedPlane | KillablePlane
        self.plane = (KillablePlane if server == "real" else EmbeddedPlane)(directory / "plane")
        self.proxy: FaultProxy
        self.observer: Observer
        self.replicas: ReplicaSetOfOperators
        self.client: Client
        self.cloud = AwsSandboxCloud(
            AwsOptions(types=TYPES, pace=PACE), name=CLUSTER, clock=SystemClock(), seed=seed
        )
        self._seed = seed
        self._size = 2
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._enter(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def _enter(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self.plane.stop)
        await self.plane.start()
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
        bundle = config["clusters"][0]["cluster"]["certificate-authority-data"]
        authority = base64.b64decode(bundle).decode()
        transport = await stack.enter_async_context(http_transport(self.plane.kubeconfig))
        self.client = Client(
            transport,
            chance=Random(self._seed),  # noqa: S311  jitter
            bucket=TokenBucket(rate=1000, burst=1000),
        )
        await install_definitions(self.client)
        kubelets = await stack.enter_async_context(Kubelets(self.client, clock=SystemClock()))
        stack.push_async_callback(self.cloud.stop)
        running = RunningCluster(
            client=self.client,
            kubelets=kubelets.hollow_nodes,
            connect=lambda _: self.client,
            transport=lambda: transport,
            url=url,
            kubeconfig=self.plane.kubeconfig.read_text(),
        )
        await _again(lambda: self.cloud.start(running), KubeError)
        self.proxy = FaultProxy(url=url, authority=authority, token=token, seed=self._seed)
        stack.push_async_callback(self.proxy.stop)
        await self.proxy.start()
        through = self.directory / "kubeconfig"
        through.write_text(self.proxy.kubeconfig())
        # Machines trust the API server itself; the proxy has an authority of its own.
        environment = {**self.cloud.environment, "CLUSTER_CA_BUNDLE": bundle}
        self.replicas = ReplicaSetOfOperators(self.directory, through, environment)
        stack.push_async_callback(self.replicas.stop)
        ec2 = self.cloud.site.client("ec2")

        def instances() -> list[dict[str, Any]]:
            pages = ec2.get_paginator("describe_instances").paginate()
            return [each for page in pages for group in page["Reservations"] for each in group["Instances"]]

        self.observer = Observer(
            url=url,
            authority=authority,
            token=token,
            rules=RULES,
            instances=instances,
            replicas=lambda: self.replicas.all,
        )
        await _again(self._populate, KubeError)
        await self.replicas.keep()
        stack.push_async_callback(self.observer.stop)
        await self.observer.start()

    async def _populate(self) -> None:
        await self.client.apply(NodePool, _pool(self.cloud.node_class))
        guard = {"minAvailable": RULES.available, "selector": {"matchLabels": {"app": GUARDED}}}
        budget = {"metadata": {"name": GUARDED, "namespace": "default"}, "spec": guard}
        await self.client.apply(PodDisruptionBudget, budget)
        await self.client.apply(Deployment, _deployment(GUARDED, RULES.available + 1))
        await self.client.apply(Deployment, _deployment(CHURN, 2))

    async def work(self) -> None:
        """Give the operator something to do: another size, and every third round another template."""
        self.rounds += 1
        size = self.chance.choice([each for each in range(MOST_CHURN + 1) if abs(each - self._size) > 1])
        await _again(lambda: self._scale(size), KubeError)
        if self.rounds % 3 == 0:
            labels = {"chaos": f"round-{self.rounds}"}
            change = MergePatch({"spec": {"template": {"metadata": {"labels": labels}}}})
            await _again(lambda: self._amend(change), KubeError)

    async def _scale(self, size: int) -> None:
        change = MergePatch({"spec": {"replicas": size}})
        await self.client.patch(Deployment, CHURN, change, namespace="default")
        self._size = size

    async def _amend(self, change: MergePatch) -> None:
        await self.client.patch(NodePool, "default", change)

    async def until_settled(self, within: float = SETTLE_WITHIN) -> float:
        """
        Wait until a replica leads and every pod runs; return how long that took.

        Raises:
            NotSettled: it did not happen in time.
        """
        began = time.monotonic()
        await self.replicas.leader()
        while True:
            seen = await self.observer.look()
            if seen is not None:
                wanted, running = wanted_and_running(seen)
                if wanted == running:
                    return time.monotonic() - began
                if time.monotonic() - began > within:
                    raise NotSettled(f"{running} of {wanted} pods run after {within:.0f} s")
            await asyncio.sleep(0.2)

    async def until_in_order(self, within: float = SETTLE_WITHIN) -> float:
        """
        Wait until instances, claims and nodes belong together; return how long that took.

        Raises:
            NotSettled: it did not happen in time.
        """
        began = time.monotonic()
        while True:
            seen = await self.observer.look()
            if seen is not None:
                live = await self.observer.live_instances()
                strays = [*orphaned_instances(seen, live), *claims_without_instance(seen, live)]
                if not strays and len(live) == len(seen.claims) == len(seen.nodes):
                    return time.monotonic() - began
                if time.monotonic() - began > within:
                    counts = f"{len(live)} instances, {len(seen.claims)} claims, {len(seen.nodes)} nodes"
                    raise NotSettled(f"after {within:.0f} s: {counts}; strays: {strays}")
            await asyncio.sleep(0.5)

    async def empty(self, within: float = SETTLE_WITHIN) -> float:
        """Delete the workloads and the pool, and wait until no machine is left; return how long that took."""
        self.observer.judges = False  # what a user deletes is bound to no budget
        for name in (GUARDED, CHURN):
            await self.client.delete(Deployment, name, namespace="default")
        await self.client.delete(NodePool, "default")
        began = time.monotonic()
        left: list[str] = []
        while time.monotonic() - began < within:
            seen = await self.observer.look()
            if seen is not None:
                live = await self.observer.live_instances()
                left = [each["metadata"]["name"] for each in (*seen.pods, *seen.claims, *seen.nodes)]
                left += [each["InstanceId"] for each in live]
                if not (seen.claims or seen.nodes or live):
                    return time.monotonic() - began
            await asyncio.sleep(0.5)
        raise NotSettled(f"{left} are left {within:.0f} s after their pool was deleted")


async def _again(act: Callable[[], Awaitable[Any]], *errors: type[Exception]) -> None:
    """Do something until it works; an API server may just be starting."""
    for left in reversed(range(SETUP_TRIES)):
        try:
            await act()
        except errors:
            if not left:
                raise
            await asyncio.sleep(0.5)
        else:
            return


def _pool(node_class: Any) -> dict[str, Any]:
    wanted = {"kubernetes.io/arch": ["amd64"], "karpenter.sh/capacity-type": ["on-demand"]}
    wanted["node.kubernetes.io/instance-type"] = ["c5.large", "m5.large", "c5.xlarge"]
    requirements = [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]
    spec = {"nodeClassRef": dict(node_class), "requirements": requirements, "expireAfter": "Never"}
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1s",
        "budgets": [{"nodes": str(RULES.budget)}],
    }
    return {"metadata": {"name": "default"}, "spec": {"template": {"spec": spec}, "disruption": disruption}}


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "700m"}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
