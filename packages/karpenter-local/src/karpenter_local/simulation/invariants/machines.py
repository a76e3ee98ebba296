"""Invariants of machines: they match NodeClaims and nodes, keep limits and sizes, and what leaves is gone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT, NODEPOOL
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.model.resources import parse_resources
from karpenter_local.simulation.invariants.disruption import covers
from karpenter_local.simulation.invariants.invariant import Invariant, cores, cores_of_pool, is_true

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import ViolationLog
    from karpenter_local.simulation.mirror import ObjectWrite

QUIET: Final = 600.0
"""Seconds without a claim coming or going after which a cluster counts as steady."""


class OwnershipInvariant(Invariant):
    """Machines and claims are in pairs, and so are nodes."""

    name = "ownership"

    def unsettled(self) -> Iterable[str]:
        """Return who is alone."""
        machines = {each.provider_id for each in self.simulated.cloud.machines()}
        claims = Counter(each.status.provider_id for each in self.mirror.claims.values())
        nodes = {each.spec.provider_id for each in self.mirror.nodes.values()}
        for provider_id in sorted(machines - claims.keys()):
            yield f"machine {provider_id} has no claim"
        for name, claim in self.mirror.claims.items():
            if claim.status.provider_id not in machines:
                yield f"claim {name} has no machine"
            elif claim.status.provider_id not in nodes:
                yield f"claim {name} has no node"
        for provider_id, count in claims.items():
            if count > 1:
                yield f"machine {provider_id} has {count} claims"
        for name, node in self.mirror.nodes.items():
            if node.spec.provider_id not in machines:
                yield f"node {name} has no machine"


class FinalizerInvariant(Invariant):
    """No finalizer is stuck. What a user's own action holds (a pod that must not be disrupted) may stay."""

    name = "no finalizer is stuck"

    def unsettled(self) -> Iterable[str]:
        """Return what should be gone, or open."""
        for kind, held in (
            ("node", self.mirror.nodes),
            ("claim", self.mirror.claims),
            ("pod", self.mirror.pods),
        ):
            for name, item in held.items():
                if item.metadata.deletion_timestamp is not None and not self._is_held(item):
                    yield f"{kind} {name} is being deleted and does not go"
        for name, node in self.mirror.nodes.items():
            closed = any(taint.key == DISRUPTED for taint in node.spec.taints)
            if closed and node.metadata.deletion_timestamp is None:
                yield f"node {name} is closed and stays"

    def _is_held(self, item: Resource) -> bool:
        """Whether pods that must not be evicted keep a machine where it is."""
        provider_id = item.spec.provider_id if isinstance(item, Node) else _provider_id(item)
        node = next(
            (each for each in self.mirror.nodes.values() if each.spec.provider_id == provider_id), None
        )
        claim = self.mirror.claim_of(provider_id)
        if node is None or (claim is not None and claim.spec.termination_grace_period is not None):
            return False
        return any(self._stays(pod) for pod in self.mirror.pods_on(node.name))

    def _stays(self, pod: Pod) -> bool:
        if pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true":
            return True
        return any(
            budget.status.disruptions_allowed <= 0 and covers(budget, pod)
            for budget in self.mirror.budgets.values()
        )


def _provider_id(item: Resource) -> str:
    status = getattr(item, "status", None)
    found: str = getattr(status, "provider_id", "")
    return found


class SteadyStateInvariant(Invariant):
    """No NodeClaim is created or deleted, except those that expire."""

    name = "steady state"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._moved = 0.0
        self._what = "the beginning"

    def on_write(self, write: ObjectWrite) -> None:
        """Note when a claim comes or goes."""
        if isinstance(write.object, NodeClaim) and (write.before is None or write.after is None):
            pool = self.mirror.pools.get(write.object.metadata.labels.get(NODEPOOL, ""))
            if pool is not None and pool.spec.template.spec.expire_after == "Never":
                self._moved = self.simulated.clock.monotonic()
                self._what = f"claim {write.object.name} {'came' if write.before is None else 'went'}"

    def unsettled(self) -> Iterable[str]:
        """Return what moved lately."""
        ago = self.simulated.clock.monotonic() - self._moved
        if ago < QUIET:
            yield f"{self._what} {ago:.0f} s ago"


class LimitInvariant(Invariant):
    """No pool has more cores than it may."""

    name = "limits"

    def on_write(self, write: ObjectWrite) -> None:
        """Count whenever a claim comes or is launched."""
        after = write.after
        if not isinstance(after, NodeClaim) or self.simulated.is_contested:
            return
        pool = self.mirror.pools.get(after.metadata.labels.get(NODEPOOL, ""))
        if pool is None or "cpu" not in pool.spec.limits:
            return
        used, allowed = cores_of_pool(self.simulated, pool.name), cores(pool.spec.limits)
        if used > allowed:
            self.violated(f"pool {pool.name} has {used / 1000:g} cores and may have {allowed / 1000:g}")


class StaticPoolInvariant(Invariant):
    """A static pool has as many machines as it says, and never more than its limit."""

    name = "static pools"

    def on_write(self, write: ObjectWrite) -> None:
        """Count whenever a claim comes."""
        claim = write.after
        if write.before is not None or not isinstance(claim, NodeClaim) or self.simulated.is_contested:
            return
        pool = self.mirror.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        limit = _limit(pool) if pool is not None else None
        if pool is not None and limit is not None:
            count = len(self._claims(pool.name))
            if count > limit:
                self.violated(f"pool {pool.name} has {count} machines and may have {limit}")

    def unsettled(self) -> Iterable[str]:
        """Return the pools that have another size than they should; what leaves is asked about elsewhere."""
        for pool in self.mirror.pools.values():
            if pool.spec.replicas is None:
                continue
            claims, limit = self._claims(pool.name), _limit(pool)
            there = [each for each in claims if each.metadata.deletion_timestamp is None]
            room = pool.spec.replicas if limit is None else limit - (len(claims) - len(there))
            wanted = max(0, min(room, pool.spec.replicas))
            complete = sum(1 for each in there if is_true(each, "Initialized"))
            if (len(there), complete) != (wanted, wanted):
                yield f"pool {pool.name} has {complete} machines of {wanted}, and {len(there)} claims"

    def _claims(self, pool: str) -> list[NodeClaim]:
        return [each for each in self.mirror.claims.values() if each.metadata.labels.get(NODEPOOL) == pool]


class RepairInvariant(Invariant):
    """In the end no broken machine is left, where machines are repaired."""

    name = "repair"

    def unsettled(self) -> Iterable[str]:
        """Return the nodes that are broken and stay."""
        if self.simulated.sandbox.settings.gate("NodeRepair"):
            for name, node in self.mirror.nodes.items():
                if not is_ready(node):
                    yield f"node {name} is broken and stays"


def _limit(pool: NodePool) -> int | None:
    return parse_resources(pool.spec.limits).get("nodes")


def is_ready(node: Node) -> bool:
    """Say whether a node is ready."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
