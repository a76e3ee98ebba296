"""Draw the picture of the README: the demo's screen at the moment when all ten pods run."""

from __future__ import annotations

import io
import logging
import sys

import structlog
from rich.console import Console, ConsoleDimensions, Group

from karpenter.cloud.kwok import Behaviour
from karpenter_local.demo.scenes import CLUSTER, SceneResult, perform
from karpenter_local.demo.screen import Screen, frame
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

_WIDTH = 118


async def _frame() -> Group:
    """Return the screen when the ten pods of the second scene run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    screen = Screen(Console(quiet=True))
    last: Group | None = None
    cloud = KwokOptions(behaviour=Behaviour(launch=2.0))
    async with Sandbox(name=CLUSTER, cloud=cloud) as sandbox:
        async for found in perform(sandbox):
            if isinstance(found, SceneResult):
                if found.picture.running:
                    break
                continue
            scene, picture = found
            screen.show(scene, picture, await sandbox.events())
            last = frame(screen, scene, picture, ConsoleDimensions(_WIDTH, 30))
    assert last is not None
    return last


def main() -> None:
    """Write the picture to the file that is named."""
    console = Console(record=True, width=_WIDTH, force_terminal=True, file=io.StringIO())
    console.print(run_virtual(_frame()))
    console.save_svg(sys.argv[1], title="karpenter demo")


if __name__ == "__main__":
    main()
