"""
Memory and processor time of the operator over a longer run on a large cluster where pods come and go.

A thousand nodes hold twenty thousand pods. Every few seconds some pods are deleted and as many others wait;
the operator plans for them, and they are bound to the room that the deleted ones left. The curve is what the
operating system says of the operator's process; its slope is that of the straight line which fits best,
without the first fifth of the run, in which caches fill.

``MINUTES=45 make memory``, or ``python -m benchmarks.bench_memory --minutes 5``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.bench_operator import CROWD, NODES, load_crowd, open_client
from benchmarks.crowd import pod_body
from benchmarks.table import Table, count, size
from karpenter.api.pod import Pod
from karpenter.kube.patches import MergePatch
from karpenter_local.sandbox.processes import OperatorSubprocess, cluster_process, operator_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from karpenter.kube.client import Client

MINUTES: Final = 45.0
EVERY: Final = 5.0
"""Seconds between two turns of the churn."""

TURN: Final = 20
"""Pods that are replaced in each."""

RUNNING: Final = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
WAITING: Final = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
_SAMPLES: Final = 10.0
_ROWS: Final = 10
_WARM_UP: Final = 0.2
_MIB: Final = 2**20


class MemorySample(NamedTuple):
    """The operator at one moment."""

    at: float
    """Seconds since it led."""

    resident: int
    cpu: float


def suite(minutes: float | None = None) -> Table:
    lasting = float(os.environ.get("MINUTES", MINUTES)) if minutes is None else minutes
    with (
        cluster_process(load=load_crowd, controllers=False) as cluster,
        operator_process(cluster.kubeconfig) as ours,
    ):
        replaced, samples = asyncio.run(_run(cluster.kubeconfig, ours, lasting * 60))
    shown = [samples[number * (len(samples) - 1) // _ROWS] for number in range(_ROWS + 1)]
    rows = [(f"{shown[0].at / 60:.1f} min", size(shown[0].resident), "-")]
    for before, each in pairwise(shown):
        share = (each.cpu - before.cpu) / max(each.at - before.at, 1e-9)
        rows.append((f"{each.at / 60:.1f} min", size(each.resident), f"{share:.0%}"))
    rate = slope(samples[int(_WARM_UP * len(samples)) :]) * 3600 / _MIB
    notes = (
        f"{NODES:,} nodes, {CROWD:,} pods; {TURN} pods replaced every {EVERY:g} s, {count(replaced)} in all",
        f"slope of memory without the first {_WARM_UP:.0%} of the run: {rate:+.1f} MiB per hour",
        f"most memory: {size(max(each.resident for each in samples))}",
    )
    return Table("memory over time", ("after", "resident", "share of a core"), tuple(rows), notes)


def slope(samples: Sequence[MemorySample]) -> float:
    """Return by how many bytes per second memory grows: the line with the least squares."""
    middle = sum(each.at for each in samples) / len(samples)
    level = sum(each.resident for each in samples) / len(samples)
    spread = sum((each.at - middle) ** 2 for each in samples)
    return sum((each.at - middle) * (each.resident - level) for each in samples) / spread if spread else 0.0


async def _run(where: Path, ours: OperatorSubprocess, lasting: float) -> tuple[int, list[MemorySample]]:
    await ours.until_leading()
    began, samples = time.monotonic(), list[MemorySample]()
    async with open_client(where) as client:
        turnover = _Turnover(client)
        churn = asyncio.get_running_loop().create_task(turnover.run())
        while (at := time.monotonic() - began) < lasting and not churn.done():
            usage = ours.usage()
            samples.append(MemorySample(at, usage.now, usage.cpu))
            print(f"{at:6.0f} s  {size(usage.now)}", file=sys.stderr, flush=True)
            await asyncio.wait([churn], timeout=min(_SAMPLES, lasting / 30))
        churn.cancel()
        await asyncio.wait([churn])
        if not churn.cancelled():
            churn.result()
    return turnover.replaced, samples


class _Turnover:
    """Replaces pods: each new one waits for a turn, and is bound where the old one was."""

    def __init__(self, client: Client) -> None:
        self.replaced = 0
        self._client = client
        self._names = [f"web-{number:05d}" for number in range(CROWD)]
        self._waiting: list[int] = []

    async def run(self) -> None:
        while True:
            for number in self._waiting:
                node = f"kwok-{number * NODES // CROWD:04d}"
                await self._client.bind(self._names[number], namespace="default", node=node)
                await self._tell(number, {"phase": "Running", "conditions": RUNNING})
            # 7919 is prime, so every pod has its turn.
            self._waiting = [(self.replaced + each) * 7919 % CROWD for each in range(TURN)]
            for number in self._waiting:
                await self._client.delete(Pod, self._names[number], namespace="default", grace=0)
                self.replaced += 1
                self._names[number] = f"web-{number:05d}-{self.replaced}"
                await self._client.create(Pod, pod_body(self._names[number], ""), namespace="default")
                await self._tell(number, {"phase": "Pending", "conditions": WAITING})
            await asyncio.sleep(EVERY)

    async def _tell(self, number: int, status: dict[str, Any]) -> None:
        change = MergePatch({"status": status})
        await self._client.patch(Pod, self._names[number], change, namespace="default", subresource="status")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.bench_memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long the run is")
    print(suite(parser.parse_args().minutes))
