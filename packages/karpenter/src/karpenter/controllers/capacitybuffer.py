"""Buffers: what they come down to as things change, and a decision about their room now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.pod import PodTemplate
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet
from karpenter.core.lifecycle.capacitybuffer import PERIOD, buffer_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.base.queue import WorkQueue
    from karpenter.controllers.perform import Performer
    from karpenter.controllers.provisioner import Provisioner
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent


class CapacityBufferController:
    """Keeps what buffers say about themselves up to date."""

    name = "capacitybuffer"

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
        self._asked: dict[str, tuple[float, object]] = {}

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the buffers that an event is about."""
        del before
        item = event.object
        if isinstance(item, CapacityBuffer):
            yield item.key
        elif isinstance(item, PodTemplate | Deployment | ReplicaSet | StatefulSet):
            for buffer in self._store.view().buffers.values():
                if buffer.namespace == item.namespace and _measured_by(buffer, item):
                    yield buffer.key

    def decided(self, decision: ProvisioningDecision) -> None:
        """Take note of where the room of buffers was found."""
        for key, fits in decision.buffers.items():
            if self._fits.get(key) != fits:
                self._fits[key] = fits
                self._queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        """Do what is due for one buffer."""
        view = self._store.view()
        buffer = view.buffers.get(key)
        if buffer is None:
            self._fits.pop(key, None)
            self._asked.pop(key, None)
            return None
        due = buffer_status(buffer, view, self._clock.now(), fits=self._fits.get(key))
        await self._performer.perform(due.effects)
        self._ask(key)
        return due.again

    def _ask(self, key: str) -> None:
        """Ask for a decision about a buffer's room: when it has changed, and once in a while."""
        buffer = self._store.view().buffers.get(key)
        if buffer is None or not buffer.status.replicas:
            return
        now, known = self._clock.monotonic(), self._asked.get(key)
        wish = (buffer.metadata.generation, buffer.status.replicas, buffer.status.pod_template_generation)
        if known is None or known[1] != wish or now - known[0] >= PERIOD:
            self._asked[key] = (now, wish)
            self._provisioner.trigger(buffer.metadata.uid)


def _measured_by(buffer: CapacityBuffer, item: Resource) -> bool:
    spec = buffer.spec
    if isinstance(item, PodTemplate):
        return spec.pod_template_ref is not None and spec.pod_template_ref.name == item.name
    ref = spec.scalable_ref
    return ref is not None and (ref.kind, ref.name) == (item.kind, item.name)
