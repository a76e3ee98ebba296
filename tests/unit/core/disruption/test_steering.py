"""Letting machines empty by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.labels import DELETION_COST_SET, DO_NOT_DISRUPT, EMPTYING, POD_DELETION_COST
from karpenter.api.node import Node, Taint
from karpenter.core.disruption import steering
from karpenter.core.disruption.steering import steer, unsteer
from tests.unit.core.disruption.clusters import NOW, cluster, machine, pod, pool

if TYPE_CHECKING:
    import pytest

    from karpenter.api.meta import Resource
    from karpenter.api.pod import Pod
    from karpenter.core.effects import Amend
    from karpenter.core.state.cluster import ClusterView

SOFT = {"key": EMPTYING, "effect": "PreferNoSchedule"}
OURS = {POD_DELETION_COST: "-8", DELETION_COST_SET: "-8"}


def owned_by(kind: str, each: Pod) -> Pod:
    """Return a pod of another kind of workload; of no workload, if that has no name."""
    owner = msgspec.structs.replace(each.metadata.owner_references[0], kind=kind)
    owners = (owner,) if kind else ()
    return msgspec.structs.replace(
        each, metadata=msgspec.structs.replace(each.metadata, owner_references=owners)
    )


def with_node(
    view: ClusterView, name: str, *, notes: dict[str, str] | None = None, **spec: Any
) -> ClusterView:
    """Return a cluster with one of its nodes changed."""
    node = view.nodes[name]
    changed = msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(node.metadata, annotations=notes or {}),
        spec=msgspec.structs.replace(node.spec, **spec),
    )
    return msgspec.structs.replace(view, nodes={**view.nodes, name: changed})


def pool_of_five() -> ClusterView:
    """Return machines with one pod, two pods, and so on up to five."""
    nodes = [machine(f"node-{count}", "xlarge") for count in range(1, 6)]
    pods = [pod(f"web-{count}-{at}", f"node-{count}") for count in range(1, 6) for at in range(count)]
    return cluster(pool(), *nodes, *pods)


def tainted(found: tuple[Amend, ...]) -> dict[str, list[Any]]:
    return {each.name: each.changes["spec"]["taints"] for each in found if each.kind == "Node"}


def costs(found: tuple[Amend, ...]) -> dict[str, str | None]:
    """Return the deletion costs that pods get."""
    notes = {each.name: each.changes["metadata"]["annotations"] for each in found if each.kind == "Pod"}
    assert all(each[POD_DELETION_COST] == each[DELETION_COST_SET] for each in notes.values())
    return {name: each[POD_DELETION_COST] for name, each in notes.items()}


def carried_out(view: ClusterView, found: tuple[Amend, ...]) -> ClusterView:
    pods = dict(view.pods)
    for name, cost in costs(found).items():
        assert cost is not None
        each = pods[f"default/{name}"]
        notes = {POD_DELETION_COST: cost, DELETION_COST_SET: cost}
        meta = msgspec.structs.replace(each.metadata, annotations=notes)
        pods[each.key] = msgspec.structs.replace(each, metadata=meta)
    view = msgspec.structs.replace(view, pods=pods)
    for name, taints in tainted(found).items():
        view = with_node(view, name, taints=tuple(msgspec.convert(each, Taint) for each in taints))
    return view


def test_the_emptiest_machines_are_let_go_first() -> None:
    """Pods are cheapest to delete where there are few, and new ones are discouraged there."""
    found = steer(pool_of_five(), NOW)

    assert tainted(found) == {"node-1": [SOFT], "node-2": [SOFT]}
    per_node = {name.split("-")[1]: cost for name, cost in costs(found).items()}
    assert per_node == {"1": "-8", "2": "-7", "3": "-5", "4": "-4", "5": "-2"}


def test_nothing_is_written_twice() -> None:
    """A cluster in which nothing changes is left alone; what was set for a taint does not hide a machine."""
    view = pool_of_five()
    once = carried_out(view, steer(view, NOW))

    assert steer(once, NOW) == ()


def test_a_machine_that_fills_up_is_like_all_others_again() -> None:
    """Ranks follow the pods."""
    view = pool_of_five()
    once = carried_out(view, steer(view, NOW))
    more = [pod(f"late-{at}", "node-1") for at in range(9)]
    crowded = msgspec.structs.replace(once, pods={**once.pods, **{each.key: each for each in more}})

    assert tainted(steer(crowded, NOW)) == {"node-1": [], "node-3": [SOFT]}


def test_what_others_have_set_stays() -> None:
    """A deletion cost that another controller sets, also after us, stays; other taints stay, too."""
    theirs = pod("theirs", "node-1", annotations={POD_DELETION_COST: "100"})
    changed = pod("changed", "node-1", annotations={**OURS, POD_DELETION_COST: "7"})
    mine = pod("mine", "node-1", annotations=OURS)
    view = cluster(pool(), machine("node-1"), theirs, changed, mine)
    view = with_node(
        view, "node-1", taints=(Taint(key="a", effect="NoSchedule"), msgspec.convert(SOFT, Taint))
    )

    assert costs(steer(view, NOW)) == {}
    assert tainted(steer(view, NOW)) == {"node-1": [{"key": "a", "effect": "NoSchedule"}]}


def test_only_pods_that_are_chosen_by_cost_are_told() -> None:
    """The cost of pods of StatefulSets, of Jobs or without an owner is never read."""
    pods = [owned_by(kind, pod(f"of-{kind}", "node-1")) for kind in ("StatefulSet", "Job", "")]

    assert costs(steer(cluster(pool(), machine("node-1"), *pods), NOW)) == {}


def test_machines_that_must_stay_are_not_let_go() -> None:
    """Machines that may not be disrupted do not empty; what they were told before is taken back."""
    kept = pod("kept", "node-1", annotations={DO_NOT_DISRUPT: "true"})
    beside = pod("beside", "node-1", annotations=OURS)

    assert costs(steer(cluster(pool(), machine("node-1"), kept, beside), NOW)) == {"beside": None}
    held = with_node(cluster(pool(), machine("node-1"), beside), "node-1", notes={DO_NOT_DISRUPT: "true"})
    assert costs(steer(held, NOW)) == {"beside": None}
    for other in (pool(consolidate_after="Never"), pool("another")):
        assert costs(steer(cluster(other, machine("node-1"), beside), NOW)) == {"beside": None}


def test_a_write_says_what_it_is_for() -> None:
    """A cost that is set lets a machine empty; one that is taken back belongs to a machine that may not."""
    view = pool_of_five()
    kept = cluster(pool(consolidate_after="Never"), machine("node-1"), pod("a", "node-1", annotations=OURS))

    assert {each.because for each in steer(view, NOW) if each.kind == "Pod"} == {
        "so its machine may empty first"
    }
    assert [each.because for each in steer(kept, NOW)] == ["its machine may not empty any more"]


def test_nodes_of_others_and_machines_that_leave_are_left_alone() -> None:
    """Nothing is written about what is not ours or will soon not be there."""
    foreign = [each for each in machine("foreign") if isinstance(each, Node)]
    view = cluster(pool(), *foreign, machine("going"), pod("a", "going"), pod("b", "foreign"))
    view = msgspec.structs.replace(view, marked=frozenset({"going"}))

    assert tainted(steer(view, NOW)) == {}
    assert costs(steer(view, NOW)) == {}


def test_a_node_that_stays_hides_none_that_may_empty() -> None:
    """Nodes of a pool that is gone, of one that never consolidates and protected ones are passed by."""
    frozen = pool("frozen", consolidate_after="Never")
    before = cluster(machine("a", pool="gone"), machine("b", pool="frozen"), machine("c"), frozen)
    view = pool_of_five()
    both = msgspec.structs.replace(
        view,
        nodes={**before.nodes, **view.nodes},
        claims={**before.claims, **view.claims},
        pools={**before.pools, **view.pools},
    )
    both = with_node(both, "c", notes={DO_NOT_DISRUPT: "true"})

    assert list(both.nodes)[:3] == ["a", "b", "c"]
    assert steer(both, NOW) == steer(view, NOW)


def test_a_taint_of_ours_stays_where_nothing_is_written() -> None:
    """A node that leaves keeps it, and so does one of others; a claim without a node has none."""
    soft = msgspec.convert(SOFT, Taint)
    foreign: list[Resource] = [each for each in machine("foreign") if isinstance(each, Node)]
    starting = [each for each in machine("starting") if not isinstance(each, Node)]
    view = cluster(pool(), foreign, starting, machine("going"), machine("ours"))
    for name in ("foreign", "going", "ours"):
        view = with_node(view, name, taints=(soft,))
    view = msgspec.structs.replace(view, marked=frozenset({"going"}))

    assert tainted(unsteer(view)) == {"ours": []}


def test_only_so_many_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on the emptiest machines come first."""
    monkeypatch.setattr(steering, "MOST", 3)

    assert set(costs(steer(pool_of_five(), NOW))) == {"web-1-0", "web-2-0", "web-2-1"}


def test_machines_are_let_be() -> None:
    """Where steering is off, no machine discourages pods; pods are not touched."""
    view = pool_of_five()
    once = carried_out(view, steer(view, NOW))
    found = unsteer(once)

    assert tainted(found) == {"node-1": [], "node-2": []}
    assert costs(found) == {}
    assert unsteer(view) == ()


def test_nodes_of_others_hide_none_of_ours() -> None:
    """A node that Karpenter does not manage comes first by name, and is passed by."""
    view = pool_of_five()
    stranger = msgspec.structs.replace(
        view.nodes["node-1"],
        metadata=msgspec.structs.replace(view.nodes["node-1"].metadata, name="aaa", labels={}),
        spec=msgspec.structs.replace(view.nodes["node-1"].spec, provider_id="other://1"),
    )
    beside = msgspec.structs.replace(view, nodes={"aaa": stranger, **view.nodes})

    assert tainted(steer(view, NOW))
    assert tainted(steer(beside, NOW)) == tainted(steer(view, NOW))


def test_those_on_the_emptiest_machine_come_first_whatever_they_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two pods only one is told: the one on the machine with fewer pods, though its name is the last."""
    monkeypatch.setattr(steering, "MOST", 1)
    view = cluster(pool(), machine("n1"), machine("n2"), pod("z-0", "n1"), pod("a-0", "n2"), pod("a-1", "n2"))

    assert costs(steer(view, NOW)) == {"z-0": "-8"}
