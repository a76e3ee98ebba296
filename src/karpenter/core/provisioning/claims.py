"""
Writing a new node of a plan down as a NodeClaim.

The claim carries all that is needed to launch the machine and to know it again: requirements with every
instance type that would do, what its pods ask for, the hash of its pool, its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL, TERMINATION_FINALIZER, node_class_label
from karpenter.api.meta import ObjectMeta, OwnerReference
from karpenter.api.nodeclaim import NodeClaim, NodeClaimResources, NodeClaimSpec, NodeRequirement
from karpenter.core.effects import CreateClaim
from karpenter.core.model.resources import parse_resources, render_amount, render_resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.labels import LabelRules
    from karpenter.api.nodepool import NodePool
    from karpenter.core.model.requirements import Requirements
    from karpenter.core.scheduling.plan import NewNode


def claim_for(node: NewNode, pool: NodePool, rules: LabelRules) -> NodeClaim:
    """Return the claim for a new node of a pool; the API server names it."""
    template = pool.spec.template
    ref = template.spec.node_class_ref
    class_label = node_class_label(ref.group, ref.kind)
    given = {**template.metadata.labels, NODEPOOL: pool.name, class_label: ref.name}
    chosen = {
        key: value
        for key, value in node.labels.items()
        if key not in rules.well_known and not rules.is_restricted(key)
    }
    return NodeClaim(
        metadata=ObjectMeta(
            generate_name=f"{pool.name}-",
            labels={**chosen, **given},
            annotations=dict(node.annotations),
            owner_references=(owner_of(pool),),
            finalizers=(TERMINATION_FINALIZER,),
        ),
        spec=NodeClaimSpec(
            taints=node.taints,
            startup_taints=node.startup_taints,
            requirements=written(node.requirements.without(class_label)),
            resources=NodeClaimResources(requests=dict(render_resources(node.requests))),
            node_class_ref=ref,
            expire_after=template.spec.expire_after,
            termination_grace_period=template.spec.termination_grace_period,
        ),
    )


def create(node: NewNode, pool: NodePool, rules: LabelRules, because: str) -> CreateClaim:
    """Return the creation of a claim for a new node."""
    return CreateClaim(claim=claim_for(node, pool, rules), pods=node.pods, because=because)


def written(requirements: Requirements) -> tuple[NodeRequirement, ...]:
    """Return requirements as a claim spells them."""
    return tuple(
        NodeRequirement(key=term.key, operator=term.operator, values=term.values, min_values=term.min_values)
        for term in requirements.terms()
    )


def owner_of(pool: NodePool) -> OwnerReference:
    """Return the reference by which a claim goes away with its pool."""
    return OwnerReference(
        api_version=pool.api_version,
        kind=pool.kind,
        name=pool.name,
        uid=pool.metadata.uid,
        block_owner_deletion=True,
    )


def over_limit(pool: NodePool, used: Mapping[str, int]) -> str:
    """Return which limit a pool has passed already, as a sentence; nothing while it keeps them all."""
    limits = parse_resources(pool.spec.limits)
    for name in sorted(limits):
        if used.get(name, 0) > limits[name]:
            has, may = render_amount(name, used[name]), render_amount(name, limits[name])
            return f"NodePool {pool.name} has {has} of {name} and its limit is {may}"
    return ""
