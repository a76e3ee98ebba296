"""A clock that is set by hand."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2025, 6, 1, 12, 0, 0, 7000, tzinfo=UTC)


class HandClock:
    """Shows noon, and whatever a test adds to it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        """Return the time that the test has set."""
        return NOON + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def boottime(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
