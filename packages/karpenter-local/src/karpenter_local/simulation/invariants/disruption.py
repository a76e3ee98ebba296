"""
Invariants of disruption: it begins only where it may, as often as budgets allow, and never without a reason.

They read what users wrote in a simple way of their own, apart from the operator's: budgets, windows and
PodDisruptionBudgets here are made by the simulation, and have only its few forms.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.nodeclaim import NodeClaim
from karpenter.base.duration import parse_duration
from karpenter_local.sandbox.operators import REPLICA
from karpenter_local.simulation.invariants.draining import is_drained, is_kept_for_now
from karpenter_local.simulation.invariants.history import REACTION_SECONDS, covers, is_blocking
from karpenter_local.simulation.invariants.invariant import (
    Invariant,
    ViolationLog,
    begins_to_leave,
    is_initialized,
    is_leaving,
    is_over,
    is_true,
    nomination,
    owner_of,
    pool_name,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.node import Node
    from karpenter.api.nodepool import Budget, NodePool
    from karpenter.api.pod import Pod
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

_CONSOLIDATION: Final = frozenset({"Empty", "Underutilized"})
_EVERY_MINUTES: Final = re.compile(r"\*/(\d+) \* \* \* \*")
_DEDUPLICATION_SECONDS: Final = 12.0
"""Seconds by which the time of a pod's coming or going may be known too early, because few are written."""

_OVERDUE_SECONDS: Final = 120.0
"""Seconds after which a claim that is too old must leave."""

_NOTICE_SECONDS: Final = 60.0
"""Seconds after which a machine that its cloud will take must leave."""

_NOMINATION_SECONDS: Final = 8.0
"""Seconds for which a node that a pod was told to go to is kept for it, at least."""

_BROKEN_SECONDS: Final = 590.0
"""Seconds for which a node may be not ready before it is repaired, a little less than ten minutes."""

_LAUNCH_SECONDS: Final = 290.0
"""Seconds that a claim has to launch, a little less than five minutes."""


def begins(write: ObjectWrite) -> str:
    """Return the reason for which a claim begins to be disrupted by a write; nothing if it does not."""
    before, after = write.before, write.after
    if not isinstance(after, NodeClaim) or (isinstance(before, NodeClaim) and reason_of(before)):
        return ""
    return reason_of(after)


class BudgetInvariant(Invariant):
    """At the moment at which a machine begins to be disrupted, there is room for it in every budget."""

    name = "budgets"

    def on_write(self, write: ObjectWrite) -> None:
        claim, reason = write.after, begins(write)
        pool = self.mirror.pools.get(pool_name(claim)) if claim is not None and reason else None
        if pool is None or not isinstance(claim, NodeClaim) or self.simulated.is_contested:
            return
        own = [
            each
            for each in self.mirror.claims.values()
            # A machine that is being shut down, or whose node is gone, is not disrupted any longer.
            if pool_name(each) == pool.name
            and not (is_leaving(each) and self.simulated.node_of(each) is None)
            and is_initialized(each, self.simulated.node_of(each))
            and not is_true(each, "InstanceTerminating")
        ]
        others = [each for each in own if each.name != claim.name and self._is_away(each, write.by)]
        now = self.simulated.clock.now()
        if self.simulated.is_time_wrong:
            return  # which window is open is not known
        for budget in pool.spec.disruption.budgets:
            if (budget.reasons and reason not in budget.reasons) or not is_open(budget, now):
                continue
            most = allowed(budget.nodes, len(own))
            if len(others) >= most:
                self.violated(
                    f"claim {claim.name} is disrupted ({reason}) beside {len(others)} others of the"
                    f" {len(own)} machines of pool {pool.name}, whose budget is {budget.nodes}"
                )

    def _is_away(self, claim: NodeClaim, by: str) -> bool:
        """Whether a machine uses up budgets already: it is disrupted, it leaves, or it is not ready."""
        if reason_of(claim):
            return True
        if self.history.is_known(by, "nodeclaims", self.history.since("leaving", claim.name)):
            return True
        broken = self.history.since("node not ready", claim.status.node_name)
        return self.history.is_known(by, "nodes", broken)


def allowed(nodes: str, size: int) -> int:
    """Return how many of so many machines a budget lets go at once; shares are rounded up."""
    if not nodes.endswith("%"):
        return int(nodes)
    share, count = int(nodes.removesuffix("%")), 0
    while count * 100 < share * size:
        count += 1
    return count


def is_open(budget: Budget, now: datetime) -> bool:
    """Say whether a budget applies now; schedules here are every so many minutes of the hour."""
    if budget.schedule is None or budget.duration is None:
        return True
    match = _EVERY_MINUTES.fullmatch(budget.schedule)
    assert match is not None, budget.schedule
    moment = now.astimezone(UTC).replace(second=0, microsecond=0)
    while moment > now - parse_duration(budget.duration):
        if moment.minute % int(match[1]) == 0:
            return True
        moment -= timedelta(minutes=1)
    return False


class ValidityInvariant(Invariant):
    """A disruption was valid at the moment at which it began, and when its machine goes."""

    name = "validity"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._nominated: dict[str, dict[str, tuple[float, str]]] = {}
        """When pods were told to go to the node of a claim, by claim and pod, and by which replica."""

    def on_call(self, request: Request, response: Response) -> None:
        """Note which pods were told to go to which nodes."""
        found = nomination(request, response)
        node = self.mirror.nodes.get(found.node) if found is not None else None
        claim = self.mirror.claim_of(node.spec.provider_id) if node is not None else None
        if found is not None and claim is not None:
            self._nominated.setdefault(claim.name, {}).setdefault(found.pod, (self.now, REPLICA.get()))

    def on_write(self, write: ObjectWrite) -> None:
        """Look at machines that begin to be disrupted, and at those that go."""
        if not write.by:
            return
        if (reason := begins(write)) and isinstance(write.after, NodeClaim):
            for problem in self._at_begin(write.after, reason, write.by):
                self.violated(f"claim {write.after.name} is disrupted ({reason}), and {problem}")
        before = write.before
        if isinstance(before, NodeClaim) and begins_to_leave(write) and (reason := reason_of(before)):
            if self.simulated.goes_anyway(before):
                return
            for problem in self._at_end(before, reason, write.by):
                self.violated(f"claim {before.name} is deleted ({reason}), and {problem}")

    def _at_begin(self, claim: NodeClaim, reason: str, by: str) -> Iterator[str]:
        pool, node = self.mirror.pools.get(pool_name(claim)), self.simulated.node_of(claim)
        if not is_initialized(claim, node):
            yield "it is not initialized"
        if pool is None or node is None:
            return
        yield from self._at_end(claim, reason, by)
        if not _is_forceful(claim, reason):
            yield from self._held_by_budgets(node, by)
        yield from (f"pod {pod} was told to go there" for pod in self._expected(claim, by))
        if reason in _CONSOLIDATION:
            yield from self._too_early(claim, pool, node, by)
            if pool.spec.replicas is not None:
                yield f"pool {pool.name} is static"
        if reason == "Underutilized" and pool.spec.disruption.consolidation_policy == "WhenEmpty":
            yield f"pool {pool.name} consolidates WhenEmpty"
        if reason == "Drifted" and not self._has_drifted(claim, pool):
            yield "it has not drifted"

    def _at_end(self, claim: NodeClaim, reason: str, by: str) -> Iterator[str]:
        """Yield what must keep a machine, at any time."""
        node = self.simulated.node_of(claim)
        if node is None:
            return
        known = self.history.is_known
        if known(by, "nodes", self.history.since("node kept", node.name)):
            yield f"node {node.name} must not be disrupted"
        for pod in self._pods(node, by):
            kept = known(by, "pods", self.history.since("pod kept", pod.key))
            kept = kept or is_kept_for_now(self.simulated, pod)
            if kept and not _is_forceful(claim, reason):
                yield f"pod {pod.key} must not be disrupted"
            if reason == "Empty":
                yield f"pod {pod.key} runs on it"

    def _expected(self, claim: NodeClaim, by: str) -> Iterator[str]:
        """Yield the pods that still wait and were told a moment ago to go to a node, by the same replica."""
        seams = self.simulated.seams_of(by)
        for key, (at, teller) in self._nominated.get(claim.name, {}).items():
            pod, ago = self.mirror.pods.get(key), self.now - at
            if seams is None or seams.transport.is_troubled or self.simulated.is_time_wrong or teller != by:
                continue
            if (
                pod is not None
                and not pod.spec.node_name
                and not is_leaving(pod)
                and REACTION_SECONDS < ago < _NOMINATION_SECONDS
            ):
                yield key

    def _held_by_budgets(self, node: Node, by: str) -> Iterator[str]:
        for pod in self._pods(node, by):
            for budget in self.mirror.budgets.values():
                since = self.history.since("budget blocks", budget.key)
                blocks = self.history.is_known(by, "poddisruptionbudgets", since) or is_blocking(budget)
                if is_drained(pod) and covers(budget, pod) and blocks:
                    yield f"budget {budget.name} does not let pod {pod.key} go"

    def _too_early(self, claim: NodeClaim, pool: NodePool, node: Node, by: str) -> Iterator[str]:
        wait = parse_duration(pool.spec.disruption.consolidate_after).total_seconds()
        last = self.history.pod_events.get(node.name) or self.history.since("initialized", claim.name)
        if last is None or last.at <= self.simulated.wrong_until or self.simulated.is_time_wrong:
            return
        ago = self.now - last.at
        known = self.history.is_known(by, "pods", last) and self.history.was_followed(by, "pods", last)
        if ago < wait - _DEDUPLICATION_SECONDS and known:
            yield f"pods came or went {ago:.0f} s ago, where consolidateAfter is {wait:.0f} s"

    def _has_drifted(self, claim: NodeClaim, pool: NodePool) -> bool:
        changed = self.history.templates.get(claim.name) != pool.spec.template
        return changed or self.simulated.cloud.is_drifted(claim.status.provider_id)

    def _pods(self, node: Node, by: str) -> list[Pod]:
        """Return the pods on a node that a replica knows of and that would run again elsewhere."""
        return [
            pod
            for pod in self.mirror.pods_on(node.name)
            if not is_leaving(pod)
            and not is_over(pod)
            and owner_of(pod) not in {"DaemonSet", "Node"}
            and self.history.is_known(by, "pods", self.history.since("bound", pod.key))
        ]


def _is_forceful(claim: NodeClaim, reason: str) -> bool:
    """Whether a machine goes in the end, whatever its pods say."""
    return reason == "Drifted" and claim.spec.termination_grace_period is not None


class ExplainedInvariant(Invariant):
    """The operator deletes no claim without a reason that can be seen."""

    name = "explained"

    def on_write(self, write: ObjectWrite) -> None:
        claim = write.before
        if not write.by or not isinstance(claim, NodeClaim) or not begins_to_leave(write):
            return
        if not self._is_explained(claim, write.by):
            kind = claim.metadata.labels.get(INSTANCE_TYPE, "no type")
            self.violated(f"claim {claim.name} ({kind}) is deleted, and nothing is wrong with it")

    def on_tick(self) -> None:
        for name, claim in self.mirror.claims.items():
            over = self.simulated.overdue(claim)
            late = over is not None and min(over, self.simulated.calm_for) > _OVERDUE_SECONDS
            if late and not is_leaving(claim):
                self.violated(f"claim {name} expired {over:.0f} s ago, and stays")

    def _is_explained(self, claim: NodeClaim, by: str) -> bool:
        if reason_of(claim) or self.simulated.goes_unrepaired(claim) or self.simulated.is_contested:
            return True
        pool = self.mirror.pools.get(pool_name(claim))
        if pool is None or pool.spec.replicas is not None:
            return True  # a static pool that needs fewer lets any go
        if not is_true(claim, "Registered"):
            # Capacity that is not there ends a claim at once; one with a machine has some time.
            born = claim.metadata.creation_timestamp
            age = (self.simulated.clock.now() - born).total_seconds() if born is not None else 0.0
            return not claim.status.provider_id or age > _LAUNCH_SECONDS or self.simulated.is_time_wrong
        transport = self.simulated.seams_of(by)
        return transport is None or transport.transport.is_troubled or self._may_be_repaired(claim)

    def _may_be_repaired(self, claim: NodeClaim) -> bool:
        """Whether the node of a claim has been broken for long, as far as clocks can tell."""
        since = self.history.since("node not ready", claim.status.node_name)
        ago = self.now - since.at if since is not None else 0.0
        wrong = self.simulated.wrong_until
        return ago >= _BROKEN_SECONDS or (wrong > 0.0 and self.now - wrong < _BROKEN_SECONDS)


class InterruptionInvariant(Invariant):
    """A machine that its cloud will take is left in time."""

    name = "interruption"

    def on_tick(self) -> None:
        """Look at the machines that were announced to be taken a while ago."""
        leading = self.simulated.leading
        if leading is None or leading.transport.is_troubled or not self.simulated.interrupts:
            return
        led = self.now - leading.transport.began.get("pods", self.now)
        there = {each.provider_id for each in self.simulated.cloud.machines() if not each.deleting}
        for provider_id, at in self.simulated.taken.items():
            claim = self.mirror.claim_of(provider_id)
            ago = self.now - at
            if claim is None or provider_id not in there or is_leaving(claim):
                continue
            if min(ago, led) > _NOTICE_SECONDS and is_true(claim, "Registered"):
                self.violated(f"claim {claim.name} stays {ago:.0f} s after its machine was interrupted")
