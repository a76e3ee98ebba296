"""
The scenes of the demo: what a user does in a sandbox, and what must come of it.

Each scene does one thing a user would do and waits until what should follow has followed. A scene whose
expectation does not hold in time has failed; the demo goes on and says so at the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.core.model.resources import CPU, parse_resources, pod_requests
from karpenter.core.state.cluster import view_of
from karpenter.top.model import NodeRow, node_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from datetime import datetime

    from karpenter_local.sandbox.sandbox import Sandbox

TICK_SECONDS: Final = 0.25
"""Seconds between two looks at the cluster."""

APP: Final = "inflate"
CLUSTER: Final = "demo"
"""The name by which machines are tagged."""


def requirements(*capacity_types: str) -> list[dict[str, Any]]:
    """Return what the NodePool of the demo buys: Linux on amd64, of these capacity types."""
    wanted = {"kubernetes.io/os": ["linux"], "kubernetes.io/arch": ["amd64"]}
    wanted["karpenter.sh/capacity-type"] = list(capacity_types)
    return [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]


class ShownMachine(NamedTuple):
    """A machine as the demo shows it."""

    name: str
    kind: str
    zone: str
    capacity_type: str
    price: float
    cpu: float
    """The share of its cores that pods have asked for."""

    pods: int
    state: str


class Picture(NamedTuple):
    """The cluster at one moment."""

    seconds: float
    machines: tuple[ShownMachine, ...]
    running: int
    waiting: int
    hourly: float
    real: int
    """Machines that exist in the cloud, whatever the cluster says."""

    now: datetime | None = None
    rows: tuple[NodeRow, ...] = ()
    """The machines as ``karpenter top`` shows nodes."""


class Scene(NamedTuple):
    """One step of the demo."""

    title: str
    act: Callable[[Sandbox], Awaitable[None]]
    expect: Callable[[Picture, Picture], bool]
    """Asked about the cluster now, and as it was when the scene began."""

    expectation: str
    within: float = 120.0


class SceneResult(NamedTuple):
    """Outcome of a scene."""

    scene: Scene
    held: bool
    took: float
    picture: Picture


async def _create(sandbox: Sandbox) -> None:
    """Create a NodePool that is consolidated soon, and a Deployment whose pods are spread over zones."""
    await sandbox.create_node_pool(
        disruption={"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
        template={"spec": {"requirements": requirements("on-demand")}},
    )
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": APP}},
    }
    requests = {"cpu": "1", "memory": "1536Mi"}
    container = {"name": APP, "image": "pause", "resources": {"requests": requests}}
    await sandbox.deploy(APP, replicas=0, topologySpreadConstraints=[spread], containers=[container])


def _scaled(replicas: int) -> Callable[[Sandbox], Awaitable[None]]:
    async def act(sandbox: Sandbox) -> None:
        await sandbox.scale(APP, replicas)

    return act


def _all_run(replicas: int) -> Callable[[Picture, Picture], bool]:
    return lambda now, _: now.running == replicas and not now.waiting


def settled(now: Picture, replicas: int) -> bool:
    """Say whether so many pods run, none waits, and every machine is ready."""
    ready = all(machine.state == "ready" for machine in now.machines)
    return ready and now.running == replicas and not now.waiting


def cheaper(replicas: int, share: float) -> Callable[[Picture, Picture], bool]:
    """Return the expectation that so many pods run for less than a share of what was paid before."""
    return lambda now, before: settled(now, replicas) and now.hourly < share * before.hourly


def _nothing_left(now: Picture, _: Picture) -> bool:
    return not now.machines and not now.real


SCENES = (
    Scene(
        "A NodePool, and a Deployment without pods",
        _create,
        lambda p, _: not p.machines,
        "no machine is launched",
    ),
    Scene(
        "kubectl scale deployment inflate --replicas 10",
        _scaled(10),
        _all_run(10),
        "ten pods run, spread over zones",
    ),
    Scene(
        "kubectl scale deployment inflate --replicas 5",
        _scaled(5),
        cheaper(5, 0.7),
        "five pods run on machines that cost a third less at least",
        300.0,
    ),
    Scene(
        "kubectl scale deployment inflate --replicas 0",
        _scaled(0),
        _nothing_left,
        "no machine is left, in the cluster or in the cloud",
        300.0,
    ),
)


async def perform(
    sandbox: Sandbox, scenes: Iterable[Scene] = SCENES, *, tick: float = TICK_SECONDS
) -> AsyncIterator[tuple[Scene, Picture] | SceneResult]:
    """Play every scene; yield a picture per tick, and how each scene ended."""
    start = sandbox.clock.monotonic()
    for scene in scenes:
        began = sandbox.clock.monotonic()
        before = await look(sandbox, start)
        await scene.act(sandbox)
        while True:
            await asyncio.sleep(tick)
            picture = await look(sandbox, start)
            yield scene, picture
            took = sandbox.clock.monotonic() - began
            held = scene.expect(picture, before)
            if held or took > scene.within:
                yield SceneResult(scene, held, took, picture)
                break


async def look(sandbox: Sandbox, start: float) -> Picture:
    pods, nodes, claims = await sandbox.pods(), await sandbox.nodes(), await sandbox.node_claims()
    by_node: dict[str, list[int]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            by_node.setdefault(pod.spec.node_name, []).append(pod_requests(pod).get(CPU, 0))
    known = {node.spec.provider_id: node for node in nodes}
    machines = []
    for claim in sorted(claims, key=lambda each: each.name):
        labels = claim.metadata.labels
        if INSTANCE_TYPE not in labels:
            machines.append(ShownMachine(claim.name, "", "", "", 0.0, 0.0, 0, "launching"))
            continue
        node = known.get(claim.status.provider_id)
        held = by_node.get(node.name, []) if node is not None else []
        room = parse_resources(claim.status.allocatable).get(CPU, 0)
        machines.append(
            ShownMachine(
                claim.name,
                labels[INSTANCE_TYPE],
                labels.get(ZONE, ""),
                labels.get(CAPACITY_TYPE, ""),
                sandbox.cloud.price(labels),
                sum(held) / room if room else 0.0,
                len(held),
                _state(claim.metadata.deletion_timestamp is not None, claim.status.conditions),
            )
        )
    shown = node_rows(view_of([*pods, *nodes, *claims]), lambda row: sandbox.cloud.price(row.labels))
    starting = [NodeRow(name=each.name, key=each.name) for each in claims if not each.status.provider_id]
    # By the names of their NodeClaims, which are those that Events speak of.
    names = {each.status.provider_id.rpartition("/")[2]: each.name for each in claims}
    live = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    running = sum(1 for pod in live if pod.status.phase == "Running")
    hourly = sum(machine.price for machine in machines)
    seconds = sandbox.clock.monotonic() - start
    return Picture(
        seconds,
        tuple(machines),
        running,
        len(live) - running,
        hourly,
        sandbox.cloud.count(),
        sandbox.clock.now(),
        tuple(
            sorted(
                [*(structs.replace(row, name=names.get(row.instance, row.name)) for row in shown), *starting],
                key=lambda row: row.name,
            )
        ),
    )


def _state(leaving: bool, conditions: tuple[object, ...]) -> str:
    if leaving:
        return "leaving"
    done = {getattr(each, "type", "") for each in conditions if getattr(each, "status", "") == "True"}
    for name, state in (("Initialized", "ready"), ("Registered", "joined"), ("Launched", "launched")):
        if name in done:
            return state
    return "launching"
