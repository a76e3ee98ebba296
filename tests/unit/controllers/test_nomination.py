"""The controller that nominates pods: what wakes it, what it remembers, and what it counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from karpenter.api.labels import ZONE
from karpenter.base.queue import WorkQueue
from karpenter.controllers.nomination import TOGETHER, NodesOfDecision, PodNominator, nominates
from karpenter.core.effects import DeleteObject, NominatePod
from karpenter.core.provisioning.nomination import Nomination
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.kube.errors import KubeError, Status, status_error_of
from karpenter.kube.transport import Request
from karpenter.telemetry.metrics import Metrics, pods
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.unit.controllers.harness import Shell
from tests.unit.core.lifecycle.objects import at, claim, complete, launched, node, pod
from tests.unit.core.provisioning.test_nomination import ROOM, THERE, owned, waits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod
    from karpenter.core.effects import Effect

OTHER: dict[str, Any] = {"spec": {"nodeName": "node-9"}}
NEW: dict[str, Any] = {"spec": {"nodeName": ""}, "status": {"phase": "Pending"}}


class Scene(Shell):
    """A nominator that hears of what is put into the state."""

    def __init__(self, *objects: Any, on: bool = True) -> None:
        super().__init__()
        self.metrics = Metrics(clock=self.clock)
        self.queue: WorkQueue[str] = WorkQueue()
        self.nominator = PodNominator(self.queue, self.store, self.performer, self.clock, self.metrics, on=on)
        self.woken: list[str] = []
        self.store.subscribe(lambda event, before: self.woken.extend(self.nominator.wakes(event, before)))
        self.put(*objects)
        self.woken.clear()

    def planned(self, *keys: str) -> None:
        """Let the provisioner decide that pods run on the machine of the claim."""
        self.nominator.plan({f"default/{key}": Nomination("claim-1", self.clock.now()) for key in keys})

    def moved(self, *found: Pod) -> None:
        """Let a command decide that the successors of pods run there."""
        self.nominator.move({each.key: Nomination("claim-1", self.clock.now()) for each in found})

    def written(self, *keys: str) -> list[str]:
        """Reconcile pods, and return which node was written for each."""
        for key in keys:
            asyncio.run(self.nominator.reconcile(f"default/{key}"))
        found = [each.node for each in self.performer.effects if isinstance(each, NominatePod)]
        self.performer.effects.clear()
        return found

    def counted(self, outcome: str, reason: str = "provisioned") -> float:
        return self.metrics[pods.NOMINATED].value(outcome=outcome, reason=reason)


def bound(found: Pod, name: str = "node-1") -> Pod:
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_name=name))


def forbidden() -> KubeError:
    request = Request(method="PATCH", path="/api/v1/namespaces/default/pods/web-0/status")
    return status_error_of(request, Status(reason="Forbidden", code=403, message="no"))


def test_a_planned_pod_is_nominated() -> None:
    """Without a plan nothing is written; with one the node of its claim is."""
    scene = Scene(launched(status=ROOM), THERE, waits())

    assert scene.written("web-0") == []
    scene.planned("web-0")
    assert scene.written("web-0") == ["node-1"]


def test_the_pods_of_a_node_are_looked_at_when_it_changes() -> None:
    """A node that joins, a claim that goes on, and one that goes wake its pods; a heartbeat does not."""
    starts = launched(status=ROOM)
    scene = Scene(starts, waits("web-0"), waits("web-1"))
    scene.planned("web-0", "web-1")
    woken = []
    beat = msgspec.structs.replace(THERE, metadata=msgspec.structs.replace(THERE.metadata, uid="same"))
    for item in (THERE, beat, complete(status=ROOM)):
        scene.put(item)
        woken.append(tuple(scene.woken))
        scene.woken.clear()
    scene.drop(starts)

    both = ("default/web-0", "default/web-1")
    assert woken == [both, (), both]
    assert tuple(scene.woken) == both


def test_a_nomination_that_was_cleared_is_made_again() -> None:
    """kube-scheduler clears it whenever the pod fits nowhere yet."""
    scene = Scene(launched(status=ROOM), THERE, waits(nominated="node-1"))
    scene.planned("web-0")
    scene.put(waits())

    assert scene.woken == ["default/web-0"]
    assert scene.written("web-0") == ["node-1"]


def test_what_an_earlier_leader_nominated_is_withdrawn() -> None:
    """This one knows nothing of why it was."""
    scene = Scene(THERE)
    scene.put(waits(nominated="node-1"))

    assert scene.woken == ["default/web-0"]
    assert scene.written("web-0") == [""]


def test_a_pod_that_takes_the_room_of_others_wakes_them() -> None:
    """Pods that do not fit any more must not keep the room from each other."""
    scene = Scene(launched(status=ROOM), THERE, waits("web-0"))
    scene.planned("web-0")
    scene.put(waits("stranger"))
    scene.put(bound(waits("stranger")))

    assert scene.woken == ["default/web-0"]


def test_the_successor_of_an_evicted_pod_is_nominated() -> None:
    """The moment it appears, without a decision; another pod of its kind is not."""
    old = owned("old", **OTHER)
    scene = Scene(launched(status=ROOM), THERE, old)
    scene.moved(old)
    scene.put(owned("early", **NEW))
    assert scene.woken == []

    scene.put(owned("old", meta={"deletionTimestamp": at(scene.clock.now())}, **OTHER))
    scene.put(owned("new", **NEW), owned("more", **NEW))
    assert scene.woken == ["default/new"]
    assert scene.written("new", "more") == ["node-1"]
    assert scene.nominator.changed.keys() == {"default/old", "default/new"}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        pytest.param("node-1", "planned", id="on the node that was planned"),
        pytest.param("node-9", "elsewhere", id="on another"),
    ],
)
@pytest.mark.parametrize("on", [pytest.param(True, id="on"), pytest.param(False, id="off")])
def test_it_is_counted_where_pods_run(name: str, outcome: str, on: bool) -> None:
    """Each pod once, and with the setting off, too, so that the share can be compared."""
    scene = Scene(launched(status=ROOM), THERE, waits(), on=on)
    scene.planned("web-0")
    scene.put(bound(waits(), name))
    scene.put(bound(waits(), name))

    assert scene.counted(outcome) == 1.0
    assert scene.counted("planned") + scene.counted("elsewhere") == 1.0


def test_pods_that_are_alike_change_places() -> None:
    """One that runs where another was planned leaves its own place to that, and counts as planned."""
    scene = Scene(launched(status=ROOM), THERE, owned("a", **NEW), owned("b", **NEW), owned("c", **NEW))
    here, there = Nomination("claim-1", scene.clock.now()), Nomination("claim-2", scene.clock.now())
    scene.nominator.plan({"default/a": here, "default/b": there, "default/c": there})
    scene.put(bound(owned("b", **NEW)))

    assert scene.nominator.nomination("default/a") == there
    assert scene.nominator.nomination("default/c") == there
    assert (scene.counted("planned"), scene.counted("elsewhere")) == (1.0, 0.0)


def test_pods_that_must_be_spread_keep_no_room_from_the_others() -> None:
    """kube-scheduler is not told of them, so it keeps no room for them."""
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    wide = [waits(name, topologySpreadConstraints=spread) for name in ("a", "b")]
    scene = Scene(launched(status=ROOM), THERE, *wide, waits("c"))
    scene.planned("a", "b", "c")

    assert scene.written("a", "b", "c") == ["node-1"]


def test_pods_that_no_node_was_planned_for_are_not_counted() -> None:
    """They say nothing about plans."""
    scene = Scene(waits())
    scene.put(bound(waits()))

    assert scene.counted("planned") + scene.counted("elsewhere") == 0.0


def test_without_the_right_it_is_said_once() -> None:
    """From then on nothing is tried, and decisions are made as without nominations."""
    scene = Scene(launched(status=ROOM), THERE, waits("web-0"), waits("web-1"))
    scene.planned("web-0", "web-1")
    scene.performer.error = forbidden()
    with capture_logs() as logs:
        scene.written("web-0", "web-1")

    assert [each["event"] for each in logs if each["log_level"] == "warning"] == ["pods.not_nominated"]
    assert not scene.nominator.on


def test_a_node_takes_pods_only_when_its_own_are_nominated() -> None:
    """Registration waits for them, and not for those of other nodes."""
    starts = launched(status=ROOM)
    scene = Scene(starts, THERE, waits("web-0"), waits("web-1"), waits("web-2"))
    scene.planned("web-0", "web-1")
    asyncio.run(scene.nominator.before_registration(starts))

    assert {each.pod for each in scene.performer.effects if isinstance(each, NominatePod)} == {
        "default/web-0",
        "default/web-1",
    }


async def open_after(scene: Scene, pauses: dict[str, float], *, on_the_way: str = "") -> dict[str, float]:
    """Let the nodes of a decision join after pauses; return when each takes pods."""
    loop, nodes = asyncio.get_running_loop(), NodesOfDecision()
    claims = {name: claim(meta={"name": name}) for name in (*pauses, *([on_the_way] if on_the_way else []))}
    for each in claims.values():
        scene.nominator.bought(each, nodes)
    opened = {}

    async def joins(name: str, pause: float) -> None:
        await asyncio.sleep(pause)
        await scene.nominator.before_registration(claims[name])
        opened[name] = loop.time()

    began = loop.time()
    await asyncio.gather(*(joins(name, pause) for name, pause in pauses.items()))
    return {name: round(when - began, 3) for name, when in opened.items()}


@pytest.mark.parametrize(
    ("pauses", "on_the_way", "expected"),
    [
        pytest.param({"a": 0.0}, "", {"a": 0.0}, id="a node by itself"),
        pytest.param({"a": 0.0, "b": 0.3}, "", {"a": 0.3, "b": 0.3}, id="one comes soon after the other"),
        pytest.param({"a": 0.0}, "b", {"a": TOGETHER}, id="another takes longer"),
        pytest.param(
            {"a": 0.0, "b": 0.4, "c": 5.0},
            "",
            {"a": TOGETHER, "b": TOGETHER, "c": 5.0},
            id="the wait is the first one's",
        ),
    ],
)
def test_nodes_of_one_decision_take_pods_together(
    pauses: dict[str, float], on_the_way: str, expected: dict[str, float]
) -> None:
    """A pod whose node is not there yet would go to another; but no node waits for long."""

    async def main() -> dict[str, float]:
        scene = Scene()
        scene.nominator._clock = VirtualClock()
        return await open_after(scene, pauses, on_the_way=on_the_way)

    assert run_virtual(main()) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(0.3, 2.3, id="it is soon"),
        pytest.param(9.0, 2.0 + TOGETHER, id="the server is slow"),
    ],
)
def test_a_node_that_joins_late_waits_for_its_own_pods(seconds: float, expected: float) -> None:
    """The others of its decision have taken pods by then; but its own are still nominated first."""

    async def main() -> dict[str, float]:
        scene = Scene(waits())
        scene.nominator._clock = VirtualClock()
        scene.nominator.plan({"default/web-0": Nomination("late", scene.clock.now())})

        async def slow(_: Iterable[Effect]) -> None:
            await asyncio.sleep(seconds)

        scene.performer.perform = slow  # type: ignore[assignment, method-assign]
        return await open_after(scene, {"early": 0.0, "late": 2.0})

    assert run_virtual(main()) == {"early": TOGETHER, "late": expected}


def test_a_claim_that_goes_is_not_waited_for() -> None:
    """Its node will not join."""

    async def main() -> bool:
        scene, nodes = Scene(launched()), NodesOfDecision()
        scene.nominator.bought(launched(), nodes)
        scene.drop(launched())
        return nodes.complete.is_set()

    assert asyncio.run(main())


def test_an_operator_that_ends_withdraws_what_it_nominated() -> None:
    """Nothing would do so later, and Karpenter leaves nominated pods alone."""
    by_scheduler = waits("web-1", nominated="node-1", by="kube-scheduler")
    scene = Scene(launched(status=ROOM), THERE, waits("web-0", nominated="node-1"), by_scheduler)
    scene.planned("web-0", "web-1")
    asyncio.run(scene.nominator.close())

    assert scene.written() == [""]


def test_memory_ends_with_the_pods() -> None:
    """Neither bound pods nor places whose pods had no successor are remembered."""
    old = owned("old", **OTHER)
    scene = Scene(launched(status=ROOM), node(status=ROOM), old, waits())
    scene.planned("web-0")
    scene.moved(old)
    scene.put(bound(waits()))
    scene.drop(old)
    scene.clock.seconds += 61
    scene.planned()

    assert scene.nominator.remembered == 0


@pytest.mark.parametrize(
    ("found", "deleted"),
    [
        pytest.param(claim(), ["claim-1"], id="without a machine"),
        pytest.param(launched(), [], id="with one"),
    ],
)
def test_a_claim_that_no_pod_waits_for_is_withdrawn(found: NodeClaim, deleted: list[str]) -> None:
    """Once the last of its pods has gone or runs elsewhere, unless it was launched by then."""
    scene = Scene(found, waits("web-0"), waits("web-1"))
    scene.nominator.bought(found, NodesOfDecision())
    scene.put(found)
    scene.planned("web-0", "web-1")
    scene.put(bound(waits("web-0"), "node-9"))
    scene.written("web-0")
    assert scene.performer.effects == []

    scene.drop(waits("web-1"))
    for key in dict.fromkeys(scene.woken):
        asyncio.run(scene.nominator.reconcile(key))
    gone = [each.name for each in scene.performer.effects if isinstance(each, DeleteObject)]
    assert gone == deleted


def test_a_claim_that_was_not_created_for_pods_is_kept() -> None:
    """Replacements of a command, and the room of a buffer, are there for more than the pods that wait."""
    scene = Scene(claim(), waits())
    scene.planned("web-0")
    scene.drop(waits())

    assert scene.woken == []


class Server:
    """Says which version it is."""

    def __init__(self, version: str) -> None:
        self._version = version

    async def server_version(self) -> str:
        if not self._version:
            raise forbidden()
        return self._version


@pytest.mark.parametrize(
    ("setting", "version", "on"),
    [
        pytest.param("auto", "1.36", True, id="auto on a new server"),
        pytest.param("auto", "1.30", True, id="auto on the first that has admission policies"),
        pytest.param("auto", "1.29", False, id="auto on an old server"),
        pytest.param("auto", "", False, id="auto where the version is not known"),
        pytest.param("true", "1.29", True, id="true on an old server"),
        pytest.param("false", "1.36", False, id="false"),
    ],
)
def test_the_setting(setting: str, version: str, on: bool) -> None:
    """By default pods are nominated where the right to do so can be narrowed."""
    assert asyncio.run(nominates(setting, Server(version))) is on  # type: ignore[arg-type]


def test_other_kinds_wake_nothing() -> None:
    """Events of kinds that it does not read are none of its business."""
    scene = Scene()

    assert list(scene.nominator.wakes(ObjectUpdated(pod("a")), None)) == []
    assert list(scene.nominator.wakes(ObjectDeleted(pod("a")), pod("a"))) == []
