"""
The screen of the demo: machines as bars that fill with pods, the price, and what was decided and why.

On a terminal it is drawn anew several times a second; elsewhere every change is a plain line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from karpenter.cli.planning.data import money
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.top.snapshot import TopOptions
from karpenter.top.table import Cell, FittedColumn, fitted
from karpenter.top.text import node_table

if TYPE_CHECKING:
    from karpenter.api.cluster import Event
    from karpenter_local.demo.scenes import Picture, Scene, SceneResult

_SHOWN_LINES: Final = 12
_SHOWN_REASONS: Final = frozenset(
    {
        "Nominated",
        "DisruptionTerminating",
        "DisruptionLaunching",
        "DisruptionBlocked",
        "Unconsolidatable",
        "ConsolidationCandidate",
        "Evicted",
        "Launched",
        "Registered",
        "Initialized",
    }
)


class Screen:
    """Shows the demo; use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = (
            # On the other screen of the terminal, so that Ctrl-C leaves no trace of it on this one.
            Live(console=console, auto_refresh=False, screen=True) if console.is_terminal else None
        )
        self._lines: list[str] = []
        self._seen: set[str] = set()
        self._last: Picture | None = None

    def __enter__(self) -> Screen:  # noqa: PYI034  never subclassed
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, scene: Scene, picture: Picture, events: list[Event]) -> None:
        """Show the cluster at one moment, and the events since."""
        fresh = [self._line(event, picture.seconds) for event in events if self._is_news(event)]
        self._lines += fresh
        if self._live is not None:
            self._live.update(frame(self, scene, picture, self._console.size), refresh=True)
        else:
            for line in fresh:
                self._console.print(line, highlight=False, soft_wrap=True, markup=False)
            self._changes(picture)
        self._last = picture

    def scene(self, scene: Scene) -> None:
        self._lines.append(f"$ {scene.title}" if scene.title.startswith("kubectl") else f"# {scene.title}")
        if self._live is None:
            self._console.print(self._lines[-1], highlight=False)

    def _is_news(self, event: Event) -> bool:
        key = f"{event.metadata.namespace}/{event.metadata.name}"
        if event.reason not in _SHOWN_REASONS or event.involved_object.kind == "Node" or key in self._seen:
            return False  # what is said of a node is said of its claim as well
        self._seen.add(key)
        return True

    @staticmethod
    def _line(event: Event, seconds: float) -> str:
        about = event.involved_object
        return f"{seconds:6.1f}s  {event.reason:<22} {about.kind.lower()}/{about.name}: {event.message}"

    def _changes(self, picture: Picture) -> None:
        last = self._last
        if last is not None and (last.machines == picture.machines and last.running == picture.running):
            return
        shown = (
            ", ".join(f"{m.kind or '?'} {m.zone} {m.state} {m.cpu:.0%}" for m in picture.machines)
            or "no machines"
        )
        self._console.print(
            f"{picture.seconds:6.1f}s  {picture.running} pods run, {picture.waiting} wait, "
            f"{money(picture.hourly)} an hour: {shown}",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )

    @staticmethod
    def heading(scene: Scene, picture: Picture) -> Panel:
        """Return what happens, and what it costs."""
        text = Text.assemble(
            (scene.title, "bold"),
            f"\n{picture.running} pods run, {picture.waiting} wait    ",
            (f"{money(picture.hourly)} an hour", "bold green"),
            f"  (${picture.hourly * HOURS_A_MONTH:,.2f} a month)    {picture.seconds:.0f} s",
        )
        return Panel(text, title="karpenter demo", title_align="left", box=box.ROUNDED)

    def log(self, lines: int) -> Text:
        return Text("\n".join(self._lines[-lines:]), style="dim", overflow="ellipsis", no_wrap=True)


def frame(screen: Screen, scene: Scene, picture: Picture, size: ConsoleDimensions) -> Group:
    used = 4 + 2 + len(picture.rows)
    log = screen.log(max(min(size.height - used, _SHOWN_LINES), 1))
    return Group(screen.heading(scene, picture), _machines(picture, size.width), Text(""), log)


def _machines(picture: Picture, width: int) -> RenderableType:
    """Return the machines as ``karpenter top`` shows nodes."""
    if not picture.rows or picture.now is None:
        return Text("no machines", style="bright_black")
    return node_table(picture.rows, TopOptions(), width, now=picture.now)


def summary(results: list[SceneResult], width: int) -> RenderableType:
    columns = (
        FittedColumn(),
        FittedColumn(title="expected", least=30),
        FittedColumn(title="took", right=True, drop=1),
        FittedColumn(title="machines", right=True, drop=2),
        FittedColumn(title="$/hour", right=True, drop=1),
    )
    rows: list[list[Cell]] = []
    for each in results:
        mark = Text("✔ held", style="green") if each.held else Text("✘ did not hold", style="red")
        picture = each.picture
        rows.append(
            [
                mark,
                f"{each.scene.title}: {each.scene.expectation}",
                f"{each.took:.0f} s",
                str(len(picture.machines)),
                money(picture.hourly),
            ]
        )
    return fitted(columns, rows, width, title="What happened")
