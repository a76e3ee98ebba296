"""The codes of kept nodes, and what follows from each."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from karpenter.core.disruption.codes import DisruptionCode

PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "disruption.md"


def test_a_code_is_its_text_in_json() -> None:
    """Programs that read a plan see words, not an enum."""
    assert msgspec.json.encode([DisruptionCode.NO_SAVING]) == b'["NoSaving"]'
    assert f"{DisruptionCode.NO_SAVING}" == "NoSaving"


@pytest.mark.parametrize("code", [code for code in DisruptionCode if code != DisruptionCode.UNKNOWN])
def test_every_code_is_in_the_documentation(code: DisruptionCode) -> None:
    """A user who meets a code finds it in the table of the concept page."""
    assert f"`{code}`" in PAGE.read_text(encoding="utf-8")


def test_traits() -> None:
    """What passes by itself asks for another decision; what was simulated is not simulated again soon."""
    passing = {code.value for code in DisruptionCode if not code.is_lasting}
    simulated = {code.value for code in DisruptionCode if code.is_simulated}
    quiet = {code.value for code in DisruptionCode if not code.is_announced}

    assert passing == {"NoInstanceTypes", "OutOfTime", "Unknown", "Waiting"}
    assert simulated == {
        "CannotMove",
        "NoPayback",
        "NoSaving",
        "NotBalanced",
        "OnDemandFloor",
        "SpotToSpotDisabled",
        "WouldUndo",
    }
    assert quiet == {"CapacityBuffer", "OutOfTime", "StaticCapacity", "Unknown", "Waiting"}
    assert not DisruptionCode.CANNOT_MOVE.is_about_savings
