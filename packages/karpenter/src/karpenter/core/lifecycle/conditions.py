"""
Status conditions of NodeClaims, NodePools and NodeOverlays, and the writes and metric labels they share.

A kind has a root condition, ``Ready``, and dependents. Dependents always exist and start as Unknown; the
root follows from them. ``lastTransitionTime`` changes only with the status. A condition about an older
generation of the object does not count for the root.

A :class:`ConditionSet` is a value: setting a condition returns another set. :func:`patch_object` returns
the write of what differs, conditional on the resourceVersion that was read. What a condition means is
decided in the modules beside this one: registration, initialization, disruption_conditions and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL, TERMINATION_FINALIZER, ZONE
from karpenter.api.meta import Condition, ObjectMeta, Resource
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.effects import Amend, Count, DeleteObject, Effect
from karpenter.core.state.pod import is_reschedulable

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodeoverlay import NodeOverlay
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod


READY: Final = "Ready"
# The reason with which operatorpkg begins every condition of Karpenter's objects:
# https://github.com/awslabs/operatorpkg/tree/main/status
AWAITING_RECONCILIATION: Final = "AwaitingReconciliation"
MOST_AHEAD: Final = timedelta(minutes=1)
"""How far the clocks of replicas may differ; a time that is further ahead is of a clock that was wrong."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The conditions of a NodeClaim: https://karpenter.sh/docs/concepts/nodeclaims/
LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
DISRUPTION_REASON: Final = "DisruptionReason"
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
CONSISTENT_STATE_FOUND: Final = "ConsistentStateFound"

# The conditions of a NodePool: https://karpenter.sh/docs/concepts/nodepools/
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"

# Ready follows from these, as the status libraries of Knative and operatorpkg compute it:
# https://github.com/awslabs/operatorpkg/tree/main/status
NODECLAIM_DEPENDENTS: Final = (LAUNCHED, REGISTERED, INITIALIZED)
NODEPOOL_DEPENDENTS: Final = (VALIDATION_SUCCEEDED, NODE_CLASS_READY)
NODEOVERLAY_DEPENDENTS: Final = (VALIDATION_SUCCEEDED,)


class ConditionSet(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of one object at one moment."""

    held: tuple[Condition, ...]
    dependents: tuple[str, ...]
    generation: int
    born: datetime
    deleting: bool
    now: datetime

    def get(self, kind: str) -> Condition | None:
        return next((each for each in self.held if each.type == kind), None)

    def status(self, kind: str) -> str:
        """Return the status of one condition; empty when it does not exist."""
        found = self.get(kind)
        return found.status if found is not None else ""

    def is_true(self, kind: str) -> bool:
        return self.status(kind) == "True"

    def since(self, kind: str) -> datetime:
        """Return the last transition time of a condition, at most now; the epoch when it does not exist."""
        found = self.get(kind)
        return min((found.last_transition_time if found is not None else None) or _EPOCH, self.now)

    def is_ahead(self, kind: str) -> bool:
        """Whether a condition has a time that is still to come: the clock that it is of was ahead."""
        found = self.get(kind)
        return found is not None and (found.last_transition_time or _EPOCH) > self.now

    def set_true(self, kind: str, reason: str = "", message: str = "") -> ConditionSet:
        """Return the set with a condition that is True; its reason is its type unless one is given."""
        return self.set(kind, "True", reason or kind, message)

    def set_false(self, kind: str, reason: str, message: str) -> ConditionSet:
        return self.set(kind, "False", reason, message)

    def set_unknown(self, kind: str, reason: str, message: str) -> ConditionSet:
        return self.set(kind, "Unknown", reason, message)

    def set(self, kind: str, status: str, reason: str, message: str) -> ConditionSet:
        """Return the set with one condition, and the root that follows."""
        condition_set = self.with_condition(kind, status, reason, message)
        return condition_set if kind == READY else condition_set.with_root()

    def refresh(self, kind: str) -> ConditionSet:
        """Return the set with a condition repeated for the present generation of the object."""
        found = self.get(kind)
        return self if found is None else self.set(kind, found.status, found.reason, found.message)

    def clear(self, kind: str) -> ConditionSet:
        """Return the set without a condition; dependents of the root stay."""
        if kind in self.dependents or kind == READY or self.get(kind) is None:
            return self
        left = sorted((each for each in self.held if each.type != kind), key=lambda each: each.type)
        return msgspec.structs.replace(self, held=tuple(left))

    def with_condition(self, kind: str, status: str, reason: str, message: str) -> ConditionSet:
        """Return the set with one condition; the root stays as it is."""
        # lastTransitionTime is when the status changed, not when reason or message did:
        # https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
        before = self.get(kind)
        if before is None:
            changed: datetime | None = self.born if kind == READY or kind in self.dependents else self.now
        else:
            same = before.status == status and not self.is_ahead(kind)
            changed = before.last_transition_time if same else self.now
        new = Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=changed,
            observed_generation=self.generation,
        )
        others = [each for each in self.held if each.type != kind]
        # A deletion raises metadata.generation; conditions that were True before it still are.
        if self.deleting:
            others = [msgspec.structs.replace(each, observed_generation=self.generation) for each in others]
        return msgspec.structs.replace(self, held=tuple(sorted([*others, new], key=_by_time)))

    def with_root(self) -> ConditionSet:
        """Return the set with the root that follows from its dependents."""
        # A condition of an older generation says nothing about the present spec:
        # https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
        unhealthy = [
            each
            for kind in self.dependents
            if (each := self.get(kind)) is not None
            and not (each.status == "True" and each.observed_generation == self.generation)
        ]
        if not unhealthy:
            return self.with_condition(READY, "True", READY, "")
        unhealthy.sort(key=lambda each: each.last_transition_time or _EPOCH, reverse=True)
        message = ", ".join(f"{each.type}={each.status}" for each in unhealthy)
        failed = any(
            each.status == "False" and each.observed_generation == self.generation for each in unhealthy
        )
        if failed:
            return self.with_condition(READY, "False", "UnhealthyDependents", message)
        return self.with_condition(READY, "Unknown", "ReconcilingDependents", message)


def condition_set_of(
    meta: ObjectMeta, held: Iterable[Condition], dependents: tuple[str, ...], now: datetime
) -> ConditionSet:
    """Return the conditions of an object; the root and its dependents are added as Unknown if missing."""
    # Times of the API have whole seconds; a fraction would be lost by the first write and differ afterwards:
    # https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/time.go
    second = now.replace(microsecond=0)
    condition_set = ConditionSet(
        held=tuple(held),
        dependents=dependents,
        generation=meta.generation,
        born=meta.creation_timestamp or second,
        deleting=meta.deletion_timestamp is not None,
        now=second,
    )
    for kind in (READY, *dependents):
        if condition_set.get(kind) is None:
            message = "object is awaiting reconciliation"
            condition_set = condition_set.with_condition(kind, "Unknown", AWAITING_RECONCILIATION, message)
    return condition_set


def claim_conditions(claim: NodeClaim, now: datetime) -> ConditionSet:
    return condition_set_of(claim.metadata, claim.status.conditions, NODECLAIM_DEPENDENTS, now)


def pool_conditions(pool: NodePool, now: datetime) -> ConditionSet:
    return condition_set_of(pool.metadata, pool.status.conditions, NODEPOOL_DEPENDENTS, now)


def overlay_conditions(overlay: NodeOverlay, now: datetime) -> ConditionSet:
    return condition_set_of(overlay.metadata, overlay.status.conditions, NODEOVERLAY_DEPENDENTS, now)


def render_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Return conditions in the form that the API takes, with every field."""
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": render_time(each.last_transition_time or _EPOCH),
            "observedGeneration": each.observed_generation,
        }
        for each in conditions
    ]


@lru_cache(maxsize=1024)  # conditions are written several times, and mostly change within few seconds
def render_time(moment: datetime) -> str:
    """Return a time in the form of the API: RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _by_time(each: Condition) -> tuple[bool, datetime]:
    return each.type == READY, each.last_transition_time or _EPOCH


def patch_object(
    item: NodeClaim | NodePool | NodeOverlay,
    condition_set: ConditionSet,
    *,
    because: str,
    changes: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> tuple[Effect, ...]:
    """Return the write of conditions and of other `changes` and `status`; empty if nothing differs."""
    written = dict(status or {})
    if conditions_differ(item.status.conditions, condition_set.held):
        written["conditions"] = render_conditions(condition_set.held)
    if not written and not changes:
        return ()
    return (
        Amend(
            kind=item.kind,
            name=item.name,
            changes=changes or {},
            status=written,
            version=item.metadata.resource_version,
            because=because,
        ),
    )


def conditions_differ(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> bool:
    """Whether two lists of conditions differ; their order does not count."""
    return sorted(before, key=lambda each: each.type) != sorted(after, key=lambda each: each.type)


def add_finalizer(item: Resource, because: str) -> Amend:
    """Return the write that adds the termination finalizer."""
    finalizers = [*item.metadata.finalizers, TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def remove_finalizer(item: Resource, because: str) -> Amend:
    """Return the write that removes the termination finalizer."""
    finalizers = [each for each in item.metadata.finalizers if each != TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def has_finalizer(item: Resource) -> bool:
    """Whether an object has the termination finalizer."""
    return TERMINATION_FINALIZER in item.metadata.finalizers


def delete_claim(
    claim: NodeClaim, reason: str, because: str, pods: Iterable[Pod] | None = None
) -> tuple[Effect, ...]:
    """Return the deletion of a claim by our decision, counted with its reschedulable `pods`."""
    deletion = (
        DeleteObject(kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=because),
        Count(metric="karpenter_nodeclaims_disrupted_total", labels=disrupted_labels(claim, reason)),
    )
    if pods is None:
        return deletion
    reschedulable = float(sum(1 for pod in pods if is_reschedulable(pod)))
    labels = disrupted_pods_labels(claim, reason)
    return (
        *deletion,
        Count(metric="karpenter_pods_disruption_initiated_total", labels=labels, amount=reschedulable),
    )


def _finalizers(item: Resource, finalizers: list[str], because: str) -> Amend:
    return Amend(
        kind=item.kind,
        name=item.name,
        namespace=item.namespace,
        changes={"metadata": {"finalizers": finalizers}},
        version=item.metadata.resource_version,
        because=because,
    )


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one lifecycle step: conditions to write, and effects before and after the write."""

    condition_set: ConditionSet
    status: Mapping[str, Any] = {}
    first: tuple[Effect, ...] = ()
    """Effects before the conditions are written."""

    then: tuple[Effect, ...] = ()
    """Effects after the conditions are written."""


def pool_of(item: Resource) -> str:
    """Return the NodePool of a claim or Node; empty if it has none."""
    return item.metadata.labels.get(NODEPOOL, "")


def nodepool_labels(item: Resource) -> dict[str, str]:
    """Return the metric labels of a claim or Node: its NodePool."""
    return {"nodepool": pool_of(item)}


def zone_labels(item: Resource) -> dict[str, str]:
    """Return the metric labels of a claim or Node: its NodePool and zone."""
    return {**nodepool_labels(item), "zone": item.metadata.labels.get(ZONE, "")}


def capacity_labels(item: Resource) -> dict[str, str]:
    """Return the metric labels of a claim or Node: its NodePool, zone and capacity type."""
    return {**zone_labels(item), "capacity_type": item.metadata.labels.get(CAPACITY_TYPE, "")}


def disrupted_labels(claim: NodeClaim, reason: str) -> dict[str, str]:
    """Return the labels of the metrics about disrupted claims."""
    return {
        "reason": reason,
        **nodepool_labels(claim),
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
    }


def disrupted_pods_labels(claim: NodeClaim, reason: str, policy: str = "") -> dict[str, str]:
    """Return the labels of the metrics about the pods of disrupted claims."""
    return {
        **disrupted_labels(claim, reason),
        "consolidation_policy": policy,
        "termination_mode": termination_mode(claim),
    }


def termination_grace_period(claim: NodeClaim) -> timedelta | None:
    """Return the terminationGracePeriod of a claim; None means that its node drains without a limit."""
    text = claim.spec.termination_grace_period
    if text is None:
        return None
    try:
        return parse_duration(text)
    except DurationError:  # an API server would have refused it
        return None


def termination_mode(claim: NodeClaim) -> str:
    """Return graceful without a terminationGracePeriod, forceful for a period of zero, eventual otherwise."""
    grace = termination_grace_period(claim)
    if grace is None:
        return "graceful"
    return "eventual" if grace.total_seconds() > 0 else "forceful"


def snake_case(words: str) -> str:
    """Return a CamelCase word in snake case: memory_pressure for MemoryPressure."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in words).lstrip("_")
