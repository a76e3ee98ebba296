"""
Plants every bug, one after the other, and looks whether the simulation finds it: ``make planted``.

    python -m tests.planted [--part K/N] [--jobs N] [NAME...]

Prints a table: the bug, which rule found it, after how many runs. Exits 1 when fewer than nine of ten bugs
are found by a rule that is meant to find them, or when a bug does not fit the source any longer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tests.planted.bugs import BUGS
from tests.planted.hunt import Finding
from tests.planted.plant import PlantedBug, PlantError, environment, place_of, plant

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARE: Final = 0.9
"""The share of bugs that must be found: 36 of 40."""

_SOON: Final = 20
"""Runs within which nearly all bugs have to be found; of a few, more are allowed."""

_LONGEST: Final = 600.0


class Hunted(msgspec.Struct, frozen=True, kw_only=True):
    """A bug, and what became of it."""

    bug: PlantedBug
    finding: Finding
    problem: str = ""

    @property
    def is_found(self) -> bool:
        """Whether a rule that is meant to find it did."""
        return bool({self.finding.rule, *self.finding.others} & set(self.bug.rules))


def hunt(bug: PlantedBug) -> Hunted:
    """Look for a bug in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        path = plant(bug, Path(directory))
        command = [sys.executable, "-m", "tests.planted.hunt", str(bug.runs), bug.provider]
        try:
            done = subprocess.run(  # noqa: S603  the program is ours
                command, env=environment(path), capture_output=True, text=True, check=False, timeout=_LONGEST
            )
        except subprocess.TimeoutExpired:
            stuck = Finding(runs=0, seconds=_LONGEST)
            return Hunted(bug=bug, finding=stuck, problem=f"no end within {_LONGEST:.0f} s")
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        return Hunted(bug=bug, finding=Finding(runs=0, seconds=0.0), problem=last)
    return Hunted(bug=bug, finding=msgspec.json.decode(done.stdout, type=Finding))


def part_of(bugs: Sequence[PlantedBug], part: str) -> list[PlantedBug]:
    """Return the bugs of part K of N; K may be any number, such as the day of the year."""
    wanted, _, count = part.partition("/")
    return [bug for place, bug in enumerate(bugs) if place % int(count) == int(wanted) % int(count)]


def line(hunted: Hunted) -> str:
    bug, found = hunted.bug, hunted.finding
    if hunted.problem:
        by, after = "no answer", hunted.problem
    elif not found.rule:
        by, after = "NOT FOUND", f"{found.runs} runs"
    else:
        by = found.rule if hunted.is_found else f"{found.rule}, not {' or '.join(bug.rules)}"
        after = f"{found.runs} {'run' if found.runs == 1 else 'runs'}"
    return f"{bug.name:<58} {by:<22} {after:>8} {found.seconds:6.1f} s"


def summary(found: Sequence[Hunted]) -> str:
    """Return how many bugs were found, and how many of them soon."""
    count = sum(each.is_found for each in found)
    soon = sum(each.is_found and each.finding.runs <= _SOON for each in found)
    return f"{count} of {len(found)} bugs found, {soon} of them within {_SOON} runs"


def main(arguments: Sequence[str]) -> int:
    """Look for bugs, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Look for planted bugs.")
    parser.add_argument("names", nargs="*", help="parts of the names of bugs; without any, all are taken")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="only every Nth bug, from the Kth on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    given = parser.parse_args(arguments)
    try:
        for bug in BUGS:
            place_of(bug)
    except PlantError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  a command
        return 1
    chosen = [
        bug
        for bug in part_of(BUGS, given.part)
        if not given.names or any(name in bug.name for name in given.names)
    ]
    began, found = time.monotonic(), []
    with ThreadPoolExecutor(given.jobs) as pool:
        for hunted in pool.map(hunt, chosen):
            found.append(hunted)
            print(line(hunted), flush=True)  # noqa: T201  likewise
    count, seconds = sum(each.is_found for each in found), time.monotonic() - began
    print(f"{summary(found)}, in {seconds:.0f} s; {SHARE:.0%} are needed")  # noqa: T201  likewise
    return 0 if count >= SHARE * len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
