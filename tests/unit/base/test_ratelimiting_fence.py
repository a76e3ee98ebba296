"""Writes pass until the fence's moment; after the first refusal none does."""

from math import inf

import pytest

from karpenter.base.ratelimiting import OPEN, Fence, LeaseNotHeld


class Seconds:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return self.passed


def test_without_a_lease_every_write_passes() -> None:
    """A fence that no election owns is open, at any time."""
    seconds = Seconds()
    fence = Fence(seconds)
    fence.check("PATCH /a")
    seconds.passed = 1e12
    fence.check("PATCH /a")
    OPEN.check("PATCH /a")

    assert not fence.refused


@pytest.mark.parametrize(
    ("until", "now", "passes"),
    [
        pytest.param(10.0, 9.9, True, id="before the moment"),
        pytest.param(10.0, 10.0, False, id="at the moment"),
        pytest.param(10.0, 50.0, False, id="long after it"),
        pytest.param(-inf, 0.0, False, id="closed"),
    ],
)
def test_a_write_passes_until_the_moment(until: float, now: float, passes: bool) -> None:
    """Only the clock decides, and the error names the write."""
    seconds = Seconds()
    fence = Fence(seconds)
    fence.open_until(until)
    seconds.passed = now

    if passes:
        fence.check("DELETE /b")
    else:
        with pytest.raises(LeaseNotHeld, match=r"^DELETE /b: this replica no longer holds the lease"):
            fence.check("DELETE /b")
    assert fence.refused is not passes


def test_a_refusal_is_final_and_told_once() -> None:
    """What was decided in a term that is over is not written in a later one."""
    told: list[str] = []
    fence = Fence(Seconds())
    fence.on_refused = lambda: told.append("refused")
    fence.close()
    for _ in range(2):
        with pytest.raises(LeaseNotHeld):
            fence.check("POST /c")
    fence.open_until(100.0)

    with pytest.raises(LeaseNotHeld):
        fence.check("POST /c")
    assert told == ["refused"]


def test_a_refusal_without_an_election_behind_it() -> None:
    """A fence tells no one unless it is asked to."""
    fence = Fence()
    fence.close()

    with pytest.raises(LeaseNotHeld) as caught:
        fence.check("PUT /d")
    assert caught.value.write == "PUT /d"
