import logging

from karpenter.telemetry.logging import Sampler
from tests.unit.telemetry.clocks import HandClock


def line(event: str, level: int = logging.INFO) -> logging.LogRecord:
    """Return a record as structlog hands it over."""
    return logging.LogRecord("karpenter", level, __file__, 1, {"event": event}, None, None)


def passed(sampler: Sampler, event: str, times: int, level: int = logging.INFO) -> list[int]:
    """Return which of so many equal lines are let through."""
    return [number for number in range(1, times + 1) if sampler.filter(line(event, level))]


def test_first_hundred_then_every_hundredth() -> None:
    """Within a second the first hundred are written, and every hundredth after that."""
    found = passed(Sampler(HandClock()), "watch.cut", 350)

    assert found == [*range(1, 101), 200, 300]


def test_a_new_second_starts_anew() -> None:
    """The count is per second."""
    clock = HandClock()
    sampler = Sampler(clock)
    passed(sampler, "watch.cut", 1000)
    clock.seconds = 1.0

    assert passed(sampler, "watch.cut", 100) == [*range(1, 101)]


def test_events_and_levels_do_not_silence_each_other() -> None:
    """Each event has a count of its own on each level."""
    sampler = Sampler(HandClock(), first=1, thereafter=1000)
    passed(sampler, "watch.cut", 10)

    assert passed(sampler, "node.joined", 1) == passed(sampler, "watch.cut", 1, logging.ERROR) == [1]


def test_lines_of_libraries_are_counted_by_their_template() -> None:
    """A library's line is the same whatever is filled into it."""
    sampler = Sampler(HandClock(), first=1, thereafter=1000)
    records = [
        logging.LogRecord("aiohttp", logging.INFO, __file__, 1, "lost %s", (peer,), None)
        for peer in ("a", "b")
    ]

    assert [sampler.filter(record) for record in records] == [True, False]
