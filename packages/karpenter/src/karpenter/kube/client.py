"""
The client of an API server: typed requests, a rate limit, timeouts and retries.

Every request is a value of :mod:`.rest`; every method here builds one and sends it through
:meth:`Client.send`, which applies the rate limit, the timeout and the retries. Response bodies
go straight to the target's decoder. The client caches nothing; following changes is the informer's work.

A failed request is retried when it cannot have been carried out (nothing was sent, or the server answered
that it is too busy), or when carrying it out twice is harmless (reads, and server-side apply). Any other
write without an answer may have been carried out, and its caller has to read before it writes again. An
eviction that a PodDisruptionBudget refuses with 429 is a result and is not retried here.

A watch is one JSON document per line: an event type and an object. A bookmark carries only a
resourceVersion. An ``ERROR`` line ends the watch and is raised. Nothing here reconnects.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
import structlog

from karpenter.api.meta import InvalidObject
from karpenter.base.queue import Backoff
from karpenter.base.ratelimiting import OPEN, Fence, TokenBucket
from karpenter.kube import rest
from karpenter.kube.errors import (
    KubeError,
    ServerFailed,
    Status,
    StatusError,
    TooManyRequests,
    UndecodableResponse,
    Unreachable,
    status_error,
    status_error_of,
)
from karpenter.kube.patches import Apply, Patch
from karpenter.kube.rest import ANY_STATE, EVERYTHING, Preconditions, Selection
from karpenter.kube.targets import UNDECODABLE, Body, ObjectIdentity, Page, Plain, Target, identify, target_of
from karpenter.kube.transport import Request, Response, Transport

T = TypeVar("T")
log = structlog.stdlib.get_logger(__name__)
Kind = type[T] | Target[T]
"""What a request is about: a struct of the API, or a target."""

# The defaults of upstream's kube-client-qps and kube-client-burst:
# https://karpenter.sh/docs/reference/settings/
QPS = 200.0
BURST = 300.0
# https://kubernetes.io/docs/reference/using-api/api-concepts/ (retrieving large results sets in chunks)
PAGE = 500
"""Objects per page of a list: enough to be quick, few enough to keep a page small in memory."""

# 429 and 5xx are retried with a wait, as API Priority and Fairness asks of clients:
# https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
CLIENT_RETRIES = Backoff(first=0.1, cap=5.0, jitter=0.5)


def may_retry(request: Request, error: KubeError) -> bool:
    match error:
        case Unreachable():
            return not error.sent or is_idempotent(request)
        # 429 also means that a PodDisruptionBudget refuses an eviction:
        # https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
        case TooManyRequests():
            return not request.path.endswith("/eviction")
        case ServerFailed():
            # With a Retry-After header the server has rejected the request before handling it (priority and
            # fairness).
            return is_idempotent(request) or error.retry_after is not None
        case _:
            return False


def is_idempotent(request: Request) -> bool:
    """Return whether carrying out `request` twice is the same as once."""
    return request.method == "GET" or request.header("content-type") == Apply.content_type


def retry_after_of(error: KubeError) -> float:
    """Return how long the server asked us to wait; zero if it did not."""
    return (error.retry_after or 0.0) if isinstance(error, StatusError) else 0.0


class WatchChange(msgspec.Struct, Generic[T], frozen=True):
    """An object was added, modified or deleted; `object` is its newest version."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    which: ObjectIdentity
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """All changes up to this resourceVersion were sent."""

    version: str


class UndecodableObject(msgspec.Struct, frozen=True):
    """An event about an object that cannot be decoded."""

    which: ObjectIdentity
    error: InvalidObject


WatchEvent: TypeAlias = WatchChange[T] | Bookmark | UndecodableObject


class _Frame(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_FRAMES = msgspec.json.Decoder(_Frame)
_KEPT_EVENT_TYPES = frozenset({"ADDED", "MODIFIED"})


async def read_events(
    target: Target[T],
    request: Request,
    lines: AsyncGenerator[bytes, None],
    known: set[tuple[str, str]] | None = None,
) -> AsyncIterator[WatchEvent[T]]:
    """Read each line as an event, until the server ends the watch.

    What is `known` already, by uid and version from the answer to a write, is not read again: it is taken out
    of the set, and the event only says how far the watch is.

    Raises:
        Refused: the server ended the watch with an error; Gone if `since` is too old.
        Unreadable: a line is not a watch event.
    """
    async for line in lines:
        if not line:
            continue
        try:
            frame = _FRAMES.decode(line)
            if frame.type == "ERROR":
                raise status_error_of(request, msgspec.json.decode(frame.object, type=Status))
            if known and frame.type in _KEPT_EVENT_TYPES:
                which = identify(frame.object)
                if (stamp := (which.uid, which.version)) in known:
                    known.remove(stamp)
                    yield Bookmark(which.version)
                    continue
            yield _event(target, frame)
        except UNDECODABLE as error:
            raise UndecodableResponse(str(error), request=request, body=line) from error


def _event(target: Target[T], frame: _Frame) -> WatchEvent[T]:
    assert frame.type != "ERROR"
    if frame.type == "BOOKMARK":
        return Bookmark(identify(frame.object).version)
    try:
        found = target.read(bytes(frame.object))
    except InvalidObject as error:
        return UndecodableObject(identify(frame.object), error)
    return WatchChange(frame.type, target.identify(found), found)


class _Turn:
    """A token that was taken before the request that it is for."""

    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket = bucket
        self.used = False


_TURN: ContextVar[_Turn | None] = ContextVar("_TURN", default=None)


class _VersionInfo(msgspec.Struct, frozen=True):
    major: str
    minor: str


_VERSION: Final = Request(method="GET", path="/version", headers=(("accept", "application/json"),))


class Client:
    """Talks to one API server as one field manager."""

    def __init__(
        self,
        transport: Transport,
        *,
        chance: Random,
        bucket: TokenBucket | None = None,
        manager: str = "karpenter",
        timeout: float | None = 30.0,
        attempts: int = 5,
        backoff: Backoff = CLIENT_RETRIES,
        longest_wait: float = 30.0,
        fence: Fence = OPEN,
    ) -> None:
        """
        `fence` is checked before every request that is no read.

        A `timeout` of None is for a server in this process, which answers without waiting.
        """
        self._fence = fence
        self._transport = transport
        self._chance = chance
        self._bucket = bucket or TokenBucket(rate=QPS, burst=BURST)
        self._manager = manager
        self._timeout = timeout
        self._attempts = attempts
        self._backoff = backoff
        self._longest_wait = longest_wait
        self.listener: Callable[[Request, int, float], None] | None = None
        """Called after every request with the response code (zero for none) and the seconds it took."""

    @property
    def host(self) -> str:
        """The host and port of the server; empty for a server in this process."""
        return getattr(self._transport, "host", "")

    def with_bucket(self, bucket: TokenBucket, *, manager: str = "") -> "Client":
        """Return a client of the same server with a rate limit of its own, and a field manager if given."""
        return Client(
            self._transport,
            chance=self._chance,
            bucket=bucket,
            manager=manager or self._manager,
            timeout=self._timeout,
            attempts=self._attempts,
            backoff=self._backoff,
            longest_wait=self._longest_wait,
            fence=self._fence,
        )

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """
        Wait for the rate limit now; the first request within the block does not wait for it.

        What the request depends on is read within the block: under load it may have changed meanwhile.
        """
        await self._bucket.take()
        turn = _Turn(self._bucket)
        before = _TURN.set(turn)
        try:
            yield
        finally:
            _TURN.reset(before)
            if not turn.used:
                self._bucket.give_back()

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "", subresource: str = "") -> T:
        """Read one object, or a subresource of it such as ``scale``."""
        target = target_of(kind)
        return await self._ask(target, rest.get(target, name, namespace=namespace, subresource=subresource))

    async def log(
        self, name: str, *, namespace: str, lines: int, container: str = "", previous: bool = False
    ) -> str:
        """
        Read the last lines of a pod's container, or of its last run.

        Raises:
            BadRequest: it has not begun, or there was no such run.
            Forbidden: this needs ``get`` on ``pods/log``.
        """
        request = rest.log(name, namespace=namespace, lines=lines, container=container, previous=previous)
        return (await self.send(request)).body.decode(errors="replace")

    async def list(self, kind: Kind[T], selection: Selection = EVERYTHING, *, limit: int = PAGE) -> Page[T]:
        """Read a whole list, page by page."""
        pages = [page async for page in self.pages(kind, selection, limit=limit)]
        return Page(
            items=tuple(item for page in pages for item in page.items),
            version=pages[-1].version,
            broken=tuple(error for page in pages for error in page.broken),
        )

    async def pages(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, limit: int = PAGE
    ) -> AsyncIterator[Page[T]]:
        """Read a list page by page; all pages are of one moment.

        Raises:
            Gone: the list took so long that the server has forgotten that moment: start again.
        """
        target = target_of(kind)
        after = ""
        while True:
            request = rest.list_page(target, selection, limit=limit, after=after)
            response = await self.send(request)
            try:
                page = target.read_page(response.body)
            except UNDECODABLE as error:
                raise UndecodableResponse(str(error), request=request, body=response.body) from error
            yield page
            if not page.more:
                return
            after = page.more

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        since: str,
        seconds: int = 300,
        bookmarks: bool = True,
        known: set[tuple[str, str]] | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Watch changes after `since`. There is one attempt: the informer knows where to resume.

        What is `known`, by uid and version, is not decoded again: see :func:`read_events`.

        Raises:
            Refused: at once, or from the events when the server ends the watch with an error.
        """
        target = target_of(kind)
        request = rest.watch(target, selection, since=since, seconds=seconds, bookmarks=bookmarks)
        await self._bucket.take()
        async with self._transport.stream(request) as answer:
            if isinstance(answer, Response):
                raise status_error(request, answer)
            yield read_events(target, request, answer.lines, known)

    async def create(self, kind: Kind[T], body: Body, *, namespace: str = "", dry_run: bool = False) -> T:
        """Create an object and return it as the server stored it."""
        target = target_of(kind)
        request = rest.create(target, body, namespace=namespace, manager=self._manager, dry_run=dry_run)
        return await self._ask(target, request)

    async def record(self, kind: Kind[Any], body: Body, *, namespace: str = "") -> None:
        """Create an object whose stored form is of no interest; the answer is not read."""
        await self.send(rest.create(target_of(kind), body, namespace=namespace, manager=self._manager))

    async def replace(
        self, target: Target[Plain], body: Plain, *, subresource: str = "", dry_run: bool = False
    ) -> Plain:
        """Write a whole object over the one of its name, if it still is at its resourceVersion."""
        which = target.identify(body)
        request = rest.replace(
            target,
            body,
            name=which.name,
            namespace=which.namespace,
            subresource=subresource,
            manager=self._manager,
            dry_run=dry_run,
        )
        return await self._ask(target, request)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        change: Patch,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Change part of an object, or of a subresource such as ``status``, and return the whole."""
        target = target_of(kind)
        request = rest.patch(
            target,
            name,
            change,
            namespace=namespace,
            subresource=subresource,
            manager=self._manager,
            dry_run=dry_run,
        )
        return await self._ask(target, request)

    async def apply(
        self, kind: Kind[T], body: Body, *, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> T:
        """Create or update: let the fields of `body` be as it says and be ours (server-side apply)."""
        target = target_of(kind)
        plain: Plain = msgspec.json.decode(target.write(body))
        meta = plain.get("metadata", {})
        return await self.patch(
            target,
            meta.get("name", ""),
            Apply(plain, force),
            namespace=meta.get("namespace", ""),
            subresource=subresource,
            dry_run=dry_run,
        )

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        *,
        namespace: str = "",
        only_if: Preconditions = ANY_STATE,
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; its finalizers may keep it for a while.

        Raises:
            NotFound: it is gone already.
            Conflict: it is not what `only_if` says.
        """
        target = target_of(kind)
        await self.send(
            rest.delete(
                target,
                name,
                namespace=namespace,
                only_if=only_if,
                propagation=propagation,
                grace=grace,
                dry_run=dry_run,
            )
        )

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        only_if: Preconditions = ANY_STATE,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Evict a pod, if its PodDisruptionBudget allows.

        Raises:
            TooManyRequests: not now; ``by_budget`` tells a disruption budget from a busy server.
        """
        await self.send(rest.evict(name, namespace=namespace, only_if=only_if, grace=grace, dry_run=dry_run))

    async def bind(self, name: str, *, namespace: str, node: str, uid: str = "") -> None:
        """Bind a pod to a node, as a scheduler does."""
        await self.send(rest.bind(name, namespace=namespace, node=node, uid=uid))

    async def send(self, request: Request) -> Response:
        """Send a request, again where that is safe, and return the answer if it is a success.

        Raises:
            KubeError: the server refused, or could not be reached.
            LeaseNotHeld: it is a write, and this replica does not lead any more; nothing was sent.
        """
        attempt = 1
        while True:
            try:
                return await self._send_once(request)
            except KubeError as error:
                asked = retry_after_of(error)
                if attempt >= self._attempts or asked > self._longest_wait or not may_retry(request, error):
                    raise
                wait = max(asked, self._backoff.delay(attempt, self._chance))
                log.debug("request.repeated", error=str(error), attempt=attempt, wait=round(wait, 3))
            await asyncio.sleep(wait)
            attempt += 1

    async def ping(self, *, within: float) -> None:
        """
        Ask the server for its version, once.

        Raises:
            KubeError: no answer came within so many seconds, or it refuses.
        """
        try:
            async with asyncio.timeout(within):
                await self._send_once(_VERSION)
        except TimeoutError:
            raise Unreachable(f"no answer within {within:g} s", request=_VERSION) from None

    async def server_version(self) -> str:
        """Return the Kubernetes version of the API server, such as ``1.33``."""
        request = _VERSION
        response = await self.send(request)
        try:
            found = msgspec.json.decode(response.body, type=_VersionInfo)
        except UNDECODABLE as error:
            raise UndecodableResponse(str(error), request=request, body=response.body) from error
        # Some distributions append a plus sign to the minor version, as in "33+".
        return f"{found.major}.{found.minor.rstrip('+')}"

    async def close(self) -> None:
        await self._transport.close()

    async def _send_once(self, request: Request) -> Response:
        turn = _TURN.get()
        if turn is not None and turn.bucket is self._bucket and not turn.used:
            turn.used = True
        else:
            await self._bucket.take()
        if request.method != "GET":
            # Every attempt is checked, after every wait: the lease may have been lost meanwhile.
            self._fence.check(f"{request.method} {request.path}")
        began, code = asyncio.get_running_loop().time(), 0
        try:
            if self._timeout is None:
                response = await self._transport.send(request)
            else:
                async with asyncio.timeout(self._timeout):
                    response = await self._transport.send(request)
            code = response.status
        except TimeoutError:
            within = "" if self._timeout is None else f" within {self._timeout:g} s"
            raise Unreachable(f"no answer{within}", request=request) from None
        finally:
            if self.listener is not None:
                self.listener(request, code, asyncio.get_running_loop().time() - began)
        if not response.ok:
            raise status_error(request, response)
        return response

    async def _ask(self, target: Target[T], request: Request) -> T:
        response = await self.send(request)
        try:
            return target.read(response.body)
        except InvalidObject as error:
            raise UndecodableResponse(str(error), request=request, body=response.body) from error
