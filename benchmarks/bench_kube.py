"""
Following a large cluster: how long an informer takes to know it, and how much room it needs.

The embedded API server runs in a process of its own and is filled before anything is measured. Each case is
a fresh process that knows a kubeconfig, as an operator does when it starts: it connects with TLS, lists pods
and nodes page by page and is done when both are synced.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from benchmarks.measure import resident
from benchmarks.table import Table, count, seconds, size
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.base.clock import SystemClock
from karpenter.kube import rest
from karpenter.kube.client import Client, Kind, WatchChange, read_events
from karpenter.kube.http import HttpTransport
from karpenter.kube.informer import Cache, Informer
from karpenter.kube.kubeconfig import from_kubeconfig
from karpenter.kube.patches import MergePatch
from karpenter.kube.targets import target_of, untyped
from karpenter.kube.transport import Request, Streaming
from karpenter_local.apiserver.http import SecureServer
from karpenter_local.apiserver.server import Server
from karpenter_local.kubeconfig import render

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from multiprocessing.connection import Connection


PODS: Final = 20_000
NODES: Final = 1_000
REPLICAS: Final = 10
EVENTS: Final = 20_000
Plain = dict[str, Any]

PLAIN_PODS = untyped("v1", "pods", kind="Pod", namespaced=True)
PLAIN_NODES = untyped("v1", "nodes", kind="Node", namespaced=False)


class Cost(NamedTuple):
    """What a case took."""

    objects: int
    wall: float
    cpu: float
    held: int
    """Memory in bytes that it added to its process, for good."""

    peak: int
    """The most memory in bytes that its process ever held."""


def suite() -> Table:
    with _server() as config:
        cases = [
            ("sync pods and nodes as structs", _apart(sync_structs, config)),
            ("sync pods and nodes, holding only keys", _apart(sync_keys, config)),
            ("sync pods and nodes as dictionaries", _apart(sync_dictionaries, config)),
        ]
    cases.append(("take in changes of pods from a watch", _apart(take_in_changes, config)))
    rows = tuple(
        (
            name,
            count(cost.objects),
            seconds(cost.wall),
            seconds(cost.cpu),
            count(cost.objects / cost.wall),
            size(cost.held),
            size(cost.peak),
        )
        for name, cost in cases
    )
    return Table(
        "following a cluster",
        ("case", "objects", "time", "cpu", "objects per s", "held", "process"),
        rows,
        notes=(
            f"{PODS:,} pods of {PODS // REPLICAS:,} workloads on {NODES:,} nodes",
            f"a pod is written with {len(_json(pod(0))):,} bytes, and sent with what the server adds",
            "time is of the wall and includes connecting, and the server's work in its own process",
            "the changes come from memory: only reading and taking in are measured",
        ),
    )


# The cases.


def sync_structs(config: str) -> Cost:
    """Follow pods and nodes as the operator does."""
    return asyncio.run(_sync(config, (Pod, _whole), (Node, _whole)))


def sync_keys(config: str) -> Cost:
    """Follow pods and nodes, holding next to nothing."""
    return asyncio.run(_sync(config, (Pod, _key), (Node, _key)))


def sync_dictionaries(config: str) -> Cost:
    """Follow pods and nodes with every field."""
    return asyncio.run(_sync(config, (PLAIN_PODS, _whole), (PLAIN_NODES, _whole)))


def take_in_changes(_: str) -> Cost:
    """Read lines of a watch and take them in."""
    return asyncio.run(_take_in())


def _whole(item: Any) -> Any:
    return item


def _key(item: Any) -> str:
    return str(item.key)


async def _sync(config: str, *followed: tuple[Kind[Any], Callable[[Any], Any]]) -> Cost:
    clock = SystemClock()
    chance = Random(1)  # noqa: S311  jitter is no secret
    cluster = await from_kubeconfig(config, environ={}, clock=clock)
    client = Client(HttpTransport(cluster.endpoint, cluster.credentials), chance=chance)
    before, wall, cpu = _resident_now(), time.perf_counter(), time.process_time()
    informers = [Informer(client, kind, narrow=narrow, chance=chance) for kind, narrow in followed]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    await asyncio.gather(*(informer.wait_synced() for informer in informers))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await client.close()
    gc.collect()
    objects = sum(len(informer.store) for informer in informers)
    return Cost(objects, wall, cpu, max(0, _resident_now() - before), resident())


async def _take_in() -> Cost:
    lines = [
        b'{"type":"MODIFIED","object":%s}' % _json(changed(number % 1000, 1 + number))
        for number in range(EVENTS)
    ]
    target = target_of(Pod)
    cache: Cache[Pod] = Cache(target, narrow=_whole)
    before, wall, cpu = _resident_now(), time.perf_counter(), time.process_time()

    async def stream() -> AsyncGenerator[bytes, None]:
        for line in lines:
            yield line

    async for event in read_events(target, Request(method="GET", path="/api/v1/pods"), stream()):
        assert isinstance(event, WatchChange)
        cache.changed(event)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(EVENTS, wall, cpu, max(0, _resident_now() - before), resident())


def _resident_now() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def _apart(case: Callable[[str], Cost], config: str) -> Cost:
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh, initializer=_be_quiet) as pool:
        return pool.submit(case, config).result()


def _be_quiet() -> None:
    """Keep what informers tell their log out of the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


# The server and what is in it.


@contextmanager
def _server() -> Iterator[str]:
    """Run a filled server in a process of its own; give the path of its kubeconfig."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    process = fresh.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        with TemporaryDirectory() as folder:
            config = Path(folder) / "config"
            config.write_text(ours.recv())
            yield str(config)
    finally:
        ours.send("stop")
        process.join()


def _serve(pipe: Connection) -> None:
    asyncio.run(_serve_until_told(pipe))


async def _serve_until_told(pipe: Connection) -> None:
    server = Server()
    for number in range(NODES):
        await _fill(server, rest.create(PLAIN_NODES, node(number), manager="bench"))
    for number in range(PODS):
        made = pod(number)
        name, status = made["metadata"]["name"], MergePatch({"status": made["status"]})
        await _fill(server, rest.create(PLAIN_PODS, made, namespace="default", manager="bench"))
        await _fill(
            server,
            rest.patch(
                PLAIN_PODS, name, status, namespace="default", subresource="status", manager="kubelet"
            ),
        )
    gc.freeze()
    front = SecureServer(server)
    url = await front.start()
    pipe.send(render(name="bench", url=url, authority=front.certificates.authority, token=front.token))
    await asyncio.to_thread(pipe.recv)
    await front.stop()


async def _fill(server: Server, request: Request) -> None:
    answer = await server.handle(request)
    if isinstance(answer, Streaming) or not answer.ok:
        raise RuntimeError(f"the server did not take {request.body.decode()}: {answer}")


def node(number: int) -> Plain:
    """Return a node as a cloud makes them."""
    zone = "abc"[number % 3]
    return {
        "metadata": {
            "name": _node_name(number),
            "labels": {
                "kubernetes.io/hostname": _node_name(number),
                "node.kubernetes.io/instance-type": "m6i.2xlarge",
                "topology.kubernetes.io/zone": f"eu-west-1{zone}",
                "karpenter.sh/nodepool": "default",
                "karpenter.sh/capacity-type": "spot",
            },
        },
        "spec": {"providerID": f"aws:///eu-west-1{zone}/i-{number:017x}"},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "58"},
            "allocatable": {"cpu": "7910m", "memory": "31Gi", "pods": "58"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}],
        },
    }


def changed(number: int, version: int) -> Plain:
    """Return a pod at a version, as a watch tells of it."""
    made = pod(number)
    made["metadata"].update(resourceVersion=str(version), uid=f"1e7e3c2a-0000-4b1c-9c1e-{number:012x}")
    return made


def pod(number: int) -> Plain:
    """Return a pod as a Deployment makes them."""
    owner = f"web-{number // REPLICAS}"
    return {
        "metadata": {
            "name": f"{owner}-{number:05x}",
            "namespace": "default",
            "labels": {
                "app": owner,
                "pod-template-hash": f"{number // REPLICAS:x}",
                "team": f"team-{number % 20}",
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": f"2e7e3c2a-0000-4b1c-9c1e-{number // REPLICAS:012x}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": _node_name(number % NODES),
            "containers": [
                _container(f"registry.example/{owner}:1", 8),
                _container("registry.example/proxy:1", 4),
            ],
            "tolerations": [
                {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute"}
                for state in ("not-ready", "unreachable")
            ],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": owner}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": _moment(number + seconds_later)}
                for seconds_later, kind in enumerate(
                    ("PodScheduled", "Initialized", "Ready", "ContainersReady")
                )
            ],
            "hostIP": f"10.{number % NODES // 250}.{number % 250}.1",
            "podIP": f"10.128.{number // 250}.{number % 250}",
            "startTime": _moment(number),
            "containerStatuses": [
                {
                    "name": name,
                    "ready": True,
                    "restartCount": 0,
                    "image": name,
                    "imageID": f"sha256:{number:064x}",
                }
                for name in (owner, "proxy")
            ],
        },
    }


def _moment(number: int) -> str:
    """Return a time of its own for each pod, as real ones have."""
    return (datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _container(image: str, variables: int) -> Plain:
    return {
        "name": image.rpartition("/")[2].partition(":")[0],
        "image": image,
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 30} for number in range(variables)],
    }


def _node_name(number: int) -> str:
    return f"ip-10-{number // 250}-{number % 250}-1.internal"


def _json(item: Plain) -> bytes:
    return msgspec.json.encode(item)
