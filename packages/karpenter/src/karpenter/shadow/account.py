"""
What the real operator and the shadow cost, evict and let wait, side by side, and the record of it.

Money is the price an hour of every machine that exists, integrated over time, whether the machine works yet
or not. Nothing here decides or reads a clock. The record is a file of JSON lines: a line when a shadow
starts, one a minute with the sums since then, and one for every machine that either side launches or
removes. ``karpenter shadow report`` reads it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.stdlib.get_logger(__name__)

Side = Literal["real", "shadow"]
SIDES: Final[tuple[Side, Side]] = ("real", "shadow")
SAMPLE_SECONDS: Final = 60.0
_HOUR_SECONDS: Final = 3600.0


class SideTotals(msgspec.Struct, kw_only=True):
    """Totals of one side since the start."""

    hourly: float = 0.0
    """Dollars an hour, now."""

    machines: int = 0
    cost: float = 0.0
    """Dollars since the start."""

    launched: int = 0
    removed: int = 0
    evicted: int = 0
    placed: int = 0
    """Pods that came after the start and got a node."""

    waited: float = 0.0
    """Seconds that those waited for their node, together."""


class ShadowStarted(msgspec.Struct, frozen=True, kw_only=True, tag="start", tag_field="type"):
    """A shadow has started."""

    at: datetime
    version: str = ""
    settings: dict[str, str] = {}


class ShadowSample(msgspec.Struct, frozen=True, kw_only=True, tag="sample", tag_field="type"):
    """The sums at one moment."""

    at: datetime
    real: SideTotals
    shadow: SideTotals


class ShadowAction(msgspec.Struct, frozen=True, kw_only=True, tag="action", tag_field="type"):
    """A machine that one side has launched or removed."""

    at: datetime
    side: Side
    action: Literal["launch", "remove"]
    machine: str
    pool: str = ""
    offering: str = ""
    """Instance type, zone and capacity type, where they are known."""

    reason: str = ""


RecordLine = ShadowStarted | ShadowSample | ShadowAction


class ShadowAccount:
    """The sums of both sides."""

    def __init__(self, record: Path | None = None) -> None:
        """`record` is the file that lines are appended to."""
        self.real = SideTotals()
        self.shadow = SideTotals()
        self._record = record
        self._integrated: datetime | None = None
        self._sampled: datetime | None = None

    def of(self, side: Side) -> SideTotals:
        return self.real if side == "real" else self.shadow

    def begin(self, started: ShadowStarted) -> None:
        self._integrated = self._sampled = started.at
        self._write(started)

    def integrate(self, now: datetime, real: tuple[float, int], shadow: tuple[float, int]) -> None:
        """Add what has passed since the last call; `real` and `shadow` are dollars an hour, and machines."""
        if self._integrated is not None:
            hours = (now - self._integrated).total_seconds() / _HOUR_SECONDS
            for side in SIDES:
                self.of(side).cost += self.of(side).hourly * hours
        self._integrated = now
        self.real.hourly, self.real.machines = real
        self.shadow.hourly, self.shadow.machines = shadow
        if self._sampled is None or (now - self._sampled).total_seconds() >= SAMPLE_SECONDS:
            self.sample(now)

    def sample(self, now: datetime) -> None:
        self._sampled = now
        self._write(ShadowSample(at=now, real=self.real, shadow=self.shadow))

    def acted(self, action: ShadowAction) -> None:
        totals = self.of(action.side)
        if action.action == "launch":
            totals.launched += 1
        else:
            totals.removed += 1
        self._write(action)

    def evicted(self, side: Side) -> None:
        self.of(side).evicted += 1

    def placed(self, side: Side, seconds: float) -> None:
        """Count a pod that got its node after some seconds."""
        totals = self.of(side)
        totals.placed += 1
        totals.waited += max(seconds, 0.0)

    def _write(self, line: RecordLine) -> None:
        if self._record is None:
            return
        try:
            with self._record.open("ab") as file:
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:  # a full disk must not end the comparison, which metrics show too
            log.warning("shadow.record_ended", file=str(self._record), error=str(error))
            self._record = None
