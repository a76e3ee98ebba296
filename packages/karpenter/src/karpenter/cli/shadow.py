"""``karpenter shadow``: what a shadow of this operator would have done beside Karpenter."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Final

import click
import msgspec

from karpenter.base.files import bounded_lines
from karpenter.cli.errors import CommandError, telling
from karpenter.cli.files import files_option, one_path
from karpenter.cli.output import Output, echo, output_option_with, render, table
from karpenter.shadow.report import (
    BadRecord,
    ShadowReport,
    case_lines,
    read_record,
    render_html,
    rows,
    sentence,
    sum_up,
)

RECORD: Final = "karpenter-shadow.jsonl"
"""The record that is read where none is named."""

_WIDTH: Final = 80


@click.group(
    epilog="Example:\n\n"
    "  karpenter run --shadow --shadow-record karpenter-shadow.jsonl\n\n"
    "  karpenter shadow report karpenter-shadow.jsonl"
)
def shadow() -> None:
    """Look at what this operator would have done beside a running Karpenter."""


@shadow.command(
    epilog="Examples:\n\n"
    "  karpenter shadow report karpenter-shadow.jsonl\n\n"
    "  karpenter shadow report -o html karpenter-shadow.jsonl > report.html\n\n"
    "  kubectl exec deploy/karpenter-shadow -- cat /var/shadow/record.jsonl | karpenter shadow report -"
)
@files_option(required=False, text="The record", metavar="FILE|-")
@output_option_with("text", "json", "html")
@telling("summing up the record")
def report(paths: tuple[str, ...], output: Output) -> None:
    """
    Sum up the record of a shadow: money, evictions, waiting pods, and where both sides differ.

    FILE is what `karpenter run --shadow --shadow-record FILE` has written, karpenter-shadow.jsonl
    in this folder by default. A record of several starts is summed up as a whole.

    Exits 0 when the report was made and 2 when the record cannot be used.
    """
    record = one_path(paths or (RECORD,), "a record")
    try:
        found = sum_up(read_record(_lines(record)))
    except BadRecord as error:
        raise CommandError(f"{record}: {error}", hint="karpenter run --shadow writes one") from error
    match output.form:
        case "json":
            click.echo(render({"sentence": sentence(found), **msgspec.to_builtins(found)}, "json"), nl=False)
        case "html":
            click.echo(render_html(found), nl=False)
        case _:
            echo(_text(found))


def _lines(record: str) -> list[bytes]:
    if record == "-":
        return list(bounded_lines(sys.stdin.buffer, name="stdin"))
    try:
        with Path(record).open("rb") as file:
            return list(bounded_lines(file, name=record))
    except OSError as error:
        raise CommandError(
            f"{record}: {error.strerror or error}", hint="name the file of --shadow-record"
        ) from error


def _text(found: ShadowReport) -> str:
    cases = [textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in case_lines(found)]
    begin, end = f"{found.begin:%Y-%m-%d %H:%M}", f"{found.end:%Y-%m-%d %H:%M}"
    return "\n".join(
        [
            textwrap.fill(sentence(found), _WIDTH),
            f"{begin} to {end} UTC, {found.starts} {'start' if found.starts == 1 else 'starts'}",
            "",
            table(rows(found)),
            *(["", "Where we differ:", *cases] if cases else []),
        ]
    )
