"""
Static NodePools: creates the claims that they lack, and deletes those that are too many.

Both take the lock of decisions: between the creation of a replacement and the mark on what it replaces a
NodePool seems to have one node too many.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from karpenter.api.labels import NODEPOOL, LabelRules
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.core.disruption.deprovisioning import scale_down
from karpenter.core.effects import CreateClaim
from karpenter.core.provisioning.static import PERIOD, count_claims, is_static, scale_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent

log = structlog.stdlib.get_logger(__name__)

UNSYNCED: Final = 1.0


class _StaticPools(ABC):
    """What both share: which events are about a static NodePool, and one decision at a time."""

    def __init__(self, store: ClusterState, performer: Performer, deciding: asyncio.Lock) -> None:
        self._store = store
        self._performer = performer
        self._deciding = deciding

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        del before
        yield from _pool_of(event, self._store)

    async def reconcile(self, key: str) -> float | None:
        """Bring one pool nearer to what it should be; return when to look again."""
        if not self._store.complete:
            return UNSYNCED
        async with self._deciding:
            pool = self._store.pool(key)
            if pool is None or not is_static(pool):
                return None
            return await self._bring(pool)

    @abstractmethod
    async def _bring(self, pool: NodePool) -> float | None:
        """Decide and act on one static NodePool, while no other decision is made."""


class StaticProvisioning(_StaticPools):
    """Creates the claims that static NodePools lack."""

    name = "static.provisioning"
    kinds: ClassVar = (NodePool, NodeClaim)

    def __init__(
        self, store: ClusterState, performer: Performer, rules: LabelRules, deciding: asyncio.Lock
    ) -> None:
        super().__init__(store, performer, deciding)
        self._rules = rules

    async def _bring(self, pool: NodePool) -> float | None:
        view = self._store.view()
        due = scale_up(pool, count_claims(pool.name, view.claims.values(), view.marked), self._rules)
        creating = [each for each in due.effects if isinstance(each, CreateClaim)]
        if creating:
            log.info("nodepool.grows", nodepool=pool.name, by=len(creating), to=pool.spec.replicas)
        made = await asyncio.gather(
            *(self._performer.create_claim(each) for each in creating), return_exceptions=True
        )
        for each in made:
            if isinstance(each, BaseException):
                raise each
        return due.again


class StaticDeprovisioning(_StaticPools):
    """Deletes the claims of static NodePools that are too many."""

    name = "static.deprovisioning"
    kinds: ClassVar = (NodePool, NodeClaim)

    def __init__(
        self, store: ClusterState, performer: Performer, clock: Clock, deciding: asyncio.Lock
    ) -> None:
        super().__init__(store, performer, deciding)
        self._clock = clock

    async def _bring(self, pool: NodePool) -> float | None:
        effects = scale_down(pool, self._store.view(), self._clock.now())
        if effects:
            log.info("nodepool.shrinks", nodepool=pool.name, to=pool.spec.replicas)
        await self._performer.perform(effects)
        return PERIOD


def _pool_of(event: StateEvent, store: ClusterState) -> Iterable[str]:
    item = event.object
    if isinstance(item, NodePool):
        if is_static(item):
            yield item.name
    elif isinstance(item, NodeClaim):
        pool = store.pool(item.metadata.labels.get(NODEPOOL, ""))
        if pool is not None and is_static(pool):
            yield pool.name
