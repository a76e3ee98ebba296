"""What a client does to a real API server, as functions of a client; run in process and over TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from karpenter.api.cluster import Event, Namespace, PodDisruptionBudget, PriorityClass
from karpenter.api.meta import ObjectReference
from karpenter.api.node import Node
from karpenter.api.pod import Pod, PodTemplate
from karpenter.base.clock import Clock
from karpenter.kube.client import Client
from karpenter.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerFailed,
    TooManyRequests,
)
from karpenter.kube.informer import Informer, InformerUpdate
from karpenter.kube.informer import InformerEvent as Told
from karpenter.kube.leaderelection import LeaderElector, LockName
from karpenter.kube.patches import JsonPatch, MergePatch, StrategicPatch
from karpenter.kube.recorder import RecordedEvent, Recorder
from karpenter.kube.rest import Preconditions, Selection, list_page
from karpenter.kube.targets import target_of, untyped

Scenario = Callable[[Client, Clock], Coroutine[Any, Any, None]]

CONFIGS = untyped("v1", "configmaps", kind="ConfigMap", namespaced=True)
DEPLOYMENTS = untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)


def chance() -> Random:
    return Random(1)  # noqa: S311  jitter is no secret


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that any server takes."""
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


def template(name: str, container: str, **labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": container, "image": "none"}]}
    return {
        "metadata": {"name": name, "labels": {"a": "1"}},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def priority(name: str) -> dict[str, Any]:
    """Return a PriorityClass: something that no controller touches."""
    return {"metadata": {"name": name, "labels": {"of": "test"}}, "value": 1}


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  whatever makes it true has no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


async def reading_and_writing(client: Client, _: Clock) -> None:
    """Create, read, patch in three ways, replace, delete; each answer is the stored object."""
    made = await client.create(PodTemplate, template("t", "a"), namespace="default")
    assert (await client.get(PodTemplate, "t", namespace="default")).metadata.uid == made.metadata.uid

    labels = MergePatch({"metadata": {"labels": {"b": "2", "a": None}}})
    merged = await client.patch(PodTemplate, "t", labels, namespace="default")
    assert merged.metadata.labels == {"b": "2"}

    more = StrategicPatch({"template": {"spec": {"containers": [{"name": "b", "image": "none"}]}}})
    both = await client.patch(PodTemplate, "t", more, namespace="default")
    assert {container.name for container in both.template.spec.containers} == {"a", "b"}

    operations = [
        {"op": "test", "path": "/metadata/labels/b", "value": "2"},
        {"op": "remove", "path": "/template/spec/containers/1"},
    ]
    fewer = await client.patch(PodTemplate, "t", JsonPatch(operations), namespace="default")
    assert len(fewer.template.spec.containers) == 1

    plain = await client.create(CONFIGS, config("c", a="1"), namespace="default")
    plain["data"] = {"b": "2"}
    assert (await client.replace(CONFIGS, plain))["data"] == {"b": "2"}

    only_if = Preconditions(uid=made.metadata.uid)
    await client.delete(PodTemplate, "t", namespace="default", only_if=only_if)
    with pytest.raises(NotFound):
        await client.get(PodTemplate, "t", namespace="default")


async def subresources(client: Client, _: Clock) -> None:
    """A status is written apart from its object, and a scale is read as what it is."""
    await client.create(Node, {"metadata": {"name": "n1"}})
    status = {"status": {"capacity": {"cpu": "4"}}, "metadata": {"labels": {"ignored": "yes"}}}
    node = await client.patch(Node, "n1", MergePatch(status), subresource="status")
    assert node.status.capacity == {"cpu": "4"}

    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, **template("d", "a", a="b")}
    del spec["metadata"]
    await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, namespace="default")
    scale = await client.get(DEPLOYMENTS, "d", namespace="default", subresource="scale")
    assert (scale["kind"], scale["spec"].get("replicas", 0)) == ("Scale", 0)


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
    whole = await client.list(CONFIGS, Selection(namespace="default"))
    assert (sum(sizes), max(sizes)) == (len(whole.items), 3)
    assert {f"c{number}" for number in range(7)} <= {item["metadata"]["name"] for item in whole.items}

    named = await client.list(CONFIGS, Selection(fields="metadata.name=c3"))
    assert [item["metadata"]["name"] for item in named.items] == ["c3"]


async def following(client: Client, _: Clock) -> None:
    """An informer holds what there is and tells what happens, once and in order."""
    await client.create(PriorityClass, priority("p1"))
    informer = Informer(client, PriorityClass, selection=Selection(labels="of=test"), chance=chance())
    heard: list[str] = []

    def listen(event: Told[PriorityClass]) -> None:
        heard.append(("+" if isinstance(event, InformerUpdate) else "-") + event.key)

    informer.subscribe(listen)
    async with running(informer.run()):
        await informer.wait_synced()
        informer.observe(await client.create(PriorityClass, priority("p2")))
        await client.patch(PriorityClass, "p1", MergePatch({"description": "changed"}))
        await client.delete(PriorityClass, "p2")
        await until(lambda: "-p2" in heard)
    assert heard == ["+p1", "+p2", "+p1", "-p2"]


async def too_old(client: Client, _: Clock) -> None:
    """A version or a token that no server can know is refused as such."""
    request = list_page(target_of(Namespace), limit=1, after="nonsense")
    with pytest.raises((Gone, BadRequest)):
        await client.send(request)
    with pytest.raises((BadRequest, ServerFailed)):
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
        LeaderElector(
            client, LockName(namespace="default", name="lead", identity=name), clock=clock, chance=chance()
        )
        for name in ("a", "b")
    ]

    async def work() -> None:
        await asyncio.Event().wait()

    first = asyncio.create_task(terms[0].lead(work))
    await until(lambda: terms[0].leading)
    async with running(terms[1].lead(work)):
        await until(lambda: terms[1].leader == "a")
        assert not terms[1].leading
        first.cancel()
        await asyncio.wait([first])
        await until(lambda: terms[1].leading)


async def recording(client: Client, clock: Clock) -> None:
    """An event is found beside its object."""
    node = await client.create(Node, {"metadata": {"name": "n1"}})
    about = ObjectReference(api_version="v1", kind="Node", name="n1", uid=node.metadata.uid)
    recorder = Recorder(client, clock=clock)
    async with running(recorder.run()):
        recorder.publish(
            RecordedEvent(about=about, type="Warning", reason="FailedDraining", message="1 pod left")
        )
        await recorder.flush()
    assert recorder.dropped == 0
    events = await client.list(Event, Selection(namespace="default", fields="involvedObject.name=n1"))
    assert [(event.type, event.reason, event.count) for event in events.items] == [
        ("Warning", "FailedDraining", 1)
    ]


SCENARIOS: tuple[Scenario, ...] = (
    reading_and_writing,
    subresources,
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
