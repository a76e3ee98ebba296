"""How often spot machines were interrupted lately, and messages about machines of no claim."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from karpenter.core.lifecycle.interruption import BANDS, HALF_LIFE, InterruptionHistory, may_get_claim
from tests.unit.core.lifecycle.objects import claim, launched

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


@pytest.mark.parametrize(
    ("sent", "has_claim_without_machine", "held"),
    [
        pytest.param(timedelta(0), True, True, id="a message of now, and a claim that is being launched"),
        pytest.param(timedelta(0), False, False, id="every claim has its machine"),
        pytest.param(timedelta(seconds=-119), True, True, id="a message that is nearly two minutes old"),
        pytest.param(timedelta(seconds=-120), True, False, id="one that is two minutes old"),
        pytest.param(timedelta(seconds=119), True, True, id="a clock that is behind"),
        pytest.param(timedelta(days=3650), True, False, id="a time far ahead"),
    ],
)
def test_a_machine_may_get_its_claim_soon(
    sent: timedelta, has_claim_without_machine: bool, held: bool
) -> None:
    """A message is looked at again for two minutes, while there is a claim without a provider ID."""
    claims = [launched(), *([claim(name="claim-2")] if has_claim_without_machine else [])]

    assert may_get_claim(claims, at=NOW + sent, now=NOW) is held
