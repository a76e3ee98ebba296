"""
The queue of pods that have to leave their nodes.

Each pod is in it once, with the earliest time by which its node goes. A pod that a disruption budget holds is
asked again, more and more slowly; what to do about a pod is decided in ``core.lifecycle.evict``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from karpenter.api.meta import ObjectReference
from karpenter.api.pod import Pod
from karpenter.controllers.controller import Requeue
from karpenter.core.effects import Count
from karpenter.core.events import disrupted, evicted, failed_draining
from karpenter.core.lifecycle.terminator import (
    DeletePod,
    EvictionDone,
    EvictPod,
    RetryEviction,
    eviction_action,
)
from karpenter.kube.errors import Conflict, KubeError, NotFound, StatusError, TooManyRequests
from karpenter.kube.rest import Preconditions

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.core.effects import Effect, Evict
    from karpenter.core.state.cluster import ClusterState
    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

_SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget"


class EvictionQueue:
    """Pods that have to leave, each once, with the earliest time by which it has to be gone."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self._wanted: dict[str, Evict] = {}

    def add(self, eviction: Evict) -> None:
        """Take care that a pod leaves."""
        key = f"{eviction.pod}/{eviction.uid}"
        before = self._wanted.get(key)
        if before is not None:
            eviction = msgspec.structs.replace(eviction, by=_earliest(before.by, eviction.by))
        self._wanted[key] = eviction
        if before is None or before.by != eviction.by:
            self.queue.add(key)

    def get(self, key: str) -> Evict | None:
        """Return what is wanted of a pod that has not left."""
        return self._wanted.get(key)

    def done(self, key: str) -> None:
        """Forget a pod that has left, or was asked to."""
        self._wanted.pop(key, None)


class EvictionController:
    """Makes pods leave, one at a time."""

    name = "eviction-queue"

    def __init__(
        self,
        departures: EvictionQueue,
        store: ClusterState,
        client: Client,
        performer: Performer,
        clock: Clock,
    ) -> None:
        self._departures = departures
        self._store = store
        self._client = client
        self._performer = performer
        self._clock = clock

    async def reconcile(self, key: str) -> float | None:
        """Let one pod leave."""
        eviction = self._departures.get(key)
        if eviction is None:
            return None
        pod = self._store.pod(eviction.pod)
        match eviction_action(pod, eviction.uid, eviction.by, self._clock.now()):
            case EvictionDone():
                pass
            case DeletePod(grace=grace):
                assert pod is not None
                await self._force(pod, grace)
            case EvictPod():
                assert pod is not None
                await self._ask(pod, eviction)
            case RetryEviction():
                raise Requeue(f"pod {eviction.pod} may not be evicted now")
        self._departures.done(key)
        return None

    async def _force(self, pod: Pod, grace: int) -> None:
        try:
            await self._client.delete(
                Pod,
                pod.name,
                namespace=pod.namespace,
                only_if=Preconditions(uid=pod.metadata.uid),
                grace=grace,
            )
        except (NotFound, Conflict):
            return
        log.info("pod.deleted", pod=pod.key, node=pod.spec.node_name, grace=grace)
        await self._perform(disrupted(pod, grace))

    async def _ask(self, pod: Pod, eviction: Evict) -> None:
        code = "200"
        try:
            await self._client.evict(
                pod.name, namespace=pod.namespace, only_if=Preconditions(uid=pod.metadata.uid)
            )
        except (NotFound, Conflict) as error:
            code = str(error.code)
        except KubeError as error:
            code = str(error.code) if isinstance(error, StatusError) else "0"
            if isinstance(error, TooManyRequests) or _SEVERAL_BUDGETS in str(error):
                node = ObjectReference(api_version="v1", kind="Node", name=eviction.node)
                await self._perform(failed_draining(node, f"Pod {pod.key} cannot be evicted: {error}"))
                raise Requeue(str(error)) from error
            raise
        finally:
            await self._perform(Count(metric="karpenter_pods_eviction_requests_total", labels={"code": code}))
        if code == "200":
            log.info("pod.evicted", pod=pod.key, node=eviction.node, because=eviction.because)
            await self._perform(
                evicted(pod, eviction.because),
                Count(metric="karpenter_pods_drained_total", labels={"reason": eviction.because}),
            )

    async def _perform(self, *effects: Effect) -> None:
        await self._performer.perform(effects)


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)
