"""
One decision of the provisioner: claims to create, nodes to nominate, and what to tell users.

``provision`` is the whole of it. It decides for pods that kube-scheduler has marked unschedulable (one that
it has not looked at yet may still find room), for pods of nodes that are being deleted, and for the room
that CapacityBuffers ask for. A pod that requires a node without a NodePool is skipped.

Between the decision and the creation of a claim the cluster may change: :func:`creation_problem` is the one
place where limits are checked again, for pods and for replacements alike.

Which pods were given a node before, and keep it, is in :mod:`.nomination`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    BUFFER_NAME,
    BUFFER_NAMESPACE,
    DISRUPTED,
    NODEPOOL,
    TERMINATION_FINALIZER,
    LabelRules,
    node_class_label,
)
from karpenter.api.meta import ObjectMeta, OwnerReference, is_status_condition_true
from karpenter.api.nodeclaim import NodeClaim, NodeClaimResources, NodeClaimSpec, NodeRequirement
from karpenter.api.pod import Pod, PodSpec
from karpenter.base.quantity import QuantityError
from karpenter.core.effects import CreateClaim, Effect, Nominate
from karpenter.core.events import failed_scheduling, no_compatible_types, nominated, preferences_ignored
from karpenter.core.model.catalog import Catalog, Choice, InstanceType, choices
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import parse_resources, render_amount, render_resources
from karpenter.core.provisioning.nomination import (
    Nomination,
    current_nominations,
    is_starting,
    is_told,
    is_unlaunched,
    keep_nominations,
    nomination_of,
)
from karpenter.core.scheduling.build.build import BuiltProblem, assemble
from karpenter.core.scheduling.build.nodepools import PoolReadiness, pool_usage
from karpenter.core.scheduling.build.pods import deleting_node_pods
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.build.virtualpods import buffer_problem, is_virtual, virtual_pods
from karpenter.core.scheduling.build.zones import pods_by_zone
from karpenter.core.scheduling.encode.preferences import MOST_PREFERENCES, preference_count, relaxations
from karpenter.core.scheduling.problem import NewNode, Options, Plan, Pool, Problem, Refusal
from karpenter.core.scheduling.purchases import (
    OnDemandFloors,
    solve_with_commitments,
    spread_over_spot,
    with_floors,
)
from karpenter.core.scheduling.solve import bought_for, solve
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.pod import is_unscheduled
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodepool import NodePool
    from karpenter.core.state.cluster import ClusterView

MOST_FORESEEN: Final = 10
"""Claims without a machine, beyond which a decision waits until they have one."""

AGAIN: Final = 10.0
"""Seconds after which pods that still have no node are decided about again."""

TOLD_AGAIN: Final = timedelta(hours=24)
"""After this long the preferences of the same pod are reported again."""

APART: Final = "they would rather be apart from other pods"
SPREAD: Final = "they would rather be spread"


def foresee_machines(view: ClusterView, catalog: Catalog) -> ClusterView | None:
    """
    Return the cluster with the machine that each claim without one will most likely get.

    That is the cheapest of those that the claim allows, and has the labels that all of them have: a pod that
    asks for a zone is not sent to a claim whose zone is open. If another is launched, pods that do not fit
    there lose their nominations and are decided about again. None where it cannot be foreseen: there are
    many claims, or one uses a reservation, of which it is not known how much is left.
    """
    unlaunched = [each for each in view.claims.values() if is_unlaunched(each)]
    if not unlaunched:
        return view
    found = {}
    for claim in unlaunched if len(unlaunched) <= MOST_FORESEEN else ():
        try:
            sold = choices(catalog, claim)
        except (RequirementError, QuantityError):
            return None
        if not sold or sold[0].offering.reservation_id:
            return None
        found[claim.name] = foreseen(claim, sold)
    return msgspec.structs.replace(view, claims={**view.claims, **found}) if found else None


def foreseen(claim: NodeClaim, sold: Sequence[Choice]) -> NodeClaim:
    """Return a claim as the launch of the first of these would leave it, with the labels of all of them."""
    kind = sold[0].kind
    shared = set(_labels(sold[0]).items())
    for each in sold[1:]:
        shared.intersection_update(_labels(each).items())
    labels = {**dict(shared), **claim.metadata.labels}
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(claim.metadata, labels=labels),
        status=msgspec.structs.replace(
            claim.status,
            provider_id=f"unlaunched://{claim.name}",
            capacity=dict(render_resources(kind.capacity)),
            allocatable=dict(render_resources(kind.allocatable)),
        ),
    )


def _labels(choice: Choice) -> dict[str, str]:
    return {**choice.kind.requirements.labels(), **choice.offering.requirements.labels()}


def is_provisionable(pod: Pod) -> bool:
    """Whether a pod is pending and kube-scheduler has found no node for it."""
    # kube-scheduler sets the condition once no node fits: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
    return is_unscheduled(pod) and any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )


def is_trigger(item: Pod | Node) -> bool:
    """Whether a pod or node asks for a decision: a pod without a node, a node that is being disrupted."""
    if isinstance(item, Pod):
        return is_provisionable(item)
    return any(taint.key == DISRUPTED for taint in item.spec.taints)


def may_serve_more(pool: NodePool, before: NodePool | None) -> bool:
    """Whether a change of a NodePool may let pods be scheduled; reports of what its nodes use do not."""
    return before is None or _serving(pool) != _serving(before)


def _serving(pool: NodePool) -> tuple[object, ...]:
    is_ready = is_status_condition_true(pool.status.conditions, "Ready")
    return pool.spec, pool.metadata.annotations, pool.metadata.deletion_timestamp, is_ready


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that need a place, and those that no NodePool may serve."""

    pods: tuple[Pod, ...] = ()
    pending: tuple[Pod, ...] = ()
    """Every pod that kube-scheduler has marked unschedulable."""

    skipped: tuple[str, ...] = ()
    """Keys of pending pods that require a node without a NodePool."""


def pods_to_schedule(view: ClusterView, now: datetime, policy: SchedulingPolicy) -> Demand:
    """Return the pods that need a place."""
    pending = tuple(pod for pod in view.pods.values() if is_provisionable(pod))
    refusing = {id(pod.spec): pod.spec for pod in pending if _may_refuse(pod.spec)}
    refused = {key for key, spec in refusing.items() if requires_no_pool(spec)}
    pods = [pod for pod in pending if id(pod.spec) not in refused]
    pods += deleting_node_pods(state_nodes(view), PdbLimits(view), now)
    if policy.buffers:
        pods += virtual_pods(view)
    skipped = tuple(pod.key for pod in pending if id(pod.spec) in refused)
    return Demand(pods=tuple(pods), pending=pending, skipped=skipped)


def requires_no_pool(spec: PodSpec) -> bool:
    """Whether a pod requires a node without a NodePool."""
    try:
        first = next(relaxations(spec, (), respect=True))
    except RequirementError:
        return False  # it is refused later, with a sentence
    # Pods that must run beside Karpenter, such as Karpenter itself, require that this label does not exist.
    wanted = first.requirements[NODEPOOL]
    return not wanted.complement and not wanted.values


def _may_refuse(spec: PodSpec) -> bool:
    return spec.affinity is not None or bool(spec.node_selector)


def claim_for(node: NewNode, pool: NodePool, rules: LabelRules) -> NodeClaim:
    """Return the claim for a new node of a pool as it was when that was decided; the API server names it."""
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
            # Without it the claim could be gone before its instance is terminated.
            finalizers=(TERMINATION_FINALIZER,),
        ),
        spec=NodeClaimSpec(
            taints=node.taints,
            startup_taints=node.startup_taints,
            requirements=node_requirements(_with_class(node.requirements, class_label, ref.name)),
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
    return CreateClaim(claim=claim_for(node, pool, rules), pods=node.pods, because=because)


def node_requirements(requirements: Requirements) -> tuple[NodeRequirement, ...]:
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


def creation_problem(effect: CreateClaim, view: ClusterView) -> str:
    """Return why a claim may not be created in the cluster as it is now; nothing when it may."""
    name = effect.claim.metadata.labels[NODEPOOL]
    pool = view.pools.get(name)
    if pool is None or pool.metadata.deletion_timestamp is not None:
        return f"NodePool {name} is gone"
    # The watch may have shown other claims since the decision: https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/provisioner.go
    return over_limit(pool, pool_usage(state_nodes(view)).get(name, {})) if pool.spec.limits else ""


def over_limit(pool: NodePool, used: Mapping[str, int]) -> str:
    """Return which limit a NodePool has exceeded already, as a sentence; nothing while it keeps them all."""
    limits = parse_resources(pool.spec.limits)
    for name in sorted(limits):
        # The scheduler keeps new nodes within the limits; here they are exceeded already.
        if used.get(name, 0) > limits[name]:
            has, may = render_amount(name, used[name]), render_amount(name, limits[name])
            return f"NodePool {pool.name} has {has} of {name} and its limit is {may}"
    return ""


class ProvisioningSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change what the provisioner decides."""

    options: Options = Options()
    policy: SchedulingPolicy = SchedulingPolicy()
    nominated_for: timedelta = timedelta(seconds=20)
    """How long a node is nominated for pods that fit on it."""

    nominate: bool = False
    """Whether kube-scheduler is told where pods are planned to run; then they keep places on any node."""

    report: bool = False
    """Whether a decision says what is left out of it even when no pod needs a place."""

    stop: Callable[[], bool] | None = None
    """Says when the time for the decision is up; what was found by then counts."""


class ProvisioningMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What the provisioner remembers from one decision to the next."""

    nominations: Mapping[str, Nomination] = {}
    """The node that each pod was nominated for, by the key of the pod."""

    told: Mapping[str, datetime] = {}
    """Pods whose preferences were reported to hinder consolidation, by uid, and when."""

    buffered: frozenset[str] = frozenset()
    """Nodes, and claims of nodes that are starting, that hold room for a CapacityBuffer."""

    def with_nominations(self, nominations: Mapping[str, Nomination]) -> ProvisioningMemory:
        """Return the memory with nominations that were made elsewhere; of two for a pod the newer counts."""
        new = {
            key: each
            for key, each in nominations.items()
            if key not in self.nominations or self.nominations[key].made <= each.made
        }
        return msgspec.structs.replace(self, nominations={**self.nominations, **new}) if new else self

    def with_claim(
        self, claim: NodeClaim, pods: Iterable[Pod], now: datetime, *, is_buffered: bool = False
    ) -> ProvisioningMemory:
        """Return the memory once a claim was created for some pods, or for the room of a CapacityBuffer."""
        made = Nomination(claim.name, now)
        new = {pod.key: made for pod in pods if not is_virtual(pod)}
        buffered = self.buffered | {claim.name} if is_buffered else self.buffered
        return msgspec.structs.replace(self, nominations={**self.nominations, **new}, buffered=buffered)


class ProvisioningDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done for the pods that need a place."""

    plan: Plan = Plan()
    claims: tuple[CreateClaim, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Nominations and Events."""

    memory: ProvisioningMemory = ProvisioningMemory()
    """What the next decision is made with."""

    again: float | None = None
    """In how many seconds to decide again for pods that still have no node."""

    considered: int = 0
    """Pods that a place was looked for."""

    ignored: tuple[Refusal, ...] = ()
    """Pods that no node can ever serve, and why; no place was looked for."""

    skipped: tuple[str, ...] = ()
    """Pending pods that require a node without a NodePool."""

    places: Mapping[str, str] = {}
    """Of each pending pod that has a place, the NodePool of its node; empty for nodes without one."""

    refused: frozenset[str] = frozenset()
    """Pending pods that have no place."""

    starting: Mapping[str, str] = {}
    """Of each pod that was given a place on a node that is starting, the claim."""

    zones: Mapping[str, int] = {}
    """How many pending pods can only be in each zone."""

    buffers: Mapping[str, bool] = {}
    """Of each CapacityBuffer that asks for room, whether all of it is on existing nodes."""

    hindering: Mapping[str, tuple[str, ...]] = {}
    """Preferences that may hinder consolidation, and the pods that have them; once a day for each pod."""

    pools: tuple[PoolReadiness, ...] = ()
    """Every NodePool, and what keeps it from launching nodes."""

    left_out: tuple[str, ...] = ()
    """Nodes, daemons, instance types, overlays and buffers that do not count, one sentence each."""

    virtual: Mapping[str, Pod] = {}
    """Pods that stand for the room of a CapacityBuffer, by key."""


def provision(
    view: ClusterView,
    catalog: Catalog,
    memory: ProvisioningMemory,
    *,
    now: datetime,
    settings: ProvisioningSettings,
    solver: Callable[[Problem], Plan] = solve,
) -> ProvisioningDecision:
    """Decide where every pod that needs a place goes, and which nodes to launch for them."""
    view = foresee_machines(view, catalog) or view
    options = msgspec.structs.replace(settings.options, stop=settings.stop or settings.options.stop)
    policy = settings.policy.at(now)
    demand = pods_to_schedule(view, now, policy)
    nominations = current_nominations(memory.nominations, view)
    cluster = keep_nominations(view, state_nodes(view), demand.pods, nominations, now)
    pods = tuple(pod for pod in demand.pods if pod.key not in cluster.pods)
    hindering, told = hindering_preferences(demand.pending, memory.told, now, options)
    decision = ProvisioningDecision(
        effects=tuple(_nominate_on(view, cluster.pods, nominations, now + settings.nominated_for)),
        memory=ProvisioningMemory(nominations=nominations, told=told),
        again=AGAIN if demand.pending else None,
        skipped=demand.skipped,
        zones=pods_by_zone(filter(_is_pending, demand.pods), view, catalog),
        hindering=hindering,
    )
    if not pods and not settings.report:
        return decision
    built = assemble(cluster.view, catalog, nodes=cluster.nodes, pods=pods, options=options, policy=policy)
    left_out = (*built.left_out, *(_empty_buffers(view) if policy.buffers else ()))
    decision = msgspec.structs.replace(decision, pools=built.pools, left_out=left_out)
    if not pods:
        return decision
    plan = _plan(built, view, policy, solver)
    return _planned(decision, built, view, catalog, pods, plan=plan, now=now, settings=settings)


def _plan(
    built: BuiltProblem, view: ClusterView, policy: SchedulingPolicy, solver: Callable[[Problem], Plan]
) -> Plan:
    """Return the plan for a problem, with what depends on all of its purchases together."""
    plan = solve_with_commitments(built.problem, built.commitments, solver=solver)
    floors = OnDemandFloors.of(view.pools.values(), built.nodes)
    plan = with_floors(plan, built.problem, floors, built.commitments)
    return spread_over_spot(plan, built.nodes, policy.prices.concentration)


def _planned(
    decision: ProvisioningDecision,
    built: BuiltProblem,
    view: ClusterView,
    catalog: Catalog,
    pods: Sequence[Pod],
    *,
    plan: Plan,
    now: datetime,
    settings: ProvisioningSettings,
) -> ProvisioningDecision:
    """Return a decision with the plan for some pods and everything that follows from it."""
    known = {pod.key: pod for pod in pods}
    starting = _starting(plan, view, known)
    nominations = _kept_places(plan, view, known, now, on_any=settings.nominate)
    rules = catalog.label_rules
    refusals = (*built.refusals, *plan.refusals)
    return msgspec.structs.replace(
        decision,
        plan=plan,
        claims=tuple(create(node, view.pools[node.pool], rules, bought_for(node)) for node in plan.new_nodes),
        effects=(
            *decision.effects,
            *_nominations(plan, view, known, now + settings.nominated_for),
            *_refusals(built, plan, known),
            *_ignored_preferences(built, known),
            *_empty_pools(built, plan, view.pools),
        ),
        memory=msgspec.structs.replace(
            decision.memory,
            nominations={**decision.memory.nominations, **nominations},
            buffered=_buffered(plan, view, known),
        ),
        considered=len(built.problem.pods),
        ignored=built.refusals,
        buffers=_buffers(plan, known),
        places=_places(plan, view, known),
        starting=starting,
        refused=frozenset(each.pod for each in refusals if _is_pending(known[each.pod])),
        virtual={key: pod for key, pod in known.items() if is_virtual(pod)},
    )


def nomination_events(
    claim: NodeClaim, pods: Mapping[str, Pod], because: Mapping[str, str]
) -> tuple[Effect, ...]:
    """Return what to tell pods for which a claim was created; `because` says why it is that one, by pod."""
    return tuple(
        nominated(pod, claim=claim.name, because=because.get(key, ""))
        for key, pod in pods.items()
        if not is_virtual(pod)
    )


def _places(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each pending pod that has a place the NodePool of its node."""
    pools = {node.name: node.pool for node in state_nodes(view)}
    found = {key: pools[name] for name, keys in plan.placed.items() for key in keys}
    found |= {key: node.pool for node in plan.new_nodes for key in node.pods}
    return {key: pool for key, pool in found.items() if _is_pending(pods[key])}


def _starting(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each pod that was given a place on a node that is starting the claim."""
    claims = {
        node.name: node.claim.name
        for node in state_nodes(view)
        if node.claim is not None and is_starting(node)
    }
    return {
        key: claims[name]
        for name, keys in plan.placed.items()
        if name in claims
        for key in keys
        if not is_virtual(pods[key])
    }


def _kept_places(
    plan: Plan, view: ClusterView, pods: Mapping[str, Pod], now: datetime, *, on_any: bool
) -> dict[str, Nomination]:
    """Return the nominations of pods placed on nodes that are starting, or `on_any` if they are told."""
    by_name = {node.name: node for node in state_nodes(view)}
    return {
        key: nomination_of(by_name[name], now)
        for name, keys in plan.placed.items()
        for key in keys
        if (is_starting(by_name[name]) or (on_any and is_told(pods[key]))) and not is_virtual(pods[key])
    }


def _is_pending(pod: Pod) -> bool:
    """Whether a pod exists and has no node; others run on a node that goes, or stand for a buffer's room."""
    return not pod.spec.node_name and not is_virtual(pod)


def _buffered(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> frozenset[str]:
    """Return the nodes that hold room for a CapacityBuffer, each by its name and by that of its claim."""
    names = {name for name, keys in plan.placed.items() if any(is_virtual(pods[key]) for key in keys)}
    claims = {node.claim.name for node in state_nodes(view) if node.name in names and node.claim is not None}
    return frozenset(names | claims)


def _buffers(plan: Plan, pods: Mapping[str, Pod]) -> dict[str, bool]:
    """Return of each CapacityBuffer that asks for room whether all of it was found on existing nodes."""
    there = {key for keys in plan.placed.values() for key in keys}
    found: dict[str, bool] = {}
    for pod in pods.values():
        if is_virtual(pod):
            notes = pod.metadata.annotations
            buffer = f"{notes[BUFFER_NAMESPACE]}/{notes[BUFFER_NAME]}"
            found[buffer] = found.get(buffer, True) and pod.key in there
    return found


def _nominate_on(
    view: ClusterView, kept: Iterable[str], nominations: Mapping[str, Nomination], until: datetime
) -> Iterator[Effect]:
    """
    Nominate nodes for pods that have not left their old node yet, however long that takes.

    The node is empty until then, and would be removed and launched again.
    """
    for claim in sorted({nominations[key].claim for key in kept if view.pods[key].spec.node_name}):
        yield Nominate(node=claim, until=until, because="pods of nodes that leave are to come")


def _nominations(plan: Plan, view: ClusterView, pods: Mapping[str, Pod], until: datetime) -> Iterator[Effect]:
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


def _refusals(built: BuiltProblem, plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Effect]:
    for refusal in (*built.refusals, *(plan.refusals if built.problem.pools else ())):
        pod = pods[refusal.pod]
        if not is_virtual(pod):
            yield failed_scheduling(pod, refusal.message)


def _ignored_preferences(built: BuiltProblem, pods: Mapping[str, Pod]) -> Iterator[Effect]:
    if built.problem.options.preferences == "Ignore":
        return
    for each in built.problem.pods:
        pod = pods[each.key]
        if _is_pending(pod) and (count := preference_count(each.spec)) > MOST_PREFERENCES:
            yield preferences_ignored(pod, count, MOST_PREFERENCES)


def _empty_pools(built: BuiltProblem, plan: Plan, pools: Mapping[str, NodePool]) -> Iterator[Effect]:
    if not plan.refusals:
        return
    strict = built.problem.options.min_values == "Strict"
    for pool in built.problem.pools:
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


def _empty_buffers(view: ClusterView) -> Iterator[str]:
    """Yield why CapacityBuffers keep no room, one sentence each."""
    for buffer in view.buffers.values():
        if problem := buffer_problem(buffer, view):
            yield f"CapacityBuffer {buffer.key} keeps no room: {problem}"


def hindering_preferences(
    pods: Iterable[Pod], told: Mapping[str, datetime], now: datetime, options: Options
) -> tuple[dict[str, tuple[str, ...]], dict[str, datetime]]:
    """
    Return which preferences may hinder consolidation, with the pods that have them, and who was `told` when.

    A preference is treated as required as long as it can be met: pods that would rather be apart get nodes of
    their own, and are not brought together again. A pod is reported once a day.
    """
    if options.preferences == "Ignore":
        return {}, dict(told)
    recent = {uid: at for uid, at in told.items() if now - at < TOLD_AGAIN}
    found: dict[str, list[str]] = {}
    for pod in pods:
        if (preference := hindering_preference(pod)) and pod.metadata.uid not in recent:
            recent[pod.metadata.uid] = now
            found.setdefault(preference, []).append(pod.key)
    return {preference: tuple(keys) for preference, keys in found.items()}, recent


def hindering_preference(pod: Pod) -> str:
    """Return which preference of a pod may hinder consolidation; nothing where none does."""
    affinity = pod.spec.affinity
    apart = affinity.pod_anti_affinity if affinity is not None else None
    if apart is not None and apart.preferred_during_scheduling_ignored_during_execution:
        return APART
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in pod.spec.topology_spread_constraints):
        return SPREAD
    return ""
