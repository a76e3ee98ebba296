"""What the scheduler makes of what it hears."""

from typing import Any

import msgspec
import pytest

from karpenter.api.pod import Pod
from karpenter_local.scheduler.place import Placed
from karpenter_local.scheduler.schedule_one import ALL, ScheduleOne, Unplaced
from tests.unit.local.scheduler.clusters import affinity, near, node, pod


@pytest.fixture
def scheduler() -> ScheduleOne:
    """A scheduler that knows one node."""
    found = ScheduleOne(seed=1)
    found.table.set_node(node("n"))
    return found


def bound(found: Pod, to: str = "n", **status: Any) -> Pod:
    spec = msgspec.structs.replace(found.spec, node_name=to)
    return msgspec.structs.replace(found, spec=spec, status=msgspec.structs.replace(found.status, **status))


def turn(scheduler: ScheduleOne, now: float = 0.0) -> Placed | Unplaced | None:
    """Decide about the pod whose turn it is."""
    key = scheduler.queue.pop(now)
    found = scheduler.pod(key) if key is not None else None
    return None if found is None else scheduler.decide(found, None, tuple, now)


def test_a_pending_pod_gets_a_node(scheduler: ScheduleOne) -> None:
    """A pod without a node is queued and placed."""
    scheduler.see_pod(pod(cpu="3"), None, 0.0)

    assert turn(scheduler) == Placed("n")
    assert turn(scheduler) is None


def test_room_is_taken_at_once(scheduler: ScheduleOne) -> None:
    """The next decision counts with the last one, whether or not the server knows it yet."""
    scheduler.see_pod(pod("a", cpu="3"), None, 0.0)
    scheduler.see_pod(pod("b", cpu="3"), None, 0.0)

    assert turn(scheduler) == Placed("n")
    assert isinstance(turn(scheduler), Unplaced)


def test_a_binding_that_failed_gives_room_back(scheduler: ScheduleOne) -> None:
    """If the server refuses, the pod is tried again, and so are those that lacked its room."""
    scheduler.see_pod(pod("a", cpu="3"), None, 0.0)
    scheduler.see_pod(pod("b", cpu="2"), None, 0.0)
    turn(scheduler)
    turn(scheduler)

    scheduler.failed("default/a", 0.0)
    scheduler.forget_pod("default/a", 0.5)

    assert turn(scheduler, 2.0) == Placed("n")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"schedulerName": "mine"}, id="of another scheduler"),
        pytest.param({"schedulingGates": [{"name": "wait"}]}, id="that is gated"),
    ],
)
def test_not_ours(scheduler: ScheduleOne, other: dict[str, Any]) -> None:
    """Some pods are none of our business."""
    scheduler.see_pod(pod(**other), None, 0.0)

    assert turn(scheduler) is None


def test_a_gate_that_opens(scheduler: ScheduleOne) -> None:
    """A pod is queued once its last gate is gone."""
    scheduler.see_pod(pod(schedulingGates=[{"name": "wait"}]), None, 0.0)
    scheduler.see_pod(pod(), None, 1.0)

    assert turn(scheduler, 1.0) == Placed("n")


def test_a_pod_that_is_deleted_while_it_waits(scheduler: ScheduleOne) -> None:
    """A pod on its way out is not placed."""
    scheduler.see_pod(pod(), None, 0.0)
    scheduler.forget_pod("default/pod", 0.0)

    assert turn(scheduler) is None


def test_a_new_word_in_the_status_is_no_change(scheduler: ScheduleOne) -> None:
    """Our own explanation in the pod's status does not put it back in the queue."""
    asks = pod(cpu="9")
    scheduler.see_pod(asks, None, 0.0)
    turn(scheduler)

    told = msgspec.structs.replace(asks.status, phase="Pending")
    scheduler.see_pod(msgspec.structs.replace(asks, status=told), None, 1.0)
    assert turn(scheduler, 60.0) is None

    scheduler.see_pod(pod(cpu="1"), None, 60.0)
    assert turn(scheduler, 60.0) == Placed("n")


def test_a_refusal_is_given_again_while_nothing_changes(scheduler: ScheduleOne) -> None:
    """Pods of one template that cannot be placed cost one look, and all get the same message."""
    for number in range(3):
        scheduler.see_pod(pod(f"p{number}", cpu="9"), None, 0.0)
    found = [turn(scheduler) for _ in range(3)]

    assert len({each.message for each in found if isinstance(each, Unplaced)}) == 1
    assert len(scheduler._answers) == 1

    scheduler.table.set_node(node("large", room={"cpu": "64"}))
    scheduler.changed(ALL, 20.0)
    assert [turn(scheduler, 20.0) for _ in range(3)] == [Placed("large")] * 3


def test_room_is_freed(scheduler: ScheduleOne) -> None:
    """A pod that ended, or went, makes room for one that waits."""
    running = pod("first", cpu="3")
    scheduler.see_pod(bound(running), None, 0.0)
    scheduler.see_pod(pod("second", cpu="3"), None, 0.0)
    assert isinstance(turn(scheduler), Unplaced)

    scheduler.see_pod(bound(running, phase="Succeeded"), None, 5.0)

    assert turn(scheduler, 5.0) == Placed("n")


def test_a_neighbour_arrives(scheduler: ScheduleOne) -> None:
    """A pod that waits for a neighbour is tried again when one is bound."""
    scheduler.see_pod(pod("fan", affinity=affinity("podAffinity", near("star"))), None, 0.0)
    assert isinstance(turn(scheduler), Unplaced)

    scheduler.see_pod(bound(pod("star", app="star")), None, 5.0)

    assert turn(scheduler, 5.0) == Placed("n")


def test_labels_that_come_with_the_binding_wake_nobody_for_room(scheduler: ScheduleOne) -> None:
    """A bound pod that only gets labels frees no room, so what is known to lack room stays known."""
    scheduler.see_pod(pod("a", cpu="3"), None, 0.0)
    turn(scheduler)
    scheduler.see_pod(pod("b", cpu="3"), None, 0.0)
    turn(scheduler)

    scheduler.see_pod(bound(pod("a", cpu="3", labels={"zone": "x"})), None, 5.0)

    assert turn(scheduler, 200.0) is None


def test_preemption(scheduler: ScheduleOne) -> None:
    """Room is made for an important pod, kept for it, and taken when its victim is gone."""
    scheduler.see_pod(bound(pod("low", cpu="4", priority=1)), None, 0.0)
    scheduler.see_pod(pod("high", cpu="4", priority=10), None, 0.0)

    found = turn(scheduler)
    assert isinstance(found, Unplaced)
    assert found.victims is not None
    assert [each.key for each in found.victims.pods] == ["default/low"]

    scheduler.forget_pod("default/low", 5.0)
    scheduler.see_pod(pod("sneaky", cpu="1", priority=5), None, 5.0)
    decisions = [turn(scheduler, 5.0), turn(scheduler, 5.0)]
    assert Placed("n") in decisions
    assert "default/high" in scheduler.table.occupants
    assert "default/sneaky" not in scheduler.table.occupants


def test_a_lesser_nomination_is_withdrawn(scheduler: ScheduleOne) -> None:
    """Pods of lower priority that are nominated to a node can be found."""
    scheduler.see_pod(bound(pod("low", cpu="4", priority=1)), None, 0.0)
    scheduler.see_pod(pod("mid", cpu="4", priority=5), None, 0.0)
    turn(scheduler)

    assert scheduler.outranked("n", 10) == ["default/mid"]
    scheduler.withdraw_nomination("default/mid")
    assert scheduler.outranked("n", 10) == []


def test_a_nomination_survives_a_restart() -> None:
    """A pod that says where room is being made for it is believed."""
    scheduler = ScheduleOne(seed=1)
    scheduler.table.set_node(node("n"))
    asks = pod("high", cpu="4", priority=10)
    nominated = msgspec.structs.replace(asks.status, nominated_node_name="n")
    scheduler.see_pod(msgspec.structs.replace(asks, status=nominated), None, 0.0)

    assert scheduler.outranked("n", 11) == ["default/high"]


def nominated(name: str, node_name: str = "", **more: Any) -> Pod:
    """Return a pod that is nominated for a node."""
    found = pod(name, **more)
    return msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, nominated_node_name=node_name)
    )


@pytest.fixture
def two_nodes() -> ScheduleOne:
    """A scheduler with two nodes, of which the first is half full."""
    found = ScheduleOne(seed=1)
    for name in ("n", "other"):
        found.table.set_node(node(name))
    found.see_pod(bound(pod("there", cpu="2")), None, 0.0)
    return found


def test_a_nominated_node_is_tried_first(two_nodes: ScheduleOne) -> None:
    """A pod that another client has nominated goes to that node, however full it is."""
    two_nodes.see_pod(pod("a", cpu="1"), None, 0.0)
    two_nodes.see_pod(nominated("a", "n", cpu="1"), None, 0.0)

    assert turn(two_nodes) == Placed("n")


@pytest.mark.parametrize(
    "name", [pytest.param("gone", id="a node that is gone"), pytest.param("n", id="a node without room")]
)
def test_a_nominated_node_that_fails_is_passed_over(two_nodes: ScheduleOne, name: str) -> None:
    """A pod whose nominated node does not take it goes to any other."""
    two_nodes.see_pod(nominated("a", name, cpu="3"), None, 0.0)

    assert turn(two_nodes) == Placed("other")


def test_room_of_nominated_pods_is_kept(two_nodes: ScheduleOne) -> None:
    """A pod of equal priority does not take the room of a nominated one, as long as that is nominated."""
    two_nodes.see_pod(bound(pod("large", cpu="4"), "other"), None, 0.0)
    two_nodes.see_pod(nominated("a", "n", cpu="2"), None, 0.0)
    two_nodes.see_pod(pod("b", cpu="1"), None, 0.0)
    two_nodes.queue.remove("default/a")

    assert isinstance(turn(two_nodes), Unplaced)
    two_nodes.see_pod(nominated("a", "", cpu="2"), None, 5.0)
    assert turn(two_nodes, 5.0) == Placed("n")


def test_a_nomination_ends_with_a_failure(two_nodes: ScheduleOne) -> None:
    """A pod that fits nowhere and that no eviction would help is nominated no longer."""
    two_nodes.see_pod(nominated("a", "n", cpu="9"), None, 0.0)

    found = turn(two_nodes)

    assert isinstance(found, Unplaced)
    assert found.withdrawn
    assert two_nodes.outranked("n", 1) == []
