"""
Static NodePools: how many claims they lack, and what those look like.

A static NodePool keeps as many nodes as its ``replicas``, with or without pods. Nodes that disruption is
about to replace still count towards ``replicas``; those that are being deleted count only against the limit
on nodes. The claim leaves the choice of instance type to the provider.

Which claims are deleted when there are too many is decided in ``core.disruption.deprovisioning``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    HOSTNAME,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    NODES,
    TERMINATION_FINALIZER,
    LabelRules,
    node_class_label,
)
from karpenter.api.meta import ObjectMeta, is_status_condition_true
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec
from karpenter.base.hashstructure import UnhashableError
from karpenter.base.quantity import QuantityError
from karpenter.core.effects import NOTHING, CreateClaim, Step
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources
from karpenter.core.provisioning.provisioner import node_requirements, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from karpenter.api.nodepool import NodePool

# Static capacity: https://karpenter.sh/docs/concepts/nodepools/#specreplicas
PERIOD: Final = 60.0
AT_LIMIT: Final = 30.0
"""Seconds after which a pool is looked at again that its limit on nodes keeps small."""


class ClaimCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of one pool, counted."""

    active: int = 0
    """Those that stay."""

    pending: int = 0
    """Those that a disruption is about to replace."""

    deleting: int = 0

    @property
    def all(self) -> int:
        return self.active + self.pending + self.deleting


def is_static(pool: NodePool) -> bool:
    """Whether a pool has a fixed size."""
    return pool.spec.replicas is not None


def count_claims(pool: str, claims: Iterable[NodeClaim], marked: AbstractSet[str]) -> ClaimCounts:
    """Count the claims of a pool; `marked` ones are about to be replaced."""
    active = pending = deleting = 0
    for claim in claims:
        if claim.metadata.labels.get(NODEPOOL) != pool:
            continue
        if claim.metadata.deletion_timestamp is not None:
            deleting += 1
        elif claim.name in marked:
            pending += 1
        else:
            active += 1
    return ClaimCounts(active=active, pending=pending, deleting=deleting)


def scale_up(pool: NodePool, there: ClaimCounts, rules: LabelRules) -> Step:
    """Return the claims that a static pool lacks, as far as its limit lets it have them."""
    wanted = pool.spec.replicas
    if wanted is None or pool.metadata.deletion_timestamp is not None:
        return NOTHING
    if (
        not is_status_condition_true(pool.status.conditions, "Ready")
        or there.active + there.pending >= wanted
    ):
        return Step(again=PERIOD)
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/static/provisioning/controller.go
    lacking = min(wanted - there.active, _room(pool, there, wanted))
    if lacking <= 0:
        return Step(again=AT_LIMIT)
    try:
        claim = _claim(pool, rules)
    except (RequirementError, UnhashableError):  # its validation says so
        return Step(again=PERIOD)
    because = f"its pool keeps {wanted} machines and has {there.active}"
    return Step(effects=(CreateClaim(claim=claim, because=because),) * lacking, again=PERIOD)


def _room(pool: NodePool, there: ClaimCounts, wanted: int) -> int:
    """Return how many of `wanted` a pool may have more; machines that leave count until they are gone."""
    try:
        limit = parse_resources(pool.spec.limits).get(NODES)
    except QuantityError:  # its validation says so
        return 0
    return wanted if limit is None else limit - there.all


def _claim(pool: NodePool, rules: LabelRules) -> NodeClaim:
    template = pool.spec.template
    ref = template.spec.node_class_ref
    class_label = node_class_label(ref.group, ref.kind)
    given = {**template.metadata.labels, NODEPOOL: pool.name, class_label: ref.name}
    requirements = Requirements.from_entries(template.spec.requirements).intersect(
        Requirements.from_labels(given)
    )
    chosen = {
        each.key: each.sample()
        for each in requirements
        if each.key not in rules.well_known and not rules.is_restricted(each.key) and each.key != HOSTNAME
    }
    return NodeClaim(
        metadata=ObjectMeta(
            generate_name=f"{pool.name}-",
            labels={**{key: value for key, value in chosen.items() if value}, **given},
            annotations={
                **template.metadata.annotations,
                NODEPOOL_HASH: pool_hash(pool),
                NODEPOOL_HASH_VERSION: POOL_HASH_VERSION,
            },
            owner_references=(owner_of(pool),),
            finalizers=(TERMINATION_FINALIZER,),
        ),
        spec=NodeClaimSpec(
            taints=template.spec.taints,
            startup_taints=template.spec.startup_taints,
            requirements=node_requirements(requirements),
            node_class_ref=ref,
            expire_after=template.spec.expire_after,
            termination_grace_period=template.spec.termination_grace_period,
        ),
    )
