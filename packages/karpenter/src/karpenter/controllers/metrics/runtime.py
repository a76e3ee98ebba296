"""
Metrics of the operator itself: reconciles, work queues, requests to the API server, and the cluster state.

Names and labels of the reconcile and workqueue metrics are those of controller-runtime:
https://book.kubebuilder.io/reference/metrics-reference.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from karpenter.core.state.statenode import state_nodes
from karpenter.telemetry.metrics import runtime
from karpenter.telemetry.metrics import scheduler as declared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.provisioner import Search
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent
    from karpenter.kube.transport import Request
    from karpenter.telemetry.metrics import Metrics


SUCCESS: Final = "success"
REQUEUE: Final = "requeue"
REQUEUE_AFTER: Final = "requeue_after"
ERROR: Final = "error"

_SHORTEST: Final = 2
"""How many parts a path has at least behind its group: a version and a kind."""


class ReconcileResult:
    """The result of one reconcile, set by the controller."""

    def __init__(self) -> None:
        self.result = ERROR
        self.crashed = False
        """Whether the reconciler raised an exception that it does not expect."""

        self.timed_out = False
        """Whether a call of the cloud provider timed out."""


class ReconcileMetrics:
    """Records the reconciles and the queue of one controller."""

    def __init__(
        self, metrics: Metrics, controller: str, monotonic: Callable[[], float], workers: int
    ) -> None:
        self._metrics = metrics
        self._controller = controller
        self._monotonic = monotonic
        self._names = {"controller": controller, "name": controller}
        self._in_progress: dict[object, float] = {}
        self._queue: WorkQueue[str] | None = None
        self._active = metrics[runtime.ACTIVE_WORKERS]
        self._steps = metrics[runtime.RECONCILES]
        self._times = metrics[runtime.RECONCILE_TIME]
        self._works = metrics[runtime.WORKQUEUE_WORK_DURATION]
        metrics[runtime.MAX_CONCURRENT_RECONCILES].set(float(workers), controller=controller)
        self._active.set(0.0, controller=controller)
        for each in (
            runtime.RECONCILE_ERRORS,
            runtime.TERMINAL_RECONCILE_ERRORS,
            runtime.RECONCILE_PANICS,
            runtime.RECONCILE_TIMEOUTS,
        ):
            metrics[each].add(0.0, controller=controller)  # so that a rate can be taken from the first one on

    def watch(self, queue: WorkQueue[str]) -> None:
        """Record a queue, too."""
        queue.metrics = self
        self._queue = queue
        self._metrics.before_reading(self._refresh)

    @contextmanager
    def step(self) -> Iterator[ReconcileResult]:
        """Record one reconcile, and bind the controller's name to log lines and calls within it."""
        controller, outcome, began = self._controller, ReconcileResult(), self._monotonic()
        self._in_progress[outcome] = began
        self._active.add(1.0, controller=controller)
        tokens = structlog.contextvars.bind_contextvars(controller=controller)
        try:
            yield outcome
        except Exception:
            outcome.crashed = True
            raise
        finally:
            structlog.contextvars.reset_contextvars(**tokens)
            del self._in_progress[outcome]
            took = self._monotonic() - began
            self._active.add(-1.0, controller=controller)
            self._steps.add(controller=controller, result=outcome.result)
            self._times.observe(took, controller=controller)
            if outcome.result == ERROR:
                self._metrics[runtime.RECONCILE_ERRORS].add(controller=controller)
            if outcome.crashed:
                self._metrics[runtime.RECONCILE_PANICS].add(controller=controller)
            if outcome.timed_out:
                self._metrics[runtime.RECONCILE_TIMEOUTS].add(controller=controller)
            if self._queue is not None:
                self._works.observe(took, **self._names)

    def added(self) -> None:
        """Count a key that was added."""
        self._metrics[runtime.WORKQUEUE_ADDS].add(**self._names)

    def taken(self, waited: float) -> None:
        """Record how long a key has waited."""
        self._metrics[runtime.WORKQUEUE_QUEUE_DURATION].observe(waited, **self._names)

    def retried(self) -> None:
        """Count a key that was retried."""
        self._metrics[runtime.WORKQUEUE_RETRIES].add(**self._names)

    def _refresh(self) -> None:
        metrics, names = self._metrics, self._names
        assert self._queue is not None
        ages = [self._monotonic() - began for began in self._in_progress.values()]
        metrics[runtime.WORKQUEUE_DEPTH].set(float(len(self._queue)), **names)
        metrics[runtime.WORKQUEUE_UNFINISHED].set(sum(ages), **names)
        metrics[runtime.WORKQUEUE_LONGEST].set(max(ages, default=0.0), **names)


def client_request_metrics(metrics: Metrics, host: str) -> Callable[[Request, int, float], None]:
    """Return a listener that counts and times the requests of a client to the API server."""

    def note(request: Request, code: int, seconds: float) -> None:
        answer = str(code) if code else "<error>"
        metrics[runtime.CLIENT_REQUESTS].add(code=answer, host=host, method=request.method)
        metrics[runtime.CLIENT_REQUEST_DURATION].observe(seconds, host=host, method=request.method)
        metrics[runtime.CLIENT_GO_REQUESTS].add(code=answer, method=request.method)
        labels = request_labels(request.method, request.path)
        if labels is not None:
            metrics[runtime.CLIENT_GO_REQUEST_DURATION].observe(seconds, **labels)

    return note


def request_labels(method: str, path: str) -> dict[str, str] | None:
    """Return what a request does with which kind of objects; None if it is not about objects."""
    root, *parts = path.strip("/").split("/")
    if root not in {"api", "apis"}:
        return None
    group, parts = ("", parts) if root == "api" else (parts[0] if parts else "", parts[1:])
    if len(parts) < _SHORTEST:
        return None
    version, rest = parts[0], parts[1:]
    if rest[0] == "namespaces" and len(rest) > _SHORTEST:  # a namespace itself has no more behind it
        rest = rest[2:]
    kind, *behind = rest
    verb = {"POST": "CREATE", "PUT": "UPDATE"}.get(method, method)
    if method == "GET" and not behind:
        verb = "LIST"
    return {
        "verb": verb,
        "group": group,
        "version": version,
        "kind": kind,
        "subresource": behind[1] if len(behind) > 1 else "",
    }


class SchedulingStatus(Protocol):
    """The provisioner, as far as metrics read it."""

    @property
    def name(self) -> str:
        """The value of the label ``controller``."""
        ...

    @property
    def search(self) -> Search | None:
        """The scheduling run in progress."""
        ...


class ClusterStateMetrics:
    """Shows the size and the synchronization of the cluster state, and the scheduling run in progress."""

    def __init__(
        self, store: ClusterState, metrics: Metrics, clock: Clock, provisioner: SchedulingStatus
    ) -> None:
        self._store = store
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
        """Update the gauges."""
        self._check_synced()
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

    def _check_synced(self) -> None:
        if self._store.synced:
            self._unsynced_since = None
        elif self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()
