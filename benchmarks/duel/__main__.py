"""
Play a duel: the same pods, at the same moments, for Karpenter in Go and for our operator.

For each seed every contender gets a cluster of its own, all of them on this machine and at the same time.
What is printed are means over the seeds. One run differs from the next, so a single seed says little, and
figures of time need a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.duel import DuelError, curves
from benchmarks.duel.contender import GO, SETTINGS, Contender, Programs, settings_of
from benchmarks.duel.floor import bill, catalog_name, floor
from benchmarks.duel.karpenter_go import VERSION, binary, build_karpenter
from benchmarks.duel.loads import AWS, KWOK, LOADS, SPOT, Script, script
from benchmarks.duel.observation import decisions, later_share, quantile
from benchmarks.duel.report import Figures, table
from karpenter.cloud.catalogs.load import load_catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.duel.observation import Offering

BUILD: Final = Path(__file__).parents[2] / "build" / "duel"
REGION: Final = "us-west-2"
"""Where the embedded AWS is."""

INTERRUPTION: Final = 150
"""Seconds between two spot instances that are taken away."""

_TOLD: Final = 30
"""Seconds between two lines of progress."""


class Duel(NamedTuple):
    """What is played, the same for every seed."""

    load: str
    provider: str
    control_plane: str
    pods: int
    minutes: float
    pace: float
    contenders: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """How long the load lasts."""
        return self.minutes * 60

    def script(self, seed: int) -> Script:
        """Return what users ask for."""
        steps = max(1, math.ceil(self.seconds / self.pace))
        return script(self.load, pods=self.pods, steps=steps, seed=seed)

    def title(self, seeds: Sequence[int]) -> str:
        """Return one line that says what was played."""
        return (
            f"duel: {self.load}, {self.pods:,} pods, a change every {self.pace:g} s for {self.minutes:g} min,"
            f" {self.provider}, {self.control_plane} control plane, seed {', '.join(map(str, seeds))}"
        )


class _Run:
    """One seed: all contenders, side by side."""

    def __init__(self, duel: Duel, seed: int, programs: Programs) -> None:
        self._duel, self._programs, self._seed = duel, programs, seed
        self._script = duel.script(seed)
        self._folder = BUILD / f"{duel.load}-{duel.provider}-{duel.control_plane}-{seed}"
        self._catalog = catalog_name(duel.provider, REGION)
        self._steps: list[float] = []

    def play(self) -> dict[str, Figures]:
        """Return what became of each contender; the curves are written beside the logs."""
        prices = _prices(self._catalog)
        with ExitStack() as stack:
            contenders = [
                stack.enter_context(
                    Contender(
                        name,
                        self._programs,
                        folder=self._folder / name,
                        provider=self._duel.provider,
                        control_plane=self._duel.control_plane,
                        prices=prices,
                    )
                )
                for name in self._duel.contenders
            ]
            self._drive(contenders)
            measured = [(each, *each.usage(), each.planned()) for each in contenders]
        duel = self._duel
        hourly = floor(
            self._script,
            provider=duel.provider,
            catalog=self._catalog,
            karpenter=self._programs.karpenter,
        )
        least = bill(hourly, pace=duel.pace, seconds=duel.seconds)
        samples = {each.name: each.observation.samples for each in contenders}
        picture = self._folder / "curves.svg"
        picture.write_text(curves.svg(duel.title([self._seed]), samples, hourly, duel.pace), "utf-8")
        print(f"curves: {picture}", file=sys.stderr)
        return {
            each.name: self._figures(each, least, processor, memory, planned)
            for each, processor, memory, planned in measured
        }

    def _drive(self, contenders: Sequence[Contender]) -> None:
        fates = {each.name: random.Random(self._seed) for each in contenders}  # noqa: S311  chance that can be repeated
        for each in contenders:
            each.begin()
        duel, done, interrupted, told = self._duel, 0, 0, 0
        begun = time.monotonic()
        while (at := time.monotonic() - begun) < duel.seconds:
            if done < len(self._script.steps) and at >= done * duel.pace:
                self._steps.append(time.time())
                objects = self._script.changes(done)
                _all_at_once([partial(each.apply, objects) for each in contenders])
                done += 1
            if duel.load == SPOT and at >= (interrupted + 1) * INTERRUPTION:
                _all_at_once([partial(each.interrupt, fates[each.name]) for each in contenders])
                interrupted += 1
            at = time.monotonic() - begun
            seen = {each.name: each.sample(at) for each in contenders}
            if at >= told * _TOLD:
                told += 1
                states = (
                    f"{name}: {now.nodes} nodes, ${now.hourly:.2f}/h, {now.waiting} of {now.pods} pods wait"
                    for name, now in seen.items()
                )
                print(f"seed {self._seed}, {at:4.0f} s  {'; '.join(states)}", file=sys.stderr, flush=True)
            time.sleep(1)

    def _figures(
        self, contender: Contender, least: float, processor: float, memory: float, planned: float
    ) -> Figures:
        seen = contender.observation
        with contender.log.open(encoding="utf-8", errors="replace") as log:
            made = decisions(log)
        return Figures(
            bill=seen.bill,
            floor=least,
            bought=seen.bought,
            replaced=seen.created - self._script.asked(),
            p50=quantile(seen.until_running, 0.5),
            p99=quantile(seen.until_running, 0.99),
            processor=processor,
            memory=memory,
            planned=planned,
            later=later_share(made, self._steps),
            waiting=seen.samples[-1].waiting,
        )


def _all_at_once(calls: Sequence[Callable[[], None]]) -> None:
    """Make all calls at the same moment; the first failure is raised."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for made in [pool.submit(call) for call in calls]:
            made.result()


def _prices(catalog: str) -> dict[Offering, float]:
    return {
        (kind.name, offering.zone, offering.capacity_type): offering.price
        for kind in load_catalog(catalog).types
        for offering in kind.offerings
    }


def _contenders(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        try:
            settings_of(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.duel", description=__doc__)
    parser.add_argument("--load", choices=LOADS, default="wave", help="how replicas change")
    parser.add_argument("--provider", choices=(KWOK, AWS), default=KWOK)
    parser.add_argument("--control-plane", choices=("embedded", "real"), default="embedded")
    parser.add_argument("--pods", type=int, default=300, help="at most")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pace", type=float, default=60, metavar="SECONDS", help="between two changes")
    parser.add_argument("--seed", type=int, nargs="+", action="extend", help="one run each; the default is 1")
    names = f"{', '.join(SETTINGS)}, or SETTING=VALUE+SETTING=VALUE of our operator"
    parser.add_argument(
        "--contenders", type=_contenders, default=("go", "default"), metavar="NAMES", help=f"of {names}"
    )
    parser.add_argument(
        "--go", type=Path, metavar="FILE", help=f"a Karpenter {VERSION} that was built before"
    )
    return parser


def _skipped(duel: Duel, built: Path) -> str:
    """Return why there can be no duel here; empty if there can."""
    if shutil.which("kubectl") is None:
        return "there is no kubectl on this machine; hint: `make controlplane` builds one"
    if not Path("/proc/self/stat").exists():
        return "this machine has no /proc, from which processor time and memory of the operators are read"
    if GO in duel.contenders and not built.exists() and shutil.which("go") is None:
        return "there is no Go on this machine to build Karpenter with; hint: leave go out of --contenders"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play and print; 0 also where a duel is not possible, 1 if it broke off."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.load == SPOT and chosen.provider != AWS:
        parser.error("--load spot takes spot instances away, which needs AWS; hint: add --provider aws")
    if min(chosen.pods, chosen.minutes, chosen.pace) <= 0:
        parser.error("--pods, --minutes and --pace must be more than 0")
    seeds: list[int] = chosen.seed or [1]
    duel = Duel(
        chosen.load,
        chosen.provider,
        chosen.control_plane,
        chosen.pods,
        chosen.minutes,
        chosen.pace,
        chosen.contenders,
    )
    built: Path = chosen.go or binary(duel.provider, BUILD)
    reason = _skipped(duel, built)
    if reason:
        print(f"duel: skipped, {reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that clusters and operators end, too
    found: dict[str, list[Figures]] = {name: [] for name in duel.contenders}
    try:
        if GO in duel.contenders and not built.exists():
            print(f"duel: building Karpenter in Go {VERSION}, which takes minutes", file=sys.stderr)
            build_karpenter(duel.provider, BUILD, shutil.which("go") or "")
        karpenter = str(Path(sys.executable).with_name("karpenter"))
        programs = Programs(karpenter, shutil.which("kubectl") or "", built.resolve())
        for seed in seeds:
            for name, figures in _Run(duel, seed, programs).play().items():
                found[name].append(figures)
    except DuelError as error:
        print(f"duel: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("duel: interrupted; clusters and operators have ended", file=sys.stderr)
        return 130
    notes = (
        "figures are means over the seeds; ratios are those of the means",
        "floor: the plan for the pods that exist at every step, with pods moved freely and at once",
        "later decisions: NodeClaims that were not created by the first decision after a change",
    )
    print(table(duel.title(seeds), found, notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
