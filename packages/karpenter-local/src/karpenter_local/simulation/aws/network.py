"""
The calls of one operator to AWS, in the event loop: they take virtual time, and everything can go wrong.

What the SDK does in threads and in real time is done here instead: a call that was throttled, not answered or
answered with an error of AWS itself is sent again, as often and after as long as the SDK would. When the
operator dies its calls are cut off: what was sent may have been carried out, and no answer comes back.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

import msgspec

from karpenter.cloud.aws.errors import AwsApiError, NoCredentials, NoResponse
from karpenter.cloud.aws.sdk import (
    ATTEMPTS,
    CONNECT_SECONDS,
    FLEET_ATTEMPTS,
    NO_RESPONSE,
    READ_SECONDS,
    ApiAttempt,
    ApiCall,
    ApiResponse,
    AwsApi,
    AwsClients,
)
from karpenter.cloud.errors import CloudError, Throttled
from karpenter_local.aws import faults
from karpenter_local.aws.mail import has_mail
from karpenter_local.sandbox.operators import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.aws.account import Account
    from karpenter_local.simulation.network import FaultyTransport


T = TypeVar("T")

_THERE: Final = (0.005, 0.05)
"""Seconds that a call takes to AWS, and its answer back: others get in between."""

_LONGEST_PAUSE_SECONDS: Final = 20.0
_READING: Final = ("Describe", "Get", "List", "Receive")
_BUSY: Final = "503"
_REFUSALS: Final[dict[str | None, faults.Fault]] = {
    "throttled": faults.RefuseCall(code="RequestLimitExceeded", status=int(_BUSY)),
    "error": faults.RefuseCall(code="InternalError", status=500),
    "lost for good": faults.LoseAnswer(),
}
"""Faults that AWS itself answers with, or causes."""

_DONE: Final = frozenset({"failing", "lost", "deaf"})
"""Faults of calls that were carried out."""


class FaultyAws(AwsApi):
    """Calls the embedded AWS in virtual time."""

    def __init__(
        self,
        clients: AwsClients,
        account: Account,
        *,
        call_faults: AwsCallFaults,
        chance: Random,
        transport: FaultyTransport,
        on_change: Callable[[str, dict[str, Any]], None] = lambda _operation, _parameters: None,
    ) -> None:
        """
        The `transport` to the API server counts the writes of the operator, those to AWS too.

        `on_change` hears of every call that is carried out, with its operation and parameters.
        """
        super().__init__(clients)
        self._on_change = on_change
        self._account = account
        self._call_faults = call_faults
        self._chance = chance
        self._transport = transport
        self._severed = False
        self._stuck: list[asyncio.Task[Any] | None] = []
        """Tasks that wait for an answer that does not come: a reference keeps them from being collected."""

    def close(self) -> None:
        self._severed = True
        super().close()

    async def call(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """Call an operation, as often as the SDK would."""
        if operation == "ReceiveMessage" and not has_mail(self._account):
            return {}
        if service == "ec2":
            await self._bucket(operation).take()
        if operation == "CreateFleet":  # as the SDK does, so that AWS carries it out once
            parameters["ClientToken"] = f"{self._chance.getrandbits(64):x}"
        loop = asyncio.get_running_loop()
        named = self._clients.by_name[service].meta.service_model.service_id
        called, began = ApiCall(service=named, action=operation), loop.time()
        try:
            return await self._persist(service, operation, parameters, called)
        finally:
            called.seconds = loop.time() - began
            self.on_call(called)

    async def run(self, service: str, work: Callable[[Any], T]) -> T:
        """Let a function ask one service a lot, at once."""
        if self._severed:
            await self._hang()
        await self._pass()
        if self._call_faults.pick("") is not None:
            raise NoResponse(action=service, because="the simulation says no")
        made: list[ApiCall] = []
        try:
            return self._run(service, work, made)
        finally:
            for each in made:
                self.on_call(each)

    async def _persist(
        self, service: str, operation: str, parameters: dict[str, Any], called: ApiCall
    ) -> ApiResponse:
        loop = asyncio.get_running_loop()
        attempts = FLEET_ATTEMPTS if operation == "CreateFleet" else ATTEMPTS
        for attempt in range(1, attempts + 1):
            sent, code = loop.time(), NO_RESPONSE
            try:
                answer = await self._once(service, operation, parameters)
            except CloudError as error:
                code = _code(error)
                if attempt == attempts or not _is_passing(error):
                    if isinstance(error, AwsApiError):
                        error.retried = attempt > 1
                    raise
            else:
                code = "200"
                return answer
            finally:
                called.attempts.append(ApiAttempt(code, loop.time() - sent))
            pause = self._chance.random() * 2 ** (attempt - 1)
            await asyncio.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, service: str, operation: str, parameters: dict[str, Any]) -> ApiResponse:
        if self._severed:
            await self._hang()
        action = f"{service}:{operation}"
        if not operation.startswith(_READING) and (end := self._transport.count()):
            self._severed = True
            if end == "after":
                self._on_change(operation, parameters)
                self._call(service, operation, parameters, [])
            await self._hang()
        kind = self._call_faults.pick(operation)
        await self._pass()
        if kind == "unreachable":
            await asyncio.sleep(CONNECT_SECONDS)
            raise NoResponse(action=action, because="connect timeout")
        if kind == "silent":
            await asyncio.sleep(READ_SECONDS)
            raise NoResponse(action=action, because="read timeout")
        if kind in _REFUSALS:
            self._account.faults.next(operation, _REFUSALS[kind])
        self._on_change(operation, parameters)
        answer = self._call(service, operation, parameters, [])
        await self._pass()
        if kind in _DONE:
            if kind == "failing":
                raise AwsApiError(
                    action=action, code="InternalError", message="the simulation says no", status=500
                )
            if kind == "deaf":
                await asyncio.sleep(READ_SECONDS)
            raise NoResponse(action=action, because="the connection was closed")
        return answer

    async def _hang(self) -> NoReturn:
        self._stuck.append(asyncio.current_task())
        await never()

    async def _pass(self) -> None:
        await asyncio.sleep(self._chance.uniform(*_THERE))
        if self._severed:
            await self._hang()


def _is_passing(error: CloudError) -> bool:
    if isinstance(error, NoCredentials):
        return False
    if isinstance(error, AwsApiError):
        return error.is_server_error
    return isinstance(error, NoResponse | Throttled)


def _code(error: CloudError) -> str:
    if isinstance(error, Throttled):
        return _BUSY
    return str(error.status) if isinstance(error, AwsApiError) else NO_RESPONSE


AwsCallFault = Literal[
    "throttled", "error", "failing", "unreachable", "lost", "silent", "deaf", "lost for good"
]
"""
Too many calls; an error of AWS's own; the same though it was done; no connection; done with the answer lost;
no answer ever; no answer ever though it was done; done, and the answer is lost however often it is asked for.
"""


class AwsCallFaults(msgspec.Struct, kw_only=True):
    """Faults of the calls of AWS."""

    share: float = 0.0
    kinds: tuple[AwsCallFault, ...] = ()
    chance: Random | None = None
    waiting: dict[str, list[AwsCallFault]] = msgspec.field(default_factory=lambda: defaultdict(list))
    """Faults of the next calls of an operation."""

    def pick(self, operation: str) -> AwsCallFault | None:
        """Return what goes wrong with a call, if anything does."""
        if self.waiting.get(operation):
            return self.waiting[operation].pop(0)
        if self.chance is None or self.chance.random() >= self.share:
            return None
        return self.chance.choice(self.kinds)

    def recover(self) -> None:
        self.chance = None
        self.waiting.clear()
