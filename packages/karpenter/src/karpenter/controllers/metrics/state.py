"""The cluster state, and the scheduling run in progress, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from karpenter.core.state.statenode import state_nodes
from karpenter.telemetry.metrics import Metrics
from karpenter.telemetry.metrics import scheduler as declared

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.provisioner import Search
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent


class ClusterStateMetrics:
    """Shows size, synchronization and age of the cluster state, and the scheduling run in progress."""

    def __init__(
        self,
        store: ClusterState,
        metrics: Metrics,
        clock: Clock,
        provisioner: SchedulingStatus,
        lost_at: Callable[[], float | None],
    ) -> None:
        """`lost_at` returns when the API server stopped to answer a watch; None while it answers all."""
        self._store, self._lost_at = store, lost_at
        self._metrics = metrics
        self._clock = clock
        self._provisioner = provisioner
        self._unsynced_since: float | None = clock.monotonic()
        metrics.before_reading(self.refresh)

    def hear(self, event: StateEvent, before: Resource | NodeClass | None) -> None:
        """Note when the cluster state becomes unsynced."""
        del event, before
        self._check_synced()

    def refresh(self) -> None:
        self._check_synced()
        metrics, now = self._metrics, self._clock.monotonic()
        since = self._unsynced_since
        metrics[declared.STATE_NODE_COUNT].set(float(len(state_nodes(self._store.view()))))
        metrics[declared.STATE_SYNCED].set(1.0 if since is None else 0.0)
        metrics[declared.STATE_UNSYNCED_TIME].set(0.0 if since is None else now - since)
        lost_at = self._lost_at()
        metrics[declared.STATE_AGE].set(0.0 if lost_at is None else now - lost_at)
        search = self._provisioner.search
        rows = []
        if search is not None:
            labels = {"controller": self._provisioner.name, "scheduling_id": search.id}
            rows = [(float(search.pods), now - search.began, labels)]
        metrics[declared.QUEUE_DEPTH].publish("provisioner", [(pods, names) for pods, _, names in rows])
        metrics[declared.UNFINISHED_WORK].publish("provisioner", [(took, names) for _, took, names in rows])

    def _check_synced(self) -> None:
        if self._store.synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()


class SchedulingStatus(Protocol):
    """The provisioner, as far as metrics read it."""

    @property
    def name(self) -> str:
        """The value of the label ``controller``."""
        ...

    @property
    def search(self) -> Search | None: ...
