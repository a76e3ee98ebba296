"""
Follows a live cluster: one watch for each kind that decisions read, and one for Karpenter's Events.

The cluster is listed once; from then on only changes come, so an idle cluster costs a few requests a minute
however many pages are open. Changes are put together twice a second. What the operator would do next is
worked out while a page is open, and never for more than a tenth of the time.

Nothing is written. Kinds that the cluster does not serve are left out; those that decisions need must be
readable. While a page is open the API server is asked every few seconds whether it is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.cluster import Event
from karpenter.api.kinds import ALL_KINDS
from karpenter.api.nodepool import NodePool
from karpenter.base.queue import Supervisor
from karpenter.console.decisions import LIVE_EVENTS, DecisionLog, HeardEvent
from karpenter.console.server import MessageLog
from karpenter.console.state import (
    ConsoleDocument,
    Frame,
    Freshness,
    PlanSummary,
    Snapshot,
    SnapshotBuilder,
    frame_between,
    plan_summary,
)
from karpenter.controllers.informer import ALWAYS, Watches
from karpenter.core.events import CAPACITY_FAILURE
from karpenter.core.state.cluster import ClusterState, ClusterView
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate
from karpenter.kube.rest import Selection
from karpenter.kube.targets import target_of
from karpenter.session.access import ask_for_each
from karpenter.session.heartbeat import Heartbeat
from karpenter.session.live import CLASSES
from karpenter.why.costs import DEFAULT_TEAM_LABEL
from karpenter.why.failures import capacity_failures, without_sold_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from random import Random

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter.kube.targets import Target
    from karpenter.why.answer import Inquiry

_TICK: Final = 0.5
_FIRST_PLAN: Final = 1.0
_PLAN_EVERY: Final = 10.0
_PLAN_SHARE: Final = 10.0
_PRICES_EVERY: Final = 5.0
_KEPT_FRAMES: Final = 1000
_KEPT_ROWS: Final = 1000
_KNOWN_CLASSES: Final = frozenset({"EC2NodeClass", "KWOKNodeClass"})
_KEPT_FAILURES: Final = 200
"""How many launches that failed are kept; they count for three minutes."""


class ClusterFollower:
    """A live cluster as the console's source. Entering lists the cluster; leaving ends the watches."""

    def __init__(
        self,
        client: Client,
        *,
        title: str,
        catalog: Callable[[ClusterView], Catalog],
        ask: Callable[[ClusterView, Catalog, datetime], Inquiry],
        clock: Clock,
        chance: Random,
        team_label: str = DEFAULT_TEAM_LABEL,
        needed: Iterable[type[Resource]] = ALWAYS,
    ) -> None:
        """
        `needed` are the kinds that decisions read.

        `catalog` returns what is sold to a cluster, and is asked again every few seconds, in a thread.

        `ask` returns how to ask what the operator would do with a view.
        """
        self.messages = MessageLog()
        self.remarks: list[str] = []
        self._client = client
        self._title = title
        self._catalog_of = catalog
        self._ask = ask
        self._clock = clock
        self._chance = chance
        self._needed = tuple(dict.fromkeys(needed))
        self._supervisor = Supervisor(chance=chance)
        self._team_label = team_label
        self._builder = SnapshotBuilder(team_label=team_label)
        self._heartbeat = Heartbeat(client, clock, wanted=lambda: self.messages.listeners > 0)
        self._freshness = Freshness()
        self._frames: deque[Frame] = deque()
        self._log = DecisionLog(keep=_KEPT_ROWS)
        self._plans: deque[PlanSummary] = deque(maxlen=_KEPT_ROWS)
        self._failures: deque[Event] = deque(maxlen=_KEPT_FAILURES)
        self._base = self._snapshot = Snapshot()
        self._base_at = clock.now()
        self._view: ClusterView | None = None
        self._planned: ClusterView | None = None

    async def __aenter__(self) -> ClusterFollower:  # noqa: PYI034  never subclassed
        served = await self._served()
        classes = {
            (kind.group, kind.name): target_of(kind.struct)
            for kind in ALL_KINDS
            if kind.name in _KNOWN_CLASSES
        }
        refs = [pool.spec.template.spec.node_class_ref for pool in served.pools]
        self._store = ClusterState(serves={*classes, *((ref.group, ref.kind) for ref in refs)})
        watches = Watches(
            self._client,
            self._store,
            kinds=served.kinds,
            classes={key: target for key, target in classes.items() if key[1] in served.classes},
            chance=self._chance,
        )
        watches.start(self._supervisor)
        await watches.wait_synced()
        self._catalog = await asyncio.to_thread(self._catalog_of, self._store.view())
        self._base = self._snapshot = self._builder.build(self._store.view(), self._catalog)
        self._base_at, self._view = self._clock.now(), self._store.view()
        if served.events:
            events = Informer(
                self._client, Event, selection=Selection(fields="source=karpenter"), chance=self._chance
            )
            events.subscribe(self._hear)
            self._supervisor.start("informer/Event", events.run)
        self._supervisor.start("publish", self._publish)
        self._supervisor.start("plan", self._plan)
        self._supervisor.start("prices", self._reprice)
        self._supervisor.start("heartbeat", self._heartbeat.run)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._supervisor.stop()

    def document(self) -> ConsoleDocument:
        """Return the cluster as it was first, and every change since that is kept."""
        return ConsoleDocument(
            mode="live",
            title=self._title,
            at=self._base_at,
            revision=self.messages.number,
            snapshot=self._base,
            frames=tuple(self._frames),
            decisions=self._log.rows,
            team_label=self._team_label,
            plans=tuple(self._plans),
            features={"why": True, "whatif": True},
            remarks=tuple(self.remarks),
            freshness=self._freshness,
        )

    def inquiry(self, at: datetime | None) -> Inquiry:
        """Return the cluster as it is now; of earlier moments only the picture is kept."""
        del at
        now = self._clock.now()
        failures = capacity_failures(self._failures, now)
        inquiry = self._ask(self._store.view(), without_sold_out(self._catalog, failures), now)
        return msgspec.structs.replace(inquiry, failures=failures)

    async def _served(self) -> _Served:
        """
        Find out which kinds there are, with one small request for each.

        Raises:
            ClusterUnreadable: what decisions need may not be read.
        """
        kinds: tuple[type[Resource], ...] = (*self._needed, *CLASSES, Event)

        async def first(target: Target[Any]) -> tuple[Any, ...]:
            async for page in self._client.pages(target, limit=500 if target.kind == NodePool.kind else 1):
                return page.items
            return ()

        found = await ask_for_each(self._client, map(target_of, kinds), first)
        found.require((*self._needed, *CLASSES))
        self.remarks += found.left_out
        return _Served(
            kinds=tuple(each for each in self._needed if each.kind in found.answers),
            classes=frozenset(each.kind for each in CLASSES if each.kind in found.answers),
            pools=found.answers.get(NodePool.kind, ()),
            events=Event.kind in found.answers,
        )

    def _hear(self, event: InformerEvent[Any]) -> None:
        found = event.object
        if not isinstance(event, InformerUpdate) or found.reason not in LIVE_EVENTS:
            return
        at = found.last_timestamp or found.event_time or found.first_timestamp or self._clock.now()
        if found.reason == CAPACITY_FAILURE:
            self._failures.append(found)
        about = found.involved_object
        name = f"{about.namespace}/{about.name}" if about.kind == "Pod" else about.name
        heard = HeardEvent(at=at, reason=found.reason, kind=about.kind, name=name, message=found.message)
        self._log.hear(heard, self._snapshot)

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._tell_age()
            view = self._store.view()
            if view is not self._view:
                self._view = view
                self._show(self._builder.build(view, self._catalog))
            for row in self._log.take_changed():
                self.messages.send("decision", row)

    def _show(self, snapshot: Snapshot) -> None:
        frame = frame_between(self._snapshot, snapshot, self._clock.now())
        if frame.is_empty:
            return
        self._log.follow(self._snapshot, snapshot, frame.at)
        self._snapshot = snapshot
        self._frames.append(frame)
        if len(self._frames) > _KEPT_FRAMES:
            self._forget()
        self.messages.send("frame", frame)

    def _tell_age(self) -> None:
        """Tell pages when the API server stops to answer, and when it answers again."""
        age = self._heartbeat.age
        if bool(age) == (self._freshness.as_of is not None):
            return
        as_of = self._clock.now() - timedelta(seconds=age) if age else None
        self._freshness = Freshness(as_of=as_of, problem=self._heartbeat.problem)
        self.messages.send("freshness", self._freshness)

    async def _reprice(self) -> None:
        while True:
            await asyncio.sleep(_PRICES_EVERY)
            found = await asyncio.to_thread(self._catalog_of, self._store.view())
            if found is not self._catalog:
                self._catalog = found
                self._view = self._planned = None  # shown and planned anew

    def _forget(self) -> None:
        """Let the oldest frame become part of where the document begins."""
        first = self._frames.popleft()
        fields = {}
        for name in ("machines", "pods", "pools"):
            lost = first.gone.get(name, ())
            kept = {key: value for key, value in getattr(self._base, name).items() if key not in lost}
            fields[name] = {**kept, **getattr(first, name)}
        self._base, self._base_at = Snapshot(**fields), first.at

    async def _plan(self) -> None:
        """Work out what the operator would do next, while a page is open and something has changed."""
        wait = _FIRST_PLAN
        while True:
            await asyncio.sleep(wait)
            wait = _FIRST_PLAN if self._planned is None else _PLAN_EVERY
            view = self._store.view()
            if not self.messages.listeners or view is self._planned:
                continue
            began = self._clock.monotonic()
            inquiry, snapshot = self.inquiry(None), self._snapshot
            decision = await asyncio.to_thread(inquiry.disrupt, view)
            self._planned = view
            summary = plan_summary(decision, snapshot, inquiry.now)
            self._plans.append(summary)
            self.messages.send("plan", summary)
            wait = max(_PLAN_EVERY, _PLAN_SHARE * (self._clock.monotonic() - began))


class _Served(msgspec.Struct, frozen=True, kw_only=True):
    kinds: tuple[type[Any], ...]
    classes: frozenset[str]
    pools: tuple[Any, ...]
    events: bool
