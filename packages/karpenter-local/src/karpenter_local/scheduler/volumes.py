"""
Which nodes a pod's volumes leave it, and which volumes its unbound claims get on a node.

Bound volumes must be reachable from the node and its drivers must have slots left. A claim that waits for
its first consumer takes the smallest free volume that the node can reach, or is provisioned if its class
makes volumes there.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from karpenter.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.reasons import Filter
from karpenter_local.scheduler.rows import Mask, Rows
from karpenter_local.scheduler.storage import SELECTED_NODE, ZONE_LABELS, PodVolumeClaims, Storage
from karpenter_local.scheduler.volumelimits import NodeVolumes

Reach = Callable[[tuple[NodeSelectorTerm, ...]], Mask]
"""Returns the rows whose nodes satisfy one of the terms. Read it at once."""

_NO_ZONE = NodeSelectorTerm(
    match_expressions=tuple(NodeSelectorRequirement(key=key, operator="DoesNotExist") for key in ZONE_LABELS)
)


class Binding(msgspec.Struct, frozen=True):
    """Volume that one unbound claim gets when its pod gets a node, or its wish for a new one."""

    claim: PersistentVolumeClaim
    volume: str = ""
    """The free volume it is bound to; empty if one is to be provisioned."""


class VolumeFilter:
    """Judges nodes by the volumes a pod needs."""

    def __init__(self, rows: Rows, storage: Storage, attached: NodeVolumes, reach: Reach) -> None:
        self._rows = rows
        self._storage = storage
        self._attached = attached
        self._reach = reach

    def refusals(self, pod_volumes: PodVolumeClaims, candidates: Mask) -> Iterator[tuple[Filter, str, Mask]]:
        """Yield each filter in the order in which they are asked: its words, and the rows it refuses."""
        if pod_volumes.once_in_use:
            yield Filter.VOLUME_RESTRICTIONS, reasons.ONCE_POD_IN_USE, np.ones_like(candidates)
        yield Filter.VOLUME_LIMITS, reasons.TOO_MANY_VOLUMES, self._attached.full(pod_volumes.volumes)
        if pod_volumes.volume_gone:
            yield Filter.VOLUME_BINDING, reasons.VOLUME_GONE, np.ones_like(candidates)
        for terms in pod_volumes.reachable:
            yield Filter.VOLUME_BINDING, reasons.VOLUME_ELSEWHERE, ~self._reach(terms)
        if pod_volumes.to_bind:
            yield Filter.VOLUME_BINDING, reasons.NOTHING_TO_BIND, ~self._bindable(pod_volumes, candidates)
        for zone in pod_volumes.zones:
            yield Filter.VOLUME_ZONE, reasons.WRONG_VOLUME_ZONE, ~self._reach((zone, _NO_ZONE))

    def bindings(self, pod_volumes: PodVolumeClaims, row: int) -> tuple[Binding, ...] | None:
        """Return what each unbound claim gets at `row`; None if some claim gets nothing."""
        taken: set[str] = set()
        found: list[Binding] = []
        for claim in pod_volumes.to_bind:
            if not self._selected(claim)[row]:
                return None
            volume = next(
                (
                    v.name
                    for v in self._storage.available(claim)
                    if v.name not in taken and self._reaches(v, row)
                ),
                "",
            )
            if not volume and not self._provisionable(claim)[row]:
                return None
            taken.add(volume)
            found.append(Binding(claim, volume))
        return tuple(found)

    def _bindable(self, pod_volumes: PodVolumeClaims, candidates: Mask) -> Mask:
        """Return the rows where every unbound claim finds a volume or can have one made."""
        if any(self._storage.available(claim) for claim in pod_volumes.to_bind):
            found = np.zeros_like(candidates)
            for row in candidates.nonzero()[0].tolist():
                found[row] = self.bindings(pod_volumes, row) is not None
            return found
        found = np.ones_like(candidates)
        for claim in pod_volumes.to_bind:
            found &= self._selected(claim) & self._provisionable(claim)
        return found

    def _reaches(self, volume: PersistentVolume, row: int) -> bool:
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return True
        return bool(self._reach(affinity.required.node_selector_terms)[row])

    def _selected(self, claim: PersistentVolumeClaim) -> Mask:
        """Return the rows that an earlier attempt to bind the claim leaves open: all of them, or one."""
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node is None:
            return np.ones(self._rows.capacity, np.bool_)
        mask = np.zeros(self._rows.capacity, np.bool_)
        row = self._rows.find(node)
        if row is not None:
            mask[row] = True
        return mask

    def _provisionable(self, claim: PersistentVolumeClaim) -> Mask:
        where = self._storage.provisioned_where(claim)
        if where is None:
            return np.zeros(self._rows.capacity, np.bool_)
        return self._reach(where) if where else np.ones(self._rows.capacity, np.bool_)
