"""
Where ``karpenter top`` gets the cluster from, and how it keeps what it shows up to date.

A :class:`LiveFeed` lists each kind once and then watches, as the operator does; kinds that the cluster does
not serve are left out, and those that decisions need must be readable. A :class:`StaticFeed` is a cluster
from files.

:class:`TopMonitor` makes snapshots. Rows are made again only for nodes that changed. What the operator would
decide takes seconds for a large cluster, so it is asked in a thread, only after something changed, and so
seldom that it takes a twentieth of a core at most.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from karpenter.api.cluster import Event
from karpenter.api.kinds import kind_of
from karpenter.api.labels import SPOT
from karpenter.api.node import Node
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.base.clock import SystemClock
from karpenter.base.queue import Supervisor
from karpenter.cloud.catalogs.current import CurrentCatalog
from karpenter.cloud.catalogs.ec2.data import currency_of, load_data
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.cloud.catalogs.load import AWS
from karpenter.controllers.informer import ALWAYS, FOR_DEVICES, FOR_OVERLAYS
from karpenter.core.state.cluster import ClusterState, ClusterView, ObjectDeleted, ObjectUpdated
from karpenter.kube.informer import Informer, InformerEvent, InformerUpdate
from karpenter.kube.rest import Selection
from karpenter.kube.targets import target_of
from karpenter.operator.kinds import watched_kinds
from karpenter.session.access import ask_for_each
from karpenter.session.catalog import chosen_catalog, suited_catalog
from karpenter.session.heartbeat import Heartbeat
from karpenter.session.live import CLASSES
from karpenter.top.advice import KARPENTER, Advice, LastDecision, last_decisions
from karpenter.top.model import RowCache
from karpenter.top.prices import prices_of
from karpenter.top.snapshot import TopOptions, TopSnapshot, take

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.core.model.catalog import Catalog
    from karpenter.kube.client import Client
    from karpenter.kube.targets import Target
    from karpenter.operator.options import Settings

    Adviser: TypeAlias = Callable[[ClusterView, Catalog, datetime], Advice]

_KINDS: Final[tuple[type[Resource], ...]] = (*ALWAYS, *FOR_OVERLAYS, *FOR_DEVICES, *CLASSES, Event)
_SHARE: Final = 20
"""The time between two decisions is at least so many times what the last one took."""

_LEAST_PAUSE: Final = 10.0
_PRICES_EVERY: Final = 5.0
"""Seconds after which it is looked whether prices are due or a file has changed, which costs nothing."""

_SIGNS: Final = {"USD": "$", "CNY": "¥"}
_AGAIN: Final = timedelta(minutes=5)
"""After so long a decision is made again though nothing changed: budgets open, claims grow old."""


class TopFeed(Protocol):
    """Where the cluster comes from."""

    @property
    def revision(self) -> int:
        """A number that changes whenever the cluster does."""
        ...

    @property
    def host(self) -> str:
        """Where the API server is; empty where there is none."""
        ...

    async def start(self) -> None:
        """Begin; returns once the whole cluster is known."""
        ...

    async def stop(self) -> None: ...

    def view(self) -> ClusterView: ...

    def decisions(self) -> Sequence[LastDecision]:
        """Return what Karpenter did last, the newest first."""
        ...

    def notes(self) -> Sequence[str]: ...


class StaticFeed:
    """A cluster that does not change."""

    revision, host = 0, ""

    def __init__(
        self, view: ClusterView, notes: Sequence[str] = (), events: Sequence[LastDecision] = ()
    ) -> None:
        self._view, self._notes, self._events = view, notes, events

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def view(self) -> ClusterView:
        return self._view

    def decisions(self) -> Sequence[LastDecision]:
        return self._events

    def notes(self) -> Sequence[str]:
        return self._notes


class LiveFeed:
    """A cluster that is watched."""

    def __init__(
        self, client: Client, settings: Settings | None = None, *, clock: Clock | None = None
    ) -> None:
        """With `settings` what they decide from must be readable; without, nodes and pods."""
        self._client, self.host, self._settings = client, client.host, settings
        self._chance = Random()  # noqa: S311  spreads requests, hides nothing
        self._supervisor = Supervisor(chance=self._chance)
        self._heartbeat = Heartbeat(client, clock or SystemClock())
        self._state = ClusterState(serves=None)
        self._events: dict[str, Event] = {}
        self._told: tuple[LastDecision, ...] | None = None
        self._notes: tuple[str, ...] = ()
        self._informers: list[Informer[Any]] = []
        self.revision = 0

    async def start(self) -> None:
        """
        Find out what may be read, list it, and watch it from then on.

        Raises:
            ClusterUnreadable: what decisions need may not be read.
        """
        for kind in await self._readable():
            informer = self._informer(kind)
            informer.subscribe(self._seen if kind is Event else self._apply)
            self._supervisor.start(f"informer/{kind.kind}", informer.run)
            self._informers.append(informer)
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers))
        self._supervisor.start("heartbeat", self._heartbeat.run)

    async def _readable(self) -> list[type[Resource]]:
        """Return the kinds that are there; without decisions nodes and pods are all that is needed."""
        watched = list(watched_kinds(self._settings)) if self._settings is not None else []
        kinds = list(dict.fromkeys((*_KINDS, *watched)))

        async def first(target: Target[Any]) -> Any:
            pages = self._client.pages(target, limit=1)
            return await anext(aiter(pages))

        found = await ask_for_each(self._client, map(target_of, kinds), first)
        has_pools = NodePool.kind in {*found.answers, *found.denied}
        needed: list[type[Resource]] = [Node, Pod]
        if has_pools and watched:
            needed += [*watched, *CLASSES]
        found.require(needed)
        self._notes = found.left_out
        return [kind for kind in kinds if kind.kind in found.answers]

    async def stop(self) -> None:
        await self._supervisor.stop()
        await self._client.close()

    def view(self) -> ClusterView:
        return self._state.view()

    def decisions(self) -> Sequence[LastDecision]:
        if self._told is None:
            self._told = last_decisions(self._events.values())
        return self._told

    def notes(self) -> Sequence[str]:
        """Return what is out of date because the server does not answer, then what may not be read."""
        lost = sorted({f"not up to date: {each.problem}" for each in self._informers if each.problem})
        old = self._heartbeat.sentence
        return [*([old] if old else lost[:1]), *self._notes]

    def _informer(self, kind: Any) -> Informer[Any]:
        if kind is Event:
            # The API server selects Events by their source: https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
            return Informer(
                self._client, Event, chance=self._chance, selection=Selection(fields=f"source={KARPENTER}")
            )
        if kind in CLASSES:
            narrow = partial(node_class_of, group=kind_of(kind).group, kind=kind.kind)
            return Informer(self._client, kind, narrow=narrow, chance=self._chance)
        return Informer(self._client, kind, chance=self._chance)

    def _apply(self, event: InformerEvent[Any]) -> None:
        self.revision += 1
        self._state.apply(
            ObjectUpdated(event.object) if isinstance(event, InformerUpdate) else ObjectDeleted(event.object)
        )

    def _seen(self, event: InformerEvent[Event]) -> None:
        self.revision += 1
        self._told = None
        if isinstance(event, InformerUpdate):
            self._events[event.key] = event.object
        else:
            self._events.pop(event.key, None)


def _now() -> datetime:
    return datetime.now(UTC)


class TopMonitor:
    """Makes snapshots of a feed."""

    def __init__(
        self,
        feed: TopFeed,
        adviser: Adviser | None,
        *,
        catalog: str = "",
        live_prices: bool = False,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """
        Without a `catalog`, the built-in one that suits the cluster is taken.

        With `live_prices`, AWS is asked for prices at once and then twice a day.
        """
        self._feed, self._adviser, self._clock = feed, adviser, clock
        self.catalog_name = catalog
        self._live_prices = live_prices
        self._source: CurrentCatalog | None = None
        self._looked = 0.0
        self._rows = RowCache(prices_of(None))
        self._advice: Advice | None = None
        self._problem = ""
        self._asked_about: ClusterView | None = None
        self._asked_at = datetime.min.replace(tzinfo=UTC)
        self._next = 0.0
        self.ready = False

    @property
    def revision(self) -> tuple[int, int, int]:
        """Changes whenever a new snapshot may differ from the last in more than ages."""
        return self._feed.revision, id(self._advice), id(self._catalog)

    @property
    def _catalog(self) -> Catalog | None:
        return self._source.catalog if self._source is not None else None

    @property
    def currency(self) -> str:
        """The sign of the currency that prices are in."""
        region = self._source.region if self._source is not None else ""
        return _SIGNS[currency_of(region)]

    async def start(self) -> None:
        """Begin; returns once there is something to show."""
        await self._feed.start()
        await self._find_catalog()
        self.ready = True

    async def _find_catalog(self) -> None:
        """Take the catalogue that was named, or the one that suits the nodes, once there are some."""
        view, host, live = self._feed.view(), self._feed.host, not isinstance(self._feed, StaticFeed)
        if self.catalog_name:
            name = chosen_catalog(view, self.catalog_name, live=live, host=host)
        else:
            name = await asyncio.to_thread(suited_catalog, view, host=host)
        if not name or (live and name == AWS and not self.catalog_name):
            return  # of a live cluster no region is assumed
        self.catalog_name = name
        source = CurrentCatalog(name, live=self._live_prices)
        if not source.region or source.region in load_data().regions:
            await asyncio.to_thread(source.load)
        self._source = source
        self._price()

    def _price(self) -> None:
        assert self._source is not None
        price = prices_of(self._catalog, self._source.region, self._source.fees)
        self._rows = RowCache(price, self.currency)

    async def refresh(self, *, now: bool = False) -> bool:
        """Look for other prices if that is due, or `now`; return whether there are some."""
        if not now and time.monotonic() < self._looked + _PRICES_EVERY:
            return False
        self._looked = time.monotonic()
        if self._source is None:
            await self._find_catalog()
            return self._source is not None
        if not await asyncio.to_thread(self._source.update, wait=now):
            return False
        self._asked_about = None  # other prices, other decisions
        self._price()
        return True

    async def stop(self) -> None:
        await self._feed.stop()

    async def advise(self) -> bool:
        """Ask what the operator would decide, if that is due; return whether it was asked."""
        view, now = self._feed.view(), self._clock()
        unchanged = view is self._asked_about and now - self._asked_at < _AGAIN
        if self._adviser is None or self._catalog is None or not view.pools or unchanged:
            return False
        if time.monotonic() < self._next:
            return False
        begun = time.monotonic()
        self._asked_about, self._asked_at = view, now
        try:
            self._advice = await asyncio.to_thread(self._adviser, view, self._catalog, now)
            self._problem = ""
        except Exception as error:  # noqa: BLE001  the rest of the screen is right without it
            self._advice, self._problem = None, f"no decision could be made: {error}"
        took = time.monotonic() - begun
        self._next = time.monotonic() + max(_SHARE * took, _LEAST_PAUSE)
        return True

    def take(self, options: TopOptions, *, words: str = "") -> TopSnapshot:
        view = self._feed.view()
        notes = [*self._feed.notes(), *([self._problem] if self._problem else [])]
        if self._source is not None and self._source.problem:
            notes.append(self._source.problem)
        if self.ready and self._source is None and options.pricing and view.nodes:
            notes.append("no built-in catalogue suits these nodes; name one with --catalog")
        if self._source is not None and self._catalog is None and view.pools:
            region = self._source.region
            notes.append(f"{region} has a price list and no catalogue, so nothing is decided about nodes")
        rows = self._rows.rows(view)
        if (
            options.pricing
            and self.catalog_name.startswith(AWS)
            and (self._source is None or not self._source.is_live)
            and any(r.capacity_type == SPOT for r in rows)
        ):
            notes.append("spot prices are modelled; --live-prices asks AWS for those of this moment")
        return take(
            view,
            rows,
            options,
            self._clock(),
            advice=self._advice,
            decisions=self._feed.decisions(),
            notes=notes,
            words=words,
            currency=self.currency,
        )
