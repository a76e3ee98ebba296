"""
How long a pod waits for its NodeClaim, over HTTP: one pod after the other, at random moments.

Two cases. In the first the cluster is idle whenever a pod comes. In the second every other pod comes while
the machine of the one before, which takes 2.5 s to launch, is under way, and only these count. Every pod
selects a value of a label of its own, so that kube-scheduler gives its machine to no other pod.
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
    from collections.abc import Sequence

    from karpenter.kube.client import Client

PODS: Final = 40
PAUSE: Final = (5.0, 7.0)
"""Seconds after a pod, at least and at most, in which its machine joins."""

SOON: Final = (1.1, 2.6)
"""Seconds after a pod in which its claim is created and its machine is still being launched."""

OWN: Final = "example.com/own"
_LONGEST: Final = 60.0
_EVERY: Final = 0.02
_PERCENTILE: Final = 0.99


def suite(pods: int = PODS) -> Table:
    """Return how long pods wait for their NodeClaims."""
    rows = (
        _row("idle cluster", waits(pods, (PAUSE,), "1s")),
        _row("an earlier claim is being launched", waits(2 * pods, (SOON, PAUSE), "2500ms")[1::2]),
    )
    notes = (
        "wall time from the creation of a pod to that of its NodeClaim; looked at every 20 ms",
        "batching waits 1 s for more pods, as by default; p99 must be 1.6 s at most",
    )
    return Table("pod to NodeClaim", ("case", "pods", "p50", "p90", "p99", "longest"), rows, notes)


def waits(pods: int, pauses: Sequence[tuple[float, float]], launch: str) -> list[float]:
    """Return how long each of some pods waits for its claim; the pauses after them take turns."""
    with (
        cluster_process() as cluster,
        operator_process(cluster.kubeconfig, KWOK_LAUNCH_LATENCY=launch) as ours,
    ):

        async def measured() -> list[float]:
            await ours.until_leading()
            async with open_client(cluster.kubeconfig) as client:
                return await _waits(client, pods, pauses)

        return asyncio.run(measured())


async def _waits(client: Client, pods: int, pauses: Sequence[tuple[float, float]]) -> list[float]:
    chance = Random(1)  # noqa: S311  moments
    await client.create(NodePool, _pool())
    await asyncio.sleep(5.0)  # the NodePool becomes ready
    created: list[float] = []
    looking = asyncio.create_task(_claims(client, pods))
    for number in range(pods):
        created.append(time.monotonic())
        await client.create(Pod, _pod(f"pod-{number}"), namespace="default")
        await asyncio.sleep(chance.uniform(*pauses[number % len(pauses)]))
    # A claim is for one pod, and pods get their claims in the order in which they come.
    return [claimed - pod for pod, claimed in zip(created, await looking, strict=True)]


async def _claims(client: Client, wanted: int) -> list[float]:
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


def _pool() -> dict[str, Any]:
    template = POOL["spec"]["template"]["spec"]
    requirements = [*template["requirements"], {"key": OWN, "operator": "Exists"}]
    spec = {**template, "requirements": requirements}
    return {**POOL, "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": spec}}}


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": LARGE}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "nodeSelector": {OWN: name}}}


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
