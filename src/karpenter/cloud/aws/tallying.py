"""
What came of calls to AWS, attempt by attempt, as the SDK tells it.

The SDK says when a call begins, when each attempt of it is put together, and when that was answered or not.
A call happens in one thread from its beginning to its end, so each thread keeps its own tally.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

NO_ANSWER: Final = "0"
"""What stands for the status of an answer that did not come."""


class Attempt(msgspec.Struct, frozen=True):
    """One time that a call was sent."""

    code: str
    """The status of the answer; 0 without one."""

    seconds: float


class Called(msgspec.Struct, kw_only=True):
    """A call of an operation."""

    service: str
    """As the SDK spells it, such as ``EC2``."""

    action: str
    seconds: float = 0.0
    """From its beginning until its last attempt was over, pauses included."""

    attempts: list[Attempt] = msgspec.field(default_factory=list)

    @property
    def code(self) -> str:
        """The status of the last answer; 0 without one."""
        return self.attempts[-1].code if self.attempts else NO_ANSWER

    @property
    def retries(self) -> int:
        """How often it was sent again."""
        return max(0, len(self.attempts) - 1)


class Tally(threading.local):
    """The calls that this thread has made and nobody has taken note of."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._calls: list[Called] = []
        self._began = self._sent = 0.0

    def follow(self, client: Any) -> None:
        """Keep a tally of what a client of the SDK does."""
        events = client.meta.events
        events.register("before-call", self._call)
        events.register("request-created", self._send)
        events.register("response-received", self._receive)

    def take(self) -> list[Called]:
        """Return the calls of this thread since the last time."""
        taken, self._calls = self._calls, []
        return taken

    def _call(self, model: Any, **_: Any) -> None:
        self._began = self._monotonic()
        self._calls.append(Called(service=model.service_model.service_id, action=model.name))

    def _send(self, **_: Any) -> None:
        self._sent = self._monotonic()

    def _receive(self, response_dict: dict[str, Any] | None = None, **_: Any) -> None:
        if not self._calls:
            return
        now, called = self._monotonic(), self._calls[-1]
        code = str(response_dict["status_code"]) if response_dict else NO_ANSWER
        called.attempts.append(Attempt(code, now - self._sent))
        called.seconds = now - self._began
