"""
Draw the pictures of the guide to ``karpenter top``: ``python -m tools.top_pictures``.

The cluster is that of examples/top, the decisions are those that are made about it, and the last Events are
made up, because files of manifests have none.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from karpenter.cli.planning.decision import decide
from karpenter.cli.planning.input import read_input
from karpenter.operator.options import parse_settings
from karpenter.top.advice import LastDecision, advise
from karpenter.top.feed import StaticFeed, TopMonitor
from karpenter.top.frame import TopFrame
from karpenter.top.snapshot import TopOptions

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SIZES = ((80, 24), (160, 50))
TOLD = (
    (100, "Launched", "nodeclaim/spot-3f212", "Launched: m5.xlarge in us-east-1b, i-009a7c3f212"),
    (103, "Nominated", "pod/api-new-1", "Pod should schedule on nodeclaim/spot-3f212."),
)
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


async def _monitor() -> TopMonitor:
    settings = parse_settings({})
    events = [
        LastDecision(at=NOW - timedelta(seconds=ago), reason=reason, object=about, message=message)
        for ago, reason, about, message in TOLD
    ]
    monitor = TopMonitor(
        StaticFeed(read_input([str(ROOT / "examples" / "top")]).view, events=events),
        lambda view, catalog, now: advise(
            view,
            (found := decide(view, catalog, settings, now, disruption=True)).provisioning,
            found.disruption,
        ),
        clock=lambda: NOW,
    )
    await monitor.start()
    await monitor.advise()
    return monitor


def draw() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    monitor = asyncio.run(_monitor())
    found = {}
    for width, height in SIZES:
        options = TopOptions(resources=("cpu",) if height < 50 else ("cpu", "memory"))  # noqa: PLR2004  the tall one
        frame = TopFrame(options)
        console = Console(
            width=width,
            height=height,
            record=True,
            file=StringIO(),
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(frame.draw(monitor.take(options), width, height))
        svg = console.export_svg(title="karpenter top", theme=MONOKAI, unique_id=f"top-{width}x{height}")
        # A picture loads nothing from elsewhere: the reader's own font for terminals will do.
        found[f"top-{width}x{height}.svg"] = _FONT.sub("", svg)
    return found


if __name__ == "__main__":
    for name, picture in draw().items():
        (ROOT / "docs" / "images" / name).write_text(picture, "utf-8")
