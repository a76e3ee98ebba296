"""
Since when facts hold, and whether a replica could know them.

A replica that acts on an old view is not at fault: its watches may have been late. A fact counts against it
only if it was told of it at least :data:`REACTION_SECONDS` before, and none of its calls goes wrong, since a
request that arrives now may have been decided long ago. What a replica reads from the API server before it
acts counts :data:`REACTION_SECONDS` after it began, whatever its watches told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodeClaimTemplate, NodePool
from karpenter.api.pod import Pod
from karpenter_local.simulation.invariants.invariant import (
    begins_to_leave,
    is_over,
    is_ready,
    is_true,
    owner_of,
    pool_name,
)

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Set as AbstractSet

    from karpenter.api.meta import Resource
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

REACTION_SECONDS: Final = 1.5
"""Seconds that a replica has to take something into account."""


_STARTING: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
    }
)
"""Taints that nodes have until they are up."""


class Since(NamedTuple):
    """When something began to hold, and at which revision of the API server."""

    at: float
    revision: int


class ClusterHistory:
    """Keeps since when the facts that invariants ask for hold."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._facts: dict[Hashable, Since] = {}
        self.departed: dict[str, tuple[float, Pod]] = {}
        """Pods that are gone, by key, and since when: what was decided for them may only arrive now."""

        self.pod_events: dict[str, Since] = {}
        """When a pod last came to a node, left it or ended there, by node."""

        self._versions: dict[str, list[NodeClaimTemplate]] = {}
        """Every template that each pool has had, the newest last."""

        self.templates: dict[str, NodeClaimTemplate] = {}
        """The newest template that a claim is of, by claim: one decided before a change may come after it."""

        self.starting: set[str] = set()
        """The nodes that have had a taint of nodes that start ever since they were created."""

    def on_write(self, write: ObjectWrite) -> None:
        item = write.object
        match item:
            case Pod():
                self._pod(write, item)
            case Node():
                kept = item.metadata.annotations.get(DO_NOT_DISRUPT) == "true"
                self._keep(("node kept", item.name), write, holds=write.after is not None and kept)
                broken = write.after is not None and not is_ready(item)
                self._keep(("node not ready", item.name), write, holds=broken)
                self._keep(("node ready", item.name), write, holds=not broken)
                starts = any(taint.key in _STARTING for taint in item.spec.taints)
                if write.before is None and starts:
                    self.starting.add(item.name)
                elif write.after is None or not starts:
                    self.starting.discard(item.name)
            case PodDisruptionBudget():
                blocks = write.after is not None and item.status.disruptions_allowed <= 0
                self._keep(("budget blocks", item.key), write, holds=blocks)
            case NodeClaim():
                self._claim(write, item)
            case NodePool():
                versions = self._versions.setdefault(item.name, [])
                if not versions or versions[-1] != item.spec.template:
                    versions.append(item.spec.template)

    def since(self, *fact: str) -> Since | None:
        """Return since when a fact holds; None if it does not."""
        return self._facts.get(fact)

    def is_known(self, by: str, plural: str, since: Since | None) -> bool:
        """Say whether a replica knew of a fact long enough to act on it."""
        seams = self._simulated.seams_of(by)
        if since is None or seams is None or seams.transport.is_troubled:
            return False
        told = seams.transport.seen.get(plural, 0) >= since.revision
        at = max(since.at, seams.transport.caught_up.get(plural, 0.0))
        return told and self._simulated.clock.monotonic() - at >= REACTION_SECONDS

    def is_readable(self, by: str, since: Since | None) -> bool:
        """Say whether a replica that asks the API server before it acts finds a fact there."""
        seams = self._simulated.seams_of(by)
        if since is None or seams is None or seams.transport.is_troubled:
            return False
        return self._simulated.clock.monotonic() - since.at >= REACTION_SECONDS

    def was_followed(self, by: str, plural: str, since: Since) -> bool:
        """Say whether a replica was told of a moment when it came, and not only of what came of it."""
        seams, now = self._simulated.seams_of(by), self._simulated.clock.monotonic()
        return seams is not None and seams.transport.began.get(plural, now) < since.at

    def _pod(self, write: ObjectWrite, pod: Pod) -> None:
        if write.after is None:
            self.departed[pod.key] = self._simulated.clock.monotonic(), pod
        node = pod.spec.node_name
        self._keep(("bound", pod.key), write, holds=write.after is not None and bool(node))
        self._keep(("over", pod.key), write, holds=write.after is not None and is_over(pod))
        if write.after is not None:  # of one that is gone it is asked whether it should have stayed
            kept = pod.metadata.annotations.get(DO_NOT_DISRUPT) == "true"
            self._keep(("pod kept", pod.key), write, holds=kept)
        if not node or owner_of(pod) in {"DaemonSet", "Node"}:
            return
        before = write.before
        came = not isinstance(before, Pod) or not before.spec.node_name
        ended = isinstance(before, Pod) and is_over(pod) and not is_over(before)
        if came or ended or begins_to_leave(write):
            self.pod_events[node] = self._moment(write)

    def _claim(self, write: ObjectWrite, claim: NodeClaim) -> None:
        there = write.after is not None
        self._keep(("initialized", claim.name), write, holds=there and is_true(claim, "Initialized"))
        leaving = there and claim.metadata.deletion_timestamp is not None
        self._keep(("leaving", claim.name), write, holds=leaving)
        if write.before is None:
            versions = self._versions.get(pool_name(claim), ())
            keys = {key for each in versions for key in each.metadata.labels}
            found = next((each for each in reversed(versions) if is_of_template(claim, each, keys)), None)
            if found is not None:
                self.templates[claim.name] = found

    def _keep(self, fact: Hashable, write: ObjectWrite, *, holds: bool) -> None:
        if not holds:
            self._facts.pop(fact, None)
        elif fact not in self._facts:
            self._facts[fact] = self._moment(write)

    def _moment(self, write: ObjectWrite) -> Since:
        return Since(self._simulated.clock.monotonic(), write.revision)


def is_of_template(claim: NodeClaim, template: NodeClaimTemplate, keys: AbstractSet[str]) -> bool:
    """Say whether everything that a claim has from a template is from this one; labels have these `keys`."""
    wanted = {each.key: each.values for each in claim.spec.requirements if each.operator == "In"}
    labels, spec, own = template.metadata.labels, template.spec, claim.spec
    return (
        all(claim.metadata.labels.get(key) == labels.get(key) for key in keys)
        and all(wanted.get(key, ()) == ((labels[key],) if key in labels else ()) for key in keys)
        and template.metadata.annotations.items() <= claim.metadata.annotations.items()
        and (own.taints, own.startup_taints) == (spec.taints, spec.startup_taints)
        and (own.node_class_ref, own.expire_after) == (spec.node_class_ref, spec.expire_after)
        and own.termination_grace_period == spec.termination_grace_period
    )


def is_blocking(budget: PodDisruptionBudget) -> bool:
    """Say whether a disruption budget never allows an eviction."""
    return budget.spec.max_unavailable in {0, "0", "0%"} or budget.spec.min_available == "100%"


def covers(budget: PodDisruptionBudget, pod: Resource) -> bool:
    """Say whether a disruption budget is about a pod; those of the simulation select by labels alone."""
    wanted = budget.spec.selector.match_labels if budget.spec.selector is not None else {"": ""}
    return budget.namespace == pod.namespace and wanted.items() <= pod.metadata.labels.items()
