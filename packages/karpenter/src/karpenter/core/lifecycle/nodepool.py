"""
The status of a NodePool: validation, readiness, hash, and the resources of its nodes.

Conditions and hash annotations are computed together and written in one patch. A NodePool is used for
scheduling only when ValidationSucceeded and NodeClassReady are True for its present generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import NODEPOOL_HASH_VERSION, NODES, LabelRules
from karpenter.api.validation.nodepool_validation import check_amounts, validate_nodepool
from karpenter.core.effects import Amend, Effect
from karpenter.core.lifecycle import conditions
from karpenter.core.lifecycle.conditions import ConditionSet, patch_object
from karpenter.core.lifecycle.registrationhealth import is_outdated
from karpenter.core.model.nodepool_hash import pool_hash_annotations
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.state.cluster import NodeClass

# A merge patch never removes a key by leaving it out, so resources that are gone are written as null, and
# these are written as zero: `kubectl get nodepools` shows them as columns.
_ALWAYS_WRITTEN: Final = ("cpu", "memory", "pods", "ephemeral-storage", NODES)


def nodepool_status(
    pool: NodePool,
    node_class: NodeClass | None,
    claims: Iterable[NodeClaim],
    *,
    rules: LabelRules,
    now: datetime,
) -> tuple[Effect, ...]:
    """Return the writes of a NodePool's conditions and hash; `claims` are its own."""
    condition_set = _class_ready(
        _validated(conditions.pool_conditions(pool, now), pool, rules), pool, node_class
    )
    status: dict[str, Any] = {}
    if node_class is not None and is_outdated(pool, node_class):
        kind = conditions.NODE_REGISTRATION_HEALTHY
        condition_set = condition_set.set_unknown(
            kind, conditions.AWAITING_RECONCILIATION, "no machine of this generation has registered yet"
        )
        status["nodeClassObservedGeneration"] = node_class.generation
    hashes = pool_hash_annotations(pool)
    notes = pool.metadata.annotations
    changes = (
        {"metadata": {"annotations": hashes}} if any(notes.get(k) != v for k, v in hashes.items()) else {}
    )
    return (
        *(_rehashed(claim, hashes) for claim in claims if _has_other_hash_version(claim, pool, hashes)),
        *patch_object(
            pool,
            condition_set,
            changes=changes,
            status=status,
            because="the nodepool or its node class has changed",
        ),
    )


def nodepool_resources(pool: NodePool, used: Mapping[str, int]) -> tuple[Effect, ...]:
    """Return the write of the summed resources of a NodePool's nodes; empty if nothing differs."""
    amounts = {**dict.fromkeys(_ALWAYS_WRITTEN, 0), **used}
    shown, nodes = render_resources(amounts), amounts[NODES]
    if pool.status.resources == shown and pool.status.nodes == nodes:
        return ()
    removed = {name: None for name in pool.status.resources if name not in shown}
    return (
        Amend(
            kind=pool.kind,
            name=pool.name,
            status={"resources": {**shown, **removed}, "nodes": nodes},
            because="its nodes have changed",
        ),
    )


def _validated(condition_set: ConditionSet, pool: NodePool, rules: LabelRules) -> ConditionSet:
    problems = [*validate_nodepool(pool, rules=rules), *check_amounts(pool)]
    if problems:
        text = "; ".join(str(problem) for problem in problems)
        return condition_set.set_false(conditions.VALIDATION_SUCCEEDED, "NodePoolValidationFailed", text)
    return condition_set.set_true(conditions.VALIDATION_SUCCEEDED)


def _class_ready(condition_set: ConditionSet, pool: NodePool, found: NodeClass | None) -> ConditionSet:
    kind = conditions.NODE_CLASS_READY
    name = pool.spec.template.spec.node_class_ref.name
    if found is None:
        return condition_set.set_false(kind, "NodeClassNotFound", f"NodeClass {name} not found on cluster")
    if found.deleting:
        return condition_set.set_false(kind, "NodeClassTerminating", f"NodeClass {name} is terminating")
    if found.ready is None:
        return condition_set.set_false(
            kind, "NodeClassReadinessUnknown", f"NodeClass {name} readiness is unknown"
        )
    if not found.ready:
        return condition_set.set_false(kind, found.reason or "NodeClassNotReady", found.message)
    return condition_set.set_true(kind)


def _has_other_hash_version(claim: NodeClaim, pool: NodePool, hashes: Mapping[str, str]) -> bool:
    version = hashes.get(NODEPOOL_HASH_VERSION)
    if version is None or pool.metadata.annotations.get(NODEPOOL_HASH_VERSION) == version:
        return False
    return claim.metadata.annotations.get(NODEPOOL_HASH_VERSION) != version


def _rehashed(claim: NodeClaim, hashes: Mapping[str, str]) -> Amend:
    """
    Return the write that brings the hash of a claim to the present version.

    A claim that has drifted keeps its old hash and stays drifted, as after an upgrade of upstream's
    Karpenter.
    """
    drifted = any(each.type == conditions.DRIFTED for each in claim.status.conditions)
    version = {NODEPOOL_HASH_VERSION: hashes[NODEPOOL_HASH_VERSION]}
    return Amend(
        kind=claim.kind,
        name=claim.name,
        changes={"metadata": {"annotations": version if drifted else dict(hashes)}},
        because="the version of the nodepool hash has changed",
    )
