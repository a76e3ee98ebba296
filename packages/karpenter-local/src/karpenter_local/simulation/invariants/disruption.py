"""
Invariants of disruption: budgets have room, protected pods stay, replacements come first and never cost more.

They read what users wrote in a simple way of their own, apart from the operator's: PodDisruptionBudgets here
are made by the simulation, and select by labels alone. Replacements are judged when the first machine of a
command is deleted. Which machines belong to a command is what the operator says of it; what has become of
them is not.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.api.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.base.duration import parse_duration
from karpenter.core.disruption.budgets import headroom, read_budgets
from karpenter_local.simulation.invariants.invariant import Invariant, is_true, reason_of

if TYPE_CHECKING:
    from karpenter.api.cluster import PodDisruptionBudget
    from karpenter.controllers.disruption import CommandInProgress
    from karpenter.kube.rest import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import ViolationLog
    from karpenter_local.simulation.mirror import ObjectWrite

HOUR: Final = 3600.0
_CENT: Final = 1e-6
_CLAIMS: Final = "/nodeclaims/"
_PODS: Final = "/pods/"
_SLACK: Final = timedelta(seconds=2)

Kind = tuple[str, str, str]


def covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Say whether a disruption budget is about a pod."""
    wanted = budget.spec.selector.match_labels if budget.spec.selector is not None else {"": ""}
    return budget.namespace == pod.namespace and wanted.items() <= pod.metadata.labels.items()


def is_kept(pod: Pod) -> bool:
    """Say whether a pod must not be disrupted."""
    return pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true"


class BudgetInvariant(Invariant):
    """At the moment at which a machine begins to be disrupted, there is room for it in every budget."""

    name = "budgets"

    def on_write(self, write: ObjectWrite) -> None:
        """Look at machines that begin to be disrupted."""
        before, after = write.before, write.after
        if not isinstance(after, NodeClaim) or self.simulated.is_contested:
            return
        reason = reason_of(after)
        if not reason or (isinstance(before, NodeClaim) and reason_of(before)):
            return
        pool = self.mirror.pools.get(after.metadata.labels.get(NODEPOOL, ""))
        if pool is None:
            return
        own = [
            claim
            for claim in self.mirror.claims.values()
            # A machine that is empty and being shut down is not disrupted any longer.
            if claim.metadata.labels.get(NODEPOOL) == pool.name and not is_true(claim, "InstanceTerminating")
        ]
        size = sum(1 for each in own if is_true(each, "Initialized"))
        others = sum(1 for each in own if reason_of(each) and each.name != after.name)
        left = headroom(
            read_budgets(pool.spec.disruption.budgets),
            reason=reason,
            pool_size=size,
            disrupting=others,
            now=self.simulated.clock.now(),
        )
        if left <= 0:
            self.violated(
                f"claim {after.name} is disrupted ({reason}) beside {others} others of the {size} machines of"
                f" pool {pool.name}"
            )


class ProtectionInvariant(Invariant):
    """No disruption budget is violated, and what must not be disrupted is not, unless time forces it."""

    name = "protection"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._last: dict[str, Pod] = {}
        """Pods as they were before their deletion was asked for."""

    def on_write(self, write: ObjectWrite) -> None:
        """Remember how pods were before their deletion was asked for."""
        before = write.before
        if isinstance(before, Pod) and before.metadata.deletion_timestamp is None:
            after = write.after
            if after is None or after.metadata.deletion_timestamp is not None:
                self._last[before.key] = before

    def on_call(self, request: Request, response: Response) -> None:
        """Look at what the operator does to pods."""
        if not response.ok or _PODS not in request.path:
            return
        evicted = request.method == "POST" and request.path.endswith("/eviction")
        if not evicted and request.method != "DELETE":
            return
        namespace, _, rest = request.path.partition("/namespaces/")[2].partition(_PODS)
        pod = self._last.get(f"{namespace}/{rest.removesuffix('/eviction')}")
        if pod is None or self._is_forced(pod):
            return
        if is_kept(pod):
            self.violated(f"pod {pod.key} must not be disrupted, and was")
        if not evicted:
            self.violated(f"pod {pod.key} was deleted instead of evicted")
        elif _is_healthy(pod):
            self._check_budgets(pod)

    def _check_budgets(self, pod: Pod) -> None:
        for budget in self.mirror.budgets.values():
            least = budget.spec.min_available
            if not isinstance(least, int) or not covers(budget, pod):
                continue
            left = sum(1 for each in self.mirror.pods.values() if covers(budget, each) and _is_healthy(each))
            if left < least:
                self.violated(
                    f"evicting pod {pod.key} left {left} healthy pods where {budget.name} wants {least}"
                )

    def _is_forced(self, pod: Pod) -> bool:
        """Whether the pod's machine is gone or broken, or its time to drain is over, or nearly."""
        node = self.mirror.nodes.get(pod.spec.node_name)
        if (node is None and pod.spec.node_name) or (
            node is not None and node.spec.provider_id in self.simulated.broken
        ):
            return True
        claim = self.mirror.claim_of(node.spec.provider_id) if node is not None else None
        if claim is None or claim.spec.termination_grace_period is None:
            return False
        began = claim.metadata.deletion_timestamp
        if began is None or self.simulated.is_time_wrong:
            return began is not None
        grace = timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)
        due = began + parse_duration(claim.spec.termination_grace_period) - grace
        return self.simulated.clock.now() >= due - _SLACK


def _is_healthy(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and pod.metadata.deletion_timestamp is None


class ReplacementInvariant(Invariant):
    """Replacements first, never dearer, and never back again within the hour."""

    name = "replacement"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._prices = {
            (kind.name, offering.zone, offering.capacity_type): offering.price
            for kind in simulated.catalog.types
            for offering in kind.offerings
        }
        self._judged: list[CommandInProgress] = []
        self._past: list[_Swap] = []

    def on_call(self, request: Request, response: Response) -> None:
        """Look at claims that the operator deletes because of a command."""
        if request.method != "DELETE" or not response.ok or _CLAIMS not in request.path:
            return
        claim = self.mirror.claims.get(request.path.rpartition("/")[2])
        if claim is None or not reason_of(claim) or self._goes_anyway(claim):
            return
        begun = self._command_of(claim.name)
        if begun is not None and not any(each is begun for each in self._judged):
            self._judged.append(begun)
            self._judge(begun)

    def _goes_anyway(self, claim: NodeClaim) -> bool:
        """Whether a claim may be deleted for another reason than a command."""
        provider_id = claim.status.provider_id
        machines = {each.provider_id for each in self.simulated.cloud.machines() if not each.deleting}
        if provider_id not in machines or provider_id in self.simulated.taken:
            return True
        nodes = [each for each in self.mirror.nodes.values() if each.spec.provider_id == provider_id]
        if not nodes or nodes[0].metadata.deletion_timestamp is not None:
            return True
        return claim.spec.expire_after != "Never"

    def _command_of(self, claim: str) -> CommandInProgress | None:
        """Return the command that a claim goes by: of two operators' commands, the one that is complete."""
        found: list[CommandInProgress] = []
        for replica in self.simulated.replicas:
            commands = getattr(replica.operator, "disruption_queue", None)
            found += [each for each in (commands.in_progress if commands else ()) if claim in each.claims]
        complete = (each for each in found if all(map(self._is_complete, each.replacements)))
        return next(complete, found[0] if found else None)

    def _is_complete(self, name: str) -> bool:
        claim = self.mirror.claims.get(name)
        return claim is not None and is_true(claim, "Initialized")

    def _judge(self, begun: CommandInProgress) -> None:
        coming = [self.mirror.claims.get(name) for name in begun.replacements]
        for name in begun.replacements:
            if not self._is_complete(name):
                self.violated(f"machines go ({begun.text}) before their replacement {name} is complete")
        added = [claim for claim in coming if claim is not None]
        going = [each.claim for each in begun.candidates]
        if begun.command.reason != "Drifted":
            self._compare(begun, going, added)
            self._remember(begun, going, added)

    def _compare(self, begun: CommandInProgress, going: list[NodeClaim], added: list[NodeClaim]) -> None:
        before = sum(self._prices.get(kind_of(each), 0.0) for each in going)
        after = sum(self._prices.get(kind_of(each), 0.0) for each in added)
        if after > before + _CENT:
            self.violated(f"the bill grows from {before:.4f} to {after:.4f} an hour by {begun.text}")

    def _remember(self, begun: CommandInProgress, going: list[NodeClaim], added: list[NodeClaim]) -> None:
        now = self.simulated.clock.monotonic()
        swap = _Swap(now, _kinds(going), _kinds(added), self._demand())
        self._past = [each for each in self._past if now - each.at < HOUR]
        if any(swap.undoes(each) for each in self._past):
            self.violated(f"what went comes back within the hour, for the same pods: {begun.text}")
        self._past.append(swap)

    def _demand(self) -> Counter[str]:
        """Return how many pods of each workload there are, leaving out those on their way out."""
        return Counter(
            pod.metadata.labels.get("app", "")
            for pod in self.mirror.pods.values()
            if pod.metadata.deletion_timestamp is None and pod.status.phase in {"Pending", "Running"}
        )


class _Swap(NamedTuple):
    """What went, what came instead, and for which pods."""

    at: float
    went: Counter[Kind]
    came: Counter[Kind]
    demand: Counter[str]

    def undoes(self, other: _Swap) -> bool:
        """Say whether this leads back to where the other began."""
        return bool(self.came) and (self.went, self.came, self.demand) == (
            other.came,
            other.went,
            other.demand,
        )


def _kinds(claims: list[NodeClaim]) -> Counter[Kind]:
    return Counter(kind_of(each) for each in claims)


def kind_of(claim: NodeClaim) -> Kind:
    """Return the type, zone and capacity type of a launched claim."""
    labels = claim.metadata.labels
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
