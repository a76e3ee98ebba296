"""
Faults of calls to the cloud in memory.

A fault is scripted for the next call of a method, or chosen by a rule that sees every call; simulations use a
rule, and choose at random.
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
    """The call is carried out, but its response is lost: it ends in an error, or hangs."""

    hangs: bool = False


class Slow(msgspec.Struct, frozen=True):
    """The call takes so many seconds longer."""

    seconds: float


class NeverJoin(msgspec.Struct, frozen=True):
    """The machine is launched, but its node never registers."""


Fault: TypeAlias = Fail | Hang | LoseResponse | Slow | NeverJoin
Rule: TypeAlias = Callable[[ProviderCall], Fault | None]


class FaultScript:
    """The faults of the next calls."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self._scripted: dict[str, deque[Fault | None]] = defaultdict(deque)

    def script(self, method: str, *faults: Fault | None) -> None:
        """Set the faults of the next calls of `method`, one each; None is a call without a fault."""
        self._scripted[method].extend(faults)

    def pick(self, call: ProviderCall) -> Fault | None:
        """Return the fault of a call: the scripted one, or else that of the rule."""
        script = self._scripted[call.method]
        if script:
            return script.popleft()
        return self.rule(call) if self.rule else None

    def clear(self) -> None:
        self.rule = None
        self._scripted.clear()
