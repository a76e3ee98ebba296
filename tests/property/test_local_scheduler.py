"""The scheduler's arrays, kept up to date one event at a time, agree with a fresh look at everything."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.api.pod import Pod
from karpenter_local.scheduler.filters import feasible, feasible_at
from karpenter_local.scheduler.nodeinfo import NodeInfo
from karpenter_local.scheduler.nodetable import NodeTable
from karpenter_local.scheduler.storage import NO_CLAIMS
from tests.unit.local.scheduler.clusters import HOSTNAME, ZONE, World, affinity, near, node, pod, spread

APPS = ("web", "db")
ZONES = ("a", "b", "c")

rules: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"affinity": affinity("podAffinity", near("web"))},
        {"affinity": affinity("podAntiAffinity", near("web", HOSTNAME))},
        {"affinity": affinity("podAntiAffinity", near("db", namespaceSelector={}))},
        {"topologySpreadConstraints": [spread("web")]},
        {"topologySpreadConstraints": [spread("db", HOSTNAME, skew=2)]},
        {"container": {"ports": [{"hostPort": 80}]}},
        {"nodeSelector": {ZONE: "a"}},
    ]
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    name = draw(st.sampled_from([f"p{n}" for n in range(6)]))
    more: dict[str, Any] = draw(rules)
    cpu = draw(st.sampled_from(["", "1", "3"]))
    namespace = draw(st.sampled_from(["default", "other"]))
    return pod(name, cpu=cpu, app=draw(st.sampled_from(APPS)), namespace=namespace, **more)


nodes = st.builds(
    lambda number, zone, cpu, off: node(f"n{number}", zone=zone, room={"cpu": cpu}, unschedulable=off),
    st.integers(0, 3),
    st.sampled_from(ZONES),
    st.sampled_from(["2", "4"]),
    st.booleans(),
)

events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes),
        st.tuples(st.just("lose"), st.sampled_from([f"n{n}" for n in range(4)])),
        st.tuples(st.just("put"), st.sampled_from([f"n{n}" for n in range(4)]), pods()),
        st.tuples(
            st.just("take"), st.sampled_from([f"{ns}/p{n}" for ns in ("default", "other") for n in range(6)])
        ),
    ),
    max_size=25,
)


def rebuilt(table: NodeTable, known: dict[str, NodeInfo]) -> World:
    """Return a world that was told only what is true at the end."""
    fresh = World(*known.values())
    for each in table.occupants.values():
        fresh.table.put(each)
    return fresh


@settings(max_examples=60, deadline=None)
@given(events=events, asks=st.lists(pods(), min_size=1, max_size=4))
def test_history_does_not_matter(events: list[Any], asks: list[Pod]) -> None:
    """Where a pod may go depends on the cluster as it is, not on how it came to be or who asked."""
    world = World()
    known: dict[str, NodeInfo] = {}
    for kind, *what in events:
        match kind:
            case "node":
                known[what[0].name] = what[0]
                world.table.set_node(what[0])
            case "lose":
                known.pop(what[0], None)
                world.table.drop_node(what[0])
            case "put":
                world.put(what[0], what[1])
            case _:
                world.table.take(what[0])
        world.feasible(asks[0])

    fresh = rebuilt(world.table, known)

    assert [world.feasible(each) for each in asks] == [fresh.feasible(each) for each in asks]
    assert [world.where(each) for each in asks] == [fresh.where(each) for each in asks]


@settings(max_examples=40, deadline=None)
@given(events=events, asks=pods())
def test_one_row_is_judged_like_all(events: list[Any], asks: Pod) -> None:
    """Asking about one node gives the answer that asking about all of them gives for it."""
    world = World()
    for kind, *what in events:
        if kind == "node":
            world.table.set_node(what[0])
        elif kind == "put":
            world.put(what[0], what[1])
    pod_info = world.pod_info(asks)

    rows = feasible(world.table, pod_info, NO_CLAIMS)

    assert [feasible_at(world.table, pod_info, NO_CLAIMS, row) for row in range(len(rows))] == rows.tolist()
