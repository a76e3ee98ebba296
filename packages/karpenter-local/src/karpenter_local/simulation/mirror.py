"""
The cluster as it is, kept from the API server's own writes: no watch, no delay, no faults.

It stands where a journal would stand, so that it hears of every write in order and at once. It keeps the few
kinds that invariants ask for, and folds every write into a digest: two runs are the same if their digests
are.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.meta import Resource
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.kube.targets import target_of
from karpenter_local.sandbox.operators import LEASE
from karpenter_local.simulation.network import WRITER

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.base.clock import Clock
    from karpenter_local.apiserver.watch_cache import WatchCacheEvent

_KINDS: Final[dict[str, type[Resource]]] = {
    "nodes": Node,
    "pods": Pod,
    "nodeclaims.karpenter.sh": NodeClaim,
    "nodepools.karpenter.sh": NodePool,
    "poddisruptionbudgets.policy": PodDisruptionBudget,
    "capacitybuffers.autoscaling.x-k8s.io": CapacityBuffer,
    "nodeoverlays.karpenter.sh": NodeOverlay,
}
_LAUNCHING: Final = b"DisruptionLaunching"


class ObjectWrite(msgspec.Struct, frozen=True):
    """One write: an object before and after it; None where there was or is none."""

    before: Resource | None
    after: Resource | None
    revision: int = 0
    by: str = ""
    """The replica that asked for it; empty if it was another client."""

    @property
    def object(self) -> Resource:
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found


class Mirror:
    """All nodes, claims, pods and pools, and everything else that invariants ask for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._digest = hashlib.blake2b(digest_size=16)
        self._listeners: list[Callable[[ObjectWrite], None]] = []
        self._readers = {table: target_of(kind).read for table, kind in _KINDS.items()}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, NodeClaim] = {}
        self.pools: dict[str, NodePool] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.buffers: dict[str, CapacityBuffer] = {}
        self.overlays: dict[str, NodeOverlay] = {}
        self.leases: dict[str, dict[str, Any]] = {}
        """The spec of the Lease of leader election, by key."""

        self.renewed_at = 0.0
        """When that Lease was last written."""

        self.replacements: dict[str, None] = {}
        """Claims of which an Event says that they replace what is disrupted."""
        self._of: dict[str, dict[str, Any]] = {
            "nodes": self.nodes,
            "pods": self.pods,
            "nodeclaims.karpenter.sh": self.claims,
            "nodepools.karpenter.sh": self.pools,
            "poddisruptionbudgets.policy": self.budgets,
            "capacitybuffers.autoscaling.x-k8s.io": self.buffers,
            "nodeoverlays.karpenter.sh": self.overlays,
        }
        self.writes = 0

    @property
    def digest(self) -> str:
        """Everything that was written so far, as one number."""
        return self._digest.hexdigest()

    def subscribe(self, listener: Callable[[ObjectWrite], None]) -> None:
        """Tell `listener` of every write of the kinds that are kept."""
        self._listeners.append(listener)

    def record(self, table: str, change: WatchCacheEvent) -> None:
        self.writes += 1
        self._digest.update(f"{self._clock.monotonic()} {table} {change.type} ".encode())
        self._digest.update(change.entry.raw)
        held = self._of.get(table)
        if held is None:
            # Keep the little that is asked of kinds of which there are many writes.
            if table == "leases.coordination.k8s.io" and change.entry.name == LEASE:
                self.leases[change.entry.key] = change.entry.object()["spec"]
                self.renewed_at = self._clock.monotonic()
            elif table == "events" and _LAUNCHING in change.entry.raw:
                event = change.entry.object()
                about: dict[str, str] = event.get("involvedObject") or event.get("regarding") or {}
                self.replacements[about.get("name", "")] = None
            return
        key = change.entry.key
        after = None if change.type == "DELETED" else self._readers[table](change.entry.raw)
        before = held.pop(key, None)
        if after is not None:
            held[key] = after
        write = ObjectWrite(before, after, change.entry.revision, WRITER.get())
        for listener in self._listeners:
            listener(write)

    async def settled(self, revision: int) -> None: ...

    def claim_of(self, provider_id: str) -> NodeClaim | None:
        return next((each for each in self.claims.values() if each.status.provider_id == provider_id), None)

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == node]
