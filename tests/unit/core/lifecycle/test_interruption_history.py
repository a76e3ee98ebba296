"""How often spot machines were interrupted lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from karpenter.core.lifecycle.interruption import BANDS, HALF_LIFE, InterruptionHistory

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = ("m5.large", "zone-1")


@pytest.mark.parametrize(
    ("running", "band"), [pytest.param(1, 5.0, id="alone"), (5, 0.5), (20, 0.1), (100, 0.05)]
)
def test_one_interruption_counts_by_how_many_were_running(running: int, band: float) -> None:
    """One of a hundred machines says little, the only one says much."""
    found = InterruptionHistory().after(*PLACE, running=running, now=NOW)

    assert found.bands(NOW) == {PLACE: band}


def test_interruptions_are_forgotten() -> None:
    """An interruption counts half after its half-life, and not at all after a season."""
    found = InterruptionHistory().after(*PLACE, running=5, now=NOW)

    assert found.bands(NOW + HALF_LIFE) == {PLACE: 0.15}
    assert found.bands(NOW + timedelta(days=120)) == {}
    assert InterruptionHistory().bands(NOW) == {}


def test_a_rate_is_found_again() -> None:
    """Of ten machines, one interrupted every three days is one interruption per machine and month."""
    history, moment = InterruptionHistory(), NOW
    for _ in range(60):
        moment += timedelta(days=3)
        history = history.after(*PLACE, running=10, now=moment)

    assert history.rates[PLACE] == pytest.approx(1.0, rel=0.15)


def test_there_is_a_worst_band() -> None:
    """More interruptions than the worst band has are the worst band."""
    history = InterruptionHistory()
    for _ in range(20):
        history = history.after(*PLACE, running=1, now=NOW)

    assert history.bands(NOW) == {PLACE: BANDS[-1]}
