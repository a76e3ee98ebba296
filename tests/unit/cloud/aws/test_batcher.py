"""Requests that are sent together, and values that are cached."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from karpenter.base.batcher import BatchWindow
from karpenter.cloud.aws.batcher import RequestBatcher
from karpenter.cloud.aws.cache import TTLCache
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import virtually

WINDOW = BatchWindow(idle=0.1, longest=1.0, max_items=5)


class Sender:
    """Sends questions together, and notes when."""

    def __init__(self, clock: VirtualClock, *, takes: float = 0.0) -> None:
        self._clock = clock
        self._takes = takes
        self.sent: list[tuple[float, tuple[str, ...]]] = []
        self.measured: list[tuple[float, int]] = []
        self.at_once = self.most_at_once = 0

    async def send(self, questions: Sequence[str]) -> list[str | BaseException]:
        """Answer each question with itself in capitals; refuse one that is bad."""
        self.sent.append((round(self._clock.monotonic(), 3), tuple(questions)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._clock.sleep(self._takes)
        self.at_once -= 1
        if "broken" in questions:
            raise ConnectionError("no answer")
        return [ValueError(each) if each == "bad" else each.upper() for each in questions]

    def batch(self, **more: Any) -> RequestBatcher[str, str]:
        return RequestBatcher(WINDOW, self.send, measure=lambda *noted: self.measured.append(noted), **more)


def together(*times: tuple[float, str], takes: float = 0.0, **more: Any) -> tuple[list[Any], Sender]:
    """Ask questions at their times; return the answers, and how they were sent."""

    async def main(clock: VirtualClock) -> tuple[list[Any], Sender]:
        sender = Sender(clock, takes=takes)
        batch = sender.batch(**more)

        async def ask(after: float, question: str) -> str:
            await clock.sleep(after)
            return await batch.add(question)

        found = await asyncio.gather(*(ask(*each) for each in times), return_exceptions=True)
        return found, sender

    return virtually(main)


@pytest.mark.parametrize(
    ("times", "sent"),
    [
        pytest.param([(0, "a")], [(0.1, ("a",))], id="one waits a moment for others"),
        pytest.param([(0, "a"), (0.05, "b")], [(0.15, ("a", "b"))], id="another one makes it wait again"),
        pytest.param([(0, "a"), (0.2, "b")], [(0.1, ("a",)), (0.3, ("b",))], id="one that comes too late"),
        pytest.param(
            [(number * 0.09, str(number)) for number in range(4)],
            [(0.37, ("0", "1", "2", "3"))],
            id="as long as others come",
        ),
        pytest.param(
            [(0, each) for each in "abcdef"],
            [(0.0, ("a", "b", "c", "d", "e")), (0.1, ("f",))],
            id="until it is full",
        ),
    ],
)
def test_windows(times: list[tuple[float, str]], sent: list[Any]) -> None:
    """A window closes when it is idle, when it is full, or when it was open for its longest time."""
    assert together(*times)[1].sent == sent


def test_a_window_is_not_open_for_ever() -> None:
    """The first request waits for a second at most."""
    window = BatchWindow(idle=0.5, longest=1.0, max_items=100)

    async def main(clock: VirtualClock) -> list[Any]:
        sender = Sender(clock)
        batch: RequestBatcher[str, str] = RequestBatcher(window, sender.send)

        async def ask(number: int) -> None:
            await clock.sleep(number * 0.4)
            await batch.add(str(number))

        await asyncio.gather(*map(ask, range(4)))
        return sender.sent

    assert virtually(main) == [(1.0, ("0", "1", "2")), (1.7, ("3",))]


def test_everyone_gets_an_answer_of_their_own() -> None:
    """In the order of asking."""
    assert together((0, "a"), (0, "b"), (0, "c"))[0] == ["A", "B", "C"]


def test_one_that_is_refused_does_not_spoil_the_others() -> None:
    """An answer may be an error."""
    found, _ = together((0, "a"), (0, "bad"), (0, "c"))

    assert [found[0], type(found[1]), found[2]] == ["A", ValueError, "C"]


def test_a_call_that_fails_fails_for_everyone() -> None:
    """Every caller gets the error."""
    found, _ = together((0, "a"), (0, "broken"))

    assert [type(each) for each in found] == [ConnectionError, ConnectionError]


def test_only_what_is_alike_is_put_together() -> None:
    """Each sort has a call of its own."""
    _, sender = together((0, "a1"), (0, "b1"), (0, "a2"), group_by=lambda question: question[0])

    assert [questions for _, questions in sender.sent] == [("a1", "a2"), ("b1",)]


def test_so_many_calls_at_once_and_no_more() -> None:
    """The others wait."""
    times = [(0.0, f"{number}") for number in range(4)]

    _, sender = together(*times, takes=1.0, group_by=lambda question: question, at_once=2)

    assert (sender.most_at_once, len(sender.sent)) == (2, 4)


def test_what_is_put_together_is_measured() -> None:
    """How long the window was open, and how many came."""
    _, sender = together((0, "a"), (0.05, "b"))

    assert [(round(seconds, 3), size) for seconds, size in sender.measured] == [(0.15, 2)]


def test_a_cancelled_request_is_not_sent() -> None:
    """Their question is not sent, if there is time."""

    async def main(clock: VirtualClock) -> Any:
        sender = Sender(clock)
        batch = sender.batch()
        task = asyncio.ensure_future(batch.add("a"))
        other = asyncio.ensure_future(batch.add("b"))
        await asyncio.sleep(0)
        task.cancel()
        return await other, sender.sent

    assert virtually(main) == ("B", [(0.1, ("b",))])


def test_a_request_that_is_cancelled_later_does_not_affect_the_others() -> None:
    """The result of a cancelled request is dropped."""

    async def main(clock: VirtualClock) -> Any:
        sender = Sender(clock, takes=1.0)
        batch = sender.batch()
        task, other = (asyncio.ensure_future(batch.add(each)) for each in "ab")
        await clock.sleep(0.5)
        task.cancel()
        return await other

    assert virtually(main) == "B"


def test_three_hundred_at_once() -> None:
    """As many calls as the window's size allows."""
    found, sender = together(*((0.0, f"q{number}") for number in range(300)))

    assert len(set(found)) == 300
    assert len(sender.sent) == 60


class TestTTLCache:
    """What was found, remembered for a while."""

    def cached(self, work: Any) -> Any:
        """Run work with a cache of ten seconds, and a finder that counts."""

        async def main(clock: VirtualClock) -> Any:
            cache: TTLCache[str, int] = TTLCache(seconds=10.0, monotonic=clock.monotonic)
            found: list[int] = []

            async def find() -> int:
                await clock.sleep(1.0)
                found.append(len(found) + 1)
                if found[-1] == 99:
                    raise ConnectionError
                return found[-1]

            return await work(cache, find, clock)

        return virtually(main)

    def test_it_is_found_once(self) -> None:
        """And again when the time is over."""

        async def work(cache: TTLCache[str, int], find: Any, clock: VirtualClock) -> list[int]:
            first = [await cache.get("a", find) for _ in range(2)]
            await clock.sleep(10.1)
            return [*first, await cache.get("a", find)]

        assert self.cached(work) == [1, 1, 2]

    def test_those_who_ask_at_once_share_the_search(self) -> None:
        """It is looked for once."""

        async def work(cache: TTLCache[str, int], find: Any, clock: VirtualClock) -> list[int]:
            del clock
            return list(await asyncio.gather(*(cache.get("a", find) for _ in range(5))))

        assert self.cached(work) == [1] * 5

    def test_a_cancelled_caller_does_not_end_the_load(self) -> None:
        """The others still wait for it."""

        async def work(cache: TTLCache[str, int], find: Any, clock: VirtualClock) -> int:
            first = asyncio.ensure_future(cache.get("a", find))
            second = asyncio.ensure_future(cache.get("a", find))
            await clock.sleep(0.5)
            first.cancel()
            return await second

        assert self.cached(work) == 1

    def test_what_cannot_be_found_is_looked_for_again(self) -> None:
        """An error is not remembered."""

        async def work(cache: TTLCache[str, int], find: Any, clock: VirtualClock) -> int:
            del clock

            async def fail() -> int:
                raise ConnectionError

            with pytest.raises(ConnectionError):
                await cache.get("a", fail)
            found: int = await cache.get("a", find)
            return found

        assert self.cached(work) == 1

    def test_it_can_be_looked_at_put_and_forgotten(self) -> None:
        """Without looking for anything."""

        async def work(cache: TTLCache[str, int], find: Any, clock: VirtualClock) -> Any:
            del find
            cache.put("a", 1)
            cache.put("b", 2, seconds=100.0)
            before = cache.peek("a")
            await clock.sleep(11.0)
            left = dict(cache.items())
            cache.forget("b")
            return before, cache.peek("a"), left, cache.peek("b")

        assert self.cached(work) == (1, None, {"b": 2}, None)
