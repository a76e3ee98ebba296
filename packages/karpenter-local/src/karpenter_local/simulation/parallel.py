"""
Runs many seeds, in this process or in several, each with the scenario that explains its violation.

A process takes one seed after the other; results come in the order in which they are ready. Seeds do not know
of each other, so that the outcome is the same however many processes there are.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.fault_schedule import Severity
from karpenter_local.simulation.report import explain
from karpenter_local.simulation.run import RunResult, run_scenario
from karpenter_local.simulation.scenario import Provider, generate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SEEDS_AHEAD: Final = 2
"""Seeds per process that wait to be taken: enough to keep it busy, few enough to end soon."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that every seed is run with."""

    hours: float
    severity: Severity
    machines: int = 3
    provider: Provider = "kwok"
    settings: dict[str, str] = {}
    explained: bool = True
    """Whether the shortest scenario that leads to a violation is looked for."""


class SeedOutcome(msgspec.Struct, frozen=True):
    """Result of a seed, and the lines that explain its violation."""

    result: RunResult
    lines: tuple[str, ...] = ()


def run_seed(seed: int, request: RunRequest, tried: Callable[[], None] = lambda: None) -> SeedOutcome:
    """Run a seed; `tried` is called for every attempt to find a shorter scenario."""
    scenario = generate(
        seed,
        hours=request.hours,
        severity=request.severity,
        machines=request.machines,
        provider=request.provider,
    )
    result = run_scenario(scenario, settings=request.settings)
    if not result.violations or not request.explained:
        return SeedOutcome(result)
    return SeedOutcome(result, tuple(explain(scenario, result, settings=request.settings, tried=tried)))


def run_seeds(
    seeds: Iterable[int], request: RunRequest, *, jobs: int, tried: Callable[[], None] = lambda: None
) -> Iterator[SeedOutcome]:
    """Yield what comes of seeds, as soon as it is known, from so many processes."""
    if jobs == 1:
        for seed in seeds:
            yield run_seed(seed, request, tried)
        return
    # Processes that begin anew have nothing of this one in them, whatever it has loaded or started.
    context = multiprocessing.get_context("spawn")
    left = iter(seeds)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        waiting = {pool.submit(run_seed, seed, request) for seed in islice(left, jobs * _SEEDS_AHEAD)}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                waiting |= {pool.submit(run_seed, seed, request) for seed in islice(left, 1)}
                yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
