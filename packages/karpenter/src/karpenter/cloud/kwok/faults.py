"""
What can go wrong with a call to the cloud, on request.

Faults are written into a script, one per call of a method, or chosen by a rule that sees every call; the rule
is for simulations, which let chance decide.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from karpenter.cloud.errors import CloudError


class ProviderCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to happen."""

    method: str
    """launch, terminate, get, list, catalog, drift or interruptions."""

    subject: str = ""
    """The claim or the machine that it is about."""

    cluster: str = ""


class Fail(msgspec.Struct, frozen=True):
    """The call ends in an error, and nothing has happened."""

    error: CloudError


class Hang(msgspec.Struct, frozen=True):
    """The call never ends, and nothing has happened."""


class LoseResponse(msgspec.Struct, frozen=True):
    """What was asked for happens, but the answer is lost: the call ends in an error, or hangs."""

    hangs: bool = False


class Slow(msgspec.Struct, frozen=True):
    """The call takes so many seconds longer."""

    seconds: float


class NeverJoin(msgspec.Struct, frozen=True):
    """The machine is launched, but never becomes a node."""


Fault: TypeAlias = Fail | Hang | LoseResponse | Slow | NeverJoin
Rule: TypeAlias = Callable[[ProviderCall], Fault | None]


class FaultScript:
    """What will go wrong."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self._script: dict[str, deque[Fault | None]] = defaultdict(deque)

    def write(self, method: str, *faults: Fault | None) -> None:
        """Let the next calls of `method` go wrong in turn; None is a call that goes well."""
        self._script[method].extend(faults)

    def pick(self, call: ProviderCall) -> Fault | None:
        """Return what goes wrong with this call: what the script says, or else the rule."""
        script = self._script[call.method]
        if script:
            return script.popleft()
        return self.rule(call) if self.rule else None

    def clear(self) -> None:
        """Let everything go well from now on."""
        self.rule = None
        self._script.clear()
