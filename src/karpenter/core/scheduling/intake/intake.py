"""
Putting a problem together: everything the solver needs to know of a cluster, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import RESERVED, LabelRules
from karpenter.core.model.catalog import InstanceType
from karpenter.core.model.ports import host_ports
from karpenter.core.model.resources import subtract
from karpenter.core.scheduling.intake import overlays as corrections_of
from karpenter.core.scheduling.intake.buffers import virtual_pods
from karpenter.core.scheduling.intake.daemons import daemons, described, still_to_come
from karpenter.core.scheduling.intake.pods import evacuated, refusal_of, waiting
from karpenter.core.scheduling.intake.pools import PoolState, as_pool, survey, usage
from karpenter.core.scheduling.intake.spread import spread_defaults
from karpenter.core.scheduling.plan import Refusal
from karpenter.core.scheduling.problem import Existing, Located, Options, Place, PodVolumes, Problem
from karpenter.core.state.guards import Guards
from karpenter.core.state.nodes import StateNode, state_nodes
from karpenter.core.state.pods import is_active
from karpenter.core.state.volumes import VolumeProblem, attached, reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from karpenter.api.placement import TopologySpreadConstraint
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.templates import Daemon
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


def take_in(
    view: ClusterView, catalog: Catalog, *, now: datetime, options: Options, policy: Policy
) -> Intake:
    """Return the problem of placing every pod of a cluster that needs a place."""
    nodes = state_nodes(view)
    guards = Guards(view)
    pods = [*waiting(view), *evacuated(nodes, guards, now)]
    if policy.buffers:
        pods += virtual_pods(view)
    return assemble(view, catalog, nodes=nodes, pods=pods, options=options, policy=policy)


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
    turned_away, accepted, volumes = _screen(pods, view, rules, policy)
    daemon_pods = daemons(view)
    expected = described(daemon_pods)
    active = [node for node in nodes if not node.is_leaving and node.name not in without]
    surveyed = survey(view)
    types = catalog if policy.reserved_capacity else _without_reserved(catalog)
    holding = _corrections(view, types, surveyed) if policy.overlays else []
    used = usage(active)
    placing = {pod.key for pod in accepted}
    problem = Problem(
        pods=tuple(accepted),
        nodes=tuple(_existing(node, expected, view, quiet) for node in _in_order(active)),
        pools=tuple(
            as_pool(state.pool, types, used.get(state.pool.name, {}), holding)
            for state in surveyed
            if not state.obstacle
        ),
        daemons=daemon_pods,
        volumes=volumes,
        located=tuple(_located(view, placing)),
        places=tuple(Place(name=n.name, labels=n.labels, taints=n.taints) for n in nodes if n.name not in without),
        namespaces={name: ns.metadata.labels for name, ns in view.namespaces.items()},
        moved=moved,
        spread_defaults=spread_defaults(accepted, policy.spread_defaults, view),
        rules=rules,
        options=options,
    )
    return Intake(problem=problem, turned_away=tuple(turned_away), pools=surveyed, nodes=tuple(nodes))


def _screen(
    pods: Iterable[Pod], view: ClusterView, rules: LabelRules, policy: Policy
) -> tuple[list[Refusal], list[Pod], dict[str, PodVolumes]]:
    refused: list[Refusal] = []
    accepted: list[Pod] = []
    volumes: dict[str, PodVolumes] = {}
    verdicts: dict[int, str] = {}
    for pod in pods:
        # Pods of one workload share their spec, and what is wrong with it.
        if id(pod.spec) not in verdicts:
            refusal = refusal_of(pod, rules)
            verdicts[id(pod.spec)] = refusal.message if refusal is not None else ""
        problem = verdicts[id(pod.spec)]
        if not problem and pod.spec.resource_claims and policy.ignore_device_claims:
            problem = "the pod uses resource claims, which are ignored (setting ignore-dra-requests)"
        if not problem and pod.spec.volumes:
            try:
                places, drivers = reach(pod, view), attached(pod, view)
            except VolumeProblem as found:
                problem = str(found)
            else:
                if places or drivers:
                    volumes[pod.key] = PodVolumes(places, drivers)
        if problem:
            refused.append(Refusal(pod=pod.key, message=problem))
        else:
            accepted.append(pod)
    return refused, accepted, volumes


def _in_order(nodes: Iterable[StateNode]) -> list[StateNode]:
    return sorted(nodes, key=lambda node: (not node.is_initialized, node.name))


def _existing(
    node: StateNode, expected: Sequence[Daemon], view: ClusterView, quiet: frozenset[str]
) -> Existing:
    volumes: dict[str, frozenset[str]] = {}
    for pod in node.pods:
        for driver, claims in attached(pod, view).items() if pod.spec.volumes else ():
            volumes[driver] = volumes.get(driver, frozenset()) | claims
    csi = view.csi_nodes.get(node.name)
    drivers = csi.spec.drivers if csi is not None else ()
    return Existing(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        free=subtract(node.available, still_to_come(node, expected)),
        initialized=node.is_initialized,
        ports=tuple(port for pod in node.pods for port in host_ports(pod)),
        volumes=volumes,
        volume_limits={
            d.name: d.allocatable.count
            for d in drivers
            if d.allocatable is not None and d.allocatable.count is not None
        },
        quiet=node.name in quiet,
    )


def _located(view: ClusterView, placing: set[str]) -> Iterable[Located]:
    for name, pods in view.pods_by_node.items():
        for pod in pods:
            if pod.key not in placing and is_active(pod):
                yield Located(pod, name)


def _corrections(
    view: ClusterView, catalog: Catalog, surveyed: Sequence[PoolState]
) -> list[corrections_of.Correction]:
    pools = {s.pool.name: (s.pool.spec.template.metadata.labels, catalog.types) for s in surveyed}
    kept, _ = corrections_of.accepted(corrections_of.read(view.overlays.values()), pools)
    return kept


def _without_reserved(catalog: Catalog) -> Catalog:
    return msgspec.structs.replace(
        catalog,
        types=tuple(
            InstanceType(
                name=kind.name,
                requirements=kind.requirements,
                offerings=tuple(o for o in kind.offerings if o.capacity_type != RESERVED),
                capacity=kind.capacity,
                overhead=kind.overhead,
            )
            for kind in catalog.types
        ),
    )
