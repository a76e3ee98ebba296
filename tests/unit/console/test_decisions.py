"""The timeline of a live cluster."""

from __future__ import annotations

from datetime import timedelta

from karpenter.console.decisions import DecisionLog, HeardEvent
from karpenter.console.state import ConsoleMachine, ConsolePod, Snapshot
from tests.unit.console.clusters import NOON

SECOND = timedelta(seconds=1)


def machine(name: str, state: str = "ready", **facts: object) -> ConsoleMachine:
    known = {"node": f"node-{name}", "type": "m5.large", "zone": "a", "price": 0.1, "pool": "default"}
    return ConsoleMachine(name=name, claim=name, state=state, **{**known, **facts})  # type: ignore[arg-type]


def pods(machine: str, *names: str, workload: str = "default/web") -> dict[str, ConsolePod]:
    return {
        f"default/{name}": ConsolePod(workload=workload, machine=machine, cpu=1, memory=1, state="running")
        for name in names
    }


def cluster(*machines: ConsoleMachine, pods: dict[str, ConsolePod] | None = None) -> Snapshot:
    return Snapshot(machines={each.name: each for each in machines}, pods=pods or {})


def event(reason: str, kind: str, name: str, message: str = "because", after: int = 0) -> HeardEvent:
    return HeardEvent(at=NOON + after * SECOND, reason=reason, kind=kind, name=name, message=message)


def test_a_removal_is_one_row() -> None:
    """What is decided about a machine, said of its Node and its NodeClaim, and its end is one row."""
    log, there = DecisionLog(), cluster(machine("m"), pods=pods("m", "a", "b"))
    leaving = cluster(machine("m", "disrupting"), pods=pods("m", "a", "b"))

    log.hear(event("ConsolidationApproved", "NodeClaim", "m", "saves $1"), there)
    log.hear(event("DisruptionTerminating", "Node", "node-m", "Disrupting Node: Empty", 1), there)
    log.hear(event("DisruptionTerminating", "NodeClaim", "m", "Disrupting NodeClaim: Empty", 1), there)
    log.follow(there, leaving, NOON + 2 * SECOND)
    transition = "Status condition transitioned: InstanceTerminating is True (InstanceTerminating)."
    log.hear(event("InstanceTerminating", "NodeClaim", "m", transition, 5), leaving)
    log.follow(leaving, cluster(), NOON + 9 * SECOND)

    (row,) = log.rows
    assert (row.title, row.because) == ("delete m5.large in a", "Disrupting NodeClaim: Empty")
    assert (row.at, row.hourly, row.moved, row.realized) == (NOON, -0.1, 2, True)


def test_a_launch_counts_the_pods_that_come() -> None:
    """A new machine is a row with its price; the pods that come to it are counted there."""
    log, new = DecisionLog(), machine("m", "joining")
    log.hear(event("DisruptionLaunching", "NodeClaim", "m", "as a replacement"), cluster())
    bare = cluster(machine("m", "launching", price=None))
    log.follow(cluster(), bare, NOON - SECOND)
    log.follow(bare, cluster(new), NOON)
    log.follow(cluster(new), cluster(machine("m"), pods=pods("m", "a", "b")), NOON + 60 * SECOND)

    (row,) = log.rows
    assert (row.kind, row.hourly, row.moved, row.because) == ("provision", 0.1, 2, "as a replacement")


def test_a_price_is_no_launch() -> None:
    """A machine that has a price since the price list has changed was not launched now."""
    log = DecisionLog()
    log.follow(cluster(machine("m", price=None)), cluster(machine("m")), NOON)

    assert not log.rows


def test_pods_without_a_place_are_one_row_for_each_workload() -> None:
    """Events about pods of one workload change one row; pods that have a place meanwhile are not counted."""
    log = DecisionLog()
    waiting = cluster(pods=pods("", "a", "b", "c") | pods("", "x", workload="default/x"))
    for place, name in enumerate("abcx"):
        log.hear(event("FailedScheduling", "Pod", f"default/{name}", "no room", place), waiting)
    log.hear(event("FailedScheduling", "Pod", "default/c", "no room", 9), cluster(pods=pods("", "b", "c")))

    assert [(row.title, row.moved, row.kind) for row in log.rows] == [
        ("no place for default/x", 1, "refused"),
        ("no place for default/web x 2", 2, "refused"),
    ]


def test_the_event_of_a_pod_that_is_not_known_yet() -> None:
    """An Event may be heard before its pod; one about a pod that is gone is not told."""
    log = DecisionLog()
    log.hear(event("FailedScheduling", "Pod", "default/a"), cluster())
    log.hear(event("FailedScheduling", "Pod", "default/gone"), cluster())
    log.follow(cluster(), cluster(pods=pods("", "a")), NOON)
    log.follow(cluster(), cluster(pods=pods("", "gone")), NOON)

    assert [row.title for row in log.rows] == ["no place for default/a"]


def test_rows_are_in_the_order_of_time() -> None:
    """An Event that is heard late has its place by its time."""
    log = DecisionLog()
    for after in (5, 1, 3):
        log.hear(event("InsufficientCapacityError", "NodeClaim", f"m{after}", after=after), cluster())

    assert [row.at - NOON for row in log.rows] == [SECOND, 3 * SECOND, 5 * SECOND]
    assert [row.at - NOON for row in log.take_changed()] == [SECOND, 3 * SECOND, 5 * SECOND]
    assert not log.take_changed()


def test_an_event_about_node_and_claim_is_one_row() -> None:
    """Interruptions are published for the Node and for its NodeClaim, and are one row."""
    log, there = DecisionLog(), cluster(machine("m"))
    log.hear(event("SpotInterrupted", "Node", "node-m"), there)
    log.hear(event("SpotInterrupted", "NodeClaim", "m"), there)

    assert [(row.kind, row.machines) for row in log.rows] == [("fault", ("m",))]


def test_the_oldest_rows_go() -> None:
    """No more rows are kept than wanted."""
    log = DecisionLog(keep=2)
    for after in range(4):
        log.hear(event("InsufficientCapacityError", "NodeClaim", f"m{after}", after=after), cluster())

    assert [row.at - NOON for row in log.rows] == [2 * SECOND, 3 * SECOND]
