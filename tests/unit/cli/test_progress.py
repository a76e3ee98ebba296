"""Work that takes long says what it does."""

from __future__ import annotations

import inspect
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import click
import pytest

from karpenter.cli.errors import progress, telling
from karpenter.cli.manual import manuals
from tests.docs.commands import every_command  # noqa: F401  a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG: Final = 30.0

OTHERWISE: Final = {
    "karpenter completion": "prints a script",
    "karpenter crds": "prints files of the product",
    "karpenter definition schema": "prints a schema of the product",
    "karpenter demo": "is a screen, which says that it starts",
    "karpenter local": "says what it starts, and asks servers of this machine one question each",
    "karpenter run": "logs",
    "karpenter simulate": "counts runs on standard error",
    "karpenter version": "prints a line",
}
"""Commands that need no progress, or have their own, with all below them."""


def until(condition: Callable[[], bool]) -> None:
    ends = monotonic() + _LONG
    while not condition():
        assert monotonic() < ends
        sleep(0.005)


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """What is over before people wonder says nothing."""
    with progress(patience=_LONG) as doing:
        doing("reading the cluster")

    assert capsys.readouterr() == ("", "")


def test_long_work_says_what_it_does_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has the step of the moment and the seconds so far, on standard error, though it is a pipe."""
    said: list[str] = []

    def told(step: str) -> Callable[[], bool]:
        def look() -> bool:
            out, err = capsys.readouterr()
            assert out == ""
            said.extend(err.splitlines())
            return sum(line.startswith(f"{step} (") for line in said) > 1

        return look

    with progress("reading the cluster", patience=0.01, every=0.02) as doing:
        until(told("reading the cluster"))
        doing("deciding about 3 pods")
        until(told("deciding about 3 pods"))


def test_an_error_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What fails is not said to go on."""
    with pytest.raises(ValueError, match="bad"), progress(patience=0.01, every=0.01):
        raise ValueError("bad")
    capsys.readouterr()
    sleep(0.03)

    assert capsys.readouterr() == ("", "")


def test_a_command_tells_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The decorated function of a command returns what it returns, and is told of while it works."""
    monkeypatch.setattr("karpenter.cli.errors.PATIENCE", 0.01)
    said: list[str] = []

    def told() -> bool:
        said.extend(capsys.readouterr().err.splitlines())
        return bool(said)

    @telling("converting")
    def work(number: int) -> int:
        until(told)
        return number

    assert work(3) == 3
    assert said[0].startswith("converting (")


@pytest.mark.usefixtures("every_command")
def test_every_command_tells_what_takes_long() -> None:
    """A command is decorated, tells within its module, or is listed above with the reason."""
    silent = [
        manual.title
        for manual in manuals()
        if not isinstance(manual.command, click.Group)
        and not any(f"{manual.title} ".startswith(f"{each} ") for each in OTHERWISE)
        and not _tells(manual.command)
    ]

    assert silent == []


def _tells(command: click.Command) -> bool:
    assert command.callback is not None
    module = inspect.getmodule(inspect.unwrap(command.callback))
    assert module is not None
    is_decorated = hasattr(command.callback, "__wrapped__")
    return is_decorated or "with progress(" in inspect.getsource(module)
