"""
Clients of AWS: who we are, where we are, and whom we ask.

Credentials are found by the SDK in the places that it documents: environment, web identity tokens, pod
identity, shared files, assumed roles, instance metadata. So are endpoints, those for FIPS, dual stack and
private ones included. The region is the one that is set, or else the one that this machine is in.

Asking AWS: the SDK in a few threads, its errors in our words.

The SDK blocks, so each call runs in one of a bounded number of threads. Before it, the call waits for its
turn in the token bucket that AWS keeps for calls of its kind, so that we slow down before AWS has to say so.
What AWS answers is returned as plain dictionaries; what goes wrong is an error of :mod:`.refusals`.

What came of calls to AWS, attempt by attempt, as the SDK tells it.

The SDK says when a call begins, when each attempt of it is put together, and when that was answered or not.
A call happens in one thread from its beginning to its end, so each thread keeps its own tally.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError
from botocore.utils import InstanceMetadataRegionFetcher

from karpenter import __version__
from karpenter.base.ratelimiting import TokenBucket
from karpenter.cloud.aws.errors import NoCredentials, NoResponse, error_from_response
from karpenter.cloud.aws.options import BadSetting
from karpenter.cloud.catalogs.ec2.refresh import pricing_region

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    import boto3


NO_RESPONSE: Final = "0"
"""What stands for the status of an answer that did not come."""


class ApiAttempt(msgspec.Struct, frozen=True):
    """One time that a call was sent."""

    code: str
    """The status of the answer; 0 without one."""

    seconds: float


class ApiCall(msgspec.Struct, kw_only=True):
    """A call of an operation."""

    service: str
    """As the SDK spells it, such as ``EC2``."""

    action: str
    seconds: float = 0.0
    """From its beginning until its last attempt was over, pauses included."""

    attempts: list[ApiAttempt] = msgspec.field(default_factory=list)

    @property
    def code(self) -> str:
        """The status of the last answer; 0 without one."""
        return self.attempts[-1].code if self.attempts else NO_RESPONSE

    @property
    def retries(self) -> int:
        """How often it was sent again."""
        return max(0, len(self.attempts) - 1)


class CallRecorder(threading.local):
    """The calls that this thread has made and nobody has taken note of."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._calls: list[ApiCall] = []
        self._began = self._sent = 0.0

    def follow(self, client: Any) -> None:
        """Keep a tally of what a client of the SDK does."""
        events = client.meta.events
        events.register("before-call", self._call)
        events.register("request-created", self._send)
        events.register("response-received", self._receive)

    def take(self) -> list[ApiCall]:
        """Return the calls of this thread since the last time."""
        taken, self._calls = self._calls, []
        return taken

    def _call(self, model: Any, **_: Any) -> None:
        self._began = self._monotonic()
        self._calls.append(ApiCall(service=model.service_model.service_id, action=model.name))

    def _send(self, **_: Any) -> None:
        self._sent = self._monotonic()

    def _receive(self, response_dict: dict[str, Any] | None = None, **_: Any) -> None:
        if not self._calls:
            return
        now, called = self._monotonic(), self._calls[-1]
        code = str(response_dict["status_code"]) if response_dict else NO_RESPONSE
        called.attempts.append(ApiAttempt(code, now - self._sent))
        called.seconds = now - self._began


SERVICES: Final = ("arc-zonal-shift", "ec2", "eks", "iam", "pricing", "sqs", "ssm")
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
ATTEMPTS: Final = 5
FLEET_ATTEMPTS: Final = 2
"""How often a launch is sent: its token makes AWS carry it out once."""

_FLEETS: Final = "fleets"


class NoRegion(BadSetting):
    """Nobody knows which region we are in."""

    def __init__(self) -> None:
        super().__init__(
            "AWS_REGION",
            "the region is not known: nothing names it and there is no instance metadata to ask;"
            " hint: set AWS_REGION",
        )


class _LazyClients(Mapping[str, Any]):
    """Clients that are made when they are first asked for: whoever does not use a service has no client."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], Any]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Any] = {}
        self._making = Lock()  # threads may share clients, but must not make them at the same time

    def __getitem__(self, name: str) -> Any:
        """Return a client."""
        if name not in self._names:
            raise KeyError(name)
        with self._making:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of all services."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many services there are."""
        return len(self._names)

    def close(self) -> None:
        """Close the connections of those that were made."""
        for client in self._made.values():
            client.close()


class AwsClients(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of the services that we ask, by name."""

    region: str
    partition: str
    by_name: _LazyClients
    tally: CallRecorder
    """What came of their calls."""

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation by the name that policies give it."""
        client = self.by_name[_FLEETS if operation == "CreateFleet" else service]
        return getattr(client, xform_name(operation))(**parameters)

    def close(self) -> None:
        """Close every connection."""
        self.by_name.close()


def open_clients(
    session: boto3.Session,
    *,
    region: str = "",
    endpoint: str | None = None,
    connections: int = 32,
    retries: bool = True,
) -> AwsClients:
    """
    Return clients for the region that is named, or for the one that we are in.

    Without `retries` the SDK asks once, for whoever tries again himself.

    Raises:
        NoRegion: nobody knows the region.
    """
    place = region or find_region(session)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
        user_agent_extra=f"karpenter/{__version__}",
    )
    few = config.merge(
        Config(retries={"mode": "standard", "total_max_attempts": FLEET_ATTEMPTS if retries else 1})
    )
    if not retries:
        config = few

    tally = CallRecorder()

    def make(name: str) -> Any:
        made: Any = session.client(
            "ec2" if name == _FLEETS else name,
            region_name=pricing_region(place) if name == "pricing" else place,
            endpoint_url=endpoint,
            config=few if name == _FLEETS else config,
        )
        tally.follow(made)
        return made

    return AwsClients(
        region=place,
        partition=session.get_partition_for_region(place),
        by_name=_LazyClients((*SERVICES, _FLEETS), make),
        tally=tally,
    )


def find_region(session: boto3.Session) -> str:
    """
    Return the region that is set, or the one that this machine is in.

    Raises:
        NoRegion: there is neither.
    """
    found = session.region_name or os.environ.get("AWS_REGION") or _region_of_this_machine()
    if not found:
        raise NoRegion
    return found


def _region_of_this_machine() -> str | None:
    found: str | None = InstanceMetadataRegionFetcher(timeout=1, num_attempts=1).retrieve_region()
    return found


THREADS: Final = 16

LIMITS: Final = {
    "CreateFleet": (5.0, 50.0),
    "CreateLaunchTemplate": (5.0, 50.0),
    "DeleteLaunchTemplate": (5.0, 50.0),
    "RunInstances": (2.0, 5.0),
    "TerminateInstances": (5.0, 100.0),
    "CreateTags": (10.0, 100.0),
}
"""Calls a second, and at once, that EC2 takes from an account; the same figures mean the same bucket."""

READ_LIMIT: Final = (20.0, 100.0)
"""The same for everything that only reads."""

ApiResponse = dict[str, Any]
T = TypeVar("T")


class AwsApi:
    """Asks AWS."""

    def __init__(self, clients: AwsClients, *, threads: int = THREADS) -> None:
        self.region = clients.region
        self.partition = clients.partition
        self._clients = clients
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="aws")
        self._buckets: dict[tuple[float, float], TokenBucket] = {}
        self.on_call: Callable[[ApiCall], None] = _nobody
        """Told of every call."""

    async def call(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """
        Call an operation, such as ``ec2`` ``CreateFleet``, and return its answer.

        Raises:
            Throttled: AWS wants fewer calls.
            Refused: AWS answered with an error.
            NoAnswer: it did not answer.
        """
        if service == "ec2":
            await self._bucket(operation).take()
        made: list[ApiCall] = []
        call = partial(self._call, service, operation, parameters, made)
        answering = asyncio.get_running_loop().run_in_executor(self._pool, call)
        return await self._noted(answering, made)

    async def long_poll(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """
        Call an operation that answers only when there is something to tell, as :meth:`call` does.

        It has a thread of its own, which does not keep the process from ending.
        """
        made: list[ApiCall] = []
        call = partial(self._call, service, operation, parameters, made)
        return await self._noted(_in_the_background(call), made)

    async def _noted(self, answering: Awaitable[T], made: Iterable[ApiCall]) -> T:
        """Wait for an answer, and note the calls that were made for it."""
        try:
            return await answering
        finally:
            for each in made:
                self.on_call(each)

    async def pages(
        self, service: str, operation: str, /, *, marker: str = "NextToken", **parameters: Any
    ) -> AsyncIterator[ApiResponse]:
        """Call an operation until there are no more pages, and yield each."""
        more: dict[str, Any] = {}
        while True:
            answer = await self.call(service, operation, **parameters, **more)
            yield answer
            following = answer.get(marker)
            if not following:
                return
            more = {marker: following}

    async def list_all(
        self, service: str, operation: str, field: str, /, **parameters: Any
    ) -> list[ApiResponse]:
        """Return all items of a list that comes in pages."""
        return [
            item
            async for page in self.pages(service, operation, **parameters)
            for item in page.get(field, ())
        ]

    async def run(self, service: str, work: Callable[[Any], T]) -> T:
        """Let a function that asks one service a lot do so in one of our threads."""
        made: list[ApiCall] = []
        call = partial(self._run, service, work, made)
        return await self._noted(asyncio.get_running_loop().run_in_executor(self._pool, call), made)

    def close(self) -> None:
        """Let the threads go; calls under way are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _bucket(self, operation: str) -> TokenBucket:
        figures = LIMITS.get(operation, READ_LIMIT)
        if figures not in self._buckets:
            rate, burst = figures
            self._buckets[figures] = TokenBucket(rate=rate, burst=burst)
        return self._buckets[figures]

    def _call(
        self, service: str, operation: str, parameters: Mapping[str, Any], made: list[ApiCall]
    ) -> ApiResponse:
        with self._tallied(made), _in_our_words(f"{service}:{operation}"):
            answer: ApiResponse = self._clients.call(service, operation, parameters)
        return answer

    def _run(self, service: str, work: Callable[[Any], T], made: list[ApiCall]) -> T:
        with self._tallied(made), _in_our_words(service):
            return work(self._clients.by_name[service])

    @contextmanager
    def _tallied(self, made: list[ApiCall]) -> Iterator[None]:
        """Add the calls that are made meanwhile in this thread."""
        self._clients.tally.take()  # what others did here with the same clients is theirs
        try:
            yield
        finally:
            made += self._clients.tally.take()


def _in_the_background(call: Callable[[], ApiResponse]) -> asyncio.Future[ApiResponse]:
    """Return what a call will answer, which runs in a thread that ends with the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ApiResponse] = loop.create_future()

    def settle(answer: ApiResponse | None, error: BaseException | None) -> None:
        if future.done():  # whoever waited has given up
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer or {})

    def work() -> None:
        answer: ApiResponse | None = None
        error: BaseException | None = None
        try:
            answer = call()
        except Exception as caught:  # noqa: BLE001  it is raised where it is waited for
            error = caught
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(settle, answer, error)

    Thread(target=work, name="aws-listening", daemon=True).start()
    return future


def _nobody(called: ApiCall) -> None:
    """Take no note."""
    del called


@contextmanager
def _in_our_words(action: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        service = action.partition(":")[0]
        raise error_from_response(f"{service}:{error.operation_name}", error.response) from error
    except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
        raise NoCredentials(action=action, because=error) from error
    except (BotoCoreError, HTTPClientError, ResponseParserError) as error:
        raise NoResponse(action=action, because=error) from error
