"""
Calls AWS through boto3, in threads, with AWS' rate limits and our errors.

boto3 blocks, so each call runs in one of a bounded number of threads. Before it, the call waits for its token
in a bucket as large as the one that EC2 keeps for calls of its kind, so that throttling is rare. Responses
are plain dictionaries; errors are those of :mod:`.errors`.

:class:`CallRecorder` records every call, attempt by attempt, for the metrics: botocore reports when a call
begins, when a request is created and when its response came. A call stays in one thread from beginning to
end, so each thread records its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
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
from karpenter.base.ratelimiting import OPEN, Fence, TokenBucket
from karpenter.cloud.aws.errors import NoCredentials, NoResponse, error_from_response
from karpenter.cloud.aws.options import BadAwsSetting
from karpenter.cloud.catalogs.ec2.refresh import pricing_region

if TYPE_CHECKING:
    import boto3


SERVICES: Final = ("arc-zonal-shift", "ec2", "eks", "iam", "pricing", "sqs", "ssm")
# botocore waits for 60 seconds by default, which would hold back an interruption of two minutes:
# https://botocore.amazonaws.com/v1/documentation/api/latest/reference/config.html
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
# The retries of botocore wait longer each time, up to 20 seconds:
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
ATTEMPTS: Final = 5
FLEET_ATTEMPTS: Final = 2
"""How often CreateFleet is sent: botocore adds a client token, which makes it idempotent."""

_FLEETS: Final = "fleets"

# botocore is synchronous, so every call that is under way has a thread of its own.
THREADS: Final = 16

# EC2 throttles each account and region with token buckets, by kind of operation:
# https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
LIMITS: Final = {
    "CreateFleet": (5.0, 50.0),
    "CreateLaunchTemplate": (5.0, 50.0),
    "DeleteLaunchTemplate": (5.0, 50.0),
    "RunInstances": (2.0, 5.0),
    "TerminateInstances": (5.0, 100.0),
    "CreateTags": (10.0, 100.0),
}
"""Tokens per second and burst of the buckets of EC2; operations with the same figures share a bucket."""

READ_LIMIT: Final = (20.0, 100.0)
"""The same for every other operation."""

READS: Final = ("Describe", "Get", "List", "Receive")
"""How the names of operations begin that change nothing."""

ApiResponse = dict[str, Any]
T = TypeVar("T")

NO_RESPONSE: Final = "0"
"""The status of a call without a response."""


class ApiAttempt(msgspec.Struct, frozen=True):
    """One attempt of a call."""

    code: str
    """The HTTP status of the response; 0 without one."""

    seconds: float


class ApiCall(msgspec.Struct, kw_only=True):
    """A call of an operation, with all its attempts."""

    service: str
    """As botocore spells it, such as ``EC2``."""

    action: str
    seconds: float = 0.0
    """From its beginning to the end of its last attempt, with the waits between."""

    attempts: list[ApiAttempt] = msgspec.field(default_factory=list)

    @property
    def code(self) -> str:
        """The HTTP status of the last response; 0 without one."""
        return self.attempts[-1].code if self.attempts else NO_RESPONSE

    @property
    def retries(self) -> int:
        return max(0, len(self.attempts) - 1)


class CallRecorder(threading.local):
    """Records the calls of each thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._calls: list[ApiCall] = []
        self._began = self._sent = 0.0
        self.before_send: Callable[[str], None] = _allow
        """Called in this thread with the operation before each attempt; what it raises ends the call."""

    def follow(self, client: Any) -> None:
        events = client.meta.events
        events.register("before-call", self._call)
        events.register("request-created", self._send)
        events.register("response-received", self._receive)

    def take(self) -> list[ApiCall]:
        """Return the calls of this thread since the last take."""
        taken, self._calls = self._calls, []
        return taken

    def _call(self, model: Any, **_: Any) -> None:
        self._began = self._monotonic()
        self._calls.append(ApiCall(service=model.service_model.service_id, action=model.name))

    def _send(self, operation_name: str = "", **_: Any) -> None:
        self.before_send(operation_name)
        self._sent = self._monotonic()

    def _receive(self, response_dict: dict[str, Any] | None = None, **_: Any) -> None:
        if not self._calls:
            return
        now, called = self._monotonic(), self._calls[-1]
        code = str(response_dict["status_code"]) if response_dict else NO_RESPONSE
        called.attempts.append(ApiAttempt(code, now - self._sent))
        called.seconds = now - self._began


class NoRegion(BadAwsSetting):
    """The region is not known."""

    def __init__(self) -> None:
        super().__init__(
            "AWS_REGION",
            "the region is not known: nothing names it and there is no instance metadata to ask;"
            " hint: set AWS_REGION",
        )


class _LazyClients(Mapping[str, Any]):
    """Clients that are created when they are first used."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], Any]) -> None:
        self._names = names
        self._make = make
        self._created: dict[str, Any] = {}
        self._creating = Lock()  # threads may share clients, but a session must not create two at once

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        with self._creating:
            if name not in self._created:
                self._created[name] = self._make(name)
            return self._created[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def close(self) -> None:
        """Close the connections of the clients that were created."""
        for client in self._created.values():
            client.close()


class AwsClients(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of the services of AWS, by name."""

    region: str
    partition: str
    by_name: _LazyClients
    recorder: CallRecorder

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation by the name that IAM policies give it."""
        client = self.by_name[_FLEETS if operation == "CreateFleet" else service]
        return getattr(client, xform_name(operation))(**parameters)

    def close(self) -> None:
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
    Return clients for a region, or for the one that this process runs in.

    Without `retries` every call is sent once, for callers that retry themselves.

    Raises:
        NoRegion: the region is not known.
    """
    found = region or find_region(session)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        # Adaptive mode limits the rate of this client, too, after AWS has throttled it:
        # https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html
        retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
        user_agent_extra=f"karpenter/{__version__}",
    )
    # CreateFleet has a client of its own: a second attempt after a lost response is only safe with the client
    # token that botocore adds, and a long series of attempts would delay the choice of another offering.
    few = config.merge(
        Config(retries={"mode": "standard", "total_max_attempts": FLEET_ATTEMPTS if retries else 1})
    )
    if not retries:
        config = few

    recorder = CallRecorder()

    def make(name: str) -> Any:
        made: Any = session.client(
            "ec2" if name == _FLEETS else name,
            # The price list has endpoints in a few regions only; every other client is regional.
            region_name=pricing_region(found) if name == "pricing" else found,
            endpoint_url=endpoint,
            config=few if name == _FLEETS else config,
        )
        recorder.follow(made)
        return made

    return AwsClients(
        region=found,
        partition=session.get_partition_for_region(found),
        by_name=_LazyClients((*SERVICES, _FLEETS), make),
        recorder=recorder,
    )


def find_region(session: boto3.Session) -> str:
    """
    Return the region that is set, or that of the instance metadata.

    Raises:
        NoRegion: there is neither.
    """
    found = session.region_name or os.environ.get("AWS_REGION") or _region_of_this_instance()
    if not found:
        raise NoRegion
    return found


def _region_of_this_instance() -> str | None:
    # One short attempt: outside of EC2 there is no metadata service, and a start must not hang on it.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-metadata.html
    found: str | None = InstanceMetadataRegionFetcher(timeout=1, num_attempts=1).retrieve_region()
    return found


class AwsApi:
    """Calls AWS."""

    def __init__(self, clients: AwsClients, *, threads: int = THREADS, fence: Fence = OPEN) -> None:
        """`fence` is checked before each attempt of an operation that changes something."""
        self._fence = fence
        self.region = clients.region
        self.partition = clients.partition
        self._clients = clients
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="aws")
        self._buckets: dict[tuple[float, float], TokenBucket] = {}
        self.on_call: Callable[[ApiCall], None] = _ignore
        """Called with every call."""

    async def call(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """
        Call an operation, such as ``ec2`` ``CreateFleet``, and return its response.

        Raises:
            Throttled: AWS limits the rate of calls.
            AwsApiError: AWS answered with an error.
            NoAnswer: it did not response.
            LeaseNotHeld: it changes something, and this replica does not lead any more; nothing was sent.
        """
        # Only EC2 throttles by token buckets that a cluster comes close to.
        if service == "ec2":
            await self._bucket(operation).take()
        made: list[ApiCall] = []
        call = partial(self._call, service, operation, parameters, made)
        responding = asyncio.get_running_loop().run_in_executor(self._pool, call)
        return await self._recorded(responding, made)

    async def long_poll(self, service: str, operation: str, /, **parameters: Any) -> ApiResponse:
        """
        Call an operation that returns only when there is something to return, as :meth:`call` does.

        It runs in a daemon thread, which does not keep the process from ending.
        """
        made: list[ApiCall] = []
        call = partial(self._call, service, operation, parameters, made)
        return await self._recorded(_in_the_background(call), made)

    async def _recorded(self, responding: Awaitable[T], made: Iterable[ApiCall]) -> T:
        """Wait for a response, and report the calls that were made for it."""
        try:
            return await responding
        finally:
            for each in made:
                self.on_call(each)

    async def pages(
        self, service: str, operation: str, /, *, marker: str = "NextToken", **parameters: Any
    ) -> AsyncIterator[ApiResponse]:
        """Call an operation until there are no more pages, and yield each."""
        more: dict[str, Any] = {}
        while True:
            response = await self.call(service, operation, **parameters, **more)
            yield response
            following = response.get(marker)
            if not following:
                return
            more = {marker: following}

    async def list_all(
        self, service: str, operation: str, field: str, /, **parameters: Any
    ) -> list[ApiResponse]:
        return [
            item
            async for page in self.pages(service, operation, **parameters)
            for item in page.get(field, ())
        ]

    async def run(self, service: str, work: Callable[[Any], T]) -> T:
        """Run a function that calls one service many times, in one of the threads."""
        made: list[ApiCall] = []
        call = partial(self._run, service, work, made)
        return await self._recorded(asyncio.get_running_loop().run_in_executor(self._pool, call), made)

    def close(self) -> None:
        """End the threads, after the calls in flight; those that have not begun are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _bucket(self, operation: str) -> TokenBucket:
        figures = LIMITS.get(operation, READ_LIMIT)
        if figures not in self._buckets:
            rate, burst = figures
            self._buckets[figures] = TokenBucket(rate=rate, burst=burst)
        return self._buckets[figures]

    def _call(
        self, service: str, operation: str, parameters: Mapping[str, Any], made: list[ApiCall]
    ) -> ApiResponse:
        with self._recording(made), _translated_errors(f"{service}:{operation}"):
            response: ApiResponse = self._clients.call(service, operation, parameters)
        return response

    def _run(self, service: str, work: Callable[[Any], T], made: list[ApiCall]) -> T:
        with self._recording(made), _translated_errors(service):
            return work(self._clients.by_name[service])

    @contextmanager
    def _recording(self, made: list[ApiCall]) -> Iterator[None]:
        """Add the calls that this thread makes meanwhile, and check the fence before each attempt."""
        recorder = self._clients.recorder
        recorder.take()  # drop the calls that other users of these clients made in this thread
        recorder.before_send = self._check_fence
        try:
            yield
        finally:
            recorder.before_send = _allow
            made += recorder.take()

    def _check_fence(self, operation: str) -> None:
        if not operation.startswith(READS):
            self._fence.check(f"AWS operation {operation}")


def _in_the_background(call: Callable[[], ApiResponse]) -> asyncio.Future[ApiResponse]:
    """Return the future response of a call that runs in a daemon thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ApiResponse] = loop.create_future()

    def settle(response: ApiResponse | None, error: BaseException | None) -> None:
        if future.done():  # the caller was cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(response or {})

    def work() -> None:
        response: ApiResponse | None = None
        error: BaseException | None = None
        try:
            response = call()
        except Exception as caught:  # noqa: BLE001  it is raised where it is awaited
            error = caught
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(settle, response, error)

    # A thread of the pool would block one of few for 20 seconds, and keep the process from ending.
    Thread(target=work, name="aws-long-poll", daemon=True).start()
    return future


def _ignore(called: ApiCall) -> None:
    del called


def _allow(operation: str) -> None:
    del operation


@contextmanager
def _translated_errors(action: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        service = action.partition(":")[0]
        raise error_from_response(f"{service}:{error.operation_name}", error.response) from error
    except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
        raise NoCredentials(action=action, because=error) from error
    except (BotoCoreError, HTTPClientError, ResponseParserError) as error:
        raise NoResponse(action=action, because=error) from error
