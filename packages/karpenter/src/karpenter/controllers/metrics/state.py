"""The state as metrics show it: how many nodes it holds, and since when it lacks something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from karpenter.core.state.statenode import state_nodes
from karpenter.telemetry.metrics import scheduler as declared

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.provisioner import Search
    from karpenter.core.state.cluster import Event, Store
    from karpenter.core.state.view import NodeClass
    from karpenter.telemetry.metrics import Metrics


class Searching(Protocol):
    """Someone who looks for places."""

    @property
    def name(self) -> str:
        """What metrics call it."""
        ...

    @property
    def search(self) -> Search | None:
        """The search that is under way."""
        ...


class StateGauges:
    """Shows the state, and the search for places that is under way."""

    def __init__(self, store: Store, metrics: Metrics, clock: Clock, provisioner: Searching) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._provisioner = provisioner
        self._unsynced_since: float | None = clock.monotonic()
        metrics.before_reading(self.refresh)

    def hear(self, event: Event, before: Resource | NodeClass | None) -> None:
        """Take note of when the state begins to lack something."""
        del event, before
        self._look()

    def refresh(self) -> None:
        """Bring the gauges up to date."""
        self._look()
        metrics, now = self._metrics, self._clock.monotonic()
        since = self._unsynced_since
        metrics[declared.STATE_NODE_COUNT].set(float(len(state_nodes(self._store.view()))))
        metrics[declared.STATE_SYNCED].set(1.0 if since is None else 0.0)
        metrics[declared.STATE_UNSYNCED_TIME].set(0.0 if since is None else now - since)
        search = self._provisioner.search
        rows = []
        if search is not None:
            labels = {"controller": self._provisioner.name, "scheduling_id": search.id}
            rows = [(float(search.pods), now - search.began, labels)]
        metrics[declared.QUEUE_DEPTH].publish("provisioner", [(pods, names) for pods, _, names in rows])
        metrics[declared.UNFINISHED_WORK].publish("provisioner", [(took, names) for _, took, names in rows])

    def _look(self) -> None:
        if self._store.synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()
