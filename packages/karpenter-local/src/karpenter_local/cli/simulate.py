"""``karpenter simulate``: run scenarios in virtual time, inject faults, and check invariants."""

from __future__ import annotations

import re
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click
import msgspec

from karpenter.cli.errors import CommandError
from karpenter.cli.files import named_values
from karpenter.cli.output import Output, output_option_with, render

if TYPE_CHECKING:
    from karpenter_local.simulation.fault_schedule import Severity
    from karpenter_local.simulation.parallel import RunRequest
    from karpenter_local.simulation.run import RunResult
    from karpenter_local.simulation.scenario import Provider, Scenario

_LIVE_SECONDS: Final = 0.1
_PIPED_SECONDS: Final = 5.0
"""Seconds between two lines of progress, on a terminal and elsewhere."""

_BAR_WIDTH: Final = 20
_MINUTES_FROM_SECONDS: Final = 120.0


class _Seeds(click.ParamType[range]):
    """Turns ``7`` or ``1..200`` into seeds."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Refuse what is no number and no range."""
        if isinstance(value, range):
            return value
        first, dots, last = str(value).partition("..")
        try:
            found = range(int(first), int(last if dots else first) + 1)
        except ValueError:
            self.fail(
                f"{value} is no seed; expected a number such as 7, or a range such as 1..200", param, ctx
            )
        if not found:
            self.fail(f"{value} holds no seed: its end is before its beginning", param, ctx)
        return found


@click.command(
    epilog="Examples:\n\n"
    "  karpenter simulate --seed 1..200 --jobs 4\n\n"
    "  karpenter simulate --provider aws --seed 1..20 --faults many\n\n"
    "  karpenter simulate --seed 7 --hours 24 --faults none -o json\n\n"
    "  karpenter simulate --seed 7 --hours 2 --machines 14 --record run.jsonl"
)
@click.option("--seed", "seeds", type=_Seeds(), default="1", show_default=True, help="A seed, or a range.")
@click.option(
    "--provider",
    type=click.Choice(("kwok", "aws")),
    default="kwok",
    show_default=True,
    help="The cloud: one in memory, or the provider of production on an embedded AWS.",
)
@click.option(
    "--hours",
    type=click.FloatRange(min=0.0, min_open=True),
    default=0.1,
    show_default=True,
    help="How long users act and faults are injected in each run.",
)
@click.option(
    "--machines",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="About how many machines a cluster has at its height.",
)
@click.option(
    "--faults",
    type=click.Choice(("none", "some", "many", "dense")),
    default="some",
    show_default=True,
    help="How much goes wrong.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes run seeds at a time.",
)
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="A setting of the operator. May be repeated."
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the run as a flight record, for karpenter console --record; needs one seed.",
)
@click.option(
    "--explain/--no-explain",
    default=True,
    help="Show the shortest scenario that leads to the first violation of each seed.",
)
@output_option_with("text", "json")
def simulate(  # noqa: PLR0917  click hands over options by name
    seeds: range,
    provider: Provider,
    hours: float,
    machines: int,
    faults: Severity,
    jobs: int,
    given: tuple[str, ...],
    record: Path | None,
    explain: bool,
    output: Output,
) -> None:
    """
    Simulate days of a cluster with the whole operator, and check that no invariant is violated.

    Each seed is a run of its own, with workloads that come, grow, shrink and go, and
    with faults: lost watches, failing calls, crashes, machines that never join, zones that
    are sold out. Hours pass in seconds, and the same seed gives the same run, byte for byte.

    With the provider aws, the code that talks to AWS in production talks to an AWS in this
    process, which throttles, times out, loses answers, shows instances late, has only a part
    of what fleets ask for, and delivers messages twice, late, in another order or garbled.

    Exits 0 only if nothing was violated, and shows the shortest scenario of what was.
    """
    from karpenter.operator.options import SettingError  # noqa: PLC0415  help answers at once
    from karpenter_local.simulation.parallel import RunRequest  # noqa: PLC0415  as above
    from karpenter_local.simulation.scenario import generate  # noqa: PLC0415  as above

    if record is not None and len(seeds) > 1:
        raise CommandError(f"--record: is of one run, and --seed names {len(seeds)}", hint="give one seed")
    settings = _settings((*given, f"flight-record={record}") if record is not None else given)
    if provider == "aws":
        _check_aws()
    request = RunRequest(
        hours=hours,
        severity=faults,
        machines=machines,
        provider=provider,
        settings=settings,
        explained=explain,
    )
    try:
        results = _run(seeds, request, jobs=min(jobs, len(seeds)))
        if record is not None:
            scenario = generate(seeds[0], hours=hours, severity=faults, machines=machines, provider=provider)
            try:
                _join_records(record, scenario)
            except OSError as error:
                raise CommandError(f"--record: {record} cannot be written: {error.strerror}") from error
    except SettingError as error:  # it can be read, but not be acted on
        raise CommandError(str(error)) from None
    except BrokenProcessPool:
        raise CommandError(
            "a process that ran seeds was killed", hint="if that was for its memory, fewer --jobs need less"
        ) from None
    if output.form == "json":
        click.echo(render(results, "json"), nl=False)
    else:
        click.echo(_summary(results))
    sys.exit(1 if any(each.violations for each in results) else 0)


_OF_OPERATOR: Final = re.compile(r"\.operator-([0-9]+)(\.1)?$")
"""The record of one operator of a run, or the one before it, which was full."""


def _join_records(file: Path, scenario: Scenario) -> None:
    """Join the records of all operators of a run to one, and add the faults that were injected."""
    from karpenter.replay.record import INJECTED_FAULT, Done  # noqa: PLC0415  as above
    from karpenter_local.simulation.faults import InjectedFault  # noqa: PLC0415  as above
    from karpenter_local.virtual import START  # noqa: PLC0415  as above

    found = {part: _OF_OPERATOR.search(part.name) for part in file.parent.glob(f"{file.name}.operator-*")}
    numbers = {part: (int(name[1]), not name[2]) for part, name in found.items() if name is not None}
    parts = sorted(numbers, key=lambda part: numbers[part])
    with file.open("ab") as joined:
        for part in parts:
            # A crash may leave a line that is not whole, and a record goes on after it with the next one.
            text = part.read_bytes()
            joined.write(text[: text.rfind(b"\n") + 1])
            part.unlink()
        for step in scenario.steps:
            if isinstance(step, InjectedFault):
                at = START + timedelta(seconds=step.at)
                line = Done(at=at, effect=INJECTED_FAULT, about=type(step).__name__, because=str(step))
                joined.write(msgspec.json.encode(line) + b"\n")


def _check_aws() -> None:
    from karpenter_local.aws.requirements import NotInstalled, check_needs  # noqa: PLC0415  as above

    try:
        check_needs()
    except NotInstalled as error:
        raise CommandError(str(error), hint=error.hint) from None


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    from karpenter.operator.options import SettingError, parse_settings  # noqa: PLC0415  as above

    settings = named_values(given)
    try:
        parse_settings(settings)
    except SettingError as error:
        raise CommandError(f"--set: {error}") from None
    return settings


def _run(seeds: range, request: RunRequest, *, jobs: int) -> list[RunResult]:
    """Run every seed, explain what was violated, and return the results in the order of seeds."""
    from karpenter_local.simulation.parallel import run_seeds  # noqa: PLC0415  as above

    results = []
    with RunProgress(len(seeds)) as progress:
        for outcome in run_seeds(seeds, request, jobs=jobs, tried=progress.tried):
            progress.ran(outcome.result)
            if outcome.lines:
                progress.say("\n".join([*outcome.lines, ""]))
            results.append(outcome.result)
    return sorted(results, key=lambda each: each.seed)


class RunProgress:
    """
    One line on standard error: it changes on a terminal, and comes every few seconds elsewhere.

    While it is entered, a thread shows it also when no run ends; when it is left, however that comes about,
    nothing of it stays on a terminal.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._ran = self._counted = 0
        self._violated = 0
        self._tries = 0
        self._began = self._shown = self._ends = time.monotonic()
        self._live = sys.stderr.isatty()
        self._every = _LIVE_SECONDS if self._live else _PIPED_SECONDS
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._shower = threading.Thread(target=self._show_on, daemon=True)

    def __enter__(self) -> Self:
        self._shower.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._shower.join()
        self.clear()

    def _show_on(self) -> None:
        while not self._left.wait(self._every):
            self._show()

    def ran(self, result: RunResult) -> None:
        self._ran += 1
        self._violated += bool(result.violations)
        self._tries = 0
        self._show()

    def tried(self) -> None:
        self._tries += 1
        self._show()

    def say(self, text: str) -> None:
        with self._lock:
            self.clear()
            click.echo(text, err=True)

    def clear(self) -> None:
        if self._live:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _show(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._counted != self._ran:
                self._counted, each = self._ran, (now - self._began) / self._ran
                self._ends = now + each * (self._total - self._ran)
            if now - self._shown > self._every:
                self._shown = now
                start, end = ("\r\x1b[K", "") if self._live else ("", "\n")
                click.echo(f"{start}{self._text(now)}{end}", nl=False, err=True)

    def _text(self, now: float) -> str:
        text = f"{self._ran} of {self._total} runs, {self._violated} with violations"
        if self._tries:
            return f"{text}, looking for a shorter scenario ({self._tries})"
        if self._ran:
            text += f", {_span(max(0.0, self._ends - now))} left"
        done = _BAR_WIDTH * self._ran // self._total
        return f"[{'#' * done}{'.' * (_BAR_WIDTH - done)}] {text}" if self._live else text


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= _MINUTES_FROM_SECONDS else f"{seconds:.0f} s"


def _summary(results: list[RunResult]) -> str:
    bad = [each for each in results if each.violations]
    hours = sum(each.seconds for each in results) / 3600
    lines = [f"seed {each.seed}: {violation}" for each in bad for violation in each.violations[:1]]
    machines = sum(each.machines for each in results)
    lines.append(
        f"{len(results)} {'run' if len(results) == 1 else 'runs'}, {hours:.1f} hours,"
        f" {machines} {'machine' if machines == 1 else 'machines'},"
        f" {sum(each.writes for each in results)} writes, {len(bad)} with violations"
    )
    return "\n".join(lines)
