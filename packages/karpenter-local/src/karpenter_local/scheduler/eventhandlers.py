"""
The event handlers of the scheduler: informer events become changes of :class:`.schedule_one.ScheduleOne`.

Also finds the pods of one workload or service, for the default topology spread, and what the disruption
budgets allow, for preemption.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from karpenter.api.cluster import Namespace
from karpenter.api.meta import LabelSelector, convert
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.base.quantity import QuantityError
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.kube.informer import Informer, InformerDelete, InformerEvent
from karpenter_local.controllers import plain
from karpenter_local.controllers.informers import BY_NAMESPACE, Informers
from karpenter_local.scheduler.nodeinfo import NodeInfo, node_info
from karpenter_local.scheduler.preempt import PDBLimit
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.schedule_one import ALL, NEIGHBOURS, STORAGE, ScheduleOne

if TYPE_CHECKING:
    from karpenter.kube.targets import Plain

log = structlog.stdlib.get_logger(__name__)

MOST_SELECTORS = 16384
"""Owners whose selectors are remembered at a time."""


class EventHandlers:
    """Delivers informer events to the scheduler."""

    def __init__(
        self,
        scheduler: ScheduleOne,
        informers: Informers,
        *,
        monotonic: Callable[[], float],
        woke: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._now = monotonic
        self._woke = woke
        self._informers = informers
        self._owners: dict[str, Informer[Plain]] = {
            "ReplicaSet": informers.replica_sets,
            "StatefulSet": informers.stateful_sets,
        }
        self._selectors: dict[str, LabelSelector] = {}
        # Asked for now, so that they are followed by the time they are needed.
        self._services, self._budgets = informers.services, informers.budgets
        self._kinds = (
            (informers.namespaces, self._namespace),
            (informers.nodes, self._node),
            (informers.csi_nodes, self._csi_node),
            (informers.classes, self._class),
            (informers.volumes, self._volume),
            (informers.claims, self._claim),
            (informers.pods, self._pod),
        )

    def subscribe(self) -> None:
        """Subscribe to every informer; existing objects are delivered at once, pods last."""
        for informer, listener in self._kinds:
            informer.subscribe(listener)  # type: ignore[arg-type]  # each listener fits the informer beside it

    def own_selector(self, pod: Pod) -> LabelSelector | None:
        """Return a selector for the pods of the same workload and services; None if there is neither."""
        labels: dict[str, str] = {}
        for service in self._services.store.find(BY_NAMESPACE, pod.namespace):
            wanted = service.spec.selector
            if wanted and wanted.items() <= pod.metadata.labels.items():
                labels |= wanted
        by_owner = self._owner_selector(pod)
        if by_owner is None:
            return LabelSelector(match_labels=labels) if labels else None
        return LabelSelector(
            match_labels={**by_owner.match_labels, **labels}, match_expressions=by_owner.match_expressions
        )

    def budgets(self) -> list[PDBLimit]:
        return [
            PDBLimit(
                namespace=each.namespace,
                selector=parse_selector(each.spec.selector),
                allowed=each.status.disruptions_allowed,
                already=frozenset(each.status.disrupted_pods),
            )
            for each in self._budgets.store
        ]

    def _owner_selector(self, pod: Pod) -> LabelSelector | None:
        owner = plain.managing_owner(pod.metadata.owner_references)
        if owner is None or owner.kind not in self._owners:
            return None
        known = self._selectors.get(owner.uid)
        if known is None:
            found = self._owners[owner.kind].store.get(f"{pod.namespace}/{owner.name}")
            selector = plain.spec_of(found).get("selector") if found is not None else None
            if selector is None:
                return None
            if len(self._selectors) >= MOST_SELECTORS:
                self._selectors.clear()
            known = self._selectors[owner.uid] = convert(selector, LabelSelector)
        return known

    def _pod(self, event: InformerEvent[Pod]) -> None:
        pod = event.object
        if isinstance(event, InformerDelete):
            self._scheduler.forget_pod(event.key, self._now())
        else:
            try:
                self._scheduler.see_pod(pod, self.own_selector(pod), self._now())
            except (QuantityError, SelectorError) as error:
                log.warning("pod.unreadable", pod=event.key, error=str(error))
        self._woke()

    def _node(self, event: InformerEvent[Node]) -> None:
        table = self._scheduler.table
        row = table.rows.find(event.object.name)
        known = table.nodes.get(row) if row is not None else None
        if isinstance(event, InformerDelete):
            table.drop_node(event.object.name)
            # Fewer nodes can help as well: a domain that was empty is gone, and no longer asks to be filled.
            self._changed(NEIGHBOURS)
            return
        try:
            info = node_info(event.object)
        except QuantityError as error:
            log.warning("node.unreadable", node=event.object.name, error=str(error))
            return
        if info != known:
            table.set_node(info)
            self._changed(helped_by(known, info))

    def _csi_node(self, event: InformerEvent[CSINode]) -> None:
        limits: dict[str, int] = {}
        if not isinstance(event, InformerDelete):
            for driver in event.object.spec.drivers:
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    limits[driver.name] = driver.allocatable.count
        self._scheduler.table.set_volume_limits(event.object.name, limits)
        self._changed({Filter.VOLUME_LIMITS})

    def _namespace(self, event: InformerEvent[Namespace]) -> None:
        labels = None if isinstance(event, InformerDelete) else event.object.metadata.labels
        if self._scheduler.table.set_namespace(event.object.name, labels):
            self._changed({Filter.POD_AFFINITY})

    def _class(self, event: InformerEvent[StorageClass]) -> None:
        classes = self._scheduler.table.storage.classes
        if isinstance(event, InformerDelete):
            classes.pop(event.object.name, None)
        else:
            classes[event.object.name] = event.object
        self._changed(STORAGE)

    def _volume(self, event: InformerEvent[PersistentVolume]) -> None:
        if isinstance(event, InformerDelete):
            self._scheduler.table.storage.drop_volume(event.object.name)
        else:
            self._scheduler.table.storage.set_volume(event.object)
        self._changed(STORAGE)

    def _claim(self, event: InformerEvent[PersistentVolumeClaim]) -> None:
        if isinstance(event, InformerDelete):
            self._scheduler.table.storage.drop_claim(event.key)
        else:
            self._scheduler.table.storage.set_claim(event.object)
        self._changed(STORAGE | {Filter.VOLUME_RESTRICTIONS})

    def _changed(self, filters: frozenset[Filter] | set[Filter]) -> None:
        self._scheduler.changed(filters, self._now())
        self._woke()


def helped_by(before: NodeInfo | None, after: NodeInfo) -> frozenset[Filter]:
    """Return the filters that a node may pass now and did not before."""
    if before is None:
        return ALL
    found: set[Filter] = set()
    if before.labels != after.labels:
        found |= {Filter.NODE_AFFINITY, Filter.VOLUME_BINDING, Filter.VOLUME_ZONE, *NEIGHBOURS}
    if before.taints != after.taints:
        found |= {Filter.TAINTS, Filter.SPREAD}
    if before.unschedulable != after.unschedulable:
        found.add(Filter.NODE_UNSCHEDULABLE)
    if before.room != after.room or before.most_pods != after.most_pods:
        found.add(Filter.RESOURCES)
    return frozenset(found)
