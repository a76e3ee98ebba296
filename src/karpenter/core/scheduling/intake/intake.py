"""Putting a problem together: everything the solver needs to know of a cluster, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import RESERVED
from karpenter.api.placement import TopologySpreadConstraint
from karpenter.core.model.catalog import InstanceType
from karpenter.core.scheduling.devices.intake import take_in_devices
from karpenter.core.scheduling.intake import overlays
from karpenter.core.scheduling.intake.amounts import uncountable
from karpenter.core.scheduling.intake.buffers import obstacle, virtual_pods
from karpenter.core.scheduling.intake.daemons import daemons, expect
from karpenter.core.scheduling.intake.nodes import countable, existing
from karpenter.core.scheduling.intake.pods import evacuated, located, screen, waiting
from karpenter.core.scheduling.intake.pools import PoolState, as_pool, survey, usage
from karpenter.core.scheduling.intake.spread import spread_defaults
from karpenter.core.scheduling.plan import Refusal
from karpenter.core.scheduling.problem import Place, Problem
from karpenter.core.state.guards import Guards
from karpenter.core.state.nodes import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import Options
    from karpenter.core.state.view import ClusterView


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change what is asked of the solver."""

    overlays: bool = False
    buffers: bool = False
    reserved_capacity: bool = True
    ignore_device_claims: bool = True
    spread_defaults: tuple[TopologySpreadConstraint, ...] = ()


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what was turned away before it."""

    problem: Problem
    turned_away: tuple[Refusal, ...] = ()
    pools: tuple[PoolState, ...] = ()
    nodes: tuple[StateNode, ...] = ()
    left_out: tuple[str, ...] = ()
    """Nodes, daemons, instance types, overlays and buffers that do not count, one sentence each."""


def take_in(
    view: ClusterView, catalog: Catalog, *, now: datetime, options: Options, policy: Policy
) -> Intake:
    """Return the problem of placing every pod of a cluster that needs a place."""
    nodes = state_nodes(view)
    guards = Guards(view)
    pods = [*waiting(view), *evacuated(nodes, guards, now)]
    empty: list[str] = []
    if policy.buffers:
        pods += virtual_pods(view)
        found = ((buffer.key, obstacle(buffer, view)) for buffer in view.buffers.values())
        empty += [f"CapacityBuffer {key} keeps no room: {problem}" for key, problem in found if problem]
    intake = assemble(view, catalog, nodes=nodes, pods=pods, options=options, policy=policy)
    return msgspec.structs.replace(intake, left_out=(*intake.left_out, *empty))


def assemble(
    view: ClusterView,
    catalog: Catalog,
    *,
    nodes: Sequence[StateNode],
    pods: Sequence[Pod],
    options: Options,
    policy: Policy,
    quiet: frozenset[str] = frozenset(),
    moved: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Intake:
    """
    Return the problem of placing `pods` on a cluster without the nodes named in `without`.

    `quiet` nodes take no `moved` pods.
    """
    rules = catalog.label_rules
    there = [node for node in nodes if node.name not in without]
    active, uncounted = countable(node for node in there if not node.is_leaving)
    claimed, unserved = None, dict[str, str]()
    if not policy.ignore_device_claims:
        leaving = (node for node in nodes if node.is_leaving or node.name in without)
        claimed, unserved = take_in_devices(view, catalog, pods=pods, active=active, leaving=leaving)
    screened = screen(
        pods, view, rules, ignore_device_claims=policy.ignore_device_claims, device_problems=unserved
    )
    expected = expect(daemons(view), ignore_device_claims=policy.ignore_device_claims)
    staying, unread = located(view, {pod.key for pod in screened.accepted})
    surveyed = survey(view)
    offered, unsold = _sold(catalog, policy)
    corrections, refused = _corrections(view, offered, surveyed) if policy.overlays else ([], [])
    used = usage(active)
    problem = Problem(
        pods=screened.accepted,
        nodes=existing(active, expected.daemons, view, quiet),
        pools=tuple(
            as_pool(state.pool, offered, used.get(state.pool.name, {}), corrections)
            for state in surveyed
            if not state.obstacle
        ),
        daemons=expected.pods,
        volumes=screened.volumes,
        located=tuple(staying),
        places=tuple(Place(name=each.name, labels=each.labels, taints=each.taints) for each in there),
        namespaces={name: namespace.metadata.labels for name, namespace in view.namespaces.items()},
        moved=moved,
        spread_defaults=spread_defaults(screened.accepted, policy.spread_defaults, view),
        devices=claimed,
        rules=rules,
        options=options,
    )
    return Intake(
        problem=problem,
        turned_away=screened.refused,
        pools=surveyed,
        nodes=tuple(nodes),
        left_out=(*uncounted, *unread, *expected.left_out, *unsold, *refused),
    )


def priced(view: ClusterView, catalog: Catalog, policy: Policy) -> Catalog:
    """Return what is sold as each pool sees it, corrected by overlays: what machines cost that are there."""
    if not policy.overlays or not view.overlays:
        return catalog
    corrections, _ = _corrections(view, catalog, survey(view))
    by_pool = {
        pool.name: overlays.overlay(
            pool.name, pool.spec.template.metadata.labels, catalog.types_of(pool.name), corrections
        ).types
        for pool in view.pools.values()
    }
    return msgspec.structs.replace(catalog, by_pool=by_pool)


def _corrections(
    view: ClusterView, catalog: Catalog, surveyed: Sequence[PoolState]
) -> tuple[list[overlays.Correction], list[str]]:
    """Return the overlays that hold, and why the others do not."""
    pools = {
        s.pool.name: (s.pool.spec.template.metadata.labels, catalog.types_of(s.pool.name)) for s in surveyed
    }
    read, unread = overlays.read(view.overlays.values(), catalog.label_rules)
    kept, refused = overlays.accepted(read, pools)
    problems = sorted({**unread, **refused}.items())
    return kept, [f"NodeOverlay {name} is not applied: {problem}" for name, problem in problems]


def _sold(catalog: Catalog, policy: Policy) -> tuple[Catalog, list[str]]:
    """Return what may be bought, and which instance types cannot be counted."""
    problems: dict[str, str] = {}
    types = _counted(catalog.types, policy, problems)
    by_pool = {pool: _counted(own, policy, problems) for pool, own in catalog.by_pool.items()}
    if not problems and policy.reserved_capacity:
        return catalog, []
    left_out = [f"instance type {name} is not bought: {problem}" for name, problem in problems.items()]
    return msgspec.structs.replace(catalog, types=types, by_pool=by_pool), left_out


def _counted(
    kinds: Iterable[InstanceType], policy: Policy, problems: dict[str, str]
) -> tuple[InstanceType, ...]:
    found: list[InstanceType] = []
    for kind in kinds:
        if problem := uncountable(kind.capacity) or uncountable(kind.allocatable):
            problems[kind.name] = problem
        else:
            found.append(_as_sold(kind, policy))
    return tuple(found)


def _as_sold(kind: InstanceType, policy: Policy) -> InstanceType:
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
