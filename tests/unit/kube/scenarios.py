"""What a client does to a real API server, as functions of a client; run in process and over TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from karpenter.api.cluster import Event, Namespace
from karpenter.api.meta import ObjectReference
from karpenter.api.node import Node
from karpenter.api.pod import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.base.clock import Clock
from karpenter.kube.cache import Event as Told
from karpenter.kube.cache import Seen
from karpenter.kube.client import Client
from karpenter.kube.election import Election
from karpenter.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
)
from karpenter.kube.informer import Informer
from karpenter.kube.lease import LockName
from karpenter.kube.patch import JsonPatch, MergePatch, StrategicPatch
from karpenter.kube.recorder import Occurrence, Recorder
from karpenter.kube.target import target_of, untyped
from karpenter.kube.verbs import Preconditions, Selection, list_page

Scenario = Callable[[Client, Clock], Coroutine[Any, Any, None]]

CONFIGS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)


def chance() -> Random:
    """Chance that repeats itself."""
    return Random(1)  # noqa: S311  jitter is no secret


def config(name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that any server takes."""
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


async def until(true: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  whatever makes it true has no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something beside a block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


async def reading_and_writing(client: Client, _: Clock) -> None:
    """Create, read, patch in three ways, replace, delete; each answer is the stored object."""
    made = await client.create(Node, {"metadata": {"name": "n1", "labels": {"a": "1"}}})
    assert (await client.get(Node, "n1")).metadata.uid == made.metadata.uid

    merged = await client.patch(Node, "n1", MergePatch({"metadata": {"labels": {"b": "2", "a": None}}}))
    assert merged.metadata.labels == {"b": "2"}

    taint = {"key": "t", "effect": "NoSchedule"}
    tainted = await client.patch(Node, "n1", StrategicPatch({"spec": {"taints": [taint]}}))
    assert [one.key for one in tainted.spec.taints] == ["t"]

    operations = [
        {"op": "test", "path": "/spec/taints/0/key", "value": "t"},
        {"op": "remove", "path": "/spec/taints/0"},
    ]
    assert (await client.patch(Node, "n1", JsonPatch(operations))).spec.taints == ()

    status = {"status": {"capacity": {"cpu": "4"}}}
    assert (await client.patch(Node, "n1", MergePatch(status), subresource="status")).status.capacity == {
        "cpu": "4"
    }

    plain = await client.create(CONFIGS, config("c", a="1"), namespace="default")
    plain["data"] = {"b": "2"}
    assert (await client.replace(CONFIGS, plain))["data"] == {"b": "2"}

    await client.delete(Node, "n1", only_if=Preconditions(uid=made.metadata.uid))
    with pytest.raises(NotFound):
        await client.get(Node, "n1")


async def refusals(client: Client, _: Clock) -> None:
    """Each refusal is the leaf of the tree that callers handle."""
    made = await client.create(CONFIGS, config("c", a="1"), namespace="default")
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGS, config("c"), namespace="default")
    with pytest.raises(Conflict):
        await client.patch(CONFIGS, "c", MergePatch({"data": {}}, version="1"), namespace="default")
    with pytest.raises(Conflict):
        await client.delete(CONFIGS, "c", namespace="default", only_if=Preconditions(uid="other"))
    with pytest.raises(Conflict):
        await client.replace(CONFIGS, {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}})
    with pytest.raises(BadRequest):
        await client.list(CONFIGS, Selection(labels="a in"))
    with pytest.raises(Invalid) as caught:
        await client.create(
            Pod, {"metadata": {"name": "UPPER"}, "spec": {"containers": []}}, namespace="default"
        )
    assert any(cause.field == "metadata.name" for cause in caught.value.causes)


async def applying(client: Client, _: Clock) -> None:
    """Server-side apply makes, changes, keeps what others own, and names conflicts."""
    await client.apply(CONFIGS, config("c", mine="1"))
    await client.patch(CONFIGS, "c", MergePatch({"data": {"theirs": "1"}}), namespace="default")
    kept = await client.apply(CONFIGS, config("c", mine="2"))
    assert kept["data"] == {"mine": "2", "theirs": "1"}


async def dry_runs(client: Client, _: Clock) -> None:
    """A dry run answers as if, and changes nothing."""
    tried = await client.create(CONFIGS, config("c"), namespace="default", dry_run=True)
    assert tried["metadata"]["name"] == "c"
    with pytest.raises(NotFound):
        await client.get(CONFIGS, "c", namespace="default")


async def paging(client: Client, _: Clock) -> None:
    """Pages together are the list; a selection narrows it."""
    for number in range(7):
        await client.create(CONFIGS, config(f"c{number}"), namespace="default")
    sizes = [len(page.items) async for page in client.pages(CONFIGS, Selection(namespace="default"), limit=3)]
    assert (sum(sizes), max(sizes)) == (len((await client.list(CONFIGS)).items), 3)

    named = await client.list(CONFIGS, Selection(fields="metadata.name=c3"))
    assert [item["metadata"]["name"] for item in named.items] == ["c3"]


async def following(client: Client, _: Clock) -> None:
    """An informer holds what there is and tells what happens, once and in order."""
    await client.create(Node, {"metadata": {"name": "n1"}})
    informer = Informer(client, Node, chance=chance())
    heard: list[str] = []

    def listen(event: Told[Node]) -> None:
        heard.append(("+" if isinstance(event, Seen) else "-") + event.key)

    informer.subscribe(listen)
    async with running(informer.run()):
        await informer.wait_synced()
        informer.observe(await client.create(Node, {"metadata": {"name": "n2"}}))
        await client.patch(Node, "n1", MergePatch({"spec": {"unschedulable": True}}))
        await client.delete(Node, "n2")
        await until(lambda: "-n2" in heard)
    assert heard == ["+n1", "+n2", "+n1", "-n2"]


async def too_old(client: Client, _: Clock) -> None:
    """A version or a token that no server can know is refused as such."""
    request = list_page(target_of(Namespace), limit=1, after="nonsense")
    with pytest.raises((Gone, BadRequest)):
        await client.send(request)
    with pytest.raises(BadRequest):
        async with client.watch(Namespace, since="nonsense") as events:
            await anext(events)


async def evicting(client: Client, _: Clock) -> None:
    """A disruption budget that allows nothing refuses, and says that it is the budget."""
    await client.create(Pod, pod("web-0", app="web"), namespace="default")
    budget = {
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    await client.create(PodDisruptionBudget, budget, namespace="default")
    await client.create(Node, {"metadata": {"name": "n1"}})
    await client.bind("web-0", namespace="default", node="n1")
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(Pod, "web-0", MergePatch(ready), namespace="default", subresource="status")

    with pytest.raises(TooManyRequests) as caught:
        await client.evict("web-0", namespace="default")
    assert caught.value.by_budget

    await client.delete(PodDisruptionBudget, "web", namespace="default")
    await client.evict("web-0", namespace="default", grace=0)
    with pytest.raises(NotFound):
        await client.get(Pod, "web-0", namespace="default")


async def electing(client: Client, clock: Clock) -> None:
    """Of two candidates one leads; when it leaves, the other does."""
    terms = [
        Election(
            client, LockName(namespace="default", name="lead", identity=name), clock=clock, chance=chance()
        )
        for name in ("a", "b")
    ]

    async def work() -> None:
        await asyncio.Event().wait()

    async with running(terms[1].lead(work)):
        async with running(terms[0].lead(work)):
            await until(lambda: any(term.leading for term in terms))
            await asyncio.sleep(0.2)
            assert sum(term.leading for term in terms) == 1
            leader = terms[0].leading
        if leader:
            await until(lambda: terms[1].leading)


async def recording(client: Client, clock: Clock) -> None:
    """An event is found beside its object."""
    node = await client.create(Node, {"metadata": {"name": "n1"}})
    about = ObjectReference(api_version="v1", kind="Node", name="n1", uid=node.metadata.uid)
    recorder = Recorder(client, clock=clock)
    async with running(recorder.run()):
        recorder.publish(
            Occurrence(about=about, type="Warning", reason="FailedDraining", message="1 pod left")
        )
        await recorder.flush()
    assert recorder.dropped == 0
    events = await client.list(Event, Selection(namespace="default", fields="involvedObject.name=n1"))
    assert [(event.type, event.reason, event.count) for event in events.items] == [
        ("Warning", "FailedDraining", 1)
    ]


SCENARIOS: tuple[Scenario, ...] = (
    reading_and_writing,
    refusals,
    applying,
    dry_runs,
    paging,
    following,
    too_old,
    evicting,
    electing,
    recording,
)
"""Everything above."""


def title(scenario: Scenario) -> str:
    """Return a scenario's name as words."""
    return scenario.__name__.replace("_", " ")
