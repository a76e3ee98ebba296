"""Where lives on the embedded AWS take place: its zones, in place of those of made-up clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter_local.simulation.workload import ZONES as ELSEWHERE

if TYPE_CHECKING:
    from karpenter_local.simulation.script import Step

REGION: Final = "us-west-2"
ZONES: Final = tuple(f"{REGION}{each}" for each in "abc")
_HERE: Final = {there: ZONES[number % len(ZONES)] for number, there in enumerate(ELSEWHERE)}


def moved(step: Step) -> Step:
    """Return the same step here."""
    zone = getattr(step, "zone", "")
    return msgspec.structs.replace(step, zone=_HERE[zone]) if zone in _HERE else step
