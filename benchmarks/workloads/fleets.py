"""
Clusters that have seen better days: machines bought for pods of which some have left since.

Deployments with log-normal sizes and Zipf-like replica counts are packed onto EC2 machines;
then a share of the pods goes. Twelve in a hundred deployments are spread over zones, eight
keep their pods on different machines. Every cluster comes from its own seed.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, REGISTERED, ZONE
from karpenter.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference, Resource, ResourceList
from karpenter.api.node import Node, NodeCondition, NodeSpec, NodeStatus
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodeClassReference
from karpenter.api.nodepool import (
    Budget,
    Disruption,
    NodeClaimTemplate,
    NodePool,
    NodePoolSpec,
    PoolRequirement,
    PoolTemplateSpec,
)
from karpenter.api.pod import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.core.model.resources import render_resources
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import NewNode, Options
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter_local.testing.cluster_problem import build_problem

if TYPE_CHECKING:
    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog

NOW: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
_OLD: Final = NOW - timedelta(days=3)
_CLASS: Final = NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


def market() -> Catalog:
    """Return the EC2 catalogue."""
    return load_catalog("aws")


def fleet(machines: int, *, seed: int, gone: float, budget: str = "10%") -> ClusterView:
    """Return a cluster of about `machines` machines, of whose pods a share is `gone`."""
    rng = random.Random(seed)  # noqa: S311  workloads, not secrets
    pool = _pool_of(budget)
    pods = _pods_of(machines * 31, rng)
    built = build_problem(
        view_of([pool, *pods]),
        market(),
        now=NOW,
        options=Options(packing="greedy"),
        policy=SchedulingPolicy(),
    )
    by_key = {pod.key: pod for pod in pods}
    objects: list[Resource] = [pool]
    for node in solve(built.problem).new_nodes:
        objects += _machine(node, node.name)
        objects += [_bound(by_key[key], node.name) for key in node.pods if rng.random() >= gone]
    return view_of(objects)


def carried_out(view: ClusterView, command: Command, turn: int) -> ClusterView:
    """Return the cluster after a command: its pods run where they were promised a place."""
    gone = set(command.candidates)
    homes = dict(command.moves)
    objects: list[Resource] = list(view.pools.values())
    for number, new in enumerate(command.replacements):
        name = f"new-{turn}-{number}"
        objects += _machine(new, name)
        homes.update(dict.fromkeys(new.pods, name))
    objects += [node for node in view.nodes.values() if node.name not in gone]
    objects += [claim for claim in view.claims.values() if claim.name not in gone]
    objects += [_bound(pod, homes[key]) if key in homes else pod for key, pod in view.pods.items()]
    return view_of(objects)


def _pool_of(budget: str) -> NodePool:
    wanted: dict[str, tuple[str, tuple[str, ...]]] = {
        CAPACITY_TYPE: ("In", ("on-demand",)),
        ARCH: ("In", ("amd64",)),
        ZONE: ("In", _ZONES),
        "karpenter.k8s.aws/instance-category": ("In", ("c", "m", "r")),
        "karpenter.k8s.aws/instance-generation": ("Gt", ("4",)),
        "karpenter.k8s.aws/instance-cpu": ("Lte", ("32",)),
    }
    requirements = tuple(
        PoolRequirement(key=key, operator=operator, values=values)
        for key, (operator, values) in wanted.items()
    )
    template = PoolTemplateSpec(node_class_ref=_CLASS, expire_after="Never", requirements=requirements)
    spec = NodePoolSpec(
        template=NodeClaimTemplate(spec=template),
        disruption=Disruption(consolidate_after="0s", budgets=(Budget(nodes=budget),)),
    )
    return NodePool(metadata=ObjectMeta(name="default"), spec=spec)


def _pods_of(count: int, rng: random.Random) -> list[Pod]:
    """Return so many pods of deployments of all sizes."""
    found: list[Pod] = []
    number = 0
    while len(found) < count:
        number += 1
        cpu = min(14.0, math.exp(rng.gauss(math.log(0.6), 0.8)))
        memory = min(50.0, cpu * math.exp(rng.gauss(math.log(4), 0.6)))
        replicas = min(count - len(found), max(1, int(rng.paretovariate(0.9))), 400)
        name = f"app-{number}"
        spec = _spec(name, max(10, int(cpu * 100) * 10), max(16, int(memory * 64) * 16), rng.random())
        owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=name, controller=True)
        found += [
            Pod(
                metadata=ObjectMeta(
                    name=f"{name}-{n}", namespace="default", labels={"app": name}, owner_references=(owner,)
                ),
                spec=spec,
            )
            for n in range(replicas)
        ]
    return found


def _spec(name: str, milli: int, mebi: int, dice: float) -> PodSpec:
    selector = LabelSelector(match_labels={"app": name})
    more: dict[str, Any] = {}
    if dice < 0.12:
        spread = TopologySpreadConstraint(
            max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
        )
        more["topology_spread_constraints"] = (spread,)
    elif dice < 0.20:
        term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selector)
        apart = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
        more["affinity"] = Affinity(pod_anti_affinity=apart)
    requests: ResourceList = {"cpu": f"{milli}m", "memory": f"{mebi}Mi"}
    return PodSpec(
        containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),), **more
    )


def loose(pod: Pod) -> Pod:
    """Return a pod that has no place yet."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))


def _bound(pod: Pod, node: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running", start_time=_OLD))


def _machine(new: NewNode, name: str) -> list[Resource]:
    kind = market().by_name[new.purchase.instance_type]
    settled = {r.key: min(r.values) for r in kind.requirements if not r.complement and len(r.values) == 1}
    labels = {
        **new.labels,
        **settled,
        ZONE: new.purchase.zone,
        CAPACITY_TYPE: new.purchase.capacity_type,
        HOSTNAME: name,
        REGISTERED: "true",
        INITIALIZED: "true",
    }
    capacity: ResourceList = dict(render_resources(kind.capacity))
    allocatable: ResourceList = dict(render_resources(kind.allocatable))
    conditions = tuple(
        Condition(type=each, status="True", last_transition_time=_OLD)
        for each in ("Launched", "Registered", "Initialized")
    )
    claim = NodeClaim(
        metadata=ObjectMeta(name=name, labels=labels, creation_timestamp=_OLD),
        spec=NodeClaimSpec(node_class_ref=_CLASS, expire_after="Never"),
        status=NodeClaimStatus(
            node_name=name,
            provider_id=f"aws:///{name}",
            capacity=capacity,
            allocatable=allocatable,
            conditions=conditions,
            last_pod_event_time=_OLD,
        ),
    )
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(provider_id=f"aws:///{name}"),
        status=NodeStatus(
            capacity=capacity,
            allocatable=allocatable,
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )
    return [node, claim]
