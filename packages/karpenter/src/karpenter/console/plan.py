"""
A plan as the console's document: the cluster as it is, with the plan, and after its disruption.

`data` is the JSON of the public contract of ``karpenter plan``. Pods that only the plan names are made up
from it, so that a saved plan can be drawn without its cluster.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.console.decisions import command_row, counted, refused_row
from karpenter.console.state import (
    PLANNED,
    ConsoleDecision,
    ConsoleDocument,
    ConsoleMachine,
    ConsolePod,
    Frame,
    PlanSummary,
    Snapshot,
    console_costs,
    cpu_and_memory,
    frame_between,
    plan_summary,
    spot_saves,
)
from karpenter.core.model.resources import Resources, parse_resources
from karpenter.why.costs import DEFAULT_TEAM_LABEL, gpus_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog


def plan_document(
    data: Mapping[str, Any],
    snapshot: Snapshot,
    catalog: Catalog,
    at: datetime,
    *,
    title: str,
    disruption: DisruptionDecision | None = None,
    team_label: str = DEFAULT_TEAM_LABEL,
) -> ConsoleDocument:
    """Return the document of a plan: the cluster as it is, and as it will be."""
    drawn = drawn_plan(data, snapshot, catalog, at)
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
        frames=tuple(drawn.frames),
        decisions=tuple(drawn.decisions),
        plans=(summary,),
        costs={
            place: console_costs(each, team_label) for place, each in enumerate((snapshot, *drawn.snapshots))
        },
        team_label=team_label,
        remarks=tuple(map(str, data.get("notes", ()))),
    )


def drawn_plan(data: Mapping[str, Any], snapshot: Snapshot, catalog: Catalog, at: datetime) -> _PlanDrawer:
    """Return a plan as frames after a snapshot: with what it launches, then with what it disrupts."""
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
    return drawn


class _PlanDrawer:
    def __init__(self, snapshot: Snapshot, catalog: Catalog, at: datetime) -> None:
        self._before = snapshot
        self._machines, self._pods = dict(snapshot.machines), dict(snapshot.pods)
        self._keys = {each.node: key for key, each in snapshot.machines.items()}
        self._catalog, self._at = catalog, at
        self.frames: list[Frame] = []
        self.snapshots: list[Snapshot] = []
        """After each frame."""

        self.decisions: list[ConsoleDecision] = []

    def cut(self, title: str) -> None:
        """End a frame here, if anything changed."""
        after = Snapshot(machines=dict(self._machines), pods=dict(self._pods), pools=self._before.pools)
        frame = frame_between(self._before, after, self._at, title=title)
        if not frame.is_empty:
            self.frames.append(frame)
            self.snapshots.append(after)
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
                f"{counted(len(node['pods']), 'pod')} of NodePool {machine.pool}",
                hourly=machine.price or 0.0,
                moved=len(node["pods"]),
                machines=(machine.name,),
                pods=tuple(node["pods"]),
            )

    def place(self, node: str, pods: Iterable[str]) -> None:
        """Draw pods that go to a node that is there."""
        names, key = tuple(pods), self._keys.get(node, node)
        self._move(names, key, {})
        self._decided(
            "provision",
            f"place {counted(len(names), 'pod')} on node {node}",
            moved=len(names),
            machines=(key,),
            pods=names,
        )

    def refuse(self, refusals: Iterable[Mapping[str, Any]]) -> None:
        """Draw pods without a place; those of one workload and reason are one row."""
        groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for each in refusals:
            pod = self._pods.setdefault(each["pod"], self._made_up(each["pod"], "", (0, 0)))
            groups[pod.workload, each["message"]].append(each["pod"])
        self.decisions += [
            refused_row(self._at, workload, message, pods) for (workload, message), pods in groups.items()
        ]

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
        cpu, memory = cpu_and_memory(room)
        return ConsoleMachine(
            name=node["name"],
            state=PLANNED,
            pool=pool,
            zone=bought["zone"],
            type=bought["instanceType"],
            capacity_type=bought["capacityType"],
            price=bought["price"],
            spot_saves=spot_saves(
                {ZONE: bought["zone"], CAPACITY_TYPE: bought["capacityType"]}, bought["price"], kind
            ),
            cpu=cpu,
            memory=memory,
            gpus=gpus_of(room),
        )

    def _move(self, pods: Iterable[str], machine: str, requests: Resources) -> None:
        names = tuple(pods)
        cpu, memory = cpu_and_memory(requests)
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
