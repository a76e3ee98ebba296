"""Draw the picture of the README: the demo's screen at the moment when all ten pods run."""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING

import structlog
from rich.console import Console

from karpenter_local.demo.scenes import Outcome, perform
from karpenter_local.demo.screen import Screen, frame
from karpenter_local.demo.stage import Stage
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from rich.console import Group


async def _frame() -> Group:
    """Return the screen when the scene with ten pods has come true."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    screen = Screen(Console(quiet=True))
    last: Group | None = None
    async with Stage() as stage:
        async for found in perform(stage):
            if isinstance(found, Outcome):
                if found.picture.running:
                    break
                continue
            scene, picture = found
            screen.show(scene, picture, await stage.events())
            last = frame(screen, scene, picture)
    assert last is not None
    return last


def main() -> None:
    """Write the picture to the file that is named."""
    console = Console(record=True, width=118, force_terminal=True, file=io.StringIO())
    console.print(run_virtual(_frame()))
    console.save_svg(sys.argv[1], title="karpenter demo")


if __name__ == "__main__":
    main()
