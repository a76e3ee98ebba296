"""The controller of CapacityBuffers: writes their status, and triggers the provisioner for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.node import Node
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet
from karpenter.core.lifecycle.capacitybuffer import PERIOD, buffer_status
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectUpdated, StateEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provisioner import Provisioner
    from karpenter.core.provisioning.provisioner import ProvisioningDecision


class CapacityBufferController:
    """Keeps the status of CapacityBuffers current."""

    name = "capacitybuffer"
    kinds: ClassVar = (CapacityBuffer, PodTemplate, Deployment, ReplicaSet, StatefulSet, Pod, Node)

    def __init__(
        self,
        queue: WorkQueue[str],
        store: ClusterState,
        performer: Performer,
        provisioner: Provisioner,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._store = store
        self._performer = performer
        self._provisioner = provisioner
        self._clock = clock
        self._fits: dict[str, bool] = {}
        self._triggered: dict[str, tuple[float, object]] = {}
        self._stale: set[str] = set()
        """Buffers since whose last decision pods or nodes have come or gone."""

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the buffers to reconcile after an event."""
        item = event.object
        if isinstance(item, CapacityBuffer):
            yield item.key
        elif isinstance(item, Pod | Node):
            if _frees_or_takes_room(item, before, is_gone=not isinstance(event, ObjectUpdated)):
                self._stale.update(self._store.view().buffers)
                yield from tuple(self._stale)
        elif isinstance(item, PodTemplate | Deployment | ReplicaSet | StatefulSet):
            for buffer in self._store.view().buffers.values():
                if buffer.namespace == item.namespace and _refers_to(buffer, item):
                    yield buffer.key

    def decided(self, decision: ProvisioningDecision) -> None:
        """Store whether the virtual pods of each buffer fit existing nodes."""
        for key, fits in decision.buffers.items():
            if self._fits.get(key) != fits:
                self._fits[key] = fits
                self._queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        view = self._store.view()
        buffer = view.buffers.get(key)
        if buffer is None:
            self._fits.pop(key, None)
            self._triggered.pop(key, None)
            self._stale.discard(key)
            return None
        due = buffer_status(buffer, view, self._clock.now(), fits=self._fits.get(key))
        await self._performer.perform(due.effects)
        self._trigger(key)
        return due.again

    def _trigger(self, key: str) -> None:
        """Trigger the provisioner when a buffer has changed, and periodically."""
        buffer = self._store.view().buffers.get(key)
        if buffer is None or not buffer.status.replicas:
            return
        now, known = self._clock.monotonic(), self._triggered.get(key)
        resolved = (buffer.metadata.generation, buffer.status.replicas, buffer.status.pod_template_generation)
        if known is None or known[1] != resolved or now - known[0] >= PERIOD or key in self._stale:
            self._stale.discard(key)
            self._triggered[key] = (now, resolved)
            self._provisioner.trigger(buffer.metadata.uid)


def _frees_or_takes_room(item: Pod | Node, before: Resource | NodeClass | None, *, is_gone: bool) -> bool:
    """Whether what fits the nodes has changed: a pod is bound or gone, or a node has come or gone."""
    if isinstance(item, Node):
        return is_gone or before is None
    bound = before.spec.node_name if isinstance(before, Pod) else ""
    return bool(item.spec.node_name) and (is_gone or not bound)


def _refers_to(buffer: CapacityBuffer, item: Resource) -> bool:
    spec = buffer.spec
    if isinstance(item, PodTemplate):
        return spec.pod_template_ref is not None and spec.pod_template_ref.name == item.name
    ref = spec.scalable_ref
    return ref is not None and (ref.kind, ref.name) == (item.kind, item.name)
