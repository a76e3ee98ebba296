"""Duties of a provider, run by the operator: what fails is tried again, what is due is carried out."""

from collections.abc import Iterable
from typing import Any

from karpenter.cloud.errors import CloudError, CloudUnreachable, Throttled
from karpenter.controllers.provider import USUAL_WAIT, ProviderReconciler, ProviderSingleton
from karpenter.core.effects import Count, Effect, Step

EFFECT = Count(metric="some_total")


class Performed:
    """Notes what it is asked to carry out."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    async def perform(self, effects: Iterable[Effect]) -> None:
        self.effects += effects


class Scripted:
    """A chore and a care that answer from a list."""

    name = "scripted"
    workers = 1
    kinds = ()

    def __init__(self, *answers: Step | CloudError) -> None:
        self._answers = list(answers)

    async def look(self) -> Step:
        answer = self._answers.pop(0)
        if isinstance(answer, CloudError):
            raise answer
        return answer

    def wakes(self, event: Any, before: Any) -> Iterable[str]:
        del event, before
        return ()

    async def reconcile(self, key: str) -> Step:
        assert key == "key"
        return await self.look()


async def test_what_is_due_is_carried_out() -> None:
    """A chore says what is due and when to look again, and does nothing to the cluster itself."""
    performer: Any = Performed()

    wait = await ProviderSingleton(Scripted(Step(effects=(EFFECT,), again=7.0)), performer).look()

    assert (performer.effects, wait) == ([EFFECT], 7.0)


async def test_a_chore_that_does_not_say_is_done_every_minute() -> None:
    """Nobody waits for ever."""
    performer: Any = Performed()

    assert await ProviderSingleton(Scripted(Step()), performer).look() == USUAL_WAIT


async def test_failures_are_waited_for_longer_each_time() -> None:
    """Until it goes well once."""
    performer: Any = Performed()
    error = CloudUnreachable("no answer")
    chore = ProviderSingleton(Scripted(error, error, Step(again=1.0), error), performer)

    assert [await chore.look() for _ in range(4)] == [5.0, 10.0, 1.0, 5.0]


async def test_a_cloud_that_asks_for_patience_gets_it() -> None:
    """It is not asked again before it wants to be."""
    performer: Any = Performed()

    assert await ProviderSingleton(Scripted(Throttled(retry_after=90.0)), performer).look() == 90.0


async def test_one_object_is_looked_after() -> None:
    """What is due for it is carried out, and it is looked at again when that was said."""
    performer: Any = Performed()

    again = await ProviderReconciler(Scripted(Step(effects=(EFFECT,), again=3.0)), performer).reconcile("key")

    assert (performer.effects, again) == ([EFFECT], 3.0)
