"""
Telling users what happens to their objects, as Kubernetes Events.

Publishing is instant and never fails: an event that says the same of the same object again is dropped for a
while, which doubles each time it has passed; some reasons are held to a rate, and the rest is queued for
:meth:`Recorder.run` to send. The same event later only raises the count of the first, as ``kubectl describe``
shows it ("x5 over 40m"). If the server is slow or refuses, events are lost and that is logged; nothing waits
for them.

Which events there are, and what they say, is decided elsewhere.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from typing import Any, Literal

import msgspec
import structlog

from karpenter.api.cluster import Event
from karpenter.api.meta import ObjectReference
from karpenter.api.wire import to_plain
from karpenter.base.clock import Clock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError, NotFound
from karpenter.kube.rest import MergePatch

log = structlog.stdlib.get_logger(__name__)

QUIET = 120.0
"""Seconds for which the same event is not told again, unless it says otherwise."""

STALE = 1800.0
"""Seconds after which the same event is told again however often it was told: servers forget in an hour."""

WAITING = 1000
"""Events that may wait to be sent; more are dropped."""

REMEMBERED = 4096
"""Events that were sent and whose count may still rise."""

LONGEST_MESSAGE = 1024  # the API's own limit


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth telling about an object."""

    about: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    same_as: tuple[str, ...] = ()
    """With the reason, what makes two occurrences the same; by default the object and the message."""

    quiet_for: float = QUIET
    minor: bool = False
    """Whether it is the first to be left out when too much is to be told."""

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same as another."""
        about = self.about
        return (
            self.reason,
            *(self.same_as or (about.kind, about.namespace, about.name, about.uid, self.message)),
        )


class _Quiet(msgspec.Struct, frozen=True):
    """An occurrence that was told: when, in which words, and for how long those are not repeated."""

    since: float
    length: float
    message: str


class _Sent(msgspec.Struct):
    """An event that the server has."""

    namespace: str
    name: str
    times: int = 1


class Recorder:
    """Publishes occurrences as the events of one component."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        component: str = "karpenter",
        limits: Mapping[str, TokenBucket] | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._limits = {"Nominated": TokenBucket(rate=5, burst=10)} if limits is None else limits
        self._quiet: dict[tuple[str, ...], _Quiet] = {}
        self._tidied_at = clock.monotonic()
        self._waiting: asyncio.Queue[tuple[RecordedEvent, datetime]] = asyncio.Queue(WAITING)
        self._sent: OrderedDict[tuple[str, ...], _Sent] = OrderedDict()
        self._serial = count()
        self.dropped = 0
        """Events lost because too many were waiting, or because the server did not take them."""

    def publish(self, occurrence: RecordedEvent) -> bool:
        """Tell of an occurrence, soon; return False if it was told recently or too many are being told."""
        now = self._clock.monotonic()
        self._tidy(now)
        quiet, repeats = self._quiet.get(occurrence.key), False
        if quiet is not None:
            repeats = quiet.message == occurrence.message
            if now < quiet.since + (quiet.length if repeats else occurrence.quiet_for):
                return False
        if occurrence.minor and self._waiting.qsize() >= WAITING // 2:
            return False
        length = 2 * quiet.length if quiet is not None and repeats else occurrence.quiet_for
        length = min(length, max(occurrence.quiet_for, STALE))
        self._quiet[occurrence.key] = _Quiet(now, length, occurrence.message)
        bucket = self._limits.get(occurrence.reason)
        if bucket is not None and not bucket.try_take():
            return False
        try:
            self._waiting.put_nowait((occurrence, self._clock.now()))
        except asyncio.QueueFull:
            self._lose(occurrence, f"{WAITING} events are waiting already")
            return False
        return True

    async def run(self) -> None:
        """Send what was published, until cancelled."""
        while True:
            occurrence, when = await self._waiting.get()
            try:
                await self._send(occurrence, when)
            except KubeError as error:
                self._lose(occurrence, str(error))
            finally:
                self._waiting.task_done()

    async def flush(self) -> None:
        """Wait until everything published so far was sent, or lost."""
        await self._waiting.join()

    async def _send(self, occurrence: RecordedEvent, when: datetime) -> None:
        about = occurrence.about
        key = (
            about.kind,
            about.namespace,
            about.name,
            about.uid,
            occurrence.type,
            occurrence.reason,
            occurrence.message,
        )
        sent = self._sent.get(key)
        if sent is not None and await self._raise_count(sent, when):
            self._sent.move_to_end(key)
            return
        body = self._event(occurrence, when)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        await self._client.create(Event, body, namespace=namespace)
        self._sent[key] = _Sent(namespace, name)
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    async def _raise_count(self, sent: _Sent, when: datetime) -> bool:
        """Add one to an event's count; return False if the server has forgotten it."""
        change = MergePatch({"count": sent.times + 1, "lastTimestamp": _second(when)})
        try:
            await self._client.patch(Event, sent.name, change, namespace=sent.namespace)
        except NotFound:
            return False
        sent.times += 1
        return True

    def _event(self, occurrence: RecordedEvent, when: datetime) -> dict[str, Any]:
        about = occurrence.about
        unique = int(when.timestamp() * 1e6) * 1000 + next(self._serial) % 1000
        return {
            "metadata": {"name": f"{about.name}.{unique:x}", "namespace": about.namespace or "default"},
            "involvedObject": to_plain(about),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": occurrence.message[:LONGEST_MESSAGE],
            "count": 1,
            "firstTimestamp": _second(when),
            "lastTimestamp": _second(when),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }

    def _lose(self, occurrence: RecordedEvent, why: str) -> None:
        self.dropped += 1
        about = occurrence.about
        log.warning(
            "event.dropped",
            reason=occurrence.reason,
            kind=about.kind,
            namespace=about.namespace,
            name=about.name,
            error=why,
        )

    def _tidy(self, now: float) -> None:
        """Forget, once in a while, what may be told again anyway."""
        if now - self._tidied_at >= QUIET:
            self._tidied_at = now
            # What was not told for much longer than it had to be quiet is news when it comes back.
            self._quiet = {
                key: each for key, each in self._quiet.items() if each.since + 4 * each.length > now
            }


def _second(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
