"""
The tour: what happens on the stage, and what must come of it.

Each scene does one thing a user would do and waits until what should follow has followed. A
scene that does not come true in time has failed; the tour goes on and says so at the end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.core.model.resources import CPU, parse_resources, pod_requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from karpenter_local.demo.stage import Stage

TICK = 0.25
"""Seconds between two looks at the stage."""

APP = "inflate"


class Machine(NamedTuple):
    """A machine as the audience sees it."""

    name: str
    kind: str
    zone: str
    bought: str
    price: float
    cpu: float
    """The share of its cores that pods have asked for."""

    pods: int
    state: str


class Picture(NamedTuple):
    """The stage at one moment."""

    seconds: float
    machines: tuple[Machine, ...]
    running: int
    waiting: int
    hourly: float
    real: int
    """Machines that exist in the cloud, whatever the cluster says."""


class Scene(NamedTuple):
    """One step of the tour."""

    title: str
    act: Callable[[Stage], Awaitable[None]]
    expect: Callable[[Picture, Picture], bool]
    """Asked about the stage now, and as it was when the scene began."""

    expectation: str
    within: float = 120.0


class Outcome(NamedTuple):
    """How a scene ended."""

    scene: Scene
    held: bool
    took: float
    picture: Picture


async def _open(stage: Stage) -> None:
    await stage.apply_pool()
    await stage.deploy(APP, 0)


def _scaled(replicas: int) -> Callable[[Stage], Awaitable[None]]:
    async def act(stage: Stage) -> None:
        await stage.scale(APP, replicas)

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
        _open,
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
    stage: Stage, scenes: Iterable[Scene] = SCENES, *, tick: float = TICK
) -> AsyncIterator[tuple[Scene, Picture] | Outcome]:
    """Play every scene; yield a picture per tick, and how each scene ended."""
    start = stage.clock.monotonic()
    for scene in scenes:
        began = stage.clock.monotonic()
        before = await look(stage, start)
        await scene.act(stage)
        while True:
            await asyncio.sleep(tick)
            picture = await look(stage, start)
            yield scene, picture
            took = stage.clock.monotonic() - began
            held = scene.expect(picture, before)
            if held or took > scene.within:
                yield Outcome(scene, held, took, picture)
                break


async def look(stage: Stage, start: float) -> Picture:
    """Return the stage as the audience sees it."""
    pods, nodes, claims = await stage.pods(), await stage.nodes(), await stage.claims()
    by_node: dict[str, list[int]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            by_node.setdefault(pod.spec.node_name, []).append(pod_requests(pod).get(CPU, 0))
    known = {node.spec.provider_id: node for node in nodes}
    machines = []
    for claim in sorted(claims, key=lambda each: each.name):
        labels = claim.metadata.labels
        if INSTANCE_TYPE not in labels:
            machines.append(Machine(claim.name, "", "", "", 0.0, 0.0, 0, "launching"))
            continue
        node = known.get(claim.status.provider_id)
        held = by_node.get(node.name, []) if node is not None else []
        room = parse_resources(claim.status.allocatable).get(CPU, 0)
        machines.append(
            Machine(
                claim.name,
                labels[INSTANCE_TYPE],
                labels.get(ZONE, ""),
                labels.get(CAPACITY_TYPE, ""),
                stage.sky.price(labels),
                sum(held) / room if room else 0.0,
                len(held),
                _state(claim.metadata.deletion_timestamp is not None, claim.status.conditions),
            )
        )
    live = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    running = sum(1 for pod in live if pod.status.phase == "Running")
    hourly = sum(machine.price for machine in machines)
    seconds = stage.clock.monotonic() - start
    return Picture(seconds, tuple(machines), running, len(live) - running, hourly, stage.sky.machines())


def _state(leaving: bool, conditions: tuple[object, ...]) -> str:
    if leaving:
        return "leaving"
    done = {getattr(each, "type", "") for each in conditions if getattr(each, "status", "") == "True"}
    for name, state in (("Initialized", "ready"), ("Registered", "joined"), ("Launched", "launched")):
        if name in done:
            return state
    return "launching"
