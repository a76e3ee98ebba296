"""``karpenter replay``: every decision of a flight record, made again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from karpenter import __version__
from karpenter.base.files import bounded_lines
from karpenter.cli.errors import CommandError, note, telling
from karpenter.cli.files import files_option, one_path
from karpenter.cli.output import FORMS, Output, output_option_with, table
from karpenter.replay.record import Unreadable
from karpenter.replay.replay import Replay, Replayed

_SHOWN_DIFFERENCES = 5
_SHOWN_TEXT = 60


@click.command(
    epilog="Examples:\n\n"
    "  karpenter run --flight-record flight.jsonl\n\n"
    "  karpenter replay flight.jsonl\n\n"
    "  karpenter replay flight.jsonl.1 --output json\n\n"
    "  karpenter replay flight.jsonl --output html > incident.html",
)
@files_option(text="The record", metavar="FILE")
@output_option_with(*FORMS, "html")
@telling("making the decisions again")
def replay(paths: tuple[str, ...], output: Output) -> None:
    """
    Make every decision of a flight record again, and say whether it comes out the same.

    FILE is what `karpenter run --flight-record FILE` has written. Nothing is asked of any cluster or cloud.
    With -o html the record is one page with a slider through time, to attach to an incident.

    Exits 0 when every decision comes out the same, 1 when one does not, 2 when the file is no record.
    """
    file, player = Path(one_path(paths, "a record")), Replay()
    try:
        with file.open("rb") as lines:
            found = list(player.run(bounded_lines(lines, name=str(file))))
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from error
    except Unreadable as error:
        raise CommandError(f"{file}: {error}") from error
    if player.torn:
        note("note: the last line is not whole; the operator ended while it wrote")
    if player.version != __version__:
        note(f"note: the record is of version {player.version}, this is {__version__}")
    if output.form == "html":
        from karpenter.cli.console import record_page  # noqa: PLC0415  only html needs it

        click.echo(record_page(file, None), nl=False)
    else:
        output.write(found, text=_text)
    sys.exit(1 if any(each.result == "different" for each in found) else 0)


def _text(found: list[Replayed]) -> str:
    rows = [("NUMBER", "TIME", "QUESTION", "RESULT", "DECIDED")]
    rows += [
        (str(each.number), f"{each.at:%Y-%m-%dT%H:%M:%SZ}", each.question, each.result, each.summary)
        for each in found
    ]
    counts = {result: sum(each.result == result for each in found) for result in ("same", "different")}
    cut = len(found) - sum(counts.values())
    total = f"{len(found)} decisions: {counts['same']} the same, {counts['different']} different"
    total += f", {cut} cut short by time" if cut else ""
    told = [line for each in found if each.result == "different" for line in _differences(each)]
    return "\n".join([table(rows), *told, "", total])


def _differences(each: Replayed) -> list[str]:
    shown = each.differences[:_SHOWN_DIFFERENCES]
    lines = ["", f"Decision {each.number}:"]
    lines += [f"  {one.place}: was {_short(one.recorded)}, is {_short(one.replayed)} now" for one in shown]
    left = len(each.differences) - len(shown)
    return [*lines, f"  and {left} more"] if left else lines


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"
