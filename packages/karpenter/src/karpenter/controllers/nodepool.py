"""Controllers of NodePools: conditions, hash, registration health, and the sum of their nodes' resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from karpenter.api.labels import NODEPOOL, LabelRules
from karpenter.api.nodepool import NodePool
from karpenter.core.lifecycle.nodepool import nodepool_resources, nodepool_status
from karpenter.core.lifecycle.registrationhealth import (
    NO_HISTORY,
    RegistrationHistory,
    history_of_condition,
    is_outdated,
    record_outcome,
)
from karpenter.core.scheduling.build.nodepools import pool_usage
from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent, nodes_and_pools
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.core.effects import RegistrationOutcome

# Every pod that starts changes the resources of its pool; one status write in five seconds is enough for
# people.
COUNTER_PERIOD: Final = 5.0
UNSYNCED: Final = 1.0
"""Seconds until the next check while the cluster state is not synced."""


class RegistrationOutcomes:
    """Registration outcomes that are not recorded yet, by NodePool."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self._of: dict[str, list[RegistrationOutcome]] = {}

    def add(self, outcome: RegistrationOutcome) -> None:
        self._of.setdefault(outcome.pool, []).append(outcome)
        self.queue.add(outcome.pool)

    def first(self, pool: str) -> RegistrationOutcome | None:
        """Return the oldest outcome of a NodePool."""
        return next(iter(self._of.get(pool, ())), None)

    def done(self, pool: str) -> None:
        """Remove the oldest outcome of a NodePool."""
        left = self._of.pop(pool)[1:]
        if left:
            self._of[pool] = left


class NodePoolController:
    """Keeps the conditions, the hash and the registration health of NodePools current."""

    name = "nodepool"
    kinds: ClassVar = (NodePool, NodeClass)

    def __init__(
        self,
        outcomes: RegistrationOutcomes,
        store: ClusterState,
        performer: Performer,
        clock: Clock,
        rules: LabelRules,
    ) -> None:
        self._outcomes = outcomes
        self._store = store
        self._performer = performer
        self._clock = clock
        self._rules = rules
        self._histories: dict[str, RegistrationHistory] = {}  # by the uid of the pool

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the NodePools to reconcile after an event."""
        del before
        item = event.object
        if isinstance(item, NodePool):
            yield item.name
        elif isinstance(item, NodeClass):
            for pool in self._store.view().pools.values():
                ref = pool.spec.template.spec.node_class_ref
                if (ref.group, ref.kind, ref.name) == (item.group, item.kind, item.name):
                    yield pool.name

    async def reconcile(self, key: str) -> float | None:
        pool = self._store.pool(key)
        if pool is not None:
            await self._update_status(pool)
        while (outcome := self._outcomes.first(key)) is not None:
            await self._record(key, outcome)
            self._outcomes.done(key)
        return None

    async def _update_status(self, pool: NodePool) -> None:
        view, ref = self._store.view(), pool.spec.template.spec.node_class_ref
        found = view.node_classes.get((ref.group, ref.kind, ref.name))
        own = [each for each in view.claims.values() if each.metadata.labels.get(NODEPOOL) == pool.name]
        outdated = found is not None and is_outdated(pool, found)
        await self._performer.perform(
            nodepool_status(pool, found, own, rules=self._rules, now=self._clock.now())
        )
        if outdated:
            self._histories[pool.metadata.uid] = NO_HISTORY

    async def _record(self, key: str, outcome: RegistrationOutcome) -> None:
        pool = self._store.pool(key)
        if pool is None or pool.metadata.uid != outcome.pool_uid:
            return
        history = self._histories.get(outcome.pool_uid) or history_of_condition(pool)
        after, effects = record_outcome(pool, history, outcome, self._clock.now())
        await self._performer.perform(effects)
        self._histories[outcome.pool_uid] = after


class NodePoolCounter:
    """Writes the sum of the resources of each NodePool's nodes to its status."""

    name = "nodepool.counter"

    def __init__(self, store: ClusterState, performer: Performer) -> None:
        self._store = store
        self._performer = performer
        self._counted: tuple[object, ...] = ()

    async def look(self) -> float:
        """Write the sums once the state is synced: after a restart they would be too low before."""
        if not self._store.synced:
            return UNSYNCED
        view = self._store.view()
        if nodes_and_pools(view) != self._counted:
            used = pool_usage(state_nodes(view))
            for pool in view.pools.values():
                await self._performer.perform(nodepool_resources(pool, used.get(pool.name, {})))
            self._counted = nodes_and_pools(view)
        return COUNTER_PERIOD
