"""
The document that the console's page draws: machines, pods and NodePools at one moment, and what changes.

A :class:`Snapshot` is the cluster at one moment. A :class:`Frame` is the difference to the moment before, so
that a live cluster, a flight record and a plan are all a snapshot followed by frames. Decisions, figures and
answers beside them are plain data, too.

Pure: the view, the catalogue and the time are arguments. Explanations are those of :mod:`karpenter.why`;
nothing here decides anything.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    DISRUPTED,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    SPOT,
    ZONE,
)
from karpenter.api.meta import find_status_condition, is_status_condition_true
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.disruption.cost import price_of
from karpenter.core.lifecycle.conditions import DISRUPTION_REASON, LAUNCHED
from karpenter.core.model.resources import CPU, MEMORY, Resources, human_amount, parse_resources, pod_requests
from karpenter.core.scheduling.build.nodepools import pool_usage
from karpenter.core.state.pod import is_owned_by_daemonset, is_terminal
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.why.costs import (
    DEFAULT_TEAM_LABEL,
    CostAllocation,
    CostNode,
    CostPod,
    allocate_costs,
    gpus_of,
    team_of,
    workload_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog, InstanceType
    from karpenter.core.state.cluster import ClusterView

_MIB: Final = 1024**2

LAUNCHING, JOINING, STARTING = "launching", "joining", "starting"
READY, NOT_READY, DISRUPTING, PLANNED = "ready", "not ready", "disrupting", "planned"


class ConsoleMachine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A machine as the page draws it."""

    name: str
    """Of the NodeClaim, which it has before it is a Node; of the Node where there is no NodeClaim."""

    state: str
    """launching, joining, starting, ready, not ready, disrupting or planned."""

    node: str = ""
    """The name of the Node; empty until it has joined."""

    claim: str = ""
    pool: str = ""
    zone: str = ""
    type: str = ""
    capacity_type: str = ""
    cpu: int = 0
    """Allocatable, in thousandths of a core."""

    memory: int = 0
    """Allocatable, in MiB."""

    gpus: int = 0
    price: float | None = None
    """Dollars per hour; null where it is not known."""

    spot_saves: float = 0.0
    """Dollars per hour that a spot machine costs less than the same one on demand."""

    created: datetime | None = None
    requested: str = ""
    """What the pods requested that it was bought for."""

    reason: str = ""
    """Why it is being disrupted."""


class ConsolePod(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A pod as the page draws it; an array, because there are many."""

    workload: str
    machine: str
    """Empty while the pod waits."""

    cpu: int
    memory: int
    """Requested, in thousandths of a core and in MiB."""

    state: str
    """running, starting, waiting or leaving."""

    daemon: bool = False
    team: str = ""
    """The value of the label by which costs are summed."""

    gpus: int = 0


class ConsolePool(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A NodePool as the page draws it; what it may buy is asked for when people look at it."""

    name: str
    weight: int = 0
    limits: dict[str, str] = {}
    """Resource to how much of it is used, such as ``12 of 40``."""

    share: float = 0.0
    """The share of its tightest limit that is used; 0 without limits."""

    ready: bool = True


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment."""

    machines: dict[str, ConsoleMachine] = {}
    pods: dict[str, ConsolePod] = {}
    pools: dict[str, ConsolePool] = {}

    @property
    def bill(self) -> Bill:
        """What it costs, and how much there is of it."""
        prices = [(each.price or 0.0, each.capacity_type) for each in self.machines.values()]
        waiting = sum(1 for pod in self.pods.values() if not pod.machine)
        return Bill(
            hourly=round(sum(price for price, _ in prices), 6),
            spot=round(sum(price for price, way in prices if way == SPOT), 6),
            machines=len(self.machines),
            running=len(self.pods) - waiting,
            waiting=waiting,
        )


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What the machines cost per hour, and how many there are."""

    hourly: float
    spot: float
    """The part of it that is spot."""

    machines: int
    running: int
    waiting: int


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed until a moment."""

    at: datetime
    bill: Bill
    machines: dict[str, ConsoleMachine] = {}
    pods: dict[str, ConsolePod] = {}
    pools: dict[str, ConsolePool] = {}
    gone: dict[str, list[str]] = {}
    """Names of what is there no longer, under ``machines``, ``pods`` and ``pools``."""

    title: str = ""
    """What the moment is called; empty where its time says enough."""

    @property
    def is_empty(self) -> bool:
        return not (self.machines or self.pods or self.pools or self.gone)


class ConsoleDecision(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A decision, an event or a fault, as a row of the timeline."""

    at: datetime
    kind: str
    """provision, refused, disrupt, event or fault."""

    id: str = ""
    """A row takes the place of an earlier one with the same id; empty for a row that never changes."""

    title: str
    """What was decided, in a few words."""

    because: str = ""
    hourly: float = 0.0
    """What it adds to the bill per hour; negative where it saves."""

    moved: int = 0
    """How many pods it places, moves, or leaves without a place."""

    machines: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    realized: bool = False
    """Whether it is a saving that was carried out."""


class PlanSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the operator would do at a moment, and how far the bill is from the least possible."""

    at: datetime
    hourly: float
    """What all machines cost now."""

    bound: float | None = None
    """What no plan for the same pods can cost less than; machines that may not go count in full."""

    saving: float = 0.0
    """What the next commands would save per hour."""

    commands: tuple[dict[str, Any], ...] = ()
    kept: dict[str, str] = {}
    """What holds each machine that stays, in a sentence."""


class Freshness(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether a live cluster is shown as it is now."""

    as_of: datetime | None = None
    """When its API server answered last; None while it answers."""

    problem: str = ""
    """Why it does not answer."""


class ConsoleDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything the page needs to begin."""

    kind: str = "Console"
    mode: str
    """live, record or plan."""

    title: str
    """What it is about: a context, or the name of a file."""

    at: datetime
    revision: int = 0
    """The number of the last message that the document includes."""

    snapshot: Snapshot
    frames: tuple[Frame, ...] = ()
    decisions: tuple[ConsoleDecision, ...] = ()
    plans: tuple[PlanSummary, ...] = ()
    features: dict[str, bool] = {}
    """Whether ``why`` and ``whatif`` can be asked of a server."""

    answers: dict[str, Any] = {}
    """Explanations that were worked out beforehand, by object."""

    pool_details: dict[str, Any] = {}
    """Likewise what NodePools may buy, by name."""

    costs: dict[int, CostAllocation] = {}
    """Likewise what workloads cost, by the number of frames before the moment."""

    team_label: str = DEFAULT_TEAM_LABEL
    remarks: tuple[str, ...] = ()
    """What people should know about it, a sentence or two each."""

    freshness: Freshness = Freshness()


class SnapshotBuilder:
    """Makes snapshots of views of one cluster; what has not changed is the same value in the next one."""

    def __init__(self, *, team_label: str = DEFAULT_TEAM_LABEL) -> None:
        self._team_label = team_label
        self._machines: dict[str, tuple[object, object, ConsoleMachine]] = {}
        self._pods: dict[str, tuple[Pod, tuple[str, str], ConsolePod]] = {}

    def build(self, view: ClusterView, catalog: Catalog) -> Snapshot:
        nodes = state_nodes(view)
        machines: dict[str, ConsoleMachine] = {}
        keys: dict[str, str] = {}
        for node in nodes:
            if not _is_early(node):
                key = keys[node.name] = node.claim.name if node.claim is not None else node.name
                machines[key] = self._machine(key, node, catalog)
        for claim in view.claims.values():
            if not claim.status.provider_id:
                machines[claim.name] = self._machine(claim.name, claim, catalog)
        pods = {key: self._pod(pod, keys, view) for key, pod in view.pods.items() if _is_drawn(pod)}
        self._machines = {name: self._machines[name] for name in machines}
        self._pods = {key: self._pods[key] for key in pods}
        used = pool_usage(nodes)
        pools = {name: console_pool(pool, used.get(name, {})) for name, pool in view.pools.items()}
        return Snapshot(machines=machines, pods=pods, pools=pools)

    def _machine(self, name: str, item: StateNode | NodeClaim, catalog: Catalog) -> ConsoleMachine:
        known = self._machines.get(name)
        if known is not None and known[0] is item and known[1] is catalog:
            return known[2]
        found = unlaunched(item) if isinstance(item, NodeClaim) else machine_of(item, catalog)
        if known is not None and known[2] == found:
            found = known[2]
        self._machines[name] = (item, catalog, found)
        return found

    def _pod(self, pod: Pod, machines: Mapping[str, str], view: ClusterView) -> ConsolePod:
        known = self._pods.get(pod.key)
        given = machines.get(pod.spec.node_name, ""), team_of(pod, view, self._team_label)
        if known is not None and known[0] is pod and known[1] == given:
            return known[2]
        found = console_pod(pod, *given)
        if known is not None and known[2] == found:
            found = known[2]
        self._pods[pod.key] = (pod, given, found)
        return found


def machine_of(node: StateNode, catalog: Catalog) -> ConsoleMachine:
    """Return a node as the page draws it."""
    labels, (cpu, memory) = node.labels, cpu_and_memory(node.allocatable)
    subject, price = node.claim or node.node, price_of(node, catalog)
    assert subject is not None
    return ConsoleMachine(
        name=node.claim.name if node.claim is not None else node.name,
        state=_state(node),
        node=node.node.name if node.node is not None else "",
        claim=node.claim.name if node.claim is not None else "",
        pool=node.pool or labels.get(NODEPOOL, ""),
        zone=labels.get(ZONE, ""),
        type=labels.get(INSTANCE_TYPE, ""),
        capacity_type=labels.get(CAPACITY_TYPE, ""),
        price=price,
        spot_saves=spot_saves(labels, price, catalog.find(node.pool, labels.get(INSTANCE_TYPE, ""))),
        created=subject.metadata.creation_timestamp,
        requested=_requested(node.claim),
        reason=_reason(node.claim),
        cpu=cpu,
        memory=memory,
        gpus=gpus_of(node.allocatable),
    )


def spot_saves(labels: Mapping[str, str], price: float | None, kind: InstanceType | None) -> float:
    if price is None or kind is None or labels.get(CAPACITY_TYPE) != SPOT:
        return 0.0
    zone = labels.get(ZONE)
    full = [each.price for each in kind.offerings if each.zone == zone and each.capacity_type == ON_DEMAND]
    return round(max(min(full, default=price) - price, 0.0), 6)


def _is_drawn(pod: Pod) -> bool:
    """Whether a pod is on a machine or waits; that of an operator on a laptop runs without a node."""
    return not is_terminal(pod) and (bool(pod.spec.node_name) or pod.status.phase != "Running")


def _is_early(node: StateNode) -> bool:
    """Whether a Node was seen before its NodeClaim has a provider id, which shows the machine meanwhile."""
    return node.claim is None and NODEPOOL in node.labels and node.labels.get(REGISTERED) != "true"


def unlaunched(claim: NodeClaim) -> ConsoleMachine:
    """Return a NodeClaim without a machine as the page draws it."""
    known = {each.key: each.values for each in claim.spec.requirements if each.operator == "In"}
    named = {key: values[0] for key, values in known.items() if len(values) == 1}
    leaving = claim.metadata.deletion_timestamp is not None
    cpu, memory = cpu_and_memory(parse_resources(claim.spec.resources.requests))
    return ConsoleMachine(
        name=claim.name,
        state=DISRUPTING if leaving else LAUNCHING,
        claim=claim.name,
        pool=claim.metadata.labels.get(NODEPOOL, ""),
        zone=named.get(ZONE, ""),
        type=named.get(INSTANCE_TYPE, ""),
        capacity_type=named.get(CAPACITY_TYPE, ""),
        created=claim.metadata.creation_timestamp,
        requested=_requested(claim),
        cpu=cpu,
        memory=memory,
    )


def _requested(claim: NodeClaim | None) -> str:
    wanted = claim.spec.resources.requests if claim is not None else {}
    return ", ".join(f"{name} {amount}" for name, amount in sorted(wanted.items()))


def _reason(claim: NodeClaim | None) -> str:
    found = find_status_condition(claim.status.conditions, DISRUPTION_REASON) if claim is not None else None
    return found.reason if found is not None and found.status == "True" else ""


def cpu_and_memory(amounts: Resources) -> tuple[int, int]:
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0) // _MIB


def _state(node: StateNode) -> str:
    if node.is_deleting or any(taint.key == DISRUPTED for taint in node.taints):
        return DISRUPTING
    if not node.is_registered:
        launched = node.claim is not None and is_status_condition_true(node.claim.status.conditions, LAUNCHED)
        return JOINING if launched else LAUNCHING
    if not node.is_initialized:
        return STARTING
    return READY if node.is_ready else NOT_READY


def console_pod(pod: Pod, machine: str, team: str = "") -> ConsolePod:
    """Return a pod as the page draws it."""
    wanted = pod_requests(pod)
    cpu, memory = cpu_and_memory(wanted)
    if pod.metadata.deletion_timestamp is not None:
        state = "leaving"
    elif not machine:
        state = "waiting"
    else:
        state = "running" if pod.status.phase == "Running" else "starting"
    return ConsolePod(
        workload=workload_of(pod),
        machine=machine,
        state=state,
        daemon=is_owned_by_daemonset(pod),
        team=team,
        cpu=cpu,
        memory=memory,
        gpus=gpus_of(wanted),
    )


def console_pool(pool: NodePool, used: Resources) -> ConsolePool:
    """Return a NodePool as the page draws it."""
    limits = parse_resources(pool.spec.limits)
    shares = [used.get(name, 0) / most if most else 1.0 for name, most in limits.items()]
    ready = [each.status == "True" for each in pool.status.conditions if each.type == "Ready"]
    return ConsolePool(
        name=pool.name,
        weight=pool.spec.weight or 0,
        limits={
            name: f"{human_amount(name, used.get(name, 0))} of {human_amount(name, most)}"
            for name, most in limits.items()
        },
        share=round(max(shares, default=0.0), 4),
        ready=all(ready),
    )


def frame_between(before: Snapshot, after: Snapshot, at: datetime, *, title: str = "") -> Frame:
    """Return what changed from one snapshot to another."""
    changed: dict[str, Any] = {}
    gone: dict[str, list[str]] = {}
    for name in ("machines", "pods", "pools"):
        old, new = getattr(before, name), getattr(after, name)
        changed[name] = {
            key: value for key, value in new.items() if (was := old.get(key)) is not value and was != value
        }
        lost = [key for key in old if key not in new]
        if lost:
            gone[name] = lost
    return Frame(at=at, bill=after.bill, gone=gone, title=title, **changed)


def snapshot_at(document: ConsoleDocument, at: datetime | None) -> Snapshot:
    """Return the cluster of a document at a moment; without one, at its last."""
    fields = {name: dict(getattr(document.snapshot, name)) for name in ("machines", "pods", "pools")}
    for frame in document.frames:
        if at is not None and frame.at > at:
            break
        for name, objects in fields.items():
            for lost in frame.gone.get(name, ()):
                objects.pop(lost, None)
            objects.update(getattr(frame, name))
    return Snapshot(**fields)


def console_costs(snapshot: Snapshot, team_label: str) -> CostAllocation:
    """Return what the workloads of a snapshot cost."""
    nodes = {
        name: CostNode(each.price, each.cpu, each.memory, each.gpus)
        for name, each in snapshot.machines.items()
        if each.state != LAUNCHING  # there is no machine yet
    }
    pods = (
        CostPod(each.machine, each.workload, each.team, each.cpu, each.memory, each.gpus, each.daemon)
        for each in snapshot.pods.values()
    )
    return allocate_costs(nodes, pods, team_label=team_label)


def plan_summary(decision: DisruptionDecision, snapshot: Snapshot, at: datetime) -> PlanSummary:
    """Return what disruption says of a cluster, as the page shows it."""
    hourly, bound = snapshot.bill.hourly, decision.bound
    least = None
    if bound is not None and bound.nodes:
        least = round(max(0.0, hourly - bound.hourly) + min(bound.least, bound.hourly), 6)
    return PlanSummary(
        at=at,
        hourly=hourly,
        bound=least,
        saving=round(sum(command.saving for command in decision.commands), 6),
        commands=tuple(
            {
                "reason": command.reason,
                "decision": command.decision,
                "candidates": list(command.candidates),
                "saving": round(command.saving, 6),
                "moved": command.pods_moved,
            }
            for command in decision.commands
        ),
        kept={each.node: each.message for each in decision.kept},
    )


def encode(document: msgspec.Struct) -> bytes:
    """Return a document or a frame as JSON."""
    return _ENCODER.encode(document)


_ENCODER: Final = msgspec.json.Encoder()
