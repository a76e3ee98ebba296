"""
Who protects a pod from the operator, as the user has written it.

Deliberately simple-minded and apart from what the operator itself asks: budgets here are made by the
simulation, and select by labels alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.pod import Pod
from karpenter.base.duration import parse_duration
from karpenter_local.simulation.invariants.rule import Rule

if TYPE_CHECKING:
    from karpenter.api.cluster import PodDisruptionBudget
    from karpenter.kube.transport import Request, Response
    from karpenter_local.simulation.invariants.rule import Ledger
    from karpenter_local.simulation.mirror import Wrote
    from karpenter_local.simulation.world import World

_PODS: Final = "/pods/"
_SLACK: Final = timedelta(seconds=2)


def covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Say whether a disruption budget is about a pod."""
    wanted = budget.spec.selector.match_labels if budget.spec.selector is not None else {"": ""}
    return budget.namespace == pod.namespace and wanted.items() <= pod.metadata.labels.items()


def is_kept(pod: Pod) -> bool:
    """Say whether a pod must not be disrupted."""
    return pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true"


class Protection(Rule):
    """No disruption budget is violated, and what must not be disrupted is not, unless time forces it."""

    name = "protection"

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world, ledger)
        self._last: dict[str, Pod] = {}
        """Pods as they were before they were told to go."""

    def wrote(self, wrote: Wrote) -> None:
        """Remember how pods were before somebody wanted them to go."""
        before = wrote.before
        if isinstance(before, Pod) and before.metadata.deletion_timestamp is None:
            after = wrote.after
            if after is None or after.metadata.deletion_timestamp is not None:
                self._last[before.key] = before

    def called(self, request: Request, response: Response) -> None:
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
            node is not None and node.spec.provider_id in self.world.broken
        ):
            return True
        claim = self.mirror.claim_of(node.spec.provider_id) if node is not None else None
        if claim is None or claim.spec.termination_grace_period is None:
            return False
        began = claim.metadata.deletion_timestamp
        if began is None or self.world.is_time_wrong:
            return began is not None
        grace = timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)
        due = began + parse_duration(claim.spec.termination_grace_period) - grace
        return self.world.clock.now() >= due - _SLACK


def _is_healthy(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and pod.metadata.deletion_timestamp is None
