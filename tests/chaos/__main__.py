"""
``python -m tests.chaos --server real --kills 100``: kills, failovers and faults, and what was seen meanwhile.

Prints a table, and exits 1 when anything was seen that should never be.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import click
import structlog

from tests.chaos.faults import OF_OPERATOR, OTHERS, ChaosFault
from tests.chaos.observer import POLL
from tests.chaos.world import ChaosWorld, NotSettled

_MIB = 1024**2


@dataclass
class FaultRow:
    """What is known of one fault."""

    times: int = 0
    violations: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    resident: int = 0
    files: int = 0


def plan(kills: int, others: int) -> list[ChaosFault]:
    """Return the faults in their order: kills, with the others spread evenly among them."""
    killing = [OF_OPERATOR[number % len(OF_OPERATOR)] for number in range(kills)]
    rest = list(OTHERS) * others
    found: list[ChaosFault] = []
    total = len(killing) + len(rest)
    for number in range(total):
        share = len(killing) * (number + 1) // total
        found.append(killing[share - 1] if share > len(killing) * number // total else rest.pop(0))
    return found


async def chaos(server: str, faults: list[ChaosFault], *, ends: float, directory: Path, seed: int) -> int:
    """Let faults happen until they are over or the time is; return how many violations there were."""
    rows: dict[str, FaultRow] = {}
    began = time.monotonic()
    async with ChaosWorld(server, directory, seed=seed) as world:
        _say(f"{server}: first settled after {await world.until_settled():.0f} s")
        for number, fault in enumerate(faults, 1):
            if time.monotonic() > ends:
                _say(f"the time is over: {len(faults) - number + 1} faults are left out")
                break
            if fault.possible(world):
                row = rows.setdefault(fault.name, FaultRow())
                await _round(world, fault, row)
                _say(f"{number}/{len(faults)} {fault.name}: {row.recoveries[-1:] or row.violations[-1:]}")
        final = FaultRow(times=1)
        rows["at the end: all in order, then all gone"] = final
        try:
            await world.until_settled()
            await world.until_in_order()
            final.recoveries.append(await world.empty())
        except (NotSettled, TimeoutError) as error:
            final.violations.append(f"end: {str(error) or type(error).__name__}")
        codes = await world.replicas.stop()
        final.violations += [f"end: a replica exited with {code}" for code in codes if code]
        looks, broken = world.observer.looks, world.proxy.broken
    _print(server, rows, time.monotonic() - began)
    click.echo(f"{looks:,} looks at the cluster, {broken:,} answers broken by the proxy")
    _print_violations(rows)
    return sum(len(row.violations) for row in rows.values())


async def _round(world: ChaosWorld, fault: ChaosFault, row: FaultRow) -> None:
    observer = world.observer
    before = set(observer.violations)
    observer.worst_resident = observer.worst_files = 0
    row.times += 1
    try:
        await world.work()
        await fault.happen(world)
        row.recoveries.append(await world.until_settled())
    except (NotSettled, TimeoutError, AssertionError) as error:
        row.violations.append(f"{fault.name}: {str(error) or type(error).__name__}")
    await asyncio.sleep(2 * POLL)
    row.violations += [key for key in observer.violations if key not in before]
    row.resident = max(row.resident, observer.worst_resident)
    row.files = max(row.files, observer.worst_files)


def _print(server: str, rows: dict[str, FaultRow], seconds: float) -> None:
    headers = ("fault", "times", "violations", "worst RSS", "worst fds", "recovery s, median", "worst")
    table = [headers]
    for name, row in rows.items():
        taken = sorted(row.recoveries)
        table.append(
            (
                name,
                str(row.times),
                str(len(row.violations)),
                f"{row.resident / _MIB:.0f} MiB" if row.resident else "-",
                str(row.files or "-"),
                f"{taken[len(taken) // 2]:.1f}" if taken else "-",
                f"{taken[-1]:.1f}" if taken else "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    click.echo(f"\nchaos on the {server} control plane, {seconds / 60:.1f} minutes\n")
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    total = sum(row.times for name, row in rows.items() if name.startswith("kill -9,"))
    faults = sum(row.times for row in rows.values()) - 1  # the end is none
    click.echo(f"\n{total} kills of a leading replica, {faults} faults in all")


def _print_violations(rows: dict[str, FaultRow]) -> None:
    for row in rows.values():
        for each in row.violations:
            click.echo(f"VIOLATION {each}")


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def main() -> int:
    """Read the arguments; 1 when there was a violation."""
    parser = argparse.ArgumentParser("python -m tests.chaos", description=__doc__)
    parser.add_argument("--server", choices=("embedded", "real"), default="embedded")
    parser.add_argument("--kills", type=int, default=100, help="of a leading replica")
    parser.add_argument("--others", type=int, default=2, help="how often each other fault happens")
    parser.add_argument("--minutes", type=float, default=120.0, help="after which no new fault begins")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and of the work")
    parser.add_argument("--only", default="", help="faults whose name contains this, in place of all")
    parser.add_argument("--directory", type=Path, help="where logs and records stay")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the web server logs every answer that the proxy breaks
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    faults = [each for each in plan(chosen.kills, chosen.others) if chosen.only in each.name]
    with tempfile.TemporaryDirectory() as fresh:
        directory = chosen.directory or Path(fresh)
        directory.mkdir(parents=True, exist_ok=True)
        ends = time.monotonic() + chosen.minutes * 60
        found = asyncio.run(chaos(chosen.server, faults, ends=ends, directory=directory, seed=chosen.seed))
        if found and chosen.directory is None:
            kept = shutil.copytree(fresh, Path("build", f"chaos-{chosen.server}"), dirs_exist_ok=True)
            click.echo(f"logs and records: {kept}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
