"""Waits grow to their cap, and jitter only lengthens them."""

from random import Random

import pytest

from karpenter.base.queue import Backoff


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311  jitter is no secret


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param(0, 0.1, id="no failure yet waits like the first"),
        pytest.param(1, 0.1, id="the first failure waits the first wait"),
        pytest.param(2, 0.2, id="each further failure doubles it"),
        pytest.param(5, 1.6, id="and so on"),
        pytest.param(8, 10.0, id="up to the cap"),
        pytest.param(10_000, 10.0, id="a very long row of failures stays at the cap"),
    ],
)
def test_delay(failures: int, expected: float) -> None:
    """The wait doubles with each failure in a row, up to the cap."""
    assert Backoff(first=0.1, cap=10.0).delay(failures) == pytest.approx(expected)


def test_the_factor_may_be_other_than_two() -> None:
    """The growth is a parameter."""
    assert Backoff(first=1.0, cap=100.0, factor=3.0).delay(3) == 9.0


def test_jitter_stays_within_its_share() -> None:
    """A jittered wait is at least the plain one and at most its share longer."""
    backoff = Backoff(first=1.0, cap=8.0, jitter=0.5)
    chance = seeded(1)

    waits = [backoff.delay(2, chance) for _ in range(200)]

    assert min(waits) >= 2.0
    assert max(waits) < 3.0
    assert len(set(waits)) > 100


def test_the_same_seed_gives_the_same_waits() -> None:
    """Chance is an argument, so a simulation repeats itself."""
    backoff = Backoff(first=1.0, cap=8.0, jitter=0.5)

    first, second = seeded(7), seeded(7)

    assert [backoff.delay(n, first) for n in range(9)] == [backoff.delay(n, second) for n in range(9)]
