"""The controller that publishes Events about the do-not-disrupt annotation of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.pod import Pod
from karpenter.core.lifecycle.do_not_disrupt import do_not_disrupt_events
from karpenter.core.state.cluster import ObjectUpdated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.cluster import ClusterState, NodeClass, StateEvent


class DoNotDisruptController:
    """Publishes until when pods on managed nodes are not disrupted."""

    name = "pod.donotdisrupt"

    def __init__(self, store: ClusterState, performer: Performer, clock: Clock) -> None:
        self._store = store
        self._performer = performer
        self._clock = clock

    def wakes(self, event: StateEvent, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the pod of an event if its annotation, its node or its start time has changed."""
        pod = event.object
        if not isinstance(event, ObjectUpdated) or not isinstance(pod, Pod):
            return
        if DO_NOT_DISRUPT in pod.metadata.annotations and (
            not isinstance(before, Pod) or _inputs(before) != _inputs(pod)
        ):
            yield pod.key

    async def reconcile(self, key: str) -> float | None:
        """Reconcile one pod."""
        pod = self._store.pod(key)
        node = self._store.node(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not self._store.claims_of(node.spec.provider_id):
            return None
        due = do_not_disrupt_events(pod, self._clock.now())
        await self._performer.perform(due.effects)
        return due.again


def _inputs(pod: Pod) -> tuple[object, ...]:
    return pod.metadata.annotations.get(DO_NOT_DISRUPT), pod.spec.node_name, pod.status.start_time
