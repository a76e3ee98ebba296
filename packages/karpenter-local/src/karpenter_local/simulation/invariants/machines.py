"""
Invariants of machines, NodeClaims and nodes: who owns whom, what they need before they count, and how many
there may be.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import (
    DISRUPTED,
    DO_NOT_DISRUPT,
    DO_NOT_SYNC_TAINTS,
    NODEPOOL,
    NODEPOOL_HASH,
    REQUESTED_DRA_DRIVERS,
    TERMINATION_FINALIZER,
    UNREGISTERED,
)
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodeClaimTemplate, NodePool
from karpenter_local.simulation.invariants.history import Since, covers
from karpenter_local.simulation.invariants.invariant import (
    Invariant,
    ViolationLog,
    amount,
    begins_to_leave,
    cores,
    cores_of_pod,
    cores_of_pool,
    is_leaving,
    is_over,
    is_ready,
    is_true,
    owner_of,
    pool_name,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

QUIET_SECONDS: Final = 600.0
"""Seconds without a claim coming or going after which a cluster counts as steady."""

_MINUTE: Final = 60.0
_ORPHANED_SECONDS: Final = 240.0
"""Seconds within which an orphan is found: it must be a minute old, and is looked for every two minutes."""

_SETTLING_SECONDS: Final = 5.0
"""Seconds that EC2 has to show what it has launched."""

_GIVEN_UP_SECONDS: Final = 300.0
"""Seconds after which a claim without a machine is given up."""

_SETTLED_SECONDS: Final = 180.0
_RETRIED_SECONDS: Final = 150.0
"""Seconds within which a launch that failed has been tried again: a claim is given up after five minutes."""


class OwnershipInvariant(Invariant):
    """Machines and claims are in pairs, and so are nodes."""

    name = "ownership"

    def unsettled(self) -> Iterable[str]:
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
        ago = self.simulated.clock.monotonic() - self._moved
        if ago < QUIET_SECONDS:
            yield f"{self._what} {ago:.0f} s ago"


class LimitInvariant(Invariant):
    """No pool has more cores than it may."""

    name = "limits"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._excused: set[str] = set()
        """Pools that grew while two operators led, and have not been within their limits since."""

        self._given_up: dict[str, float] = {}
        """When a disruption in each pool was last given up: its room may be in use by then."""

    def on_write(self, write: ObjectWrite) -> None:
        """Count whenever a claim comes or is launched."""
        after = write.after
        if not isinstance(after, NodeClaim):
            return
        if self.simulated.is_contested:
            self._excused.add(pool_name(after))
            return
        if isinstance(write.before, NodeClaim) and reason_of(write.before) and not reason_of(after):
            self._given_up[pool_name(after)] = self.now
        pool = self.mirror.pools.get(after.metadata.labels.get(NODEPOOL, ""))
        if pool is None or "cpu" not in pool.spec.limits:
            return
        used = cores_of_pool(self.simulated, pool.name, without=self._launched_again())
        allowed = cores(pool.spec.limits)
        if used <= allowed:
            self._excused.discard(pool.name)
        elif self.now - self._given_up.get(pool.name, -_MINUTE) < _MINUTE:
            self._excused.add(pool.name)
        elif pool.name not in self._excused:
            self.violated(f"pool {pool.name} has {used / 1000:g} cores and may have {allowed / 1000:g}")

    def _launched_again(self) -> set[str]:
        """
        Return the machines beside which another was launched for their claim, because EC2 hid them for long.

        They are terminated once they are seen.
        """
        machines = [each for each in self.simulated.cloud.machines() if each.claim_uid]
        last = {each.claim_uid: each.provider_id for each in machines}
        found = set()
        for provider_id in {each.provider_id for each in machines} - set(last.values()):
            launched, shown = self.simulated.hidden(provider_id.rpartition("/")[2])
            if shown - launched >= _SETTLING_SECONDS and self.now < shown + _ORPHANED_SECONDS:
                found.add(provider_id)
        return found


class StaticPoolInvariant(Invariant):
    """A static pool has as many machines as it says, never above its limit, and loses none that it needs."""

    name = "static pools"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._excused: set[str] = set()
        """Pools that grew while two operators led: what is above a limit since then stays."""

        self._changed: dict[tuple[str, str], tuple[Since, str]] = {}
        """When a pool last had to grow, or lost a claim, and by which replica."""

    def on_write(self, write: ObjectWrite) -> None:
        """Count whenever a claim comes, or the operator deletes one."""
        self._check_loss(write)
        before, item = write.before, write.object
        moment = Since(self.now, write.revision), write.by
        if isinstance(before, NodePool) and isinstance(item, NodePool):
            if (item.spec.replicas or 0) > (before.spec.replicas or 0):
                self._changed["nodepools", item.name] = moment
        elif isinstance(item, NodeClaim) and begins_to_leave(write):
            self._changed["nodeclaims", pool_name(item)] = moment
        claim = write.after
        if write.before is not None or not isinstance(claim, NodeClaim):
            return
        if self.simulated.is_contested:
            self._excused.add(pool_name(claim))
            return
        pool = self.mirror.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        limit = _limit(pool) if pool is not None else None
        if pool is not None and limit is not None:
            count = len(self._claims(pool.name))
            if count > limit:
                self.violated(f"pool {pool.name} has {count} machines and may have {limit}")

    def _check_loss(self, write: ObjectWrite) -> None:
        """Look whether a machine that the operator deletes was one too many, for all that it knew."""
        claim = write.before
        if not write.by or not isinstance(claim, NodeClaim) or not begins_to_leave(write):
            return
        pool = self.mirror.pools.get(pool_name(claim))
        if pool is None or pool.spec.replicas is None or reason_of(claim) or not is_true(claim, "Registered"):
            return
        if self.simulated.goes_anyway(claim) or self.simulated.is_contested:
            return
        for plural in ("nodepools", "nodeclaims"):
            since, by = self._changed.get((plural, pool.name), (Since(0.0, 0), ""))
            if by != write.by and not self.history.is_known(write.by, plural, since):
                return  # it may not know of it
        left = sum(not is_leaving(each) and each.name != claim.name for each in self._claims(pool.name))
        if left < pool.spec.replicas:
            self.violated(
                f"pool {pool.name} of {pool.spec.replicas} loses claim {claim.name}, and {left} are left"
            )

    def unsettled(self) -> Iterable[str]:
        """Return the pools that have another size than they should; what leaves is asked about elsewhere."""
        for pool in self.mirror.pools.values():
            if pool.spec.replicas is None:
                continue
            claims, limit = self._claims(pool.name), _limit(pool)
            there = [each for each in claims if each.metadata.deletion_timestamp is None]
            room = pool.spec.replicas if limit is None else limit - (len(claims) - len(there))
            wanted = max(0, min(room, pool.spec.replicas))
            if pool.name in self._excused:
                wanted = max(wanted, min(len(there), pool.spec.replicas))
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


class BelongingInvariant(Invariant):
    """Every machine belongs to one claim within a minute, and one that lost its claim ends soon."""

    name = "belonging"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._alone: dict[str, float] = {}
        """Since when a machine belongs to no claim."""

    def on_tick(self) -> None:
        owners = Counter(each.status.provider_id for each in self.mirror.claims.values())
        waiting = {each.metadata.uid for each in self.mirror.claims.values() if not each.status.provider_id}
        alone: dict[str, float] = {}
        for machine in self.simulated.cloud.machines():
            provider_id = machine.provider_id
            if owners[provider_id] > 1 and not self.simulated.is_contested:
                self.violated(f"machine {provider_id} belongs to {owners[provider_id]} claims")
            if owners[provider_id] or machine.deleting:
                continue
            alone[provider_id] = since = self._alone.get(provider_id, self.now)
            most = _MINUTE if machine.claim_uid in waiting else _ORPHANED_SECONDS
            if self.now - since > most and self.simulated.calm_for > most + _MINUTE:
                self.violated(f"machine {provider_id} belongs to no claim for {self.now - since:.0f} s")
        self._alone = alone


class LaunchInvariant(Invariant):
    """A claim is launched soon where nothing goes wrong: a launch that fails is tried again."""

    name = "launch"

    def on_tick(self) -> None:
        """Look for claims that have no machine yet."""
        now = self.simulated.clock.now()
        for name, claim in self.mirror.claims.items():
            born = claim.metadata.creation_timestamp
            if claim.status.provider_id or is_leaving(claim) or born is None:
                continue
            waits = min((now - born).total_seconds(), self.simulated.calm_for)
            if waits > _RETRIED_SECONDS:
                self.violated(f"claim {name} has no machine after {waits:.0f} s, and nothing goes wrong")


class ClosedInvariant(Invariant):
    """A node that was closed by a command goes, or is opened again where the command does not go on."""

    name = "closed"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._since: dict[str, float] = {}

    def on_tick(self) -> None:
        """Look at nodes that are closed and stay, while no replacement is on its way."""
        claims = self.mirror.claims.values()
        waits = any(not is_true(each, "Initialized") and not is_leaving(each) for each in claims)
        closed = {
            name
            for name, node in self.mirror.nodes.items()
            if DISRUPTED in _keys(node)
            and not is_leaving(node)
            and (claim := self.mirror.claim_of(node.spec.provider_id)) is not None
            and not is_leaving(claim)
            and not waits
        }
        self._since = {name: self._since.get(name, self.now) for name in sorted(closed)}
        for name, since in self._since.items():
            ago = min(self.now - since, self.simulated.calm_for)
            if ago > _SETTLED_SECONDS:
                self.violated(f"node {name} is closed for {ago:.0f} s, and no command goes on")


class EmptyInvariant(Invariant):
    """In the end no machine is paid for that runs nothing, where users let it go."""

    name = "empty"

    def unsettled(self) -> Iterable[str]:
        """
        Return the machines without pods.

        Not judged is room that buffers ask for, and room that waits for the pods of a machine that leaves:
        they may not go for as long as a PodDisruptionBudget wants.
        """
        if self.mirror.buffers or any(map(is_leaving, self.mirror.claims.values())):
            return
        for claim in self.mirror.claims.values():
            pool, node = self.mirror.pools.get(pool_name(claim)), self.simulated.node_of(claim)
            if pool is None or node is None or pool.spec.replicas is not None or is_leaving(claim):
                continue
            budgets = [
                each for each in pool.spec.disruption.budgets if not each.reasons or "Empty" in each.reasons
            ]
            kept = node.metadata.annotations.get(DO_NOT_DISRUPT) == "true"
            never = any(each.nodes == "0" and each.schedule is None for each in budgets)
            runs = any(
                owner_of(pod) not in {"DaemonSet", "Node"} and not is_over(pod)
                for pod in self.mirror.pods_on(node.name)
            )
            if not kept and not never and not runs:
                yield f"claim {claim.name} runs no pod and stays"


class LaunchedOnceInvariant(Invariant):
    """
    On AWS every instance that was launched became the machine of a NodeClaim.

    An answer that was lost is found again by its tags, by the same operator or by the next one. Not judged
    are runs in which two operators led at once, instances that AWS ended before their launch was answered,
    instances that EC2 hid for longer than an operator waits for them, or that were launched soon after such a
    one: then a second one is launched, and one of both is terminated. Nor is an instance judged whose claim
    was given up while the operator's clock was wrong: to it the launch may have taken an hour.
    """

    name = "launched once"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._named: set[str] = set()
        self._given_up: set[str] = set()
        """Machines whose claim was given up before its launch was answered, by a wrong clock."""

    def on_write(self, write: ObjectWrite) -> None:
        """Note which machines became those of claims, and which never will."""
        before = write.before
        if isinstance(write.after, NodeClaim) and write.after.status.provider_id:
            self._named.add(write.after.status.provider_id.rpartition("/")[2])
        if isinstance(before, NodeClaim) and begins_to_leave(write) and self.simulated.is_time_wrong:
            self._given_up |= {
                each.provider_id.rpartition("/")[2]
                for each in self.simulated.cloud.machines()
                if each.claim_uid == before.metadata.uid
            }

    def unsettled(self) -> Iterable[str]:
        """Return the machines that never had a NodeClaim."""
        if self.simulated.contested_until:
            return
        hidden = [
            launched
            for launched, shown in map(self.simulated.hidden, self.simulated.launched)
            if shown - launched >= _SETTLING_SECONDS
        ]
        for number, at in self.simulated.launched.items():
            again = any(at - _GIVEN_UP_SECONDS < launched <= at for launched in hidden)
            excused = again or number in self.simulated.ended or number in self._given_up
            if number not in self._named and not excused:
                yield f"machine {number} was launched, and is that of no claim"


class InitializedInvariant(Invariant):
    """No node counts as initialized while it is not ready, or a taint or a resource is still expected."""

    name = "initialized"

    def on_write(self, write: ObjectWrite) -> None:
        before, claim = write.before, write.after
        if not isinstance(claim, NodeClaim) or not is_true(claim, "Initialized"):
            return
        if isinstance(before, NodeClaim) and is_true(before, "Initialized"):
            return
        node = self.simulated.node_of(claim)
        if node is None:
            return
        for what in self._missing(claim, node, write.by):
            self.violated(f"claim {claim.name} counts as initialized, and {what}")

    def _missing(self, claim: NodeClaim, node: Node, by: str) -> Iterable[str]:
        there = {(taint.key, taint.effect) for taint in node.spec.taints}
        for taint in claim.spec.startup_taints:
            if (taint.key, taint.effect) in there:
                yield f"startup taint {taint.key} is still on its node"
        if node.name in self.history.starting:
            yield "a taint of nodes that start is still on its node"
        broken = self.history.since("node not ready", node.name)
        if self.history.is_known(by, "nodes", broken):
            yield "its node is not ready"
        for name, wanted in claim.spec.resources.requests.items():
            if amount(wanted) and not amount(node.status.allocatable.get(name, "0")):
                yield f"its node has no {name}"
        slices = self.simulated.sandbox.cluster.server.store.table("resourceslices.resource.k8s.io").entries
        told = [each.object()["spec"] for each in slices.values()]
        drivers = {each["driver"] for each in told if each.get("nodeName") == node.name}
        for driver in filter(None, claim.metadata.annotations.get(REQUESTED_DRA_DRIVERS, "").split(",")):
            if driver not in drivers:
                yield f"driver {driver} has published no devices of its node"


class RegistrationInvariant(Invariant):
    """A node is opened to pods only with the labels, taints and finalizer that its claim gives it."""

    name = "registration"

    def on_write(self, write: ObjectWrite) -> None:
        """Look at nodes that lose the taint of those that are not registered."""
        before, node = write.before, write.after
        if not isinstance(before, Node) or not isinstance(node, Node) or not write.by:
            return
        if UNREGISTERED not in _keys(before) or UNREGISTERED in _keys(node):
            return
        claim = self.mirror.claim_of(node.spec.provider_id)
        if claim is None:
            return
        there = {(taint.key, taint.value, taint.effect) for taint in node.spec.taints}
        # Such a node joins with its taints, and may have lost a startup taint before its claim knew of it.
        own = node.metadata.labels.get(DO_NOT_SYNC_TAINTS) == "true"
        for taint in () if own else (*claim.spec.taints, *claim.spec.startup_taints):
            if (taint.key, taint.value, taint.effect) not in there:
                self.violated(f"node {node.name} is opened to pods without the taint {taint.key}")
        for key, value in claim.metadata.labels.items():
            if node.metadata.labels.get(key) != value:
                self.violated(f"node {node.name} is opened to pods without the label {key}={value}")
        if TERMINATION_FINALIZER not in node.metadata.finalizers:
            self.violated(f"node {node.name} is opened to pods without its finalizer")
        if all(each.uid != claim.metadata.uid for each in node.metadata.owner_references):
            self.violated(f"node {node.name} is opened to pods, and its claim is not its owner")


class TemplateInvariant(Invariant):
    """A claim is of one template of its pool as a whole, and says of which by its hash."""

    name = "template"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._hashed: dict[tuple[str, str], NodeClaimTemplate] = {}
        """The template behind each hash, by pool."""

    def on_write(self, write: ObjectWrite) -> None:
        claim = write.after
        if write.before is not None or not isinstance(claim, NodeClaim) or not write.by:
            return
        pool, found = pool_name(claim), self.history.templates.get(claim.name)
        if found is None:
            self.violated(f"claim {claim.name} is of no template that pool {pool} has had")
            return
        hashed = claim.metadata.annotations.get(NODEPOOL_HASH, "")
        if self._hashed.setdefault((pool, hashed), found) != found:
            self.violated(f"claim {claim.name} has the hash of another template of pool {pool}")


class FittingInvariant(Invariant):
    """Machines hold the pods that they were bought for, and the daemons beside them."""

    name = "daemons"

    def on_write(self, write: ObjectWrite) -> None:
        """Look at claims that are created, and at machines that were bought."""
        before, claim = write.before, write.after
        if not isinstance(claim, NodeClaim) or not write.by:
            return
        pool = self.mirror.pools.get(pool_name(claim))
        if pool is None or pool.spec.replicas is not None:
            return
        if before is None:
            self._check_requests(claim, write.by)
        elif isinstance(before, NodeClaim) and claim.status.provider_id and not before.status.provider_id:
            for name in ("cpu", "memory"):
                wanted = amount(claim.spec.resources.requests.get(name, "0"))
                if amount(claim.status.allocatable.get(name, "0")) < wanted:
                    self.violated(f"machine {claim.status.provider_id} has too little {name} for its pods")

    def on_tick(self) -> None:
        """Look for daemons without a place on a node that stays."""
        if self.simulated.calm_for < _SETTLED_SECONDS:
            return
        now = self.simulated.clock.now()
        for key, pod in self.mirror.pods.items():
            born = pod.metadata.creation_timestamp
            waits = born is not None and (now - born).total_seconds() > _SETTLED_SECONDS
            if waits and owner_of(pod) == "DaemonSet" and not pod.spec.node_name and not is_leaving(pod):
                self.violated(f"daemon {key} has no place on its node")

    def _check_requests(self, claim: NodeClaim, by: str) -> None:
        """A claim asks for some pods and for every daemon: look whether any set of pods would do."""
        daemons = self.simulated.cores_of_daemons()
        asked = cores(claim.spec.resources.requests) - daemons
        sums = {0}
        gone = [pod for at, pod in self.history.departed.values() if self.now - at < _MINUTE]
        for pod in (*self.mirror.pods.values(), *gone):
            over = self.history.is_known(by, "pods", self.history.since("over", pod.key))
            if not over and owner_of(pod) != "DaemonSet":
                sums |= {each + cores_of_pod(pod) for each in sums if each <= asked}
        for milli, count in self.simulated.cores_of_buffers():
            for _ in range(count):
                sums |= {each + milli for each in sums if each <= asked}
        if asked <= 0 or asked not in sums:
            self.violated(
                f"claim {claim.name} asks for {asked + daemons}m, which is no set of pods and the {daemons}m"
                " of daemons"
            )


def _keys(node: Node) -> set[str]:
    return {taint.key for taint in node.spec.taints}


def _limit(pool: NodePool) -> int | None:
    return int(pool.spec.limits["nodes"]) if "nodes" in pool.spec.limits else None
