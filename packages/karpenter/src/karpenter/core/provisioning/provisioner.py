"""
One decision of the provisioner: claims to create, nodes to promise, and what to tell.

``provision`` is the whole of it and runs wherever the caller likes, since it only computes.

Writing a new node of a plan down as a NodeClaim.

The claim carries all that is needed to launch the machine and to know it again: requirements with every
instance type that would do, what its pods ask for, the hash of its pool, its owner.

Which pods a decision is made for.

A pod that the scheduler of the cluster has tried and found no node for; one that it has not looked at yet may
still find room by itself. Pods of nodes that are leaving need a place too, and so does the room that buffers
ask for. A pod that wants none of our nodes is left alone without a word.

Wishes of pods that may keep machines from being consolidated; whoever made them should know.

A wish is treated as a demand as long as it can be met, so that pods which would rather be apart are given
machines of their own, and are not brought together again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    BUFFER_NAME,
    BUFFER_NAMESPACE,
    NODEPOOL,
    TERMINATION_FINALIZER,
    node_class_label,
)
from karpenter.api.meta import ObjectMeta, OwnerReference
from karpenter.api.nodeclaim import NodeClaim, NodeClaimResources, NodeClaimSpec, NodeRequirement
from karpenter.core.effects import CreateClaim, Effect, Nominate
from karpenter.core.events import failed_scheduling, no_compatible_types, nominated
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources, render_amount, render_resources
from karpenter.core.provisioning.nominations import is_coming, keep
from karpenter.core.provisioning.zones import pods_by_zone
from karpenter.core.scheduling.build.build import assemble
from karpenter.core.scheduling.build.pods import evacuated
from karpenter.core.scheduling.build.virtualpods import is_virtual, virtual_pods
from karpenter.core.scheduling.encode.preferences import ladder
from karpenter.core.scheduling.problem import Plan
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.pdb import Guards
from karpenter.core.state.pod import waits
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from karpenter.api.labels import LabelRules
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod, PodSpec
    from karpenter.core.model.catalog import Catalog, InstanceType
    from karpenter.core.provisioning.nominations import Promise
    from karpenter.core.scheduling.build.build import Intake, Policy
    from karpenter.core.scheduling.problem import NewNode, Options, Pool
    from karpenter.core.state.view import ClusterView


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod waits because the cluster's scheduler found no node for it."""
    return waits(pod) and any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )


def demand(view: ClusterView, now: datetime, policy: Policy) -> tuple[Pod, ...]:
    """Return the pods that need a place."""
    waiting = [pod for pod in view.pods.values() if is_provisionable(pod)]
    refusing = {id(pod.spec): pod.spec for pod in waiting if _may_refuse(pod.spec)}
    refused = {key for key, spec in refusing.items() if wants_no_pool(spec)}
    pods = [pod for pod in waiting if id(pod.spec) not in refused]
    pods += evacuated(state_nodes(view), Guards(view), now)
    if policy.buffers:
        pods += virtual_pods(view)
    return tuple(pods)


def wants_no_pool(spec: PodSpec) -> bool:
    """Whether a pod asks for a node that no NodePool has made."""
    try:
        first, *_ = ladder(spec, (), respect=True, avoidance=False)
    except RequirementError:
        return False  # it is refused later, with a sentence
    wanted = first.requirements[NODEPOOL]
    return not wanted.complement and not wanted.values


def _may_refuse(spec: PodSpec) -> bool:
    return spec.affinity is not None or bool(spec.node_selector)


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
            requirements=written(_with_class(node.requirements, class_label, ref.name)),
            resources=NodeClaimResources(requests=dict(render_resources(node.requests))),
            node_class_ref=ref,
            expire_after=template.spec.expire_after,
            termination_grace_period=template.spec.termination_grace_period,
        ),
    )


def _with_class(requirements: Requirements, label: str, name: str) -> Requirements:
    """Return the requirements of a claim with the one for its class, by which providers find it too."""
    return requirements.without(label).intersect(Requirements.from_labels({label: name}))


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


NO_PROMISES: Final[Mapping[str, Promise]] = MappingProxyType({})


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done for the pods that wait."""

    plan: Plan = Plan()
    claims: tuple[CreateClaim, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Promises and announcements."""

    considered: int = 0
    """Pods that a place was looked for."""

    ignored: int = 0
    """Pods that were turned away before."""

    buffered: frozenset[str] = frozenset()
    """Names of nodes that hold room for a buffer."""

    places: Mapping[str, str] = {}
    """Of each waiting pod that has a place, the pool of its node; empty for nodes that are nobody's."""

    refused: frozenset[str] = frozenset()
    """Waiting pods that have none."""

    coming: Mapping[str, str] = {}
    """Of each pod that was given a place on a machine that is on its way already, the claim."""

    zones: Mapping[str, int] = {}
    """How many waiting pods can only be in each zone."""

    buffers: Mapping[str, bool] = {}
    """Of each buffer that asks for room, whether all of it is on nodes that exist."""


NOTHING_TO_DO: Final = Decision()


def provision(
    view: ClusterView,
    catalog: Catalog,
    *,
    now: datetime,
    options: Options,
    policy: Policy,
    promised_until: datetime,
    promises: Mapping[str, Promise] = NO_PROMISES,
) -> Decision:
    """
    Decide where every waiting pod goes, and which machines to launch for them.

    `promises` are the places that pods were given before, by the keys of the pods.
    """
    wanted = demand(view, now, policy)
    kept = keep(view, state_nodes(view), wanted, promises, now)
    pods = tuple(pod for pod in wanted if pod.key not in kept.pods)
    zones = pods_by_zone(filter(_waits_for_real, wanted), view, catalog)
    if not pods:
        return Decision(zones=zones) if wanted else NOTHING_TO_DO
    intake = assemble(kept.view, catalog, nodes=kept.nodes, pods=pods, options=options, policy=policy)
    plan = solve(intake.problem)
    known = {pod.key: pod for pod in pods}
    rules = catalog.label_rules
    because = "pods wait for it"
    return Decision(
        plan=plan,
        claims=tuple(create(node, view.pools[node.pool], rules, because) for node in plan.new_nodes),
        effects=(
            *_promises(plan, view, known, promised_until),
            *_refusals(intake, plan, known),
            *_empty_pools(intake, plan, view.pools),
        ),
        considered=len(intake.problem.pods),
        ignored=len(intake.turned_away),
        buffered=frozenset(
            name for name, keys in plan.placed.items() if any(is_virtual(known[key]) for key in keys)
        ),
        buffers=_buffers(plan, known),
        places=_places(plan, view, known),
        zones=zones,
        coming=_coming(plan, view, known),
        refused=frozenset(
            each.pod for each in (*intake.turned_away, *plan.refusals) if _waits_for_real(known[each.pod])
        ),
    )


def told(claim: NodeClaim, pods: Mapping[str, Pod]) -> tuple[Effect, ...]:
    """Return what to tell pods for which a claim was created."""
    return tuple(nominated(pod, claim=claim.name) for pod in pods.values() if not is_virtual(pod))


def _places(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each waiting pod that has a place the pool of its node."""
    pools = {node.name: node.pool for node in state_nodes(view)}
    found = {key: pools[name] for name, keys in plan.placed.items() for key in keys}
    found |= {key: node.pool for node in plan.new_nodes for key in node.pods}
    return {key: pool for key, pool in found.items() if _waits_for_real(pods[key])}


def _coming(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each pod that was given a place on a machine that is on its way the claim."""
    claims = {
        node.name: node.claim.name for node in state_nodes(view) if node.claim is not None and is_coming(node)
    }
    return {
        key: claims[name]
        for name, keys in plan.placed.items()
        if name in claims
        for key in keys
        if not is_virtual(pods[key])
    }


def _waits_for_real(pod: Pod) -> bool:
    """Whether a pod exists and has no node; others are looked after for their node's or a buffer's sake."""
    return not pod.spec.node_name and not is_virtual(pod)


def _buffers(plan: Plan, pods: Mapping[str, Pod]) -> dict[str, bool]:
    """Return of each buffer that asks for room whether all of it was found on nodes that exist."""
    there = {key for keys in plan.placed.values() for key in keys}
    found: dict[str, bool] = {}
    for pod in pods.values():
        if is_virtual(pod):
            notes = pod.metadata.annotations
            buffer = f"{notes[BUFFER_NAMESPACE]}/{notes[BUFFER_NAME]}"
            found[buffer] = found.get(buffer, True) and pod.key in there
    return found


def _promises(plan: Plan, view: ClusterView, pods: Mapping[str, Pod], until: datetime) -> Iterator[Effect]:
    by_name = {node.name: node for node in state_nodes(view)}
    for name, keys in plan.placed.items():
        real = [pods[key] for key in keys if not is_virtual(pods[key])]
        if not real:
            continue
        node = by_name[name]
        claim = node.claim.name if node.claim is not None else ""
        yield Nominate(node=claim or name, until=until, because=f"{len(real)} pods that wait fit on it")
        for pod in real:
            yield nominated(pod, claim=claim, node=node.node.name if node.node is not None else "")


def _refusals(intake: Intake, plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Effect]:
    for refusal in (*intake.turned_away, *(plan.refusals if intake.problem.pools else ())):
        pod = pods[refusal.pod]
        if not is_virtual(pod):
            yield failed_scheduling(pod, refusal.message)


def _empty_pools(intake: Intake, plan: Plan, pools: Mapping[str, NodePool]) -> Iterator[Effect]:
    if not plan.refusals:
        return
    strict = intake.problem.options.min_values == "Strict"
    for pool in intake.problem.pools:
        sold = _sold(pool)
        if not sold:
            problem = "nothing that can be bought at this moment satisfies its requirements"
            yield no_compatible_types(pools[pool.name], problem)
        elif strict and (short := _too_few(pool, sold)):
            problem = f"what can be bought at this moment does not satisfy its minValues: {short}"
            yield no_compatible_types(pools[pool.name], problem)


def _sold(pool: Pool) -> list[InstanceType]:
    """Return what can be bought for a pool, whatever its pods want."""
    return [
        kind
        for kind in pool.types
        if pool.requirements.conflict(kind.requirements) is None
        and any(pool.requirements.conflict(offering.requirements) is None for offering in kind.available)
    ]


def _too_few(pool: Pool, sold: list[InstanceType]) -> str:
    """Return of which labels a pool wants more values than can be bought."""
    found = []
    for each in pool.requirements:
        values = {
            value for kind in sold for value in kind.requirements[each.key].values if each.allows(value)
        }
        if each.min_values is not None and len(values) < each.min_values:
            found.append(f"{each.key} has {len(values)} of {each.min_values}")
    return ", ".join(found)


AGAIN: Final = timedelta(hours=24)
"""After this long the same pod is told of again."""

APART: Final = "they would rather be apart from other pods"
SPREAD: Final = "they would rather be spread"


def hindrance(pod: Pod) -> str:
    """Return which wish of a pod may hinder consolidation; nothing where none does."""
    affinity = pod.spec.affinity
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if apart is not None and apart.preferred_during_scheduling_ignored_during_execution:
        return APART
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in pod.spec.topology_spread_constraints):
        return SPREAD
    return ""


class Told:
    """Which pods were told of, and when."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}

    def news(self, pods: Iterable[Pod], now: datetime) -> dict[str, list[str]]:
        """Return the pods with wishes that were not told of within the day, by wish."""
        self._at = {uid: at for uid, at in self._at.items() if now - at < AGAIN}
        found: dict[str, list[str]] = {}
        for pod in pods:
            if (wish := hindrance(pod)) and pod.metadata.uid not in self._at:
                self._at[pod.metadata.uid] = now
                found.setdefault(wish, []).append(pod.key)
        return found
