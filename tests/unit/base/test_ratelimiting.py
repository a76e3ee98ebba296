"""A bucket lets a burst through, then its rate, in order."""

import asyncio

import pytest

from karpenter.base.ratelimiting import TokenBucket, Unlimited


async def test_a_burst_goes_through_at_once() -> None:
    """As many tokens as the burst are there from the start, and not one more."""
    bucket = TokenBucket(rate=5, burst=10)

    assert [bucket.try_take() for _ in range(11)] == [True] * 10 + [False]


async def test_tokens_come_back_at_the_rate() -> None:
    """After the burst, tokens come at the rate."""
    bucket = TokenBucket(rate=5, burst=10)
    while bucket.try_take():
        pass

    await asyncio.sleep(0.41)

    assert [bucket.try_take() for _ in range(3)] == [True, True, False]


async def test_a_server_in_the_same_process_needs_no_limit() -> None:
    """Every token is there at once, however many were taken."""
    bucket = Unlimited()
    for _ in range(1000):
        await bucket.take()
    began = asyncio.get_running_loop().time()
    bucket.give_back()

    assert bucket.reserve() == 0.0
    assert bucket.try_take()
    await bucket.take()
    assert asyncio.get_running_loop().time() == began


async def test_a_rest_never_fills_past_the_burst() -> None:
    """A long rest does not save up more than the burst."""
    bucket = TokenBucket(rate=5, burst=3)
    bucket.try_take()

    await asyncio.sleep(3600)

    assert [bucket.try_take() for _ in range(4)] == [True, True, True, False]


async def test_waiters_are_served_in_order_at_the_rate() -> None:
    """Takers past the burst wait their turn, in the order they came."""
    bucket = TokenBucket(rate=2, burst=1)
    loop = asyncio.get_running_loop()
    served: list[tuple[int, float]] = []

    async def taker(number: int) -> None:
        await bucket.take()
        served.append((number, loop.time()))

    await asyncio.gather(*(taker(number) for number in range(4)))

    assert served == [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.5)]


async def test_a_token_that_is_given_back_is_there_for_the_next() -> None:
    """A token that was taken in vain does not use up the rate."""
    bucket = TokenBucket(rate=1, burst=1)
    await bucket.take()
    bucket.give_back()

    assert [bucket.try_take() for _ in range(2)] == [True, False]


async def test_a_cancelled_waiter_gives_its_token_back() -> None:
    """Whoever gives up waiting does not use up the rate of others."""
    bucket = TokenBucket(rate=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0.5)
    waiter.cancel()
    await asyncio.wait([waiter])

    assert bucket.reserve() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("rate", "burst"),
    [pytest.param(0.0, 1.0, id="no rate"), pytest.param(1.0, 0.5, id="no room for one token")],
)
def test_a_bucket_that_could_never_give_is_refused(rate: float, burst: float) -> None:
    """A bucket from which nothing can ever be taken is a mistake in its settings."""
    with pytest.raises(ValueError, match="a bucket needs a rate above 0"):
        TokenBucket(rate=rate, burst=burst)
