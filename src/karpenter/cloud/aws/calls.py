"""
Asking AWS: the SDK in a few threads, its errors in our words.

The SDK blocks, so each call runs in one of a bounded number of threads. Before it, the call waits for its
turn in the token bucket that AWS keeps for calls of its kind, so that we slow down before AWS has to say so.
What AWS answers is returned as plain dictionaries; what goes wrong is an error of :mod:`.refusals`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from karpenter.base.aio.bucket import TokenBucket
from karpenter.cloud.aws.refusals import NoAnswer, NoCredentials, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

    from karpenter.cloud.aws.refusals import Refused  # noqa: F401  named in docstrings
    from karpenter.cloud.aws.session import Clients
    from karpenter.cloud.aws.tallying import Called
    from karpenter.cloud.errors import Throttled  # noqa: F401  named in docstrings

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

READING: Final = (20.0, 100.0)
"""The same for everything that only reads."""

Answer = dict[str, Any]
T = TypeVar("T")


class Aws:
    """Asks AWS."""

    def __init__(self, clients: Clients, *, threads: int = THREADS) -> None:
        self.region = clients.region
        self.partition = clients.partition
        self._clients = clients
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="aws")
        self._buckets: dict[tuple[float, float], TokenBucket] = {}
        self.note: Callable[[Called], None] = _nobody
        """Told of every call."""

    async def ask(self, service: str, operation: str, /, **parameters: Any) -> Answer:
        """
        Call an operation, such as ``ec2`` ``CreateFleet``, and return its answer.

        Raises:
            Throttled: AWS wants fewer calls.
            Refused: AWS answered with an error.
            NoAnswer: it did not answer.
        """
        if service == "ec2":
            await self._bucket(operation).take()
        made: list[Called] = []
        call = partial(self._call, service, operation, parameters, made)
        answering = asyncio.get_running_loop().run_in_executor(self._pool, call)
        return await self._noted(answering, made)

    async def listen(self, service: str, operation: str, /, **parameters: Any) -> Answer:
        """
        Call an operation that answers only when there is something to tell, as :meth:`ask` does.

        It has a thread of its own, which does not keep the process from ending.
        """
        made: list[Called] = []
        call = partial(self._call, service, operation, parameters, made)
        return await self._noted(_in_the_background(call), made)

    async def _noted(self, answering: Awaitable[T], made: Iterable[Called]) -> T:
        """Wait for an answer, and note the calls that were made for it."""
        try:
            return await answering
        finally:
            for each in made:
                self.note(each)

    async def pages(
        self, service: str, operation: str, /, *, marker: str = "NextToken", **parameters: Any
    ) -> AsyncIterator[Answer]:
        """Call an operation until there are no more pages, and yield each."""
        more: dict[str, Any] = {}
        while True:
            answer = await self.ask(service, operation, **parameters, **more)
            yield answer
            following = answer.get(marker)
            if not following:
                return
            more = {marker: following}

    async def every(self, service: str, operation: str, field: str, /, **parameters: Any) -> list[Answer]:
        """Return all items of a list that comes in pages."""
        return [
            item
            async for page in self.pages(service, operation, **parameters)
            for item in page.get(field, ())
        ]

    async def run(self, service: str, work: Callable[[Any], T]) -> T:
        """Let a function that asks one service a lot do so in one of our threads."""
        made: list[Called] = []
        call = partial(self._run, service, work, made)
        return await self._noted(asyncio.get_running_loop().run_in_executor(self._pool, call), made)

    def close(self) -> None:
        """Let the threads go; calls under way are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _bucket(self, operation: str) -> TokenBucket:
        figures = LIMITS.get(operation, READING)
        if figures not in self._buckets:
            rate, burst = figures
            self._buckets[figures] = TokenBucket(rate=rate, burst=burst)
        return self._buckets[figures]

    def _call(
        self, service: str, operation: str, parameters: Mapping[str, Any], made: list[Called]
    ) -> Answer:
        with self._tallied(made), _in_our_words(f"{service}:{operation}"):
            answer: Answer = self._clients.call(service, operation, parameters)
        return answer

    def _run(self, service: str, work: Callable[[Any], T], made: list[Called]) -> T:
        with self._tallied(made), _in_our_words(service):
            return work(self._clients.by_name[service])

    @contextmanager
    def _tallied(self, made: list[Called]) -> Iterator[None]:
        """Add the calls that are made meanwhile in this thread."""
        self._clients.tally.take()  # what others did here with the same clients is theirs
        try:
            yield
        finally:
            made += self._clients.tally.take()


def _in_the_background(call: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """Return what a call will answer, which runs in a thread that ends with the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Answer | None, error: BaseException | None) -> None:
        if future.done():  # whoever waited has given up
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer or {})

    def work() -> None:
        answer: Answer | None = None
        error: BaseException | None = None
        try:
            answer = call()
        except Exception as caught:  # noqa: BLE001  it is raised where it is waited for
            error = caught
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(settle, answer, error)

    Thread(target=work, name="aws-listening", daemon=True).start()
    return future


def _nobody(called: Called) -> None:
    """Take no note."""
    del called


@contextmanager
def _in_our_words(action: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        service = action.partition(":")[0]
        raise refusal(f"{service}:{error.operation_name}", error.response) from error
    except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
        raise NoCredentials(action=action, because=error) from error
    except (BotoCoreError, HTTPClientError, ResponseParserError) as error:
        raise NoAnswer(action=action, because=error) from error
