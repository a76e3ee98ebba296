"""Small clusters for tests of disruption: pools, machines with pods on them, and a market."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    REGISTERED,
    ZONE,
)
from karpenter.api.meta import Condition, ObjectMeta, OwnerReference, Resource, ResourceList
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
from karpenter.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from karpenter.core.disruption.candidates import Candidate, find_candidates
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.outcomes import RestPeriod
from karpenter.core.disruption.settings import DisruptionContext, DisruptionSettings
from karpenter.core.disruption.simulate import Simulator
from karpenter.core.model.catalog import Catalog, InstanceType, Offering
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)
GIB = 2**30
CLASS = NodeClassReference(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")
SIZES = {"small": 2, "medium": 4, "large": 8, "xlarge": 16}


def kind(name: str, cpu: int, price: float, *, sold: tuple[str, ...] = ("on-demand", "spot")) -> InstanceType:
    """Return an instance type with 2 GiB per core, sold in two zones; spot costs 40 %."""
    offerings = tuple(
        Offering(
            requirements=Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: way}),
            price=price if way == "on-demand" else price * 0.4,
        )
        for zone in ("zone-1", "zone-2")
        for way in sold
    )
    labels = [requirement(INSTANCE_TYPE, "In", [name]), requirement(ARCH, "In", ["amd64"])]
    labels += [requirement(ZONE, "In", ["zone-1", "zone-2"]), requirement(CAPACITY_TYPE, "In", sold)]
    return InstanceType(
        name=name,
        requirements=Requirements.of(labels),
        offerings=offerings,
        capacity={"cpu": cpu * 1000, "memory": cpu * 2 * GIB, "pods": 110},
        overhead={},
    )


MARKET = Catalog(types=tuple(kind(name, cpu, 0.05 * cpu) for name, cpu in SIZES.items()))


def pool(name: str = "default", *, ways: tuple[str, ...] = ("on-demand",), **disruption: Any) -> NodePool:
    """Return a pool that may be disrupted freely unless it says otherwise."""
    defaults: dict[str, Any] = {"consolidate_after": "0s", "budgets": (Budget(nodes="100%"),)}
    template = PoolTemplateSpec(
        node_class_ref=CLASS,
        expire_after="Never",
        requirements=(PoolRequirement(key=CAPACITY_TYPE, operator="In", values=ways),) if ways else (),
    )
    return NodePool(
        metadata=ObjectMeta(name=name),
        spec=NodePoolSpec(
            template=NodeClaimTemplate(spec=template), disruption=Disruption(**{**defaults, **disruption})
        ),
    )


def pod(name: str, node: str = "", *, cpu: str = "1", **meta: Any) -> Pod:
    """Return a pod of a ReplicaSet, bound when it has a node."""
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=name.rpartition("-")[0] or name, controller=True
    )
    box = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu, "memory": "256Mi"}))
    status = PodStatus(phase="Running", start_time=LONG_AGO) if node else PodStatus()
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", owner_references=(owner,), **meta),
        spec=PodSpec(node_name=node, containers=(box,)),
        status=status,
    )


def machine(name: str, size: str = "medium", **more: Any) -> list[Resource]:
    """Return the Node and the NodeClaim of a machine that is complete."""
    labels = {
        NODEPOOL: more.get("pool", "default"),
        INSTANCE_TYPE: size,
        ZONE: more.get("zone", "zone-1"),
        CAPACITY_TYPE: more.get("bought", "on-demand"),
        ARCH: "amd64",
        HOSTNAME: name,
        REGISTERED: "true",
        INITIALIZED: "true",
    }
    labels = {key: value for key, value in labels.items() if value}
    room: ResourceList = {
        "cpu": str(SIZES.get(size, 4)),
        "memory": f"{SIZES.get(size, 4) * 2}Gi",
        "pods": "110",
    }
    conditions = [
        Condition(type=t, status="True", last_transition_time=LONG_AGO) for t in ("Launched", "Initialized")
    ]
    claim = NodeClaim(
        metadata=ObjectMeta(
            name=name, labels=labels, creation_timestamp=LONG_AGO, annotations=more.get("notes", {})
        ),
        spec=NodeClaimSpec(
            node_class_ref=CLASS,
            expire_after=more.get("expires", "Never"),
            termination_grace_period=more.get("grace"),
        ),
        status=NodeClaimStatus(
            node_name=name,
            provider_id=f"kwok://{name}",
            capacity=room,
            allocatable=room,
            conditions=(*conditions, *more.get("conditions", ())),
            last_pod_event_time=more.get("last_event"),
        ),
    )
    ready = NodeCondition(type="Ready", status="True")
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(provider_id=f"kwok://{name}"),
        status=NodeStatus(capacity=room, allocatable=room, conditions=(ready,)),
    )
    return [node, claim]


def cluster(*parts: Resource | list[Resource]) -> ClusterView:
    """Return the view of a cluster made of these parts."""
    objects: list[Resource] = []
    for part in parts:
        objects.extend(part if isinstance(part, list) else [part])
    return view_of(objects)


def decided(
    view: ClusterView, *, market: Catalog = MARKET, policy: SchedulingPolicy | None = None, **more: Any
) -> DisruptionDecision:
    """Return what one decision says about a cluster; `more` are settings, facts and memories."""
    return disrupt(view, market, remembered(more), now=NOW, context=facts(more, policy))


def remembered(more: dict[str, Any]) -> DisruptionMemory:
    """Return a memory with what is in `more`."""
    found: dict[str, Any] = {name: more[name] for name in ("past", "overdue") if name in more}
    hour = timedelta(hours=1)
    if "resting" in more:
        found["resting"] = {pool: RestPeriod(hour, NOW + hour) for pool in more["resting"]}
    if "failed" in more:
        found["failed"] = {claim: RestPeriod(hour, NOW + hour) for claim in more["failed"]}
    if "explained" in more:
        found["explained"] = dict.fromkeys(more["explained"], NOW)
    return DisruptionMemory(**found)


def facts(more: dict[str, Any], policy: SchedulingPolicy | None = None) -> DisruptionContext:
    """Return a context with what is in `more`."""
    names = DisruptionSettings.__struct_fields__
    settings = DisruptionSettings(**{name: value for name, value in more.items() if name in names})
    own = ("nominated", "buffered", "destinations", "fingerprint", "stop", "tried")
    rest = {name: more[name] for name in own if name in more}
    return DisruptionContext(
        settings=settings, options=Options(), policy=policy or SchedulingPolicy(), **rest
    )


def held(decision: DisruptionDecision) -> dict[str, str]:
    """Return what holds each machine that stays."""
    return {kept.node: kept.code for kept in decision.kept}


def simulated(
    view: ClusterView,
    market: Catalog = MARKET,
    *,
    quiet: frozenset[str] = frozenset(),
    going: frozenset[str] | None = None,
) -> tuple[Simulator, dict[str, Candidate]]:
    """Return what simulates a cluster, and its candidates by name; those that are `going`, or all."""
    nodes, pdbs = state_nodes(view), PdbLimits(view)
    found = find_candidates(nodes, view, market, pdbs, NOW).candidates
    candidates = tuple(each for each in found if going is None or each.name in going)
    simulator = Simulator(
        view,
        market,
        nodes,
        pdbs,
        NOW,
        movable=candidates,
        quiet=quiet,
        options=Options(),
        policy=SchedulingPolicy(),
    )
    return simulator, {each.name: each for each in candidates}
