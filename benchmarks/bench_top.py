"""
What ``karpenter top`` costs while it is left alone: the screen at 160 x 50 over 1,000 nodes and 20,000 pods.

Nothing is shared with a cluster: the objects change in this process as watches would report them, and the
screen is drawn without a terminal. The share is processor time of the whole process by the time that passed.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.measure import measure
from benchmarks.table import Table, count, seconds
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.core.state.cluster import ClusterState, ClusterView, ObjectUpdated
from karpenter.top.feed import TopMonitor
from karpenter.top.screen import TopScreen
from karpenter.top.snapshot import TopOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.top.advice import LastDecision

NODES: Final = 1_000
PODS: Final = 20_000
WATCHED: Final = 20.0
"""Seconds for which each case is watched."""

_SIZE: Final = (160, 50)


def _node(number: int) -> Node:
    room = {"cpu": "15890m", "memory": "60Gi", "pods": "110"}
    labels = {
        "node.kubernetes.io/instance-type": "m5.4xlarge",
        "topology.kubernetes.io/zone": f"us-east-1{'abc'[number % 3]}",
        "karpenter.sh/capacity-type": ("spot", "on-demand")[number % 2],
        "karpenter.sh/nodepool": f"pool-{number % 5}",
    }
    ready = [{"type": "Ready", "status": "True"}]
    return convert(
        {
            "metadata": {
                "name": f"node-{number}",
                "labels": labels,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"providerID": f"aws:///us-east-1a/i-{number}"},
            "status": {"capacity": room, "allocatable": room, "conditions": ready},
        },
        Node,
    )


def _pod(number: int) -> Pod:
    requests = {"cpu": f"{100 * (1 + number % 6)}m", "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return convert(
        {
            "metadata": {"name": f"pod-{number}", "namespace": "default"},
            "spec": {"nodeName": f"node-{number % NODES}", "containers": [container]},
            "status": {"phase": "Running"},
        },
        Pod,
    )


class ChangingFeed:
    """A cluster in which some pods change every second."""

    host = ""

    def __init__(self, changes: int) -> None:
        self._state = ClusterState(serves=None)
        self._pods = [_pod(number) for number in range(PODS)]
        for each in (*(_node(number) for number in range(NODES)), *self._pods):
            self._state.apply(ObjectUpdated(each))
        self._changes, self._chance = changes, Random(1)  # noqa: S311  a workload
        self._task: asyncio.Task[None] | None = None
        self.revision = 0

    async def start(self) -> None:
        self._task = asyncio.create_task(self._change())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()

    def view(self) -> ClusterView:
        return self._state.view()

    def decisions(self) -> Sequence[LastDecision]:
        """Return nothing: Events are not what costs."""
        return ()

    def notes(self) -> Sequence[str]:
        return ()

    async def _change(self) -> None:
        while self._changes:
            await asyncio.sleep(1 / self._changes)
            pod = self._chance.choice(self._pods)
            status: Any = msgspec.structs.replace(pod.status, start_time=datetime.now(UTC))
            self._state.apply(ObjectUpdated(msgspec.structs.replace(pod, status=status)))
            self.revision += 1


async def _share(changes: int) -> float:
    """Return which share of a core the screen takes once it is drawn."""
    screen = TopScreen(TopMonitor(ChangingFeed(changes), None, catalog="aws"), TopOptions())
    async with screen.run_test(size=_SIZE) as pilot:
        while not screen.monitor.ready:
            await pilot.pause(0.05)
        await pilot.pause(1.0)
        begun, used = time.monotonic(), time.process_time()
        await asyncio.sleep(WATCHED)
        return (time.process_time() - used) / (time.monotonic() - begun)


def suite() -> Table:
    """Return what the screen costs at rest, and what drawing it once does."""
    rows = [
        (f"at rest, {changes} pods change a second", f"{asyncio.run(_share(changes)):.1%} of a core")
        for changes in (0, 20, 100)
    ]

    monitor = TopMonitor(ChangingFeed(0), None, catalog="aws")
    asyncio.run(_started(monitor))
    rows.append(
        ("a snapshot of what is known already", seconds(measure(lambda: monitor.take(TopOptions())).seconds))
    )
    return Table(
        "top",
        ("case", "processor time"),
        tuple(rows),
        (
            f"{count(NODES)} nodes and {count(PODS)} pods, a screen of {_SIZE[0]} x {_SIZE[1]}",
            f"each share is that of {WATCHED:.0f} s; the limit that we promise is 10 % of a core",
            "decisions take a twentieth of a core at most beside it: they wait 20 times as long as one took",
        ),
    )


async def _started(monitor: TopMonitor) -> None:
    await monitor.start()
    await monitor.stop()


if __name__ == "__main__":
    print(suite())
