"""
The screen of ``karpenter top``: which key does what, and when it is drawn anew.

It is drawn after a key, after the size changed, every few seconds for the ages, and before that when
something changed, at most once a second and so seldom that it takes a twentieth of a core. What is drawn is
in :mod:`.frame`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from karpenter.kube.errors import KubeError
from karpenter.session.catalog import CatalogUnclear
from karpenter.top.frame import VIEWS, TopFrame

if TYPE_CHECKING:
    from textual import events

    from karpenter.top.feed import TopMonitor
    from karpenter.top.snapshot import TopOptions

STARTING: Final = "Starting: reading the cluster..."
_REFRESH: Final = 1.0
_AGES: Final = 5.0
"""Seconds after which everything is drawn anew though nothing but ages changed."""

_SHARE: Final = 0.05
"""The share of a core up to which changes are drawn as soon as they are seen."""

_WHILE_TYPING: Final = frozenset({"end", "back"})
_ALL: Final = 1_000_000


class TopScreen(App[Exception]):
    """The node viewer; what it returns is why it ended by itself, if it did."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS: ClassVar[str] = """
    Screen, #frame { background: ansi_default; color: ansi_default; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "leave"),
        # Before the framework asks whether to quit.
        Binding("ctrl+c", "end", priority=True),
        ("escape", "back"),
        ("left,pageup,h", "turn(-1)"),
        ("right,pagedown,l", "turn(1)"),
        ("home", f"turn(-{_ALL})"),
        ("end", f"turn({_ALL})"),
        # The framework would move the focus with it.
        Binding("tab", "change('next_view')", priority=True),
        ("v", "change('next_view')"),
        *((str(number), f"list({number})") for number in range(1, len(VIEWS) + 1)),
        ("s", "change('next_sort')"),
        ("r", "change('reverse')"),
        ("slash", "filter"),
        ("question_mark", "help"),
    ]

    def __init__(self, monitor: TopMonitor, options: TopOptions) -> None:
        super().__init__(ansi_color=True)
        self.monitor, self.frame = monitor, TopFrame(options)
        self._seen: tuple[object, ...] = ()
        self._drawn_at = self._used_at = 0.0
        self._own_tasks: list[asyncio.Task[None]] = []

    def compose(self) -> ComposeResult:
        yield Static(Text(STARTING), id="frame")

    def on_mount(self) -> None:
        """Begin to read the cluster; the screen is there already."""
        self._own_tasks.append(asyncio.create_task(self._begin()))
        self.set_interval(_REFRESH, self._look)

    async def _begin(self) -> None:
        try:
            await self.monitor.start()
        except (KubeError, CatalogUnclear) as error:
            self.exit(error)
            return
        self.draw()
        while True:
            if await self.monitor.refresh() or await self.monitor.advise():
                self.draw()
            await asyncio.sleep(_REFRESH)

    async def on_unmount(self) -> None:
        for task in self._own_tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.monitor.stop()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self.draw)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys be letters while words are typed; only those that end something still act."""
        del parameters
        return not self.frame.is_typing or action in _WHILE_TYPING

    def on_key(self, event: events.Key) -> None:
        """Take a letter of the words that rows are filtered by."""
        if self.frame.is_typing:
            event.stop()
            self.frame.type(event.key, event.character)
            self.draw()

    def action_leave(self) -> None:
        self.exit()

    def action_end(self) -> None:
        self.exit()

    async def action_back(self) -> None:
        if self.frame.back():
            self.draw()
        else:
            self.exit()

    def action_turn(self, pages: int) -> None:
        self.frame.turn(pages)
        self.draw()

    def action_change(self, what: str) -> None:
        """Change what is listed or how it is sorted."""
        getattr(self.frame, what)()
        self.draw()

    def action_list(self, number: int) -> None:
        """Show one of the lists."""
        self.frame.list_view(number)
        self.draw()

    def action_filter(self) -> None:
        self.frame.is_typing = True
        self.draw()

    def action_help(self) -> None:
        self.frame.is_helping = not self.frame.is_helping
        self.draw()

    def _look(self) -> None:
        """Draw what changed, so seldom that it takes little of a core; ages and all every few seconds."""
        passed, used = time.monotonic() - self._drawn_at, time.thread_time() - self._used_at
        changed = self.monitor.revision != self._seen
        if (changed and used < _SHARE * passed) or passed > _AGES:
            self.draw()

    def draw(self) -> None:
        """Draw the screen anew, unless there is nothing to show yet."""
        if not self.monitor.ready or not self.is_running:
            return
        self._seen = self.monitor.revision
        self._drawn_at, self._used_at = time.monotonic(), time.thread_time()
        snapshot = self.monitor.take(self.frame.options, words=self.frame.words)
        drawn = self.frame.draw(snapshot, self.size.width, self.size.height)
        self.query_one("#frame", Static).update(drawn)


async def show(monitor: TopMonitor, options: TopOptions) -> None:
    """
    Show the screen until people leave it.

    Raises:
        KubeError: the cluster cannot be read.
        CatalogUnclear: the catalogue that was named sells nothing to it.
    """
    if error := await TopScreen(monitor, options).run_async():
        raise error
