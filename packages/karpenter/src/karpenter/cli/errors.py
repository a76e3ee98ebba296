"""
Errors of commands: one line per problem on standard error, and the exit code.

Exit codes: 0 success; 1 success with a negative answer; 2 unusable input; 130 interrupted. A line that begins
with ``hint:`` says what helps, where that is known.
"""

from collections.abc import Iterable
from typing import IO, Any

import click

UNUSABLE = 2
"""The exit code for input that cannot be used."""


class CommandError(click.ClickException):
    """The command cannot go on; every problem is a line, and the hint says what helps."""

    exit_code = UNUSABLE

    def __init__(self, *problems: str, hint: str = "") -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the problems and the hint to standard error."""
        for problem in self.problems:
            click.echo(f"error: {one_line(problem)}", file=file, err=file is None)
        if self.hint:
            click.echo(f"hint: {self.hint}", file=file, err=file is None)


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, so that it stays one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def note(text: str) -> None:
    """Write something that is not data to standard error."""
    click.echo(text, err=True)


def notes(texts: Iterable[str]) -> None:
    """Write several lines that are not data to standard error."""
    for text in texts:
        note(text)
