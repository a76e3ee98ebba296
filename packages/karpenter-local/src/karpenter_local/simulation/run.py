"""
Living one script to its end: things are asked for and go wrong, then all is well, then everything must rest.

Rest is what every rule that looks at the whole agrees on. It has to come within the patience that the longest
timeouts of the operator ask for, and it has to last for a while.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.apply import grant
from karpenter_local.simulation.faults import Mishap
from karpenter_local.simulation.inject import Fate
from karpenter_local.simulation.invariants.registry import all_rules
from karpenter_local.simulation.invariants.rule import Ledger, Violation
from karpenter_local.simulation.kwok import KwokSky
from karpenter_local.simulation.timeline import Timeline, caught
from karpenter_local.simulation.world import World
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cloud import Sky
    from karpenter_local.simulation.invariants.rule import Rule
    from karpenter_local.simulation.script import Provider, Script

PATIENCE: Final = 3600.0
"""Seconds within which everything must have come to rest."""

_LOOK: Final = 20.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a life."""

    seed: int
    violations: tuple[Violation, ...]
    digest: str
    """Every write that was made, as one number."""

    writes: int
    seconds: float
    """How long the life was, in its own time."""

    machines: int
    """How many machines were launched."""

    timeline: tuple[str, ...] = ()


class Life:
    """One script being played."""

    def __init__(self, script: Script, *, settings: Mapping[str, str], narrate: bool) -> None:
        self.script = script
        self.world = World(
            seed=script.seed,
            machines=script.machines,
            settings=settings,
            heard=self._called,
            sky=sky_of(script.provider),
        )
        self.ledger = Ledger(self.world.clock)
        self.timeline = Timeline(self.world, narrate=narrate)
        self.rules: list[Rule] = [
            *all_rules(self.world, self.ledger),
            *self.world.sky.rules(self.ledger),
        ]
        for rule in self.rules:
            self.world.mirror.subscribe(rule.wrote)

    async def live(self) -> Outcome:
        """Play the script; the first violation ends it."""
        async with self.world:
            fate = Fate(self.world)
            self.world.start()
            try:
                await self._play(fate)
            finally:
                await fate.close()
            return self._outcome()

    def logged(self, level: str, event: str, facts: str) -> None:
        """Take note of what was logged."""
        self.timeline.logged(event, facts)
        if level in {"error", "critical", "exception"}:
            self.ledger.write("health", f"{event} {facts}")

    async def _play(self, fate: Fate) -> None:
        for step in self.script.steps:
            if not await self._wait_until(step.at):
                return
            self.timeline.step(step)
            if isinstance(step, Mishap):
                fate.strike(step)
            else:
                await grant(self.world, step)
        if not await self._wait_until(self.script.seconds):
            return
        fate.relent()
        self.timeline.note("all is well from now on")
        await self._rest()

    async def _rest(self) -> None:
        ends = self.world.clock.monotonic() + PATIENCE
        while unrest := [(rule.name, each) for rule in self.rules for each in rule.unrest()]:
            now = self.world.clock.monotonic()
            if now >= ends:
                for name, each in unrest:
                    self.ledger.write(name, f"{each}, and it does not end")
                return
            if not await self._wait_until(now + _LOOK):
                return

    async def _wait_until(self, moment: float) -> bool:
        """Let time pass; return whether nothing was violated meanwhile."""
        wait = moment - self.world.clock.monotonic()
        if wait > 0 and not self.ledger.violations:
            try:
                async with asyncio.timeout(wait):
                    await self.ledger.violated.wait()
            except TimeoutError:
                return True
        return not self.ledger.violations

    def _called(self, request: Request, response: Response) -> None:
        self.timeline.called(request, response)
        for rule in self.rules:
            rule.called(request, response)

    def _outcome(self) -> Outcome:
        return Outcome(
            seed=self.script.seed,
            violations=tuple(self.ledger.violations),
            digest=self.world.mirror.digest,
            writes=self.world.mirror.writes,
            seconds=self.world.clock.monotonic(),
            machines=self.timeline.launched,
            timeline=tuple(self.timeline.lines),
        )


def sky_of(provider: Provider) -> Callable[[World], Sky]:
    """Return what makes the cloud of a provider."""
    if provider == "aws":
        from karpenter_local.simulation.aws.cloud import AwsSky  # noqa: PLC0415  what it needs may not be installed

        return AwsSky
    return KwokSky


def play(script: Script, *, settings: Mapping[str, str] | None = None, narrate: bool = False) -> Outcome:
    """Live a script in virtual time, and return what came of it."""

    async def main() -> Outcome:
        life = Life(script, settings=script.set_to(settings or {}), narrate=narrate)
        with caught(life.logged, level=logging.INFO if narrate else logging.ERROR):
            return await life.live()

    with few_collections():
        outcome = run_virtual(main())
    if script.provider == "aws":
        gc.collect()  # an account leaves much behind that nothing else finds
    return outcome


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for garbage in cycles less often: a life makes much that lasts, and is over soon."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
