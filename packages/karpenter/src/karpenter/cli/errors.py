"""
Errors of commands: one line per problem on standard error, and the exit code.

Work that takes longer than two seconds says what it does, also where standard error is a pipe.

Exit codes: 0 success; 1 success with a negative answer; 2 unusable input; 130 interrupted; 141 the reader of
the output is gone (128 and SIGPIPE, as a shell reports other programs, so that it is not taken for an
answer). A line that begins with ``hint:`` says what helps, where that is known.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import IO, Any, Final, TypeVar, cast

import click

from karpenter.base.text import printable
from karpenter.cli.output import echo

UNUSABLE = 2
"""The exit code for input that cannot be used."""

PATIENCE = 2.0
"""Seconds after which people are told what takes so long."""

_EVERY: Final = 5.0

_AWS_EXTRA: Final = frozenset({"boto3", "botocore"})
"""Modules that the extra ``aws`` brings."""

F = TypeVar("F", bound=Callable[..., Any])


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
            echo(f"error: {one_line(problem)}", file=file, err=file is None)
        if self.hint:
            echo(f"hint: {self.hint}", file=file, err=file is None)


def missing_sdk(error: BaseException | None) -> CommandError | None:
    """Return what a command says when the SDK of AWS is missing; None where another error happened."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] not in _AWS_EXTRA:
        return None
    return CommandError(f"this needs {error.name}, which is not installed here", hint="pip install boto3")


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, so that it stays one line."""
    return " ".join(printable(text).split())


def note(text: str) -> None:
    """Write something that is not data to standard error."""
    echo(text, err=True)


def notes(texts: Iterable[str]) -> None:
    """Write several lines that are not data to standard error."""
    for text in texts:
        note(text)


@contextmanager
def progress(
    step: str = "", *, patience: float | None = None, every: float = _EVERY
) -> Iterator[Callable[[str], None]]:
    """
    Say on standard error what is being done, once that takes long, and again every few seconds.

    What is yielded is called with the name of each step, such as ``reading manifests``; `step` is the first.
    """
    began, done = monotonic(), threading.Event()

    def begin(name: str) -> None:
        nonlocal step
        step = name

    def tell() -> None:
        wait = PATIENCE if patience is None else patience
        while not done.wait(wait):
            note(f"{step} ({monotonic() - began:.0f} s)")
            wait = every

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield begin
    finally:
        done.set()
        teller.join()


def telling(step: str) -> Callable[[F], F]:
    """Return a decorator for the function of a command: what takes long is told under this name."""

    def decorate(function: F) -> F:
        @wraps(function)
        def told(*args: Any, **kwargs: Any) -> Any:
            with progress(step):
                return function(*args, **kwargs)

        return cast("F", told)

    return decorate
