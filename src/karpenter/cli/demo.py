"""``karpenter demo``: the product on a laptop, with no cluster and no cloud account."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from karpenter.cli.tour.scenes import Outcome, Picture, Scene


@click.command(epilog="Examples:\n\n  karpenter demo\n\n  karpenter demo --speed 0")
@click.option(
    "--speed",
    type=click.FloatRange(min=0.0),
    default=4.0,
    show_default=True,
    help="How many times faster than real time; 0 is as fast as the machine can.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Chance of the simulated world.")
def demo(speed: float, seed: int) -> None:
    """
    Show machines coming and going for pods, with no cluster and no cloud account.

    Starts an embedded cluster, a cloud in memory and the operator, all in this process; applies
    a NodePool and a Deployment, scales it 0 → 10 → 5 → 0, and shows machines being chosen,
    launched, joined, filled, replaced and removed, with the reason for each decision.

    Exits 0 only if everything that should happen did.
    """
    from karpenter.base.aio.virtual import run_virtual  # noqa: PLC0415  help must answer at once

    outcomes = run_virtual(_tour(speed, seed))
    sys.exit(0 if all(outcome.held for outcome in outcomes) else 1)


async def _tour(speed: float, seed: int) -> list[Outcome]:
    import structlog  # noqa: PLC0415  as above
    from rich.console import Console  # noqa: PLC0415  as above

    from karpenter.cli.tour.scenes import Outcome, perform  # noqa: PLC0415  as above
    from karpenter.cli.tour.screen import Screen, summary  # noqa: PLC0415  as above
    from karpenter.cli.tour.stage import Stage  # noqa: PLC0415  as above

    # The screen tells the story; the operator's own log would only get in its way.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = Console(highlight=False)
    outcomes: list[Outcome] = []
    current: Scene | None = None
    pace = _Pace(speed)
    async with Stage(seed=seed) as stage:
        with Screen(console) as screen:
            async for found in perform(stage):
                if isinstance(found, Outcome):
                    outcomes.append(found)
                    continue
                scene, picture = found
                if scene is not current:
                    current = scene
                    screen.scene(scene)
                screen.show(scene, picture, await stage.events())
                pace.keep(picture)
        console.print(summary(outcomes))
    return outcomes


class _Pace:
    """Lets real time pass beside the demo's own."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._start = time.monotonic()

    def keep(self, picture: Picture) -> None:
        """Wait until as much real time has passed as the picture is old."""
        if self._speed:
            ahead = picture.seconds / self._speed - (time.monotonic() - self._start)
            if ahead > 0:
                time.sleep(ahead)  # everything waits with us: the demo's time only passes when we let it
