"""Carrying out effects, against a real API server in process: every reply is known at once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.cluster import Event
from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.meta import ObjectReference, convert, to_plain
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.base.queue import Supervisor
from karpenter.base.ratelimiting import TokenBucket
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import (
    CloudUnreachable,
    InsufficientCapacity,
    LaunchRefused,
    MachineNotFound,
    NodeClassNotReady,
)
from karpenter.controllers.controller import Requeue
from karpenter.controllers.informer import Watches
from karpenter.controllers.perform import Performer
from karpenter.core.effects import (
    Amend,
    Announce,
    Count,
    CreateClaim,
    DeleteObject,
    Effect,
    Evict,
    Measure,
    Nominate,
    NominatePod,
    RegistrationOutcome,
    Terminate,
)
from karpenter.core.lifecycle.launch import launch
from karpenter.core.state.cluster import ClusterState
from karpenter.core.state.pod import NOMINATION_MANAGER, is_nominated_by_us
from karpenter.kube.errors import Conflict
from karpenter.kube.patches import MergePatch
from karpenter.kube.recorder import Recorder
from karpenter.kube.rest import bind
from karpenter.kube.targets import untyped
from karpenter.telemetry.metrics import Metrics, claims
from karpenter.telemetry.metrics import nodes as node_metrics
from karpenter_local.cluster import LocalCluster
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.controllers.harness import OURS
from tests.unit.core.lifecycle.objects import ID, REF

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from karpenter.kube.client import Client

CRDS = untyped(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
BODY = {"spec": {"nodeClassRef": REF, "requirements": []}}


class Sky:
    """A cloud that does what a test wants."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.ended: list[str] = []

    async def launch(self, claim: NodeClaim) -> Machine:
        if self.error is not None:
            raise self.error
        return Machine(provider_id=ID, claim_uid=claim.metadata.uid, capacity={"cpu": 4000})

    async def terminate(self, provider_id: str) -> None:
        self.ended.append(provider_id)
        if self.error is not None:
            raise self.error


class Heap:
    """Takes whatever is handed on."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def add(self, item: Any) -> None:
        self.found.append(item)


class Scene:
    """An API server, and someone who carries out effects on it."""

    def __init__(self, client: Client, watches: Watches, store: ClusterState, clock: VirtualClock) -> None:
        self.watches = watches
        self.client = client
        self.store = store
        self.sky = Sky()
        self.metrics = Metrics(clock=clock)
        self.recorder = Recorder(client, clock=clock)
        self.evictions, self.outcomes = Heap(), Heap()
        self.heard: list[Effect] = []
        self.performer = Performer(
            client=client,
            watches=watches,
            store=store,
            cloud=self.sky,  # type: ignore[arg-type]
            recorder=self.recorder,
            metrics=self.metrics,
            clock=clock,
            evictions=self.evictions,
            outcomes=self.outcomes,
            nominations=client.with_bucket(TokenBucket(rate=100.0, burst=100.0), manager=NOMINATION_MANAGER),
        )
        self.performer.subscribe(self.heard.append)

    async def claim(self) -> NodeClaim:
        """Let there be a claim that the server and the state know."""
        await self.performer.perform([CreateClaim(claim=_claim(), because="a test wants it")])
        (found,) = self.store.view().claims.values()
        return found


def _claim() -> NodeClaim:
    return convert({**BODY, "metadata": {"generateName": "default-"}}, NodeClaim)


def scene(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    """Let a test run on a scene of its own, in virtual time."""

    def run() -> None:
        async def main() -> None:
            async with _scene() as found:
                await test(found)

        run_virtual(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    return run


@asynccontextmanager
async def _scene() -> AsyncIterator[Scene]:
    clock = VirtualClock()
    client = LocalCluster(clock).client
    for each in DEFINITIONS:
        await client.create(CRDS, render(each))
    store = ClusterState(serves=OURS)
    chance = Random(1)  # noqa: S311  jitter
    watches = Watches(client, store, kinds=(NodeClaim, Node), classes={}, chance=chance)
    async with Supervisor(chance=chance) as supervisor:
        watches.start(supervisor)
        await watches.wait_synced()
        assert watches.synced
        found = Scene(client, watches, store, clock)
        supervisor.start("events", found.recorder.run)
        yield found


@scene
async def test_a_claim_that_was_created_is_known_at_once(found: Scene) -> None:
    """The server names it, and no decision waits for the watch; it is counted and told."""
    claim = await found.claim()

    assert claim.name.startswith("default-")
    assert claim.metadata.uid
    assert found.store.unlaunched == {claim.name}
    assert len(found.heard) == 1
    made = found.metrics[claims.CREATED]
    assert made.value(reason="provisioned", nodepool="", min_values_relaxed="false") == 1.0


@scene
async def test_changes_are_known_at_once(found: Scene) -> None:
    """An object and its status are changed in one go, each from the version that the other left."""
    claim = await found.claim()
    change = Amend(
        kind="NodeClaim",
        name=claim.name,
        changes={"metadata": {"labels": {"a": "b"}}},
        status={"providerID": ID},
        version=claim.metadata.resource_version,
        because="a test wants it",
    )
    await found.performer.perform([change])
    known = found.store.claim(claim.name)

    assert known is not None
    assert (known.metadata.labels["a"], known.status.provider_id) == ("b", ID)
    with pytest.raises(Conflict):
        await found.performer.perform([change])


@scene
async def test_what_is_gone_ends_the_rest(found: Scene) -> None:
    """A change of an object that is gone is no failure, but what was to follow makes no sense any more."""
    gone = Amend(kind="NodeClaim", name="gone", changes={"metadata": {"labels": {"a": "b"}}}, because="")
    await found.performer.perform([gone, Nominate(node="n", until=VirtualClock().now(), because="")])

    assert found.heard == []


@scene
async def test_deletions(found: Scene) -> None:
    """What has a finalizer is known to leave, what has none is gone; another of the name is left alone."""
    claim = await found.claim()
    other = DeleteObject(kind="NodeClaim", name=claim.name, uid="another", because="")
    await found.performer.perform([other])
    assert (await found.client.get(NodeClaim, claim.name)).metadata.deletion_timestamp is None

    held = {"metadata": {"finalizers": ["karpenter.sh/termination"]}}
    await found.performer.perform([Amend(kind="NodeClaim", name=claim.name, changes=held, because="")])
    mine = DeleteObject(kind="NodeClaim", name=claim.name, uid=claim.metadata.uid, because="")
    await found.performer.perform([mine])
    known = found.store.claim(claim.name)
    assert known is not None
    assert known.metadata.deletion_timestamp is not None

    free = {"metadata": {"finalizers": None}}
    await found.performer.perform([Amend(kind="NodeClaim", name=claim.name, changes=free, because=""), mine])
    assert (await found.client.list(NodeClaim)).items == ()


@scene
async def test_a_launch_is_written_down(found: Scene) -> None:
    """The claim of a machine that was started says which one it is."""
    claim = await found.claim()
    await found.performer.perform([launch(claim, "")])
    known = found.store.claim(claim.name)

    assert known is not None
    assert known.status.provider_id == ID
    assert found.store.unlaunched == frozenset()


@pytest.mark.parametrize(
    ("error", "left", "raised"),
    [
        pytest.param(InsufficientCapacity(because="sold out"), False, None, id="sold out"),
        pytest.param(NodeClassNotReady(node_class="default"), False, None, id="the class is not ready"),
        pytest.param(LaunchRefused(reason="Unauthorized", message="no"), True, Requeue, id="refused"),
        pytest.param(CloudUnreachable("no"), True, Requeue, id="no answer"),
    ],
)
def test_launches_that_fail(error: Exception, left: bool, raised: type[Exception] | None) -> None:
    """What cannot be had is given up; what may be had later says why and is tried again."""

    async def main() -> None:
        async with _scene() as found:
            claim = await found.claim()
            found.sky.error = error
            if raised is None:
                await found.performer.perform([launch(claim, "")])
            else:
                with pytest.raises(raised):
                    await found.performer.perform([launch(claim, "")])
            there = (await found.client.list(NodeClaim)).items
            assert bool(there) == left
            reasons = {held.reason for each in there for held in each.status.conditions}
            if isinstance(error, LaunchRefused):
                assert "Unauthorized" in reasons

    run_virtual(main())


@scene
async def test_the_end_of_a_machine_decides_how_to_go_on(found: Scene) -> None:
    """While a machine is ending one thing is done, and once it is gone the other."""
    going, gone = (Count(metric="karpenter_nodes_drained_total", labels={"nodepool": n}) for n in ("a", "b"))
    ending = Terminate(provider_id=ID, going=(going,), gone=(gone,), because="")
    drained = found.metrics[node_metrics.DRAINED]
    await found.performer.perform([ending])
    assert (drained.value(nodepool="a"), drained.value(nodepool="b")) == (1.0, 0.0)

    found.sky.error = MachineNotFound(ID)
    await found.performer.perform([ending])
    assert (drained.value(nodepool="a"), drained.value(nodepool="b")) == (1.0, 1.0)


@scene
async def test_what_is_handed_on(found: Scene) -> None:
    """Evictions, outcomes, nominations, metrics and Events go to their keepers."""
    now = VirtualClock().now()
    about = ObjectReference(api_version="v1", kind="Node", name="n")
    effects: list[Effect] = [
        Evict(pod="default/p", uid="u", node="n", because=""),
        RegistrationOutcome(pool="default", pool_uid="u", healthy=True, because=""),
        Nominate(node="n", until=now, because=""),
        Measure(metric=node_metrics.LIFETIME_DURATION.name, labels={"nodepool": "default"}, value=-1.0),
        Announce(about=about, reason="Told", message="A test tells."),
    ]
    await found.performer.perform(effects)
    await found.recorder.flush()

    assert found.evictions.found == effects[:1]
    assert found.outcomes.found == effects[1:2]
    assert found.metrics[node_metrics.LIFETIME_DURATION].count(nodepool="default") == 1
    assert [each.reason for each in (await found.client.list(Event)).items] == ["Told"]
    assert found.heard == effects


@scene
async def test_objects_of_others_are_changed_too(found: Scene) -> None:
    """A node is changed as a claim is, and its new labels are known at once."""
    await found.client.create(Node, {"metadata": {"name": "n"}})
    change = Amend(kind="Node", name="n", changes={"metadata": {"labels": {"a": "b"}}}, because="")
    await found.performer.perform([change])
    known = found.store.node("n")

    assert known is not None
    assert to_plain(known.metadata)["labels"]["a"] == "b"


@scene
async def test_a_pod_is_nominated(found: Scene) -> None:
    """The field is ours alone, and is given up again."""
    pod = await _pending(found)

    await found.performer.perform([_nominates(pod, "node-1")])
    nominated = await found.client.get(Pod, "web", namespace="default")
    await found.performer.perform([_nominates(pod, "")])
    withdrawn = await found.client.get(Pod, "web", namespace="default")

    assert is_nominated_by_us(nominated)
    assert nominated.status.nominated_node_name == "node-1"
    assert withdrawn.status.nominated_node_name == ""
    assert [type(each) for each in found.heard] == [NominatePod, NominatePod]


@scene
async def test_what_another_client_has_nominated_is_not_overwritten(found: Scene) -> None:
    """It is a conflict; the pod is looked at again, and left alone."""
    pod = await _pending(found)
    other = MergePatch({"status": {"nominatedNodeName": "node-9"}})
    await found.client.patch(Pod, "web", other, namespace="default", subresource="status")

    with pytest.raises(Conflict):
        await found.performer.perform([_nominates(pod, "node-1")])
    await found.performer.perform([_nominates(pod, "")])

    after = await found.client.get(Pod, "web", namespace="default")
    assert after.status.nominated_node_name == "node-9"


@scene
async def test_a_pod_that_is_gone_is_not_nominated(found: Scene) -> None:
    """Neither is one of the same name that was created since, nor one that was bound meanwhile."""
    pod = await _pending(found)
    await found.performer.perform([_nominates(pod, "node-1", uid="another")])
    await found.client.send(bind("web", namespace="default", node="node-9"))
    await found.performer.perform([_nominates(pod, "node-1")])
    await found.client.delete(Pod, "web", namespace="default", grace=0)
    await found.performer.perform([_nominates(pod, "node-1")])

    assert found.heard == []


async def _pending(found: Scene) -> Pod:
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    return await found.client.create(Pod, {"metadata": {"name": "web"}, "spec": spec}, namespace="default")


def _nominates(pod: Pod, node: str, *, uid: str = "") -> NominatePod:
    return NominatePod(pod=pod.key, uid=uid or pod.metadata.uid, node=node, because="a test wants it")
