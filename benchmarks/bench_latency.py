"""
How long a pod waits for its NodeClaim, over HTTP: one pod after the other, at random moments.

Two cases. In the first the cluster is idle whenever a pod comes. In the second pods come every half second to
two seconds, while machines of earlier ones, which take 2.5 s to launch, are under way. Pods keep apart, so
that every one needs a machine of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

from benchmarks.bench_operator import LARGE, POOL, open_client
from benchmarks.table import Table, count, seconds
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter_local.sandbox.processes import cluster_process, operator_process

if TYPE_CHECKING:
    from karpenter.kube.client import Client

PODS: Final = 40
IDLE: Final = (3.5, 5.5)
"""Seconds between two pods, at least and at most, in which a machine of a second's launch joins."""

BUSY: Final = (0.5, 2.0)
_LONGEST: Final = 60.0
_EVERY: Final = 0.02
_PERCENTILE: Final = 0.99


def suite(pods: int = PODS) -> Table:
    """Return how long pods wait for their NodeClaims."""
    rows = (
        _row("idle cluster", waits(pods, IDLE, "1s")),
        _row("machines of earlier pods are under way", waits(pods, BUSY, "2500ms")),
    )
    notes = (
        "wall time from the creation of a pod to that of its NodeClaim; looked at every 20 ms",
        "batching waits 1 s for more pods, as by default; p99 must be 1.6 s at most on an idle cluster",
    )
    return Table("pod to NodeClaim", ("case", "pods", "p50", "p90", "p99", "longest"), rows, notes)


def waits(pods: int, pause: tuple[float, float], launch: str) -> list[float]:
    """Return how long each of some pods waits for its claim."""
    with (
        cluster_process() as cluster,
        operator_process(cluster.kubeconfig, KWOK_LAUNCH_LATENCY=launch) as ours,
    ):

        async def measured() -> list[float]:
            await ours.until_leading()
            async with open_client(cluster.kubeconfig) as client:
                return await _waits(client, pods, pause)

        return asyncio.run(measured())


async def _waits(client: Client, pods: int, pause: tuple[float, float]) -> list[float]:
    chance = Random(1)  # noqa: S311  moments
    disruption = {"consolidateAfter": "Never"}
    await client.create(NodePool, {**POOL, "spec": {**POOL["spec"], "disruption": disruption}})
    await asyncio.sleep(5.0)  # the NodePool becomes ready
    created: list[float] = []
    looking = asyncio.create_task(_claims(client, pods))
    for number in range(pods):
        created.append(time.monotonic())
        await client.create(Pod, _pod(f"pod-{number}"), namespace="default")
        await asyncio.sleep(chance.uniform(*pause))
    # A claim is for one pod, and pods get their claims in the order in which they come.
    return [claimed - pod for pod, claimed in zip(created, await looking, strict=True)]


async def _claims(client: Client, wanted: int) -> list[float]:
    """Return when each of some claims was there."""
    found: list[float] = []
    last = time.monotonic()
    while len(found) < wanted:
        now, claims = time.monotonic(), len((await client.list(NodeClaim)).items)
        if claims > len(found):
            found += [now] * (claims - len(found))
            last = now
        elif now - last > _LONGEST:
            raise TimeoutError(f"{len(found)} of {wanted} NodeClaims after {_LONGEST:g} s")
        await asyncio.sleep(_EVERY)
    return found[:wanted]


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": LARGE}}
    labels = {"app": "apart"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], "affinity": apart},
    }


def _row(name: str, found: list[float]) -> tuple[str, ...]:
    ordered = sorted(found)
    share = (0.5, 0.9, _PERCENTILE)
    picked = [ordered[min(int(each * len(ordered)), len(ordered) - 1)] for each in share]
    return (name, count(len(found)), *map(seconds, picked), seconds(ordered[-1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_latency", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="how many, one after the other")
    arguments = parser.parse_args()
    if arguments.pods < 1:
        parser.error(f"argument --pods: must be 1 or more, not {arguments.pods}")
    print(suite(arguments.pods))
