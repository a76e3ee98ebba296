"""
Which modules three walks pass: a pending pod until it is bound, a consolidation, and ``karpenter plan``.

    python -m tools.walks

A module counts when a function of it is called during the walk. The embedded cluster and the kwok cloud are
not counted, nor what they call: they stand for an API server and a cloud. A pod does not pass what timers do
beside it (the looks of disruption, of garbage collection and of metrics); the count with them is printed.
"""

from __future__ import annotations

import io
import logging
import sys
from collections import Counter
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Final

import structlog

from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

OUTSIDE: Final = ("karpenter_local.", "karpenter.cloud.kwok.")
"""What stands for the API server, the kubelets and the cloud."""

LOOP: Final = "karpenter_local.virtual"
"""The event loop, below every call."""


@contextmanager
def traced(passed: Counter[str], beside: Counter[str] | None = None) -> Iterator[None]:
    """Count the calls of every module of ours while the context lasts; what timers do counts as `beside`."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        name = str(frame.f_globals.get("__name__", ""))
        if event == "call" and name.startswith("karpenter.") and not _is_outside(frame):
            counts = beside if beside is not None and _is_of_a_timer(frame) else passed
            counts[name] += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _is_outside(frame: FrameType | None) -> bool:
    """Whether a call is made by the embedded cluster or the cloud, or by what these call."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(OUTSIDE) and name != LOOP:
            return True
        frame = frame.f_back
    return False


def _is_of_a_timer(frame: FrameType | None) -> bool:
    """Whether a call is made by a controller that looks from time to time, whatever happens."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name == "look" and name.startswith("karpenter.controllers."):
            return True
        frame = frame.f_back
    return False


async def _in_a_cluster(pod: Counter[str], beside: Counter[str], consolidation: Counter[str]) -> None:
    async with Sandbox(seed=1) as sandbox:
        await sandbox.create_node_pool(disruption={"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]})
        await sandbox.clock.sleep(20.0)
        with traced(pod, beside):
            await sandbox.deploy(replicas=1)
            await sandbox.until_running(1)
        await sandbox.scale("inflate", 10)
        await sandbox.until_running(10)
        await sandbox.clock.sleep(60.0)
        before = {node.metadata.name for node in await sandbox.nodes()}
        with traced(consolidation):
            await sandbox.scale("inflate", 4)
            while before <= {node.metadata.name for node in await sandbox.nodes()}:
                await sandbox.clock.sleep(1.0)


def _plan() -> Counter[str]:
    from karpenter.cli import main  # noqa: PLC0415  loading commands is part of no walk

    passed: Counter[str] = Counter()
    with traced(passed), redirect_stdout(io.StringIO()), suppress(SystemExit):
        main(["plan", "-f", "examples/inflate", "--catalog", "aws"], standalone_mode=False)
    return passed


def report() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    pod: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    consolidation: Counter[str] = Counter()
    run_virtual(_in_a_cluster(pod, beside, consolidation))
    walks = {"pending pod to bound": pod, "consolidation": consolidation, "karpenter plan": _plan()}
    for title, passed in walks.items():
        sys.stdout.write(f"{title}: {len(passed)} modules\n")
        for name in sorted(passed):
            sys.stdout.write(f"  {name.removeprefix('karpenter.')}\n")
    sys.stdout.write(f"pending pod to bound, with what timers do beside it: {len(pod | beside)} modules\n")


if __name__ == "__main__":
    report()
