"""
Conditions of an object: what each means for the others, and when it counts as changed.

A kind has a root condition, ``Ready``, and others that it depends on. Those are always there, unknown until
somebody says more; the root follows from them. The time of a condition is that of the last change of its
status, whatever else is said of it since. A statement about an older generation of the object does not count.

Pure: a board is a value, and setting a condition gives another board. What the conditions of a claim or pool
mean is decided in the modules beside this one.

Writing down what changed about a claim: only what differs, and only if it still is what was looked at.

How far a claim has come: its conditions, what to do before they are written down, and what after.

Labels of metrics about claims and nodes, read from the labels of the objects themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL, TERMINATION_FINALIZER, ZONE
from karpenter.api.meta import Condition
from karpenter.base.duration import DurationError, parse_duration
from karpenter.core.effects import Amend, Count, DeleteObject, Effect
from karpenter.core.state.pod import is_reschedulable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from karpenter.api.meta import ObjectMeta, Resource
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodeoverlay import NodeOverlay
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod


ROOT: Final = "Ready"
AWAITING_RECONCILIATION: Final = "AwaitingReconciliation"
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

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

VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"

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
        """Return one condition, if it is there."""
        return next((each for each in self.held if each.type == kind), None)

    def status(self, kind: str) -> str:
        """Return the status of one condition; empty when it is not there."""
        found = self.get(kind)
        return found.status if found is not None else ""

    def is_true(self, kind: str) -> bool:
        """Whether a condition is there and True."""
        return self.status(kind) == "True"

    def since(self, kind: str) -> datetime:
        """Return when the status of a condition changed last; long ago when it is not there."""
        found = self.get(kind)
        return (found.last_transition_time if found is not None else None) or _BEGINNING

    def true(self, kind: str, reason: str = "", message: str = "") -> ConditionSet:
        """Return the board with a condition that holds; its reason is its own name unless one is given."""
        return self.set(kind, "True", reason or kind, message)

    def false(self, kind: str, reason: str, message: str) -> ConditionSet:
        """Return the board with a condition that does not hold."""
        return self.set(kind, "False", reason, message)

    def unknown(self, kind: str, reason: str, message: str) -> ConditionSet:
        """Return the board with a condition of which nobody knows yet whether it holds."""
        return self.set(kind, "Unknown", reason, message)

    def set(self, kind: str, status: str, reason: str, message: str) -> ConditionSet:
        """Return the board with one condition as it is now, and the root as it follows."""
        board = self._with(kind, status, reason, message)
        return board if kind == ROOT else board._rooted()  # noqa: SLF001  another of the same

    def refresh(self, kind: str) -> ConditionSet:
        """Return the board with a condition said again, of the object's present generation."""
        found = self.get(kind)
        return self if found is None else self.set(kind, found.status, found.reason, found.message)

    def clear(self, kind: str) -> ConditionSet:
        """Return the board without a condition; one that the root depends on stays."""
        if kind in self.dependents or kind == ROOT or self.get(kind) is None:
            return self
        left = sorted((each for each in self.held if each.type != kind), key=lambda each: each.type)
        return msgspec.structs.replace(self, held=tuple(left))

    def _with(self, kind: str, status: str, reason: str, message: str) -> ConditionSet:
        before = self.get(kind)
        if before is None:
            changed: datetime | None = self.born if kind == ROOT or kind in self.dependents else self.now
        else:
            changed = before.last_transition_time if before.status == status else self.now
        new = Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=changed,
            observed_generation=self.generation,
        )
        others = [each for each in self.held if each.type != kind]
        if self.deleting:
            others = [msgspec.structs.replace(each, observed_generation=self.generation) for each in others]
        return msgspec.structs.replace(self, held=tuple(sorted([*others, new], key=_by_time)))

    def _rooted(self) -> ConditionSet:
        unhealthy = [
            each
            for kind in self.dependents
            if (each := self.get(kind)) is not None
            and not (each.status == "True" and each.observed_generation == self.generation)
        ]
        if not unhealthy:
            return self._with(ROOT, "True", ROOT, "")
        unhealthy.sort(key=lambda each: each.last_transition_time or _BEGINNING, reverse=True)
        message = ", ".join(f"{each.type}={each.status}" for each in unhealthy)
        failed = any(
            each.status == "False" and each.observed_generation == self.generation for each in unhealthy
        )
        if failed:
            return self._with(ROOT, "False", "UnhealthyDependents", message)
        return self._with(ROOT, "Unknown", "ReconcilingDependents", message)


def condition_set_of(
    meta: ObjectMeta, held: Iterable[Condition], dependents: tuple[str, ...], now: datetime
) -> ConditionSet:
    """Return the conditions of an object, with all there that must be."""
    second = now.replace(microsecond=0)
    board = ConditionSet(
        held=tuple(held),
        dependents=dependents,
        generation=meta.generation,
        born=meta.creation_timestamp or second,
        deleting=meta.deletion_timestamp is not None,
        now=second,
    )
    for kind in (ROOT, *dependents):
        if board.get(kind) is None:
            board = board._with(kind, "Unknown", AWAITING_RECONCILIATION, "object is awaiting reconciliation")  # noqa: SLF001  as above
    return board


def claim_conditions(claim: NodeClaim, now: datetime) -> ConditionSet:
    """Return the conditions of a claim."""
    return condition_set_of(claim.metadata, claim.status.conditions, NODECLAIM_DEPENDENTS, now)


def pool_conditions(pool: NodePool, now: datetime) -> ConditionSet:
    """Return the conditions of a pool."""
    return condition_set_of(pool.metadata, pool.status.conditions, NODEPOOL_DEPENDENTS, now)


def overlay_conditions(overlay: NodeOverlay, now: datetime) -> ConditionSet:
    """Return the conditions of an overlay."""
    return condition_set_of(overlay.metadata, overlay.status.conditions, NODEOVERLAY_DEPENDENTS, now)


def render_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Return conditions as the API takes them; every field is spelled out."""
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": render_time(each.last_transition_time or _BEGINNING),
            "observedGeneration": each.observed_generation,
        }
        for each in conditions
    ]


def render_time(moment: datetime) -> str:
    """Return a time as the API writes it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _by_time(each: Condition) -> tuple[bool, datetime]:
    return each.type == ROOT, each.last_transition_time or _BEGINNING


def patch_object(
    item: NodeClaim | NodePool | NodeOverlay,
    board: ConditionSet,
    *,
    because: str,
    changes: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> tuple[Effect, ...]:
    """Return the change that makes an object's conditions those of a board, beside others, if any."""
    written = dict(status or {})
    if conditions_differ(item.status.conditions, board.held):
        written["conditions"] = render_conditions(board.held)
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
    """Say whether two lists of conditions are written differently; their order does not count."""
    return sorted(before, key=lambda each: each.type) != sorted(after, key=lambda each: each.type)


def add_finalizer(item: Resource, because: str) -> Amend:
    """Return the change that keeps an object from going before its machine has."""
    finalizers = [*item.metadata.finalizers, TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def remove_finalizer(item: Resource, because: str) -> Amend:
    """Return the change that lets an object go."""
    finalizers = [each for each in item.metadata.finalizers if each != TERMINATION_FINALIZER]
    return _finalizers(item, finalizers, because)


def has_finalizer(item: Resource) -> bool:
    """Whether an object waits for its machine to be gone."""
    return TERMINATION_FINALIZER in item.metadata.finalizers


def delete_claim(
    claim: NodeClaim, reason: str, because: str, pods: Iterable[Pod] | None = None
) -> tuple[Effect, ...]:
    """Return what removes a claim by our own decision, and counts it and its `pods` that run again."""
    gone = (
        DeleteObject(kind=claim.kind, name=claim.name, uid=claim.metadata.uid, because=because),
        Count(metric="karpenter_nodeclaims_disrupted_total", labels=disrupted_labels(claim, reason)),
    )
    if pods is None:
        return gone
    moving = float(sum(1 for pod in pods if is_reschedulable(pod)))
    labels = moved_labels(claim, reason)
    return (*gone, Count(metric="karpenter_pods_disruption_initiated_total", labels=labels, amount=moving))


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
    """One step of a claim's life."""

    board: ConditionSet
    status: Mapping[str, Any] = {}
    first: tuple[Effect, ...] = ()
    """To be done before the conditions say so."""

    then: tuple[Effect, ...] = ()
    """To be done once, after the conditions have said so."""


def pool_of(item: Resource) -> str:
    """Return the pool that a claim or node belongs to; empty for those that belong to none."""
    return item.metadata.labels.get(NODEPOOL, "")


def nodepool_labels(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool."""
    return {"nodepool": pool_of(item)}


def zone_labels(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool and zone."""
    return {**nodepool_labels(item), "zone": item.metadata.labels.get(ZONE, "")}


def capacity_labels(item: Resource) -> dict[str, str]:
    """Return the labels of metrics that are told apart by pool, zone and capacity type."""
    return {**zone_labels(item), "capacity_type": item.metadata.labels.get(CAPACITY_TYPE, "")}


def disrupted_labels(claim: NodeClaim, reason: str) -> dict[str, str]:
    """Return the labels of metrics about claims that go by our own decision."""
    return {
        "reason": reason,
        **nodepool_labels(claim),
        "capacity_type": claim.metadata.labels.get(CAPACITY_TYPE, ""),
    }


def moved_labels(claim: NodeClaim, reason: str, policy: str = "") -> dict[str, str]:
    """Return the labels of metrics about the pods of claims that go by our own decision."""
    return {
        **disrupted_labels(claim, reason),
        "consolidation_policy": policy,
        "termination_mode": termination_mode(claim),
    }


def termination_grace_period(claim: NodeClaim) -> timedelta | None:
    """Return how long the node of a claim may take to leave; None means as long as its pods take."""
    text = claim.spec.termination_grace_period
    if text is None:
        return None
    try:
        return parse_duration(text)
    except DurationError:  # an API server would have refused it
        return None


def termination_mode(claim: NodeClaim) -> str:
    """Return how much time the pods of a claim's node have: all, none, or some."""
    grace = termination_grace_period(claim)
    if grace is None:
        return "graceful"
    return "eventual" if grace.total_seconds() > 0 else "forceful"


def snake_case(words: str) -> str:
    """Return a word with capitals inside as metrics spell it: memory_pressure for MemoryPressure."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in words).lstrip("_")
