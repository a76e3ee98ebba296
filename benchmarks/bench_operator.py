"""
The operator beside its cluster, over HTTP: how fast pods that wait get machines, and what holding them costs.

Three cases. In the first a thousand pods, or as many as ``--pods`` says, wait when a NodePool appears:
half of them small, half large, as in the scale-out that Karpenter's own gate is about, with machines that
take a second to launch. In the second an operator starts on a cluster of a thousand nodes and twenty thousand
pods. In the third nothing happens there any longer.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.crowd import fill
from benchmarks.table import Table, count, seconds, size
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.base.clock import SystemClock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.http import HttpTransport
from karpenter.kube.kubeconfig import find_cluster
from karpenter.kube.rest import Selection
from karpenter_local.sandbox.processes import (
    ClusterSubprocess,
    OperatorSubprocess,
    ProcessUsage,
    cluster_process,
    operator_process,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path


PODS: Final = 1_000
NODES: Final = 1_000
CROWD: Final = 20_000
IDLE: Final = 30.0
"""Seconds for which the operator is watched doing nothing."""

_LONGEST: Final = 900.0
SMALL: Final = {"cpu": "900m", "memory": "3100Mi"}
LARGE: Final = {"cpu": "3500m", "memory": "28Gi"}
REF: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
POOL: Final[dict[str, Any]] = {
    "metadata": {"name": "default"},
    "spec": {
        "disruption": {
            "consolidateAfter": "30s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "100%"}],
        },
        "template": {
            "spec": {
                "nodeClassRef": REF,
                "expireAfter": "Never",
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
                ],
            }
        },
    },
}


class ScaledOut(NamedTuple):
    """What many pods at once took."""

    claims: float
    running: float
    machines: int
    operator: ProcessUsage
    cluster: ProcessUsage


class Held(NamedTuple):
    """What a large cluster takes."""

    leading: float
    after_start: ProcessUsage
    idle: float
    """Share of a core."""

    after_idle: ProcessUsage


def suite() -> Table:
    """Return how fast the operator is, and what it takes."""
    out, held = scale_out(), hold()
    rows = (
        *scale_out_rows(PODS, out),
        (f"{NODES:,} nodes, {CROWD:,} pods: start to leading and synced", seconds(held.leading), "10 s"),
        ("  memory of the operator, at most", size(held.after_idle.most), "512 MiB"),
        ("  memory of the operator, at rest", size(held.after_idle.now), "512 MiB"),
        (f"  share of a core over {IDLE:g} s at rest", f"{held.idle:.1%}", "10%"),
    )
    notes = (
        "wall time; cluster, operator and client are three processes on one machine and talk over HTTP",
        "machines take 1 s to launch and 0.2 s to report; batching waits 1 s for more pods, as by default",
        "half of the pods ask for 900m and 3100Mi, half for 3500m and 28Gi",
        "the plan is 141 machines; the scheduler mixes pods otherwise, and what then fits nowhere gets more",
    )
    return Table("the operator", ("case", "measured", "goal"), rows, notes)


def scale_out_rows(pods: int, out: ScaledOut) -> tuple[tuple[str, str, str], ...]:
    """Return what many pods at once took, with goals for a thousand."""
    return (
        (f"{pods:,} pending pods: NodePool applied to all NodeClaims created", seconds(out.claims), "3 s"),
        (f"{pods:,} pending pods: NodePool applied to all running", seconds(out.running), "30 s"),
        ("  machines launched", count(out.machines), ""),
        ("  memory of the operator, at most", size(out.operator.most), "200 MiB"),
        ("  processor time of the operator", seconds(out.operator.cpu), ""),
        ("  processor time of the cluster", seconds(out.cluster.cpu), ""),
    )


def scale_out(pods: int = PODS) -> ScaledOut:
    """Let pods wait, and then a NodePool appear."""
    with (
        cluster_process() as cluster,
        operator_process(cluster.kubeconfig, KWOK_LAUNCH_LATENCY="1s") as ours,
    ):
        return asyncio.run(_scale_out(cluster, ours, pods))


def hold() -> Held:
    """Start on a large cluster, and rest."""
    with (
        cluster_process(load=load_crowd, controllers=False) as cluster,
        operator_process(cluster.kubeconfig) as ours,
    ):
        return asyncio.run(_hold(ours))


async def _scale_out(cluster: ClusterSubprocess, ours: OperatorSubprocess, pods: int) -> ScaledOut:
    await ours.until_leading()
    async with open_client(cluster.kubeconfig) as client:
        for name, requests in (("small", SMALL), ("large", LARGE)):
            await client.create(Deployment, _deployment(name, requests, pods // 2), namespace="default")
        await _until(lambda: _unschedulable(client), pods, every=1.0)
        await asyncio.sleep(15)  # let the operator find out that there is nothing to be done, and rest
        began = time.monotonic()
        await client.create(NodePool, POOL)
        claims = await _until(lambda: _claimed(client), pods) - began
        running = await _until(lambda: _all_run(client), 1, every=0.5) - began
        operator, server = ours.usage(), cluster.usage()
        machines = len((await client.list(NodeClaim)).items)
    return ScaledOut(claims, running, machines, operator, server)


async def _hold(ours: OperatorSubprocess) -> Held:
    leading = await ours.until_leading()
    await ours.until_evaluated()
    await asyncio.sleep(30)  # what a start brings with it: events that tell why nothing is saved
    before, began = ours.usage(), time.monotonic()
    await asyncio.sleep(IDLE)
    after = ours.usage()
    idle = (after.cpu - before.cpu) / (time.monotonic() - began)
    return Held(leading, before, idle, after)


async def load_crowd(client: Client) -> None:
    """Fill a cluster with nodes that are nearly full of pods."""
    await fill(client, nodes=NODES, pods=CROWD, pool=POOL)


def _deployment(name: str, requests: dict[str, str], replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def open_client(where: Path) -> AsyncIterator[Client]:
    """Talk to the cluster of a kubeconfig, as fast as it can."""
    clock = SystemClock()
    found = await find_cluster(environ={}, clock=clock, kubeconfig=str(where))
    transport = HttpTransport(found.endpoint, found.credentials)
    try:
        yield Client(transport, chance=Random(1), bucket=TokenBucket(rate=1e9, burst=1e9))  # noqa: S311  jitter
    finally:
        await transport.close()


async def _until(look: Callable[[], Awaitable[int]], wanted: int, every: float = 0.1) -> float:
    began = time.monotonic()
    while (found := await look()) < wanted:
        if time.monotonic() - began > _LONGEST:
            raise TimeoutError(f"{found} of {wanted} after {_LONGEST:g} s")
        await asyncio.sleep(every)
    return time.monotonic()


async def _unschedulable(client: Client) -> int:
    return sum(
        any(each.reason == "Unschedulable" for each in pod.status.conditions)
        for pod in (await client.list(Pod)).items
    )


async def _claimed(client: Client) -> int:
    claims = (await client.list(NodeClaim)).items
    return sum(int(str(each.spec.resources.requests.get("pods", "0"))) for each in claims)


async def _all_run(client: Client) -> int:
    """Return whether every pod runs; of those that do not, one is read, since lists cost the server time."""
    async for page in client.pages(Pod, Selection(fields="status.phase!=Running"), limit=1):
        return int(not page.items)
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what many pods at once take."""
    parser = argparse.ArgumentParser("python -m benchmarks.bench_operator", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="how many, half of them small and half large")
    pods = parser.parse_args(arguments).pods
    if pods < 2:
        parser.error(f"argument --pods: must be 2 or more, not {pods}")
    print(Table("many pods at once", ("case", "measured", "goal"), scale_out_rows(pods, scale_out(pods))))


if __name__ == "__main__":
    main()
