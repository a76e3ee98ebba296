"""
The Event recorder: publishes Kubernetes Events, deduplicated and rate limited.

Publishing returns at once and never fails. An Event with the same dedupe values is dropped until its dedupe
timeout has passed, which doubles each time. Some reasons have a rate limit. :meth:`Recorder.run` sends the
rest. A repeated Event raises the count of the first, as ``kubectl describe`` shows it ("x5 over 40m"). If
the server is slow or refuses, Events are lost and the loss is logged; nothing waits for them.

The reasons and messages are in :mod:`karpenter.core.events`.
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
from karpenter.api.meta import ObjectReference, to_plain
from karpenter.base.clock import Clock
from karpenter.base.ratelimiting import TokenBucket
from karpenter.kube.client import Client
from karpenter.kube.errors import KubeError, NotFound
from karpenter.kube.patches import MergePatch

log = structlog.stdlib.get_logger(__name__)

# Karpenter's recorder keeps equal Events back for two minutes:
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/events/recorder.go
DEDUPE_TIMEOUT = 120.0
"""The default dedupe timeout in seconds."""

# --event-ttl: https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
MAX_DEDUPE_TIMEOUT = 1800.0
"""The longest dedupe timeout in seconds; API servers delete Events after an hour by default."""

MAX_QUEUED = 1000
"""The most Events in the queue; more are dropped."""

MAX_SENT = 4096
"""The most sent Events whose count may still be raised."""

# The API server refuses longer messages:
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
MAX_MESSAGE_LENGTH = 1024  # the API's own limit


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event to publish."""

    about: ObjectReference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    annotations: Mapping[str, str] = {}
    same_as: tuple[str, ...] = ()
    """The dedupe values beside the reason; by default the object and the message."""

    quiet_for: float = DEDUPE_TIMEOUT
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
        # A Nominated Event for each of thousands of pods would fill the API server; upstream has the same
        # limit.
        # https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/events/recorder.go
        self._limits = {"Nominated": TokenBucket(rate=5, burst=10)} if limits is None else limits
        self._quiet: dict[tuple[str, ...], _Quiet] = {}
        self._tidied_at = clock.monotonic()
        self._waiting: asyncio.Queue[tuple[RecordedEvent, datetime]] = asyncio.Queue(MAX_QUEUED)
        self._sent: OrderedDict[tuple[str, ...], _Sent] = OrderedDict()
        self._serial = count()
        self.dropped = 0
        """Events that were lost because the queue was full or the server refused them."""

    def publish(self, occurrence: RecordedEvent) -> bool:
        """Queue an Event; return False if it is deduplicated or over its rate limit."""
        now = self._clock.monotonic()
        # Remove, from time to time, entries whose dedupe timeout has passed.
        if now - self._tidied_at >= DEDUPE_TIMEOUT:
            self._tidied_at = now
            # What was not told for much longer than it had to be quiet is news when it comes back.
            self._quiet = {
                key: each for key, each in self._quiet.items() if each.since + 4 * each.length > now
            }
        quiet, repeats = self._quiet.get(occurrence.key), False
        if quiet is not None:
            repeats = quiet.message == occurrence.message
            if now < quiet.since + (quiet.length if repeats else occurrence.quiet_for):
                return False
        if occurrence.minor and self._waiting.qsize() >= MAX_QUEUED // 2:
            return False
        length = 2 * quiet.length if quiet is not None and repeats else occurrence.quiet_for
        length = min(length, max(occurrence.quiet_for, MAX_DEDUPE_TIMEOUT))
        self._quiet[occurrence.key] = _Quiet(now, length, occurrence.message)
        bucket = self._limits.get(occurrence.reason)
        if bucket is not None and not bucket.try_take():
            return False
        try:
            self._waiting.put_nowait((occurrence, self._clock.now()))
        except asyncio.QueueFull:
            self._lose(occurrence, f"{MAX_QUEUED} events are waiting already")
            return False
        return True

    async def run(self) -> None:
        while True:
            occurrence, when = await self._waiting.get()
            try:
                await self._send(occurrence, when)
            except KubeError as error:
                self._lose(occurrence, str(error))
            finally:
                self._waiting.task_done()

    async def flush(self) -> None:
        """Wait until every queued Event was sent or lost."""
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
        await self._client.record(Event, body, namespace=namespace)
        self._sent[key] = _Sent(namespace, name)
        if len(self._sent) > MAX_SENT:
            self._sent.popitem(last=False)

    async def _raise_count(self, sent: _Sent, when: datetime) -> bool:
        """Raise the count of an Event; return False if the server has deleted it."""
        # A repeated Event raises the count of the first one, as kubectl describe shows it:
        # https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
        change = MergePatch({"count": sent.times + 1, "lastTimestamp": _second(when)})
        try:
            await self._client.patch(Event, sent.name, change, namespace=sent.namespace)
        except NotFound:
            return False
        sent.times += 1
        return True

    def _event(self, occurrence: RecordedEvent, when: datetime) -> dict[str, Any]:
        about, second = occurrence.about, _second(when)
        # Names are those of client-go: the object and the time in nanoseconds, in hexadecimal.
        # https://github.com/kubernetes/client-go/blob/master/tools/record/event.go
        unique = int(when.timestamp() * 1e6) * 1000 + next(self._serial) % 1000
        return {
            # Events about cluster-scoped objects, such as Nodes, are in the namespace default:
            # https://github.com/kubernetes/client-go/blob/master/tools/record/event.go
            "metadata": {
                "name": f"{about.name}.{unique:x}",
                "namespace": about.namespace or "default",
                **({"annotations": dict(occurrence.annotations)} if occurrence.annotations else {}),
            },
            "involvedObject": to_plain(about),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": occurrence.message[:MAX_MESSAGE_LENGTH],
            "count": 1,
            "firstTimestamp": second,
            "lastTimestamp": second,
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


def _second(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
