"""Controllers that a gate opens: repair, static pools, overlays, buffers; and who tells pods of wishes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.labels import ALL_LABEL_RULES, DO_NOT_DISRUPT
from karpenter.api.meta import convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.pod import Pod, PodTemplate
from karpenter.api.workloads import Deployment
from karpenter.base.queue import WorkQueue
from karpenter.cloud.kwok.cloudprovider import REPAIRS
from karpenter.controllers.capacitybuffer import CapacityBufferController
from karpenter.controllers.disruption import DoNotDisruptController
from karpenter.controllers.health import NodeHealth
from karpenter.controllers.nodeoverlay import ALL, NodeOverlayController
from karpenter.controllers.static import UNSYNCED, StaticDeprovisioning, StaticProvisioning
from karpenter.core.effects import CreateClaim
from karpenter.core.provisioning.provisioner import ProvisioningDecision
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.kube.errors import Unreachable
from karpenter.kube.transport import Request
from tests.unit.controllers.harness import CLASS, Shell, wakes
from tests.unit.controllers.test_nodeclaim import Market
from tests.unit.core.lifecycle.objects import BORN, at, claim, complete, node, pod, pool

if TYPE_CHECKING:
    from karpenter.api.node import Node

STATIC = {"replicas": 2}
POD = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}}
PLACE = {"name": "web", "namespace": "shop", "generation": 6}
TEMPLATE = convert({"metadata": PLACE, "template": POD}, PodTemplate)
WORKLOAD = convert({"metadata": PLACE, "spec": {"template": POD, "replicas": 10}}, Deployment)


def broken(**meta: Any) -> Node:
    """Return a node that is not ready since it was born."""
    held = [{"type": "Ready", "status": "False", "lastTransitionTime": at(BORN)}]
    return node(meta=meta, status={"conditions": held})


def test_repair_looks_at_nodes_whose_conditions_change() -> None:
    """News that a node still lives is no reason to look; a change of its conditions is."""
    shell = Shell(complete(), broken())
    shell.reader.objects = (broken(),)
    found = NodeHealth(shell.store, shell.performer, shell.reader, shell.clock, REPAIRS)
    assert wakes(found, node()) == wakes(found, broken(), node()) == ["node-1"]
    assert wakes(found, broken(labels={"a": "b"}), broken()) == []
    assert wakes(found, node(), gone=True) == wakes(found, pod()) == []
    assert wakes(found, complete()) == wakes(found, complete(), claim()) == ["node-1"]
    assert wakes(found, complete(), complete()) == wakes(found, complete(), gone=True) == []

    assert asyncio.run(found.reconcile("node-1")) == pytest.approx(480.0)
    shell.clock.seconds += 480.0
    asyncio.run(found.reconcile("node-1"))
    assert shell.performer.kinds == ["Amend", "DeleteObject", "Count", "Count", "Count"]
    assert asyncio.run(found.reconcile("gone")) is None


def test_repair_reads_the_node_first() -> None:
    """Repair does not drain: a Node that is well for the API server stays, however it is in the state."""
    shell = Shell(complete(), broken())
    shell.reader.objects = (node(),)
    shell.clock.seconds += 480.0
    found = NodeHealth(shell.store, shell.performer, shell.reader, shell.clock, REPAIRS)

    asyncio.run(found.reconcile("node-1"))

    assert shell.performer.kinds == []


def test_a_static_pool_grows() -> None:
    """What a pool lacks is created at once, and only once everything is known."""
    shell = Shell(pool(spec=STATIC, Ready="True"))
    found = StaticProvisioning(shell.store, shell.performer, ALL_LABEL_RULES, asyncio.Lock())
    assert asyncio.run(found.reconcile("default")) == UNSYNCED
    shell.store.complete = True

    asyncio.run(found.reconcile("default"))
    assert shell.performer.kinds == ["CreateClaim"] * 2
    asyncio.run(found.reconcile("default"))
    assert shell.performer.kinds == []
    assert asyncio.run(found.reconcile("gone")) is None


def test_what_could_not_be_created_is_tried_again() -> None:
    """A failure comes back as one, so that the pool is looked at again."""
    shell = Shell(pool(spec=STATIC, Ready="True"))
    shell.store.complete = True
    found = StaticProvisioning(shell.store, shell.performer, ALL_LABEL_RULES, asyncio.Lock())
    shell.performer.error = Unreachable("no", request=Request(method="POST", path="/"))

    with pytest.raises(Unreachable):
        asyncio.run(found.reconcile("default"))


def test_a_static_pool_shrinks() -> None:
    """What a pool has too much is deleted; what is about to be replaced does not count."""
    shell = Shell(pool(spec=STATIC, Ready="True"), *(claim(name=f"c-{n}") for n in range(4)))
    found = StaticDeprovisioning(shell.store, shell.performer, shell.clock, asyncio.Lock())
    assert asyncio.run(found.reconcile("default")) == UNSYNCED
    shell.store.complete = True
    shell.store.mark_for_deletion(["c-3"])

    assert asyncio.run(found.reconcile("default")) == 60.0
    assert shell.performer.kinds == ["DeleteObject", "Count"]
    assert asyncio.run(found.reconcile("gone")) is None


def test_what_wakes_static_pools() -> None:
    """A static pool is woken by itself and by its claims; others are left alone."""
    shell = Shell(pool(spec=STATIC))
    growing = StaticProvisioning(shell.store, shell.performer, ALL_LABEL_RULES, asyncio.Lock())
    shrinking = StaticDeprovisioning(shell.store, shell.performer, shell.clock, asyncio.Lock())
    for found in (growing, shrinking):
        assert wakes(found, pool(spec=STATIC)) == wakes(found, claim()) == ["default"]
        assert wakes(found, pool()) == wakes(found, node()) == []
        assert wakes(found, claim(meta={"labels": {}})) == []
    shell.put(pool())
    assert asyncio.run(growing.reconcile("default")) == UNSYNCED
    shell.store.complete = True
    assert asyncio.run(growing.reconcile("default")) is None
    assert asyncio.run(shrinking.reconcile("default")) is None


def overlay(generation: int = 1, **status: Any) -> NodeOverlay:
    meta = {"name": "o", "generation": generation}
    return convert({"metadata": meta, "spec": {"requirements": []}, "status": status}, NodeOverlay)


def test_overlays_are_judged_together() -> None:
    """Overlays, pools and classes that come, change or go are a reason to judge all; their status is not."""
    shell = Shell(overlay())
    found = NodeOverlayController(shell.store, shell.performer, Market(), shell.clock)  # type: ignore[arg-type]
    for item in (overlay(), pool(), CLASS):
        assert wakes(found, item) == wakes(found, item, gone=True) == [ALL]
    assert wakes(found, overlay(2), overlay()) == [ALL]
    assert wakes(found, overlay(), overlay()) == wakes(found, CLASS, CLASS) == wakes(found, pod()) == []

    assert asyncio.run(found.reconcile(ALL)) == 6 * 3600.0
    assert shell.performer.kinds == ["Amend"]


class Provisioner:
    """Notes who asks for a decision."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def trigger(self, uid: str) -> None:
        self.asked.append(uid)


def buffer(replicas: int | None = None, **spec: Any) -> CapacityBuffer:
    """Return a buffer; with `replicas` it says that it keeps so much room."""
    meta = {"name": "spare", "namespace": "shop", "uid": "u", "generation": 1}
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 2, **spec}
    return convert({"metadata": meta, "spec": spec, "status": {"replicas": replicas}}, CapacityBuffer)


def keeper(shell: Shell) -> tuple[CapacityBufferController, WorkQueue[str], Provisioner]:
    """Return the controller of buffers, its queue, and whom it asks."""
    queue, provisioner = WorkQueue[str](), Provisioner()
    found = CapacityBufferController(queue, shell.store, shell.performer, provisioner, shell.clock)  # type: ignore[arg-type]
    return found, queue, provisioner


def test_what_wakes_buffers() -> None:
    """A buffer is woken by itself, by its template and by its workload, each in its own namespace."""
    workload: dict[str, Any] = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}

    async def main() -> None:
        shell = Shell(buffer())
        found, *_ = keeper(shell)
        assert wakes(found, buffer()) == wakes(found, TEMPLATE) == ["shop/spare"]
        assert wakes(found, WORKLOAD) == []
        elsewhere = convert({"metadata": {"name": "web", "namespace": "other"}, "template": POD}, PodTemplate)
        assert wakes(found, elsewhere) == []
        shell.put(buffer(podTemplateRef=None, **workload))
        assert wakes(found, WORKLOAD) == ["shop/spare"]
        assert wakes(found, TEMPLATE) == []

    asyncio.run(main())


def test_a_buffer_asks_for_its_room_now_and_then() -> None:
    """A buffer that keeps room asks for a decision when it changes and twice a minute, not at every look."""

    async def main() -> None:
        shell = Shell(buffer(2), TEMPLATE)
        found, _, provisioner = keeper(shell)
        for seconds in (0, 5, 20, 10):
            shell.clock.seconds += seconds
            assert await found.reconcile("shop/spare") == 30.0
        assert provisioner.asked == ["u", "u"]
        shell.put(buffer(3))
        await found.reconcile("shop/spare")
        assert provisioner.asked == ["u", "u", "u"]
        shell.put(buffer(0))
        await found.reconcile("shop/spare")
        shell.drop(buffer())
        assert await found.reconcile("shop/spare") is None
        assert provisioner.asked == ["u", "u", "u"]

    asyncio.run(main())


def test_a_buffer_asks_again_when_room_is_taken_or_freed() -> None:
    """A pod that is bound or gone and a node that comes or goes change what fits; other news do not."""
    waiting = convert({"metadata": {"name": "web-1", "namespace": "shop"}, "spec": {"containers": []}}, Pod)
    bound = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_name="node-1"))

    async def main() -> None:
        shell = Shell(buffer(2), TEMPLATE)
        found, _, provisioner = keeper(shell)
        await found.reconcile("shop/spare")
        for event, before, told in (
            (ObjectUpdated(waiting), None, False),
            (ObjectUpdated(bound), waiting, True),
            (ObjectUpdated(bound), bound, False),
            (ObjectDeleted(bound), bound, True),
            (ObjectUpdated(node()), None, True),
            (ObjectUpdated(node()), node(), False),
            (ObjectDeleted(node()), node(), True),
        ):
            asked = len(provisioner.asked)
            for key in found.wakes(event, before):
                await found.reconcile(key)
            assert len(provisioner.asked) - asked == told

    asyncio.run(main())


def test_where_the_room_of_a_buffer_was_found() -> None:
    """What a decision found out is written on the buffer once it is news."""

    async def main() -> None:
        shell = Shell(buffer(2), TEMPLATE)
        found, queue, _ = keeper(shell)
        for fits in (True, True, False):
            found.decided(ProvisioningDecision(buffers={"shop/spare": fits}))
            if len(queue):
                await found.reconcile(await queue.get())
                queue.done("shop/spare")
        told = str(shell.performer.effects)
        assert told.count("FitsExistingCapacity") == told.count("RequiresNewCapacity") == 1

    asyncio.run(main())


def test_wishes_of_pods() -> None:
    """Pods on nodes of ours are told of their wishes when these or their start change, and when they end."""
    wishing = pod(
        meta={"annotations": {DO_NOT_DISRUPT: "5m"}}, status={"phase": "Running", "startTime": at(BORN)}
    )
    shell = Shell(complete(), node(), wishing)
    found = DoNotDisruptController(shell.store, shell.performer, shell.clock)
    assert wakes(found, wishing) == wakes(found, wishing, pod()) == ["default/pod-1"]
    assert wakes(found, wishing, wishing) == wakes(found, pod()) == []
    assert wakes(found, wishing, gone=True) == wakes(found, node()) == []

    assert asyncio.run(found.reconcile("default/pod-1")) == pytest.approx(180.0)
    assert shell.performer.kinds == ["Announce"]
    shell.drop(complete())
    assert asyncio.run(found.reconcile("default/pod-1")) is None
    assert asyncio.run(found.reconcile("default/gone")) is None
    assert shell.performer.kinds == []


def test_claims_of_static_pools_are_whole() -> None:
    """What is created names its pool, so that it is counted at once."""
    shell = Shell(pool(spec=STATIC, Ready="True"))
    shell.store.complete = True
    asyncio.run(
        StaticProvisioning(shell.store, shell.performer, ALL_LABEL_RULES, asyncio.Lock()).reconcile("default")
    )
    made = [each.claim.metadata.labels for each in shell.performer.effects if isinstance(each, CreateClaim)]

    assert [each["karpenter.sh/nodepool"] for each in made] == ["default"] * 2
