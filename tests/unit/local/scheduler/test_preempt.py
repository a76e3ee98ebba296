"""Whom a pod of higher priority displaces."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.meta import LabelSelector
from karpenter.api.pod import Pod, PodStatus
from karpenter.core.model.selectors import parse_selector
from karpenter_local.scheduler.filters import FitError
from karpenter_local.scheduler.nodetable import AssignedPod
from karpenter_local.scheduler.place import Placed, place
from karpenter_local.scheduler.preempt import PDBLimit, PreemptionContext, Victims, preempt
from tests.unit.local.scheduler.clusters import World, affinity, near, node, pod


def ranked(name: str, priority: int, *, cpu: str = "2", hour: int = 0, **more: Any) -> Pod:
    """Return a pod with a priority that started at some hour."""
    started = datetime(2025, 1, 1, hour, tzinfo=UTC)
    found = pod(name, cpu=cpu, priority=priority, **more)
    return msgspec.structs.replace(found, status=PodStatus(start_time=started))


def ask(world: World, asks: Pod, **context: Any) -> Victims | str:
    """Ask whom to evict for a pod that fits nowhere."""
    refused = world.place(asks)
    assert isinstance(refused, FitError)
    return preempt(
        world.table, asks.key, world.pod_info(asks), refused, seed=1, context=PreemptionContext(**context)
    )


def names(found: Victims | str) -> tuple[str, list[str]]:
    assert isinstance(found, Victims)
    return found.node, [each.key.partition("/")[2] for each in found.pods]


def test_the_least_important_go() -> None:
    """Only as many pods go as must, and the least important first."""
    world = World(node("n"))
    world.put("n", ranked("low", 1, cpu="1"), ranked("mid", 5, cpu="1"), ranked("high", 9, cpu="1"))

    assert names(ask(world, ranked("new", 10, cpu="2"))) == ("n", ["low"])
    assert names(ask(world, ranked("new", 10, cpu="3"))) == ("n", ["mid", "low"])
    assert names(ask(world, ranked("new", 6, cpu="3"))) == ("n", ["mid", "low"])


def test_the_youngest_of_equals_go() -> None:
    """Of pods with the same priority, those that started last go."""
    world = World(node("n")).put("n", ranked("old", 1, hour=1), ranked("young", 1, hour=2))

    assert names(ask(world, ranked("new", 10))) == ("n", ["young"])


@pytest.mark.parametrize(
    ("on_a", "on_b", "expected"),
    [
        pytest.param(
            [ranked("a", 5, cpu="4")], [ranked("b", 4, cpu="4")], "b", id="the lowest highest priority"
        ),
        pytest.param(
            [ranked("a1", 5), ranked("a2", 5)], [ranked("b1", 5), ranked("b2", 4)], "b", id="the lower sum"
        ),
        pytest.param(
            [ranked("a1", 0), ranked("a2", 0)], [ranked("b", 0, cpu="4")], "b", id="the fewer victims"
        ),
        pytest.param(
            [ranked("a", 5, cpu="4", hour=1)], [ranked("b", 5, cpu="4", hour=2)], "b", id="the later start"
        ),
    ],
)
def test_which_node(on_a: list[Pod], on_b: list[Pod], expected: str) -> None:
    """The node is chosen where it hurts least."""
    world = World(node("a"), node("b")).put("a", *on_a).put("b", *on_b)

    assert names(ask(world, ranked("new", 10, cpu="4")))[0] == expected


def test_budgets_are_kept_if_possible() -> None:
    """Pods under a budget with nothing left are spared where others can go."""
    world = World(node("a"), node("b"))
    world.put("a", ranked("guarded", 1, cpu="4", app="db")).put("b", ranked("free", 5, cpu="4"))
    selector = parse_selector(LabelSelector(match_labels={"app": "db"}))
    budget = PDBLimit("default", selector, allowed=0)

    found = ask(world, ranked("new", 10, cpu="4"), budgets=lambda: [budget])
    assert names(found) == ("b", ["free"])

    world.table.drop_node("b")
    found = ask(world, ranked("new", 10, cpu="4"), budgets=lambda: [budget])
    assert names(found) == ("a", ["guarded"])
    assert isinstance(found, Victims)
    assert found.violations == 1


def test_a_budget_counts_down() -> None:
    """A budget that allows one spares the second, and knows whom it let go already."""
    world = World(node("n")).put("n", ranked("a", 1, app="db"), ranked("b", 1, app="db", hour=1))
    selector = parse_selector(LabelSelector(match_labels={"app": "db"}))

    one = ask(world, ranked("new", 10, cpu="4"), budgets=lambda: [PDBLimit("default", selector, 1)])
    assert isinstance(one, Victims)
    assert one.violations == 1

    already = PDBLimit("default", selector, 1, already=frozenset({"a"}))
    two = ask(world, ranked("new", 10, cpu="4"), budgets=lambda: [already])
    assert isinstance(two, Victims)
    assert two.violations == 0


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        pytest.param(
            ranked("new", 10, preemptionPolicy="Never"),
            "not eligible due to preemptionPolicy=Never.",
            id="it never does",
        ),
        pytest.param(
            ranked("new", 1),
            "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="no pod on the node has a lower priority",
        ),
        pytest.param(
            ranked("new", 10, cpu="9"),
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="no node is large enough",
        ),
        pytest.param(
            ranked("new", 0),
            "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="no pod in the cluster has a lower priority",
        ),
    ],
)
def test_nobody(asks: Pod, expected: str) -> None:
    """Where there are no victims, the message says why."""
    world = World(node("full"), node("off", unschedulable=True))
    world.put("full", ranked("a", 1, cpu="4"))

    assert ask(world, asks) == expected


def test_evictions_that_would_not_help() -> None:
    """If the pod would not fit even with all lesser pods gone, the filter's words are told."""
    world = World(node("n")).put("n", ranked("low", 1, cpu="1"), ranked("equal", 10, cpu="3"))

    assert ask(world, ranked("new", 10, cpu="2")) == "0/1 nodes are available: 1 Insufficient cpu."


def test_anti_affinity_of_a_victim() -> None:
    """A pod can displace one that keeps it away."""
    world = World(node("n"))
    world.put("n", ranked("shy", 1, cpu="1", affinity=affinity("podAntiAffinity", near("web"))))

    assert names(ask(world, ranked("new", 10, cpu="1", app="web"))) == ("n", ["shy"])


def test_waiting_for_a_victim_to_leave() -> None:
    """A pod for which room is being made preempts no other pod meanwhile."""
    world = World(node("n")).put("n", ranked("leaving", 1, cpu="4"), living=False, preempted=True)

    found = ask(world, ranked("new", 10), nominated="n")

    assert found == "not eligible due to a terminating pod on the nominated node."


def test_room_made_for_another() -> None:
    """Room that is being made for a pod is not taken by one of lower priority."""
    world = World(node("n"))
    promised = (world.assigned(ranked("promised", 5, cpu="3"), "n"),)

    def expected(node: str) -> tuple[AssignedPod, ...]:
        return promised if node == "n" else ()

    def where(asks: Pod) -> Placed | FitError:
        return place(world.table, asks.key, world.pod_info(asks), seed=1, expected=expected)

    assert isinstance(where(ranked("small", 1, cpu="1")), Placed)
    assert isinstance(where(ranked("large", 1, cpu="2")), FitError)


def test_its_own_nomination() -> None:
    """A pod goes to the node where room was made for it, even if another looks better by now."""
    world = World(node("mine"), node("better")).put("mine", ranked("there", 1, cpu="1"))
    asks = ranked("new", 5, cpu="1")

    found = place(world.table, asks.key, world.pod_info(asks), seed=1, nominated="mine")

    assert found == Placed("mine")


def test_supposing_leaves_no_trace() -> None:
    """Looking at what could be changes nothing of what is."""
    world = World(node("n")).put("n", ranked("low", 1, cpu="3"))
    revision = world.table.revision

    ask(world, ranked("new", 10, cpu="2"))

    assert world.table.revision == revision
    assert [each.key for each in world.table.on(0)] == ["default/low"]
    assert isinstance(world.place(ranked("other", 1, cpu="2")), FitError)
