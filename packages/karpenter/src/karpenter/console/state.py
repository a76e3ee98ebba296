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
from karpenter.core.scheduling.build.build import pool_usage
from karpenter.core.state.pod import is_owned_by_daemonset, is_terminal
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog, InstanceType
    from karpenter.core.state.cluster import ClusterView

_MIB: Final = 1024**2
_TEMPLATE_HASH: Final = "pod-template-hash"

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
    """provision, disrupt, event or fault."""

    title: str
    """What was decided, in a few words."""

    because: str = ""
    hourly: float = 0.0
    """What it adds to the bill per hour; negative where it saves."""

    moved: int = 0
    """How many pods it moves."""

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

    remarks: tuple[str, ...] = ()
    """What people should know about it, a sentence or two each."""

    freshness: Freshness = Freshness()


class SnapshotBuilder:
    """Makes snapshots of views of one cluster; what has not changed is the same value in the next one."""

    def __init__(self) -> None:
        self._machines: dict[str, tuple[object, object, ConsoleMachine]] = {}
        self._pods: dict[str, tuple[Pod, str, ConsolePod]] = {}

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
        pods = {key: self._pod(key, pod, keys) for key, pod in view.pods.items() if not is_terminal(pod)}
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

    def _pod(self, key: str, pod: Pod, machines: Mapping[str, str]) -> ConsolePod:
        known = self._pods.get(key)
        node = machines.get(pod.spec.node_name, "")
        if known is not None and known[0] is pod and known[1] == node:
            return known[2]
        found = console_pod(pod, node)
        if known is not None and known[2] == found:
            found = known[2]
        self._pods[key] = (pod, node, found)
        return found


def machine_of(node: StateNode, catalog: Catalog) -> ConsoleMachine:
    """Return a node as the page draws it."""
    labels, (cpu, memory) = node.labels, _size(node.allocatable)
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
        spot_saves=_spot_saves(labels, price, catalog.find(node.pool, labels.get(INSTANCE_TYPE, ""))),
        created=subject.metadata.creation_timestamp,
        requested=_requested(node.claim),
        reason=_reason(node.claim),
        cpu=cpu,
        memory=memory,
    )


def _spot_saves(labels: Mapping[str, str], price: float | None, kind: InstanceType | None) -> float:
    if price is None or kind is None or labels.get(CAPACITY_TYPE) != SPOT:
        return 0.0
    zone = labels.get(ZONE)
    full = [each.price for each in kind.offerings if each.zone == zone and each.capacity_type == ON_DEMAND]
    return round(max(min(full, default=price) - price, 0.0), 6)


def _is_early(node: StateNode) -> bool:
    """Whether a Node was seen before its NodeClaim has a provider id, which shows the machine meanwhile."""
    return node.claim is None and NODEPOOL in node.labels and node.labels.get(REGISTERED) != "true"


def unlaunched(claim: NodeClaim) -> ConsoleMachine:
    """Return a NodeClaim without a machine as the page draws it."""
    known = {each.key: each.values for each in claim.spec.requirements if each.operator == "In"}
    named = {key: values[0] for key, values in known.items() if len(values) == 1}
    leaving = claim.metadata.deletion_timestamp is not None
    cpu, memory = _size(parse_resources(claim.spec.resources.requests))
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


def _size(amounts: Resources) -> tuple[int, int]:
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


def console_pod(pod: Pod, machine: str) -> ConsolePod:
    """Return a pod as the page draws it."""
    cpu, memory = _size(pod_requests(pod))
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
        cpu=cpu,
        memory=memory,
    )


def workload_of(pod: Pod) -> str:
    """Return the workload that a pod belongs to: of a ReplicaSet the Deployment, by its name."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            mark = pod.metadata.labels.get(_TEMPLATE_HASH, "")
            # https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
            name = owner.name.removesuffix(f"-{mark}") if owner.kind == "ReplicaSet" and mark else owner.name
            return f"{pod.namespace}/{name}"
    return pod.key


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


def planned_frames(
    data: Mapping[str, Any], snapshot: Snapshot, catalog: Catalog, at: datetime
) -> tuple[list[Frame], list[ConsoleDecision]]:
    """
    Return a plan as frames after a snapshot: with what it launches, then with what it disrupts.

    `data` is the JSON of the public contract of ``karpenter plan``. Pods that only the plan names are made
    up from it, so that a saved plan can be drawn without its cluster.
    """
    drawn = _PlanDrawer(snapshot, catalog, at)
    for node in data.get("newNodes", ()):
        drawn.launch(node)
    for node in data.get("existingNodes", ()):
        drawn.place(node["name"], node["pods"])
    drawn.refuse(data.get("unscheduled", ()))
    drawn.cut("after this plan")
    for command in data.get("commands", ()):
        drawn.command(command)
    drawn.cut("after its disruption")
    return drawn.frames, drawn.decisions


def plan_document(
    data: Mapping[str, Any],
    snapshot: Snapshot,
    catalog: Catalog,
    at: datetime,
    *,
    title: str,
    disruption: DisruptionDecision | None = None,
) -> ConsoleDocument:
    """Return the document of a plan: the cluster as it is, and as it will be."""
    frames, decisions = planned_frames(data, snapshot, catalog, at)
    now = PlanSummary(at=at, hourly=snapshot.bill.hourly, bound=snapshot.bill.hourly or None)
    if disruption is not None:
        now = plan_summary(disruption, snapshot, at)
    cost = data.get("cost", {})
    least = cost.get("lowerBound", 0.0)
    known = least > 0 or not data.get("newNodes")
    summary = msgspec.structs.replace(
        now,
        hourly=round(now.hourly + cost.get("hourly", 0.0), 6),
        bound=round((now.bound or now.hourly) + least, 6) if known else None,
    )
    return ConsoleDocument(
        mode="plan",
        title=title,
        at=at,
        snapshot=snapshot,
        frames=tuple(frames),
        decisions=tuple(decisions),
        plans=(summary,),
        remarks=tuple(map(str, data.get("notes", ()))),
    )


class _PlanDrawer:
    def __init__(self, snapshot: Snapshot, catalog: Catalog, at: datetime) -> None:
        self._before = snapshot
        self._machines, self._pods = dict(snapshot.machines), dict(snapshot.pods)
        self._keys = {each.node: key for key, each in snapshot.machines.items()}
        self._catalog, self._at = catalog, at
        self.frames: list[Frame] = []
        self.decisions: list[ConsoleDecision] = []

    def cut(self, title: str) -> None:
        """End a frame here, if anything changed."""
        after = Snapshot(machines=dict(self._machines), pods=dict(self._pods), pools=self._before.pools)
        frame = frame_between(self._before, after, self._at, title=title)
        if not frame.is_empty:
            self.frames.append(frame)
            self._before = after

    def launch(self, node: Mapping[str, Any], *, told: bool = True) -> None:
        """Draw a new machine with its pods."""
        machine = self._machine(node)
        self._machines[machine.name] = machine
        requests = parse_resources(node.get("requests", {}))
        self._move(node["pods"], machine.name, requests)
        if told:
            self._decided(
                "provision",
                f"launch {machine.type} in {machine.zone} ({machine.capacity_type})",
                f"{_counted(len(node['pods']), 'pod')} of NodePool {machine.pool}",
                hourly=machine.price or 0.0,
                machines=(machine.name,),
                pods=tuple(node["pods"]),
            )

    def place(self, node: str, pods: Iterable[str]) -> None:
        """Draw pods that go to a node that is there."""
        names, key = tuple(pods), self._keys.get(node, node)
        self._move(names, key, {})
        self._decided(
            "provision", f"place {_counted(len(names), 'pod')} on node {node}", machines=(key,), pods=names
        )

    def refuse(self, refusals: Iterable[Mapping[str, Any]]) -> None:
        for each in refusals:
            pod = self._pods.get(each["pod"])
            if pod is None:
                self._pods[each["pod"]] = self._made_up(each["pod"], "", (0, 0))
            self._decided("provision", f"no place for {each['pod']}", each["message"], pods=(each["pod"],))

    def command(self, command: Mapping[str, Any]) -> None:
        for name in command["candidates"]:
            self._machines.pop(self._keys.get(name, name), None)
        for node in command["replacements"]:
            self.launch(node, told=False)
        for pod, node in command["moves"].items():
            self._move((pod,), self._keys.get(node, node), {})
        for key, pod in list(self._pods.items()):
            if pod.machine and pod.machine not in self._machines:
                if pod.daemon:
                    del self._pods[key]
                else:
                    self._pods[key] = msgspec.structs.replace(pod, machine="", state="waiting")
        self._decided(**command_row(command))

    def _decided(self, kind: str, title: str, because: str = "", **facts: Any) -> None:
        self.decisions.append(ConsoleDecision(at=self._at, kind=kind, title=title, because=because, **facts))

    def _machine(self, node: Mapping[str, Any]) -> ConsoleMachine:
        bought, pool = node["offering"], node["nodePool"]
        kind = self._catalog.find(pool, bought["instanceType"])
        room = kind.allocatable if kind is not None else parse_resources(node.get("requests", {}))
        cpu, memory = _size(room)
        return ConsoleMachine(
            name=node["name"],
            state=PLANNED,
            pool=pool,
            zone=bought["zone"],
            type=bought["instanceType"],
            capacity_type=bought["capacityType"],
            price=bought["price"],
            spot_saves=_spot_saves(
                {ZONE: bought["zone"], CAPACITY_TYPE: bought["capacityType"]}, bought["price"], kind
            ),
            cpu=cpu,
            memory=memory,
        )

    def _move(self, pods: Iterable[str], machine: str, requests: Resources) -> None:
        names = tuple(pods)
        cpu, memory = _size(requests)
        size = (cpu // max(len(names), 1), memory // max(len(names), 1))
        for key in names:
            pod = self._pods.get(key)
            if pod is None:
                self._pods[key] = self._made_up(key, machine, size)
            else:
                state = "starting" if pod.state == "waiting" else pod.state
                self._pods[key] = msgspec.structs.replace(pod, machine=machine, state=state)

    @staticmethod
    def _made_up(key: str, machine: str, size: tuple[int, int]) -> ConsolePod:
        stem, dash, number = key.rpartition("-")
        workload = stem if dash and number.isalnum() else key
        state = "starting" if machine else "waiting"
        return ConsolePod(workload=workload, machine=machine, state=state, cpu=size[0], memory=size[1])


def command_row(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of the timeline for a command, of a plan or of a flight record."""
    names = command["candidates"]
    new = command["replacements"]
    before = command.get("hourlyBefore", command.get("hourly_before", 0.0))
    after = command.get("hourlyAfter", command.get("hourly_after", 0.0))
    verb = "replace" if new else "delete"
    title = f"{verb} {_counted(len(names), 'machine')}" + (f" with {len(new)}" if new else "")
    return {
        "kind": "disrupt",
        "title": title,
        "because": str(command["reason"]),
        "hourly": round(after - before, 6),
        "moved": command.get("podsMoved", command.get("pods_moved", 0)),
        "machines": tuple(names),
        "details": tuple(_bought(new)),
    }


def _bought(nodes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for node in nodes:
        found = node.get("offering") or node.get("purchase") or {}
        kind = found.get("instanceType", found.get("instance_type", ""))
        way = found.get("capacityType", found.get("capacity_type", ""))
        yield f"launch {kind} in {found.get('zone', '')} ({way}), ${found.get('price', 0.0):.4f} an hour"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def encode(document: msgspec.Struct) -> bytes:
    """Return a document or a frame as JSON."""
    return _ENCODER.encode(document)


_ENCODER: Final = msgspec.json.Encoder()
