"""
Builds a :class:`~karpenter.core.scheduling.problem.Problem` from a ClusterView: what the solver needs, and
no more.

It decides which NodePools may launch nodes now, in which order they are tried (by weight, then by name),
how much their limits leave, and what is free on each existing node. A node with amounts that cannot be read
takes no pods and is named; its pods still count for spread and affinity.

Pods are checked in :mod:`.pods`, daemons in :mod:`.daemonset`, capacity buffers in :mod:`.virtualpods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    RESERVED,
    ZONE,
    node_class_label,
)
from karpenter.api.meta import find_status_condition
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.base.hashstructure import UnhashableError
from karpenter.base.quantity import QuantityError
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.hostportusage import host_ports
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash
from karpenter.core.model.overlays import ParsedOverlay, apply_overlays, parse_overlays, without_conflicts
from karpenter.core.model.pricing import (
    DISCOUNT,
    LIST,
    Additions,
    Commitment,
    Coverage,
    PricedNode,
    PricePolicy,
    additions,
    coverage,
    paid_price,
    part,
    whole_prices,
)
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import add, cut, parse_resources, subtract, uncountable
from karpenter.core.scheduling.build.daemonset import (
    daemonset_pods,
    expected_daemons,
    remaining_daemon_resources,
)
from karpenter.core.scheduling.build.pods import (
    bound_pods,
    check_pods,
    deleting_node_pods,
    provisionable_pods,
    spread_defaults,
    with_workload_floors,
)
from karpenter.core.scheduling.build.virtualpods import buffer_problem, virtual_pods
from karpenter.core.scheduling.dynamicresources.build import build_dynamic_resources
from karpenter.core.scheduling.problem import ExistingNode, Options, Pool, Problem, Refusal, TopologyNode
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.core.state.volumeusage import volumes_by_driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from karpenter.core.scheduling.encode.nodeclaimtemplate import DaemonPod
    from karpenter.core.state.cluster import ClusterView


_NO_ADDITIONS: Final = Additions()
_READY_PARTS: Final = frozenset({"NodeClassReady", "ValidationSucceeded"})
"""Conditions of a NodePool that its condition Ready sums up."""


class PoolReadiness(msgspec.Struct, frozen=True):
    """A NodePool, and why it may not launch nodes for pending pods; nothing when it may."""

    pool: NodePool
    obstacle: str = ""


def pools_by_weight(view: ClusterView) -> tuple[PoolReadiness, ...]:
    """Return every NodePool in the order of trying, with what keeps it from launching nodes."""
    # Weight decides, then the name; upstream orders NodePools the same way:
    # https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/utils/nodepool/nodepool.go
    ordered = sorted(view.pools.values(), key=lambda p: p.name, reverse=True)
    ordered.sort(key=lambda p: -(p.spec.weight or 0))
    return tuple(PoolReadiness(pool, _obstacle(pool, view)) for pool in ordered)


def _obstacle(pool: NodePool, view: ClusterView) -> str:
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    # Static NodePools keep a fixed number of nodes and ignore pods (https://karpenter.sh/docs/concepts/nodepools/).
    if pool.spec.replicas is not None:
        return "it is static: its nodes are not launched for pods"
    ready = find_status_condition(pool.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        cause = class_obstacle(pool, view) or _unready_parts(pool) or ready.message
        return f"it is not ready{f': {cause}' if cause else ''}"
    return class_obstacle(pool, view) or _unreadable(pool)


def _unready_parts(pool: NodePool) -> str:
    """Return which conditions keep a NodePool from being ready, with what they say."""
    return "; ".join(
        f"{each.type}: {each.message or each.reason}"
        for each in pool.status.conditions
        if each.type in _READY_PARTS and each.status == "False"
    )


def class_obstacle(pool: NodePool, view: ClusterView) -> str:
    """Return why the node class of a NodePool launches nothing; empty where it may, or is not known."""
    ref = pool.spec.template.spec.node_class_ref
    found = view.node_classes.get((ref.group, ref.kind, ref.name))
    if found is None:
        return ""
    if found.deleting:
        return f"its {ref.kind} {ref.name} is being deleted"
    if found.ready is False:
        why = "; ".join(found.causes) or found.message or found.reason
        return f"its {ref.kind} {ref.name} is not ready{f': {why}' if why else ''}"
    return ""


def _unreadable(pool: NodePool) -> str:
    """Return what in a NodePool cannot be read; an API server would have refused it."""
    try:
        Requirements.from_entries(pool.spec.template.spec.requirements)
        parse_resources(pool.spec.limits)
        pool_hash(pool)
    except (QuantityError, RequirementError, UnhashableError) as error:
        return f"it cannot be read: {error}"
    return ""


def pool_usage(nodes: Iterable[StateNode]) -> dict[str, dict[str, int]]:
    """Return the capacity of the nodes of each NodePool together; deleting nodes no longer count."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes:
        # A deleting node is replaced by what is launched now, so its capacity no longer counts against the
        # limits.
        if node.pool and not node.is_deleting:
            found[node.pool] = add(found.get(node.pool, {}), node.capacity)
    return found


def as_pool(
    pool: NodePool,
    catalog: Catalog,
    used: Mapping[str, int],
    corrections: Sequence[ParsedOverlay] = (),
    extra: Additions = _NO_ADDITIONS,
) -> Pool:
    """Return what a NodePool may launch at this moment, at whole prices."""
    template = pool.spec.template
    ref = template.spec.node_class_ref
    labels = {
        **template.metadata.labels,
        NODEPOOL: pool.name,
        node_class_label(ref.group, ref.kind): ref.name,
    }
    corrected = apply_overlays(pool.name, template.metadata.labels, catalog.types_of(pool.name), corrections)
    limits = parse_resources(pool.spec.limits)
    return Pool(
        name=pool.name,
        requirements=Requirements.from_entries(template.spec.requirements).intersect(
            Requirements.from_labels(labels)
        ),
        labels=labels,
        annotations={
            **template.metadata.annotations,
            NODEPOOL_HASH: pool_hash(pool),
            NODEPOOL_HASH_VERSION: POOL_HASH_VERSION,
        },
        taints=template.spec.taints,
        startup_taints=template.spec.startup_taints,
        types=whole_prices(corrected.types, extra),
        limits=cut({name: limit - used.get(name, 0) for name, limit in limits.items()}),
        whole_limits=limits,
        overlaid=corrected.marks,
    )


def countable_nodes(nodes: Iterable[StateNode]) -> tuple[list[StateNode], list[str]]:
    """Return the nodes whose amounts fit 64 bits, and why the others do not, one sentence each."""
    found: list[StateNode] = []
    left_out: list[str] = []
    for node in nodes:
        try:
            problem = uncountable(node.capacity) or uncountable(node.available)
        except QuantityError as error:
            problem = str(error)
        if problem:
            left_out.append(f"node {node.name} takes no pods: {problem}")
        else:
            found.append(node)
    return found, left_out


def existing_nodes(
    nodes: Iterable[StateNode], expected: Sequence[DaemonPod], view: ClusterView, quiet: frozenset[str]
) -> tuple[ExistingNode, ...]:
    """Return the nodes in the order in which they are tried: initialized ones first, then by name."""
    ordered = sorted(nodes, key=lambda node: (not node.is_initialized, node.name))
    return tuple(_existing(node, expected, view, quiet) for node in ordered)


def _existing(
    node: StateNode, expected: Sequence[DaemonPod], view: ClusterView, quiet: frozenset[str]
) -> ExistingNode:
    return ExistingNode(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        free=cut(subtract(node.available, remaining_daemon_resources(node, expected))),
        initialized=node.is_initialized,
        ports=tuple(port for pod in node.pods for port in host_ports(pod)),
        volumes=_attached(node, view),
        volume_limits=_volume_limits(node.name, view),
        quiet=node.name in quiet,
    )


def _attached(node: StateNode, view: ClusterView) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for pod in node.pods:
        for driver, claims in volumes_by_driver(pod, view).items() if pod.spec.volumes else ():
            found[driver] = found.get(driver, frozenset()) | claims
    return found


def _volume_limits(name: str, view: ClusterView) -> Mapping[str, int]:
    csi = view.csi_nodes.get(name)
    return {
        driver.name: driver.allocatable.count
        for driver in (csi.spec.drivers if csi is not None else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class SchedulingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change the problem. The names are part of the flight record format."""

    overlays: bool = False
    buffers: bool = False
    reserved_capacity: bool = True
    ignore_device_claims: bool = True
    spread_defaults: tuple[TopologySpreadConstraint, ...] = ()
    prices: PricePolicy = PricePolicy()

    def at(self, now: datetime) -> SchedulingPolicy:
        """Return the policy without what has ended."""
        prices = self.prices.at(now)
        return self if prices is self.prices else msgspec.structs.replace(self, prices=prices)


class BuiltProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what is not part of it: refused pods, NodePools that are not ready, ignored objects."""

    problem: Problem
    refusals: tuple[Refusal, ...] = ()
    pools: tuple[PoolReadiness, ...] = ()
    nodes: tuple[StateNode, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes, daemons, instance types, overlays and buffers that are ignored, one sentence each."""

    commitments: tuple[tuple[Commitment, float], ...] = ()
    """Commitments that running nodes do not use up, and how much is left of each."""


def build_problem(
    view: ClusterView, catalog: Catalog, *, now: datetime, options: Options, policy: SchedulingPolicy
) -> BuiltProblem:
    """Return the problem of scheduling every provisionable pod and every pod of deleting nodes."""
    nodes = state_nodes(view)
    pdbs = PdbLimits(view)
    pods = [*provisionable_pods(view), *deleting_node_pods(nodes, pdbs, now)]
    empty: list[str] = []
    if policy.buffers:
        pods += virtual_pods(view)
        found = ((buffer.key, buffer_problem(buffer, view)) for buffer in view.buffers.values())
        empty += [f"CapacityBuffer {key} keeps no room: {problem}" for key, problem in found if problem]
    built = assemble(view, catalog, nodes=nodes, pods=pods, options=options, policy=policy)
    return msgspec.structs.replace(built, left_out=(*built.left_out, *empty))


def assemble(
    view: ClusterView,
    catalog: Catalog,
    *,
    nodes: Sequence[StateNode],
    pods: Sequence[Pod],
    options: Options,
    policy: SchedulingPolicy,
    quiet: frozenset[str] = frozenset(),
    moved: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> BuiltProblem:
    """
    Return the problem of scheduling `pods` on a cluster without the nodes named in `without`.

    `quiet` nodes take no `moved` pods.
    """
    rules = catalog.label_rules
    pods, unbound = with_workload_floors(pods, view, nodes)
    remaining = [node for node in nodes if node.name not in without]
    active, uncounted = countable_nodes(node for node in remaining if not node.is_deleting)
    devices, unserved = None, dict[str, str]()
    if not policy.ignore_device_claims:
        deleting = (node for node in nodes if node.is_deleting or node.name in without)
        devices, unserved = build_dynamic_resources(
            view, catalog, pods=pods, active=active, deleting=deleting
        )
    checked = check_pods(
        pods, view, rules, ignore_device_claims=policy.ignore_device_claims, device_problems=unserved
    )
    expected = expected_daemons(daemonset_pods(view), ignore_device_claims=policy.ignore_device_claims)
    staying, unread = bound_pods(view, {pod.key for pod in checked.accepted})
    ordered_pools = pools_by_weight(view)
    offered, unlaunchable = _launchable(catalog, policy)
    corrections, refused = _corrections(view, offered, ordered_pools) if policy.overlays else ([], [])
    used = pool_usage(active)
    unused = _coverage(nodes, offered, policy).left
    extra, unpriced = pool_additions(view, offered, policy, unused)
    problem = Problem(
        pods=checked.accepted,
        nodes=existing_nodes(active, expected.daemons, view, quiet),
        pools=tuple(
            as_pool(state.pool, offered, used.get(state.pool.name, {}), corrections, extra[state.pool.name])
            for state in ordered_pools
            if not state.obstacle
        ),
        daemons=expected.pods,
        volumes=checked.volumes,
        bound_pods=tuple(staying),
        topology_nodes=tuple(
            TopologyNode(name=each.name, labels=each.labels, taints=each.taints) for each in remaining
        ),
        namespaces={name: namespace.metadata.labels for name, namespace in view.namespaces.items()},
        moved=moved,
        spread_defaults=spread_defaults(checked.accepted, policy.spread_defaults, view),
        devices=devices,
        rules=rules,
        options=options,
    )
    return BuiltProblem(
        problem=problem,
        refusals=checked.refused,
        pools=ordered_pools,
        nodes=tuple(nodes),
        left_out=(*uncounted, *unread, *expected.left_out, *unlaunchable, *refused, *unpriced, *unbound),
        commitments=unused,
    )


def overlaid_catalog(view: ClusterView, catalog: Catalog, policy: SchedulingPolicy) -> Catalog:
    """Return the catalog at whole prices with overlays applied, per NodePool: what existing nodes cost."""
    nodes = state_nodes(view) if policy.prices.commitments else ()
    covered = _coverage(nodes, catalog, policy)
    extra, _ = pool_additions(view, catalog, policy, ())
    overlaid = policy.overlays and bool(view.overlays)
    corrections = _corrections(view, catalog, pools_by_weight(view))[0] if overlaid else []
    by_pool = {}
    for pool in view.pools.values():
        sold = catalog.types_of(pool.name)
        labels = pool.spec.template.metadata.labels
        types = apply_overlays(pool.name, labels, sold, corrections).types if corrections else sold
        by_pool[pool.name] = whole_prices(types, extra[pool.name])
    if not covered.nodes and all(types is catalog.types_of(name) for name, types in by_pool.items()):
        return catalog
    priced = msgspec.structs.replace(catalog, by_pool=by_pool)
    paid = {node.name: _paid(node, priced) for node in nodes if node.name in covered.nodes}
    return msgspec.structs.replace(priced, node_prices=paid)


def pool_additions(
    view: ClusterView,
    catalog: Catalog,
    policy: SchedulingPolicy,
    left: tuple[tuple[Commitment, float], ...],
) -> tuple[dict[str, Additions], list[str]]:
    """Return what machines of each NodePool cost besides their list price, and annotations that are wrong."""
    found: dict[str, Additions] = {}
    problems: list[str] = []
    for pool in view.pools.values():
        ref = pool.spec.template.spec.node_class_ref
        node_class = view.node_classes.get((ref.group, ref.kind, ref.name))
        found[pool.name], wrong = additions(
            policy.prices,
            catalog,
            pool.metadata.annotations,
            volumes=node_class.volumes if node_class is not None else (),
            public_ipv4=node_class is not None and node_class.public_ipv4,
            left=left,
        )
        problems += [f"NodePool {pool.name}: {each}" for each in wrong]
    return found, problems


def _coverage(nodes: Iterable[StateNode], catalog: Catalog, policy: SchedulingPolicy) -> Coverage:
    """Return which nodes commitments pay for, and what they leave."""
    if not policy.prices.commitments:
        return Coverage()
    running = (
        PricedNode(node.name, node.labels, offering.price)
        for node in nodes
        if not node.is_deleting and (offering := _offering_of(node, catalog)) is not None
    )
    return coverage(policy.prices.commitments, running)


def _offering_of(node: StateNode, catalog: Catalog) -> Offering | None:
    """Return the offering that a node runs on; None where the catalog has none."""
    kind = catalog.find(node.pool, node.labels.get(INSTANCE_TYPE, ""))
    zone, bought = node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE)
    mine = (each for each in (kind.offerings if kind is not None else ()) if each.zone == zone)
    return next((each for each in mine if each.capacity_type == bought), None)


def _paid(node: StateNode, catalog: Catalog) -> float:
    """Return what a node costs whose list price a commitment pays."""
    offering = _offering_of(node, catalog)
    assert offering is not None, "a node without an offering has no list price to pay"
    paid = part(offering.parts, LIST) + part(offering.parts, DISCOUNT) or offering.price
    return offering.price - paid + paid_price(paid)


def _corrections(
    view: ClusterView, catalog: Catalog, ordered_pools: Sequence[PoolReadiness]
) -> tuple[list[ParsedOverlay], list[str]]:
    """Return the overlays that are applied, and why the others are not."""
    pools = {
        s.pool.name: (s.pool.spec.template.metadata.labels, catalog.types_of(s.pool.name))
        for s in ordered_pools
    }
    read, unread = parse_overlays(view.overlays.values(), catalog.label_rules)
    kept, refused = without_conflicts(read, pools)
    problems = sorted({**unread, **refused}.items())
    return kept, [f"NodeOverlay {name} is not applied: {problem}" for name, problem in problems]


def _launchable(catalog: Catalog, policy: SchedulingPolicy) -> tuple[Catalog, list[str]]:
    """Return what may be launched, and which instance types have amounts beyond 64 bits."""
    problems: dict[str, str] = {}
    types = _launchable_types(catalog.types, policy, problems)
    by_pool = {pool: _launchable_types(own, policy, problems) for pool, own in catalog.by_pool.items()}
    if not problems and policy.reserved_capacity:
        return catalog, []
    left_out = [f"instance type {name} is not bought: {problem}" for name, problem in problems.items()]
    return msgspec.structs.replace(catalog, types=types, by_pool=by_pool), left_out


def _launchable_types(
    kinds: Iterable[InstanceType], policy: SchedulingPolicy, problems: dict[str, str]
) -> tuple[InstanceType, ...]:
    found: list[InstanceType] = []
    for kind in kinds:
        if problem := uncountable(kind.capacity) or uncountable(kind.allocatable):
            problems[kind.name] = problem
        else:
            found.append(_as_launchable(kind, policy))
    return tuple(found)


def _as_launchable(kind: InstanceType, policy: SchedulingPolicy) -> InstanceType:
    if policy.reserved_capacity:
        return kind
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        offerings=tuple(each for each in kind.offerings if each.capacity_type != RESERVED),
        capacity=kind.capacity,
        overhead=kind.overhead,
        devices=kind.devices,
    )
