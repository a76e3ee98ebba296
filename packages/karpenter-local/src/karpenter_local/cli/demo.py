"""``karpenter demo``: the product on a laptop, with no cluster and no cloud account."""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

import click

from karpenter.cli.errors import CommandError, note

if TYPE_CHECKING:
    from karpenter_local.demo.scenes import Picture, Scene, SceneResult
    from karpenter_local.sandbox.options import CloudOptions

_SPEEDS = {"kwok": 4.0, "aws": 8.0}
"""How fast time passes by default: machines of AWS take longer to start."""

_TICKS = {"kwok": 0.25, "aws": 1.0}
"""Seconds of the demo's time between two pictures."""


@click.command(
    epilog="Examples:\n\n  karpenter demo\n\n  karpenter demo --speed 0\n\n  karpenter demo --provider aws"
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0.0),
    default=None,
    show_default="4, with aws 8",
    help="How many times faster than real time; 0 is as fast as the machine can.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Chance of the simulated cluster.")
@click.option(
    "--provider",
    type=click.Choice(["kwok", "aws"]),
    default="kwok",
    show_default=True,
    help="Where machines come from: the cloud in memory, or an embedded AWS.",
)
def demo(speed: float | None, seed: int, provider: str) -> None:
    """
    Show machines coming and going for pods, with no cluster and no cloud account.

    Starts an embedded cluster, a cloud in memory and the operator, all in this process; applies
    a NodePool and a Deployment, scales it 0 → 10 → 5 → 0, and shows machines being chosen,
    launched, joined, filled, replaced and removed, with the reason for each decision.

    With the provider aws, the code that talks to AWS in production talks to an AWS on this machine: nodes
    join by the user data that was generated for them, a newer AMI rolls them, and EC2 takes one back.

    Exits 0 only if everything that should happen did.
    """
    note("Starting an embedded cluster and the operator.")
    from karpenter_local.virtual import run_virtual  # noqa: PLC0415  help must answer at once

    usual = _SPEEDS[provider] if speed is None else speed
    results = run_virtual(_run(usual, seed, provider))
    sys.exit(0 if all(result.held for result in results) else 1)


async def _run(speed: float, seed: int, provider: str) -> list[SceneResult]:
    import structlog  # noqa: PLC0415  as above

    from karpenter.top.table import TextConsole  # noqa: PLC0415  as above
    from karpenter_local.demo.scenes import CLUSTER, SceneResult, perform  # noqa: PLC0415  as above
    from karpenter_local.demo.screen import Screen, summary  # noqa: PLC0415  as above
    from karpenter_local.sandbox.sandbox import Sandbox  # noqa: PLC0415  as above

    # The screen shows what happens; the operator's own log would only get in its way.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = TextConsole()
    results: list[SceneResult] = []
    current: Scene | None = None
    cloud, scenes = _aws() if provider == "aws" else _kwok()
    pace = _Pace(speed)
    async with Sandbox(name=CLUSTER, seed=seed, cloud=cloud) as sandbox:
        with Screen(console) as screen:
            async for found in perform(sandbox, scenes, tick=_TICKS[provider]):
                if isinstance(found, SceneResult):
                    results.append(found)
                    continue
                scene, picture = found
                if scene is not current:
                    current = scene
                    screen.scene(scene)
                screen.show(scene, picture, await sandbox.events())
                pace.keep(picture)
        console.print(summary(results, console.width))
    return results


def _kwok() -> tuple[CloudOptions, tuple[Scene, ...]]:
    from karpenter.cloud.kwok import Behaviour  # noqa: PLC0415  as above
    from karpenter_local.demo.scenes import SCENES  # noqa: PLC0415  as above
    from karpenter_local.sandbox.options import KwokOptions  # noqa: PLC0415  as above

    return KwokOptions(behaviour=Behaviour(launch=2.0)), SCENES


def _aws() -> tuple[CloudOptions, tuple[Scene, ...]]:
    from karpenter_local.aws.requirements import NotInstalled, check_needs  # noqa: PLC0415  as above

    try:
        check_needs()
    except NotInstalled as error:
        raise CommandError(str(error), hint=error.hint) from error
    note("Starting the embedded AWS.")
    from karpenter_local.demo.aws import aws_options, aws_scenes  # noqa: PLC0415  only who wants it loads it

    return aws_options(), aws_scenes()


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
