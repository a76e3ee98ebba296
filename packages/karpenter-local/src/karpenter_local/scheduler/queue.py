"""
Whose turn it is to be scheduled.

Pods wait in one of three places: ready (tried in order of priority, then of arrival), backing off after a
failed try, or parked until something changes in the cluster that could help them. A parked pod remembers
which filters refused it, so that only changes which concern those filters wake it, and it is tried again
after five minutes in any case.

Pure: ``now`` is an argument, in seconds on any scale that only grows.
"""

import heapq
from collections.abc import Iterable

import msgspec

from karpenter_local.scheduler.reasons import Filter

# podInitialBackoffSeconds and podMaxBackoffSeconds; unschedulable pods are tried again after five minutes:
# https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 10.0
LONGEST_PARKED_SECONDS = 300.0


class _Waiting(msgspec.Struct, kw_only=True):
    """One pod in the queue."""

    key: str
    priority: int
    arrived: int
    """A number that grows with each pod that arrives."""
    attempts: int = 0
    tried: float = 0.0
    filters: frozenset[Filter] = frozenset()
    ticket: int = 0
    """Marks the one entry of a heap that counts; older ones are leftovers."""

    def backoff(self) -> float:
        """How long to wait after the last attempt."""
        if not self.attempts:
            return 0.0
        return min(FIRST_BACKOFF_SECONDS * 2.0 ** (self.attempts - 1), LONGEST_BACKOFF_SECONDS)


class SchedulingQueue:
    """Pods that wait for a node."""

    def __init__(self) -> None:
        self._pods: dict[str, _Waiting] = {}
        self._ready: list[tuple[int, int, int, str]] = []
        self._backing_off: list[tuple[float, int, str]] = []
        self._parked: dict[str, None] = {}
        self._parked_by: dict[Filter, dict[str, None]] = {}
        self._oldest: list[tuple[float, int, str]] = []
        """Parked pods by when they are tried in any case."""
        self._arrivals = 0
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def add(self, key: str, priority: int) -> None:
        """Let a pod join, or let one that changed be tried at once."""
        pod = self._pods.get(key)
        if pod is None:
            self._arrivals += 1
            pod = self._pods[key] = _Waiting(key=key, priority=priority, arrived=self._arrivals)
        pod.priority = priority
        self._unpark(pod)
        self._make_ready(pod)

    def remove(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._unpark(pod)

    def pop(self, now: float) -> str | None:
        """Return the pod whose turn it is, if any; it stays in the queue until removed, and may be parked."""
        self._wake(now)
        while self._ready:
            *_, ticket, key = heapq.heappop(self._ready)
            if self._counts(ticket, key):
                pod = self._pods[key]
                pod.ticket = 0
                pod.attempts += 1
                pod.tried = now
                return key
        return None

    def park(self, key: str, filters: frozenset[Filter]) -> None:
        """Note that a try failed, and at which filters; the pod waits for a change."""
        pod = self._pods.get(key)
        if pod is None:
            return
        self._unpark(pod)
        pod.filters = filters
        self._parked[key] = None
        for each in filters:
            self._parked_by.setdefault(each, {})[key] = None
        heapq.heappush(self._oldest, (pod.tried + LONGEST_PARKED_SECONDS, self._ticket(pod), key))

    def retry(self, key: str, now: float) -> None:
        """Note that a try failed for a reason outside of the cluster's state; the pod only backs off."""
        pod = self._pods.get(key)
        if pod is not None:
            self._unpark(pod)
            self._resume(pod, now)

    def changed(self, filters: Iterable[Filter], now: float) -> None:
        """Wake the parked pods that one of `filters` refused."""
        keys = {key: None for each in filters for key in self._parked_by.get(each, ())}
        for key in keys:
            pod = self._pods[key]
            self._unpark(pod)
            self._resume(pod, now)

    def next_due(self) -> float | None:
        """Return when the next pod is to be tried though nothing changed; None if there is none."""
        for heap in (self._backing_off, self._oldest):
            while heap and not self._counts(heap[0][1], heap[0][2]):
                heapq.heappop(heap)
        return min((heap[0][0] for heap in (self._backing_off, self._oldest) if heap), default=None)

    def _wake(self, now: float) -> None:
        while self._backing_off and self._backing_off[0][0] <= now:
            _, ticket, key = heapq.heappop(self._backing_off)
            if self._counts(ticket, key):
                self._make_ready(self._pods[key])
        while self._oldest and self._oldest[0][0] <= now:
            _, ticket, key = heapq.heappop(self._oldest)
            if self._counts(ticket, key):
                self._unpark(self._pods[key])
                self._make_ready(self._pods[key])

    def _resume(self, pod: _Waiting, now: float) -> None:
        due = pod.tried + pod.backoff()
        if due <= now:
            self._make_ready(pod)
        else:
            heapq.heappush(self._backing_off, (due, self._ticket(pod), pod.key))

    def _make_ready(self, pod: _Waiting) -> None:
        heapq.heappush(self._ready, (-pod.priority, pod.arrived, self._ticket(pod), pod.key))

    def _unpark(self, pod: _Waiting) -> None:
        if pod.key in self._parked:
            del self._parked[pod.key]
            for each in pod.filters:
                self._parked_by[each].pop(pod.key, None)

    def _counts(self, ticket: int, key: str) -> bool:
        pod = self._pods.get(key)
        return pod is not None and pod.ticket == ticket

    def _ticket(self, pod: _Waiting) -> int:
        self._tickets += 1
        pod.ticket = self._tickets
        return self._tickets
