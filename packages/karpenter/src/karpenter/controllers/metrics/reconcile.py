"""
Reconciles and work queues of controllers, as metrics.

Names and labels are those of controller-runtime: https://book.kubebuilder.io/reference/metrics-reference.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.telemetry.metrics import Metrics, runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.base.queue import WorkQueue


# The results that controller_runtime_reconcile_total is labelled with:
# https://book.kubebuilder.io/reference/metrics-reference
SUCCESS: Final = "success"
REQUEUE: Final = "requeue"
REQUEUE_AFTER: Final = "requeue_after"
ERROR: Final = "error"


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
        self._metrics[runtime.WORKQUEUE_ADDS].add(**self._names)

    def taken(self, waited: float) -> None:
        """Record how long a key has waited."""
        self._metrics[runtime.WORKQUEUE_QUEUE_DURATION].observe(waited, **self._names)

    def retried(self) -> None:
        self._metrics[runtime.WORKQUEUE_RETRIES].add(**self._names)

    def _refresh(self) -> None:
        metrics, names = self._metrics, self._names
        assert self._queue is not None
        ages = [self._monotonic() - began for began in self._in_progress.values()]
        metrics[runtime.WORKQUEUE_DEPTH].set(float(len(self._queue)), **names)
        metrics[runtime.WORKQUEUE_UNFINISHED].set(sum(ages), **names)
        metrics[runtime.WORKQUEUE_LONGEST].set(max(ages, default=0.0), **names)


class ReconcileResult:
    """The result of one reconcile, set by the controller."""

    def __init__(self) -> None:
        self.result = ERROR
        self.crashed = False
        """Whether the reconciler raised an exception that it does not expect."""

        self.timed_out = False
        """Whether a call of the cloud provider timed out."""
