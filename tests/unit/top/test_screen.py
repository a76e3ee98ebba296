"""The screen, driven by keys without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from textual.binding import Binding, BindingType

from karpenter.kube.errors import NotConfigured
from karpenter.top.feed import StaticFeed, TopMonitor
from karpenter.top.frame import HELP
from karpenter.top.screen import TopScreen
from karpenter.top.snapshot import TopOptions
from tests.unit.top.clusters import NOW, ago, node, view

if TYPE_CHECKING:
    from textual.pilot import Pilot

NODES = view(*(node(f"node-{number}", created=ago(minutes=number)) for number in range(1, 41)))


def _screen(feed: StaticFeed | None = None) -> TopScreen:
    monitor = TopMonitor(feed or StaticFeed(NODES), None, catalog="kwok", clock=lambda: NOW)
    return TopScreen(monitor, TopOptions())


async def _lines(pilot: Pilot[Exception]) -> list[str]:
    await pilot.pause()
    widget = pilot.app.query_one("#frame")
    size = pilot.app.size
    console = Console(width=size.width, height=size.height, color_system=None)
    with console.capture() as caught:
        console.print(widget.content)  # type: ignore[attr-defined]
    return [line.rstrip() for line in caught.get().splitlines()]


async def _started(pilot: Pilot[Exception]) -> None:
    app = pilot.app
    assert isinstance(app, TopScreen)
    while not app.monitor.ready:
        await pilot.pause(0.01)


async def test_keys() -> None:
    """Arrows turn pages, s sorts, tab lists something else, / filters, a new size is drawn, and q ends."""
    screen = _screen()
    async with screen.run_test(size=(80, 24)) as pilot:
        await _started(pilot)
        assert any(line.startswith("node-1 ") for line in await _lines(pilot))
        await pilot.press("right")
        assert not any(line.startswith("node-1 ") for line in await _lines(pilot))
        await pilot.press("h", "s")
        assert "s: name=asc" in (await _lines(pilot))[-1]
        await pilot.press("slash", "q", "backspace", "3", "9", "enter")
        assert [line.split()[0] for line in await _lines(pilot) if line.startswith("node-")] == ["node-39"]
        await pilot.press("escape", "tab")
        assert screen.frame.view == "stays"
        await pilot.press("question_mark")
        assert (await _lines(pilot))[0] == "karpenter top"
        await pilot.press("escape")
        await pilot.resize_terminal(120, 12)
        lines = await _lines(pilot)
        assert max(map(len, lines)) > 80
        assert len(lines) <= 12
        await pilot.press("q")
    assert screen.return_value is None


async def test_ctrl_c_ends_also_while_words_are_typed() -> None:
    """Ctrl-C ends the screen whatever it shows."""
    screen = _screen()
    async with screen.run_test(size=(80, 24)) as pilot:
        await _started(pilot)
        await pilot.press("slash", "x", "ctrl+c")
        await pilot.pause()
    assert not screen.is_running


class _Refusing(StaticFeed):
    async def start(self) -> None:
        raise NotConfigured("no cluster is there")


async def test_a_cluster_that_does_not_answer_ends_the_screen() -> None:
    """What went wrong is told once the terminal is itself again."""
    screen = _screen(_Refusing(NODES))
    async with screen.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
    assert str(screen.return_value) == "no cluster is there"


NAMES = {
    "escape": "esc",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "slash": "/",
    "question_mark": "?",
}


def test_help_lists_every_key() -> None:
    """Each key that does something is in the help."""
    told = {word for keys, _ in HELP for word in keys.split()}
    keys = {key for each in TopScreen.BINDINGS for key in _keys(each)}

    assert {NAMES.get(key, key) for key in keys} <= told


def _keys(binding: BindingType) -> list[str]:
    return (binding.key if isinstance(binding, Binding) else binding[0]).split(",")
