"""
The eviction queue: evicts or deletes the pods of draining nodes.

Each pod is in the queue once, with the earliest termination time of its node. An eviction that a
PodDisruptionBudget refuses (429) is retried with backoff. What to do with a pod is decided in
:mod:`karpenter.core.lifecycle.terminator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from karpenter.api.meta import ObjectReference
from karpenter.api.pod import Pod
from karpenter.controllers.controller import Requeue
from karpenter.core.effects import Count, Effect, Evict
from karpenter.core.events import disrupted, evicted, failed_draining
from karpenter.core.lifecycle.terminator import (
    DeletePod,
    EvictionDone,
    EvictPod,
    RetryEviction,
    eviction_action,
)
from karpenter.kube.errors import Conflict, KubeError, NotFound, StatusError, TooManyRequests
from karpenter.kube.rest import Preconditions, named

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState
    from karpenter.kube.client import Client

log = structlog.stdlib.get_logger(__name__)

# The API server answers 500 with this text when more than one budget selects the pod:
# https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget"


class EvictionQueue:
    """Pods to evict, each once, with the earliest time by which it must be gone."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self._pending: dict[str, Evict] = {}

    def add(self, eviction: Evict) -> None:
        key = f"{eviction.pod}/{eviction.uid}"
        before = self._pending.get(key)
        if before is not None:
            eviction = msgspec.structs.replace(eviction, by=_earliest(before.by, eviction.by))
        self._pending[key] = eviction
        if before is None or before.by != eviction.by:
            self.queue.add(key)

    def get(self, key: str) -> Evict | None:
        return self._pending.get(key)

    def done(self, key: str) -> None:
        self._pending.pop(key, None)


class EvictionController:
    """Evicts or deletes one pod at a time."""

    name = "eviction-queue"

    def __init__(
        self,
        evictions: EvictionQueue,
        store: ClusterState,
        client: Client,
        performer: Performer,
        clock: Clock,
    ) -> None:
        self._evictions = evictions
        self._store = store
        self._client = client
        self._performer = performer
        self._clock = clock

    async def reconcile(self, key: str) -> float | None:
        eviction = self._evictions.get(key)
        if eviction is None:
            return None
        pod = self._store.pod(eviction.pod)
        match eviction_action(pod, eviction.uid, eviction.by, self._clock.now()):
            case EvictionDone():
                pass
            case DeletePod(grace=grace):
                assert pod is not None
                await self._delete(pod, grace)
            case EvictPod():
                await self._evict(eviction)
            case RetryEviction():
                raise _may_not_be_evicted(eviction)
        self._evictions.done(key)
        return None

    async def _read(self, eviction: Evict) -> Pod | None:
        """
        Return a pod that is to be evicted as the API server has it: the cluster state may be behind.

        A precondition on the resourceVersion of the pod would not do: the API server takes the eviction off
        the PodDisruptionBudget before it looks at the precondition, and gives it back after two minutes only:
        https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/pod/storage/eviction.go
        """
        namespace, _, name = eviction.pod.partition("/")
        found = (await self._client.list(Pod, named(name, namespace=namespace))).items
        match eviction_action(found[0] if found else None, eviction.uid, None, self._clock.now()):
            case EvictPod():
                return found[0]
            case RetryEviction():
                raise _may_not_be_evicted(eviction)
            case _:
                return None

    async def _delete(self, pod: Pod, grace: int) -> None:
        try:
            await self._client.delete(
                Pod,
                pod.name,
                namespace=pod.namespace,
                only_if=Preconditions(uid=pod.metadata.uid),
                grace=grace,
            )
        # Gone, or another pod of the same name: the precondition on the uid makes sure that a pod which its
        # StatefulSet has created anew is not deleted:
        # https://kubernetes.io/docs/reference/using-api/api-concepts/
        except (NotFound, Conflict):
            return
        log.info("pod.deleted", summary="deleted pod", pod=pod.key, node=pod.spec.node_name, grace=grace)
        await self._perform(disrupted(pod, grace))

    async def _evict(self, eviction: Evict) -> None:
        pod = await self._read(eviction)
        if pod is None:
            return
        code = "200"
        try:
            await self._client.evict(
                pod.name, namespace=pod.namespace, only_if=Preconditions(uid=pod.metadata.uid)
            )
        except (NotFound, Conflict) as error:
            code = str(error.code)
        except KubeError as error:
            code = str(error.code) if isinstance(error, StatusError) else "0"
            # 429 means that a PodDisruptionBudget does not allow the eviction now:
            # https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
            if isinstance(error, TooManyRequests) or SEVERAL_BUDGETS in str(error):
                node = ObjectReference(api_version="v1", kind="Node", name=eviction.node)
                await self._perform(failed_draining(node, f"Pod {pod.key} cannot be evicted: {error}"))
                raise Requeue(str(error)) from error
            raise
        finally:
            await self._perform(Count(metric="karpenter_pods_eviction_requests_total", labels={"code": code}))
        if code == "200":
            log.info(
                "pod.evicted",
                summary="evicted pod",
                pod=pod.key,
                node=eviction.node,
                because=eviction.because,
            )
            await self._perform(
                evicted(pod, eviction.because),
                Count(metric="karpenter_pods_drained_total", labels={"reason": eviction.because}),
            )

    async def _perform(self, *effects: Effect) -> None:
        await self._performer.perform(effects)


def _may_not_be_evicted(eviction: Evict) -> Requeue:
    # The do-not-disrupt annotation holds until the pod, or the termination time of its node, ends it:
    # https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
    return Requeue(f"pod {eviction.pod} may not be evicted now")


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)
