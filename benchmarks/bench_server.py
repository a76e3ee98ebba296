"""
The embedded API server beside the real one: creating, listing, watching, starting.

Each server runs in processes of its own on loopback with TLS; one client process asks both in the same way.
The real control plane is measured where its binaries are found (``make controlplane``), with an etcd that
does not wait for the disk; ``kept`` is the embedded server with a data directory, which does.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import msgspec

from benchmarks.table import Table, count, ratio, seconds
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.server import Server
from karpenter_local.controlplane.binaries import BinariesMissing, find_binaries
from karpenter_local.controlplane.plane import RealControlPlane
from karpenter_local.home import Home

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from multiprocessing.connection import Connection

CREATED: Final = 5_000
LISTED: Final = 20_000
EVENTS: Final = 5_000
WATCHERS: Final = 20
AT_ONCE: Final = 16
ROUNDS: Final = 5
PODS: Final = "/api/v1/namespaces/default/pods"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
POD: Final[dict[str, Any]] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"generateName": "web-", "labels": {"app": "web", "tier": "front"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "app:1",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "MODE", "value": "fast"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
            }
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    },
}


class Door(NamedTuple):
    """How to reach a server."""

    url: str
    authority: str
    token: str


class Figures(NamedTuple):
    """What one server can do."""

    started: float
    created: float
    """Pods per second."""
    listed: float
    """Seconds for the whole list."""
    delivered: float
    """Changes per second, made by one client and seen by every watcher meanwhile."""
    fanned: float
    """Events per second to every watcher, when the changes have been made already."""


def suite() -> Table:
    found = {"embedded": _embedded(kept=False), "kept": _embedded(kept=True)}
    notes = [
        f"one client, {AT_ONCE} requests at a time; wall time; client and server share the machine",
        f"{EVENTS:,} changes of leases are watched; the slowest watcher counts",
    ]
    try:
        found["real"] = asyncio.run(_real())
    except BinariesMissing as missing:
        notes.append(f"the real control plane was left out: {missing}")
    real = found.get("real")
    rows = (
        _row(f"create {CREATED:,} pods, per s", found, "created", count, real),
        _row(f"list {LISTED:,} pods", found, "listed", seconds, real),
        _row(f"changes per s, made and seen by {WATCHERS} watchers", found, "delivered", count, real),
        _row(f"events per s to each of {WATCHERS} watchers", found, "fanned", count, real),
        _row("start to first answer", found, "started", seconds, real),
    )
    headers = ("case", *found, *(("embedded to real",) if real else ()))
    return Table("the API server", headers, rows, notes=tuple(notes))


def _row(
    title: str, found: dict[str, Figures], field: str, write: Any, real: Figures | None
) -> tuple[str, ...]:
    cells = [write(getattr(figures, field)) for figures in found.values()]
    if real is not None:
        cells.append(ratio(getattr(found["embedded"], field), getattr(real, field)))
    return (title, *cells)


# The servers.


def _embedded(*, kept: bool) -> Figures:
    with _child(kept=kept) as (door, started):
        return asyncio.run(_measure(door, started))


@contextmanager
def _child(*, kept: bool) -> Iterator[tuple[Door, float]]:
    """Start an embedded server in a fresh process; yield how to reach it, and how long that took."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    begun = time.perf_counter()
    process = fresh.Process(target=_serve, args=(theirs, kept), daemon=True)
    process.start()
    door = Door(*ours.recv())
    asyncio.run(_first_answer(door))
    yield door, time.perf_counter() - begun
    ours.send("stop")
    process.join(20)


def _serve(pipe: Connection, kept: bool) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(_serve_until_told(pipe, Path(folder) if kept else None))


async def _serve_until_told(pipe: Connection, directory: Path | None) -> None:
    async with AsyncExitStack() as stack:
        home = None if directory is None else await stack.enter_async_context(Home(directory))
        front = SecureServer(Server(store=home.store if home else None))
        await front.start()
        stack.push_async_callback(front.stop)
        pipe.send((front.url, front.certificates.authority.decode(), front.token))
        await asyncio.to_thread(pipe.recv)


async def _real() -> Figures:
    binaries = msgspec.structs.replace(find_binaries(), controller_manager=None, scheduler=None)
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        async with RealControlPlane(Path(folder), binaries=binaries) as plane:
            door = Door(plane.url, plane.authority.read_text(), plane.token)
            await _first_answer(door)
            return await _measure(door, time.perf_counter() - begun)


# The client.


@asynccontextmanager
async def _session(door: Door, connections: int = AT_ONCE) -> AsyncIterator[aiohttp.ClientSession]:
    trust = ssl.create_default_context(cadata=door.authority)
    headers = {
        "authorization": f"Bearer {door.token}",
        "content-type": "application/json",
        "accept": "application/json",
    }
    connector = aiohttp.TCPConnector(ssl=trust, limit=connections)
    async with aiohttp.ClientSession(door.url, headers=headers, connector=connector) as session:
        yield session


async def _first_answer(door: Door) -> None:
    async with _session(door) as session, session.get("/api/v1/namespaces/default") as answer:
        answer.raise_for_status()
        await answer.read()


async def _measure(door: Door, started: float) -> Figures:
    async with _session(door) as session:
        await _create(session, 100)
        created = CREATED / await _create(session, CREATED)
        await _create(session, LISTED - CREATED - 100)
        listed = min([await _list(session) for _ in range(ROUNDS)])
    delivered, revision = await _live(door)
    return Figures(started, created, listed, delivered, await _replayed(door, revision))


async def _create(session: aiohttp.ClientSession, number: int) -> float:
    """Create pods; return how long it took."""
    body = msgspec.json.encode(POD)
    left = iter(range(number))

    async def work() -> None:
        for _ in left:
            async with session.post(PODS, data=body) as answer:
                await answer.read()
                answer.raise_for_status()

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return time.perf_counter() - begun


async def _list(session: aiohttp.ClientSession) -> float:
    begun = time.perf_counter()
    async with session.get(PODS) as answer:
        await answer.read()
    return time.perf_counter() - begun


async def _live(door: Door) -> tuple[float, str]:
    """Change leases while others watch; return how many a second reached the slowest, and since when."""
    async with _session(door) as session:
        async with session.get(LEASES) as answer:
            start = str((await answer.json())["metadata"]["resourceVersion"])
        with _watchers(door, start) as pipe:
            for _ in ("begun", "open"):
                await asyncio.to_thread(pipe.recv)
            begun = time.perf_counter()
            await _change(session)
            await asyncio.to_thread(pipe.recv)
            taken = time.perf_counter() - begun
    return EVENTS / taken, start


async def _replayed(door: Door, revision: str) -> float:
    """Let watchers catch up with what has happened; return how many events a second reached the slowest."""
    with _watchers(door, revision) as pipe:
        await asyncio.to_thread(pipe.recv)
        begun = time.perf_counter()
        for _ in ("open", "done"):
            await asyncio.to_thread(pipe.recv)
        return EVENTS / (time.perf_counter() - begun)


@contextmanager
def _watchers(door: Door, revision: str) -> Iterator[Connection]:
    """Start a process of watchers; it says when it begins, when all watch, and when all are done."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    process = fresh.Process(target=_watch_apart, args=(theirs, door, revision), daemon=True)
    process.start()
    yield ours
    process.join(20)


async def _change(session: aiohttp.ClientSession) -> None:
    left = iter(range(EVENTS))

    async def work() -> None:
        for number in left:
            body = {"metadata": {"name": f"lease-{number}"}, "spec": {"holderIdentity": "bench"}}
            async with session.post(LEASES, data=msgspec.json.encode(body)) as answer:
                await answer.read()
                answer.raise_for_status()

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def _watch_apart(pipe: Connection, door: Door, revision: str) -> None:
    asyncio.run(_watch(pipe, door, revision))


async def _watch(pipe: Connection, door: Door, revision: str) -> None:
    query = {"watch": "true", "resourceVersion": revision}
    async with _session(door, WATCHERS) as session, AsyncExitStack() as stack:
        pipe.send("begun")
        streams = [
            await stack.enter_async_context(session.get(LEASES, params=query)) for _ in range(WATCHERS)
        ]
        pipe.send("open")
        await asyncio.gather(*(_count(stream) for stream in streams))
        pipe.send("done")


async def _count(stream: aiohttp.ClientResponse) -> None:
    seen, rest = 0, b""
    async for chunk in stream.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        seen += len(lines)
        if seen >= EVENTS:
            return
