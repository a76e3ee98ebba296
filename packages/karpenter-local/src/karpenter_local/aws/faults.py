"""Faults of API calls, injected on request."""

from __future__ import annotations

from threading import Lock
from typing import TypeAlias

import msgspec


class RefuseCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call is refused, with an error of AWS."""

    code: str
    message: str = "refused on request"
    status: int = 400


class LoseAnswer(msgspec.Struct, frozen=True):
    """The call is carried out, but its answer never arrives, however often it is asked for again."""


Fault: TypeAlias = RefuseCall | LoseAnswer


class PendingFaults:
    """The faults that are to be injected, by operation."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._next: dict[str, list[Fault]] = {}
        self._always: dict[str, Fault] = {}

    def next(self, operation: str, *faults: Fault) -> None:
        """Let the next calls of an operation, such as ``CreateFleet``, go wrong, one for each fault."""
        with self._lock:
            self._next.setdefault(operation, []).extend(faults)

    def always(self, operation: str, fault: Fault) -> None:
        """Let every call of an operation go wrong from now on."""
        with self._lock:
            self._always[operation] = fault

    def never(self, operation: str) -> None:
        with self._lock:
            self._always.pop(operation, None)
            self._next.pop(operation, None)

    def pick(self, operation: str) -> Fault | None:
        """Return what goes wrong with a call that has come, if anything does."""
        with self._lock:
            waiting = self._next.get(operation)
            return waiting.pop(0) if waiting else self._always.get(operation)
