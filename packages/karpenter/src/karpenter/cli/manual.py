"""
The manual of every command, from the commands themselves: man pages, and the page of the reference.

    python -m karpenter.cli.manual packages     # one file per command, for man
    python -m karpenter.cli.manual > docs/reference/commands.md

Man pages are files of the tree, because building a wheel has no libraries to make them with: each
distribution brings those of its commands. Commands of ``karpenter-local`` are there when it is installed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from karpenter import __version__
from karpenter.cli.errors import CommandError
from karpenter.cli.group import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = """\
# Commands

This page is written by `python -m karpenter.cli.manual`; a test fails when it is out of date.
`man karpenter-plan` shows the same where karpenter is installed, `-h` and `--help` show it in the terminal.
Exit codes: 0 success, 1 success with a negative answer, 2 unusable input, 130 interrupted.
141 says that the reader of the output is gone, as a shell reports it of every program.
"""


class CommandManual(msgspec.Struct, frozen=True):
    """One command: what it is called, and its context."""

    path: tuple[str, ...]
    command: click.Command
    context: click.Context

    @property
    def title(self) -> str:
        return " ".join(self.path)

    @property
    def about(self) -> str:
        first = next(iter(self.paragraphs), "")
        return re.split(r"(?<=\.)\s", first)[0]

    @property
    def paragraphs(self) -> list[str]:
        """What its help says, without line breaks."""
        text = re.sub(r"\s*\f.*", "", self.command.help or "", flags=re.DOTALL)
        return [" ".join(each.split()) for each in re.split(r"\n\s*\n", text) if each.strip()]

    @property
    def examples(self) -> list[str]:
        """The commands after "Examples:" in its help."""
        _, found, after = (self.command.epilog or "").partition(":\n")
        if not found:
            return []
        return [each.strip() for each in after.split("\n\n") if each.strip()]

    @property
    def options(self) -> list[tuple[str, str]]:
        """Every option, and what it does; without --help, which every command has."""
        rows = (each.get_help_record(self.context) for each in self.command.params)
        return [row for row in rows if row is not None and row[1]]

    @property
    def below(self) -> list[tuple[str, str]]:
        if not isinstance(self.command, click.Group):
            return []
        if self.command is main:
            return [(name, entry.about) for name, entry in COMMANDS.items()]
        names = self.command.list_commands(self.context)
        found = ((name, self.command.get_command(self.context, name)) for name in names)
        return [(name, each.get_short_help_str(200)) for name, each in found if each is not None]

    @property
    def distribution(self) -> str:
        is_local = len(self.path) > 1 and not COMMANDS[self.path[1]].target
        return "karpenter-local" if is_local else "karpenter"

    @property
    def usage(self) -> str:
        return " ".join((self.title, *self.command.collect_usage_pieces(self.context)))


def manuals(
    command: click.Command = main, name: str = "karpenter", parent: CommandManual | None = None
) -> Iterator[CommandManual]:
    """Yield a command and every command below it that is installed."""
    above = parent.context if parent is not None else None
    context = click.Context(command, info_name=name, parent=above, **command.context_settings)
    found = CommandManual((*(parent.path if parent is not None else ()), name), command, context)
    yield found
    if not isinstance(command, click.Group):
        return
    for each in command.list_commands(context):
        try:
            below = command.get_command(context, each)
        except CommandError:  # of a distribution that is not installed
            continue
        assert below is not None
        yield from manuals(below, each, found)


def man_page(manual: CommandManual) -> str:
    """Return a command as ``man`` reads it: https://man7.org/linux/man-pages/man7/man-pages.7.html."""
    name = "-".join(manual.path)
    lines = [
        f'.TH "{name.upper()}" "1" "" "karpenter {__version__}" "Commands of karpenter"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(manual.about)}",
        ".SH SYNOPSIS",
        _roff(manual.usage),
    ]
    if manual.paragraphs:
        lines += [".SH DESCRIPTION", *(line for each in manual.paragraphs for line in (".PP", _roff(each)))]
    if manual.options:
        lines.append(".SH OPTIONS")
        for option, about in manual.options:
            lines += [".TP", f"\\fB{_roff(option)}\\fR", _roff(about)]
    if manual.below:
        lines.append(".SH COMMANDS")
        for below, about in manual.below:
            lines += [".TP", f"\\fB{_roff(f'{name}-{below}')}\\fR(1)", _roff(about)]
    if manual.examples:
        lines += [".SH EXAMPLES", ".nf"]
        lines += [_roff(each) for each in manual.examples]
        lines.append(".fi")
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Return text with what roff reads as a command escaped; a hyphen stays one that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    ascii_only = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in escaped)
    return f"\\&{ascii_only}" if ascii_only.startswith(".") else ascii_only


def page() -> str:
    return "\n".join([_HEAD, *(line for each in manuals() for line in _section(each))])


def _section(manual: CommandManual) -> Iterator[str]:
    yield f"## {manual.title}\n"
    yield f"```text\n{manual.usage}\n```\n"
    for each in manual.paragraphs:
        yield f"{_plain(each)}\n"
    if manual.options:
        yield "| option | meaning |\n|---|---|"
        for option, about in manual.options:
            yield f"| `{option.replace('|', chr(92) + '|')}` | {_plain(about).replace('|', chr(92) + '|')} |"
        yield ""
    if manual.examples:
        yield "```console"
        yield from (f"$ {each}" for each in manual.examples)
        yield "```\n"


def _plain(text: str) -> str:
    """Return text without what markdown would read as markup."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[").replace("_", "\\_")


def man_pages() -> dict[str, str]:
    """Return every man page by the path of its file within the folder of the distributions."""
    return {f"{each.distribution}/man/man1/{'-'.join(each.path)}.1": man_page(each) for each in manuals()}


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.stdout.write(page())
    for packages in map(Path, sys.argv[1:]):
        for found in packages.glob("*/man/man1/*.1"):
            found.unlink()
        for name, text in man_pages().items():
            (packages / name).parent.mkdir(parents=True, exist_ok=True)
            (packages / name).write_text(text, encoding="utf-8")
