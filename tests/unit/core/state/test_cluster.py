"""The state: taken in event by event, handed out as views that stay the same until something changes."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from karpenter.api.cluster import Event as ClusterEvent
from karpenter.api.cluster import Namespace
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import Resource, convert
from karpenter.api.node import Node
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.workloads import DaemonSet
from karpenter.core.state.cluster import (
    ClusterState,
    ClusterView,
    NodeClass,
    ObjectDeleted,
    ObjectUpdated,
    node_class,
)
from karpenter.core.state.statenode import StateNode, state_nodes
from tests.unit.core.lifecycle.objects import ID, NOW, claim, complete, launched, node, pod, pool

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim

OURS = [("karpenter.kwok.sh", "KWOKNodeClass")]
KEEP = {"karpenter.sh/do-not-disrupt": "true"}
FOREIGN = {"nodeClassRef": {"group": "other.example", "kind": "OtherClass", "name": "default"}}


def overlay(generation: int) -> NodeOverlay:
    return convert({"metadata": {"name": "o", "generation": generation}}, NodeOverlay)


CLASS = NodeClass(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default", ready=True)


def daemons(generation: int) -> DaemonSet:
    return convert({"metadata": {"name": "d", "generation": generation}}, DaemonSet)


def store(*objects: Resource | NodeClass) -> ClusterState:
    """Return the state of a cluster of these objects."""
    made = ClusterState(serves=OURS)
    for each in objects:
        made.apply(ObjectUpdated(each))
    return made


def fresh(view: ClusterView) -> ClusterView:
    """Return the same objects as a view that has nothing worked out yet."""
    return ClusterView(pods=view.pods, nodes=view.nodes, claims=view.claims, marked=view.marked)


def test_a_view_stays_the_same_until_something_changes() -> None:
    """Asking twice gives one value; an event gives another, and the first keeps what it was."""
    made = store(node())
    first = made.view()
    assert made.view() is first

    made.apply(ObjectUpdated(pod()))
    assert made.view() is not first
    assert not first.pods
    assert set(made.view().pods) == {"default/pod-1"}


def test_a_reader_of_every_node_class() -> None:
    """Without a list of node classes, NodePools of every provider are held."""
    everything = ClusterState(serves=None)
    everything.apply(ObjectUpdated(pool(spec={"template": {"spec": FOREIGN}})))
    assert len(everything.view().pools) == 1


def test_what_decides_nothing_is_not_held() -> None:
    """Kinds that no view has a place for leave no trace."""
    made = store(convert({"metadata": {"name": "e", "namespace": "default"}}, ClusterEvent))
    made.apply(ObjectDeleted(convert({"metadata": {"name": "gone"}}, Namespace)))

    assert made.view() == ClusterView()


def test_pools_and_claims_of_other_classes_are_somebody_else_s() -> None:
    """They are not taken in, and are let go of when they turn out to be foreign."""
    made = store(claim(), claim(spec=FOREIGN), pool(template={"spec": FOREIGN}))

    assert not made.view().claims
    assert not made.view().pools


def test_node_classes_are_held_by_group_kind_and_name() -> None:
    """A class may be of any provider."""
    found = NodeClass(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default", ready=True)
    made = store(found)
    assert made.view().node_classes == {("karpenter.kwok.sh", "KWOKNodeClass", "default"): found}

    made.apply(ObjectDeleted(found))
    assert not made.view().node_classes


def test_listeners_hear_of_what_was_before() -> None:
    """Every event is told after it was taken in, with what was known before."""
    made = store()
    heard: list[tuple[str, bool]] = []
    made.subscribe(lambda event, before: heard.append((type(event).__name__, before is not None)))
    for event in (ObjectUpdated(pod()), ObjectUpdated(pod()), ObjectDeleted(pod()), ObjectDeleted(pod())):
        made.apply(event)

    assert heard == [("ObjectUpdated", False), ("ObjectUpdated", True), ("ObjectDeleted", True)]


def test_a_listener_may_ask_for_kinds() -> None:
    """It hears of objects of these kinds alone, also of those that come after it, in the order asked for."""
    made = store()
    heard: list[str] = []
    made.subscribe(lambda event, _: heard.append(f"all {type(event.object).__name__}"))
    made.apply(ObjectUpdated(pod()))
    made.subscribe(lambda event, _: heard.append(f"some {type(event.object).__name__}"), (Node, NodePool))
    for each in (pod(), node(), pool(), launched()):
        made.apply(ObjectUpdated(each))

    assert heard == [
        "all Pod",
        "all Pod",
        "all Node",
        "some Node",
        "all NodePool",
        "some NodePool",
        "all NodeClaim",
    ]


def test_things_are_found_by_name() -> None:
    """Single objects are looked up without making a view."""
    made = store(node(), launched(), pool(), pod())

    assert made.node("node-1") == node()
    assert made.claim("claim-1") == launched()
    assert made.pool("default") == pool()
    assert made.pools() == (pool(),)
    assert made.pods_on("node-1") == (pod(),)
    assert made.pods_on("node-2") == ()
    assert made.pod("default/pod-1") == pod()
    assert made.nodes_of(ID) == (node(),)
    assert made.claims_of(ID) == (launched(),)
    assert not made.nodes_of("kwok://other")
    assert ClusterState(serves=OURS).pod("default/none") is None


@pytest.mark.parametrize(
    ("found", "complete_state", "synced"),
    [
        pytest.param(launched(), True, True, id="every claim knows its machine"),
        pytest.param(launched(), False, False, id="not everything was seen yet"),
        pytest.param(claim(), True, False, id="a claim has no machine yet"),
        pytest.param(
            claim(meta={"deletionTimestamp": "2026-01-01T12:01:00Z"}), True, True, id="it goes already"
        ),
    ],
)
def test_decisions_wait_for_machines(found: NodeClaim, complete_state: bool, synced: bool) -> None:
    """The state is synced once all was seen and every claim that stays knows its machine."""
    made = store(found)
    made.complete = complete_state

    assert made.synced == synced
    assert made.unlaunched == (set() if synced or found == launched() else {"claim-1"})
    assert made.launching == len(made.unlaunched)


def test_marked_claims_leave() -> None:
    """A mark counts as leaving until it is taken back, or the claim is gone."""
    made = store(node(), complete())
    made.mark_for_deletion(["claim-1"])
    assert state_nodes(made.view())[0].is_deleting
    assert made.marked == {"claim-1"}

    made.unmark_for_deletion(["claim-1", "other"])
    assert not state_nodes(made.view())[0].is_deleting
    stamp = made.consolidation_state
    made.unmark_for_deletion(["claim-1"])
    assert made.consolidation_state == stamp
    made.mark_for_deletion(["claim-1", "unknown"])
    made.apply(ObjectDeleted(complete()))
    assert made.marked == {"unknown"}


def test_a_promise_holds_until_its_time() -> None:
    """A node is promised by its own name or by its claim's; of two promises the later counts."""
    made = store(node(), complete(), node(name="other", spec={"providerID": ""}))
    assert made.nominated(NOW) == frozenset()
    made.nominate("claim-1", NOW + timedelta(seconds=20))
    made.nominate("claim-1", NOW + timedelta(seconds=10))
    made.nominate("other", NOW + timedelta(seconds=5))

    assert made.nominated(NOW) == {"node-1", "other"}
    assert made.nominated(NOW + timedelta(seconds=15)) == {"node-1"}
    assert made.nominated(NOW + timedelta(seconds=20)) == frozenset()


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(ObjectUpdated(pod()), id="it is bound"),
        pytest.param(
            ObjectUpdated(pod(spec={"nodeName": ""}, status={"phase": "Succeeded"})), id="it has ended"
        ),
        pytest.param(ObjectDeleted(pod()), id="it is gone"),
    ],
)
def test_the_first_sight_of_a_waiting_pod_is_remembered(event: ObjectUpdated | ObjectDeleted) -> None:
    """Only the first time counts, and only while the pod waits."""
    made = store(pod(spec={"nodeName": ""}))
    assert made.acknowledge("default/pod-1", NOW) == NOW
    assert made.acknowledge("default/pod-1", NOW + timedelta(hours=1)) == NOW
    assert made.first_seen("default/pod-1") == NOW

    made.apply(event)
    assert made.first_seen("default/pod-1") is None


@pytest.mark.parametrize(
    ("before", "event", "rises"),
    [
        pytest.param((), ObjectUpdated(node()), True, id="a node comes"),
        pytest.param(
            (node(),), ObjectUpdated(node(status={"images": []})), False, id="a node's status changes"
        ),
        pytest.param((node(),), ObjectUpdated(node(ready=False)), True, id="a node is not ready"),
        pytest.param(
            (node(status={"conditions": []}),),
            ObjectUpdated(node()),
            True,
            id="a node says for the first time that it is ready",
        ),
        pytest.param((node(),), ObjectDeleted(node()), True, id="a node goes"),
        pytest.param(
            (node(ready=False),),
            ObjectUpdated(node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})),
            False,
            id="a node that is not ready is not heard of",
        ),
        pytest.param(
            (node(),), ObjectUpdated(node(spec={"unschedulable": True})), True, id="a node is cordoned"
        ),
        pytest.param(
            (node(meta={"annotations": KEEP}),),
            ObjectUpdated(node()),
            True,
            id="a node may be disrupted again",
        ),
        pytest.param((), ObjectUpdated(pod()), True, id="a pod is bound"),
        pytest.param(
            (pod(),), ObjectUpdated(pod(meta={"labels": {"a": "b"}})), False, id="a bound pod changes"
        ),
        pytest.param((pod(),), ObjectUpdated(pod(status={"phase": "Succeeded"})), True, id="a pod ends"),
        pytest.param(
            (pod(meta={"annotations": KEEP}),), ObjectUpdated(pod()), True, id="a pod may be disrupted again"
        ),
        pytest.param((pod(),), ObjectDeleted(pod()), True, id="a pod goes"),
        pytest.param((), ObjectUpdated(launched()), True, id="a claim comes"),
        pytest.param((launched(),), ObjectUpdated(launched()), False, id="a claim stays what it was"),
        pytest.param((launched(),), ObjectUpdated(complete()), True, id="a claim is complete"),
        pytest.param((launched(),), ObjectDeleted(launched()), True, id="a claim goes"),
        pytest.param((pool(),), ObjectUpdated(pool(meta={"generation": 2})), True, id="a pool changes"),
        pytest.param(
            (pool(),), ObjectUpdated(pool(ValidationSucceeded="True")), False, id="a pool's status changes"
        ),
        pytest.param((pool(),), ObjectUpdated(pool(Ready="True")), True, id="a pool is ready"),
        pytest.param((pool(),), ObjectDeleted(pool()), True, id="a pool goes"),
        pytest.param((), ObjectUpdated(overlay(1)), True, id="an overlay comes"),
        pytest.param((overlay(1),), ObjectUpdated(overlay(1)), False, id="an overlay stays what it was"),
        pytest.param((overlay(1),), ObjectUpdated(overlay(2)), True, id="an overlay changes"),
        pytest.param(
            (), ObjectUpdated(convert({"metadata": {"name": "n"}}, Namespace)), False, id="a namespace comes"
        ),
        pytest.param((CLASS,), ObjectUpdated(CLASS), False, id="a node class stays what it was"),
        pytest.param(
            (CLASS,), ObjectUpdated(replace(CLASS, ready=False)), True, id="a node class is ready no more"
        ),
        pytest.param((daemons(1),), ObjectUpdated(daemons(1)), False, id="a DaemonSet counts its pods"),
        pytest.param((daemons(1),), ObjectUpdated(daemons(2)), True, id="a DaemonSet changes"),
    ],
)
def test_the_stamp_rises_with_what_consolidation_depends_on(
    before: tuple[Resource | NodeClass, ...], event: ObjectUpdated | ObjectDeleted, rises: bool
) -> None:
    """A consolidation is worth another look only after some changes."""
    made = store(*before)
    stamp = made.consolidation_state
    made.apply(event)

    assert (made.consolidation_state > stamp) == rises


def test_a_finished_pod_takes_no_room() -> None:
    """Pods that have ended are known, but on no node."""
    made = store(node(), pod(), pod("done", status={"phase": "Succeeded"}))
    assert [each.name for each in made.view().pods_by_node["node-1"]] == ["pod-1"]

    made.apply(ObjectDeleted(pod()))
    assert not made.view().pods_by_node


def test_nodes_that_did_not_change_stay_the_same() -> None:
    """What was worked out about a node is kept until something about it changes."""
    made = store(node(), node(name="node-2", spec={"providerID": "kwok://two"}))
    first = {each.name: each for each in state_nodes(made.view())}
    made.apply(ObjectUpdated(pod()))
    second = {each.name: each for each in state_nodes(made.view())}

    assert second["node-2"] is first["node-2"]
    assert second["node-1"].pods == (pod(),)


def test_a_claim_speaks_for_itself_until_its_node_is_there() -> None:
    """The entry of a claim gives way to that of its node, and comes back if the node goes."""
    made = store(launched())
    assert [each.node for each in state_nodes(made.view())] == [None]

    made.apply(ObjectUpdated(node()))
    assert [each.name for each in state_nodes(made.view())] == ["node-1"]
    made.apply(ObjectDeleted(node()))
    assert [each.name for each in state_nodes(made.view())] == ["claim-1"]


@pytest.mark.parametrize("first", [0, 1], ids=["the claim first", "the node first"])
def test_a_claim_and_a_node_of_another_machine_may_have_one_name(first: int) -> None:
    """They are two machines, and the going of one leaves the other."""
    ours, theirs = launched(name="same"), node(name="same", spec={"providerID": "other://1"})
    made = store(*(ours, theirs)[first:], *(ours, theirs)[:first])
    found = state_nodes(made.view())
    assert [(each.node, each.claim) for each in found] == [(theirs, None), (None, ours)]

    made.apply(ObjectDeleted(theirs))
    assert [(each.node, each.claim) for each in state_nodes(made.view())] == [(None, ours)]
    made.apply(ObjectDeleted(ours))
    assert state_nodes(made.view()) == ()


def test_a_state_that_has_seen_nothing_decides_nothing() -> None:
    """Until every kind was listed the state is not synced, and nothing has changed for consolidation."""
    made = ClusterState(serves=OURS)

    assert (made.complete, made.synced, made.consolidation_state) == (False, False, 0)


def test_two_claims_of_one_machine_are_both_known() -> None:
    """A mistake of somebody is seen, and ends when one of them goes."""
    made = store(node(), launched(), launched(name="claim-2"))
    assert [each.name for each in made.claims_of(ID)] == ["claim-1", "claim-2"]

    made.apply(ObjectDeleted(launched()))
    assert [each.name for each in made.claims_of(ID)] == ["claim-2"]


@pytest.mark.parametrize("seed", range(25))
def test_piece_by_piece_is_the_same_as_at_once(seed: int) -> None:
    """After any story the joined nodes are those that a fresh look at all objects gives."""
    chance = Random(seed)  # noqa: S311  dice of a test
    made = ClusterState(serves=OURS)
    for _ in range(120):
        number = chance.randrange(4)
        provider = chance.choice(["", f"kwok://{number}"])
        named = chance.choice(["", f"node-{number}"])
        item: Resource = chance.choice(
            [
                node(name=f"node-{number}", spec={"providerID": provider}),
                claim(name=f"claim-{number}", status={"providerID": provider, "nodeName": named}),
                pod(f"pod-{chance.randrange(6)}", spec={"nodeName": named}),
            ]
        )
        made.apply(ObjectDeleted(item) if chance.random() < 1 / 3 else ObjectUpdated(item))
        if chance.random() < 0.2:
            made.mark_for_deletion([f"claim-{number}"])
        view = made.view()
        assert [_plain(each) for each in state_nodes(view)] == [
            _plain(each) for each in state_nodes(fresh(view))
        ]
        assert {name: sorted(p.key for p in pods) for name, pods in view.pods_by_node.items()} == {
            name: sorted(p.key for p in pods) for name, pods in fresh(view).pods_by_node.items()
        }


def _plain(joined: StateNode) -> tuple[object, ...]:
    """Return a joined node with its pods in an order of their own: that in which they came does not count."""
    return joined.node, joined.claim, sorted(each.key for each in joined.pods), joined.marked


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None)])
def test_a_node_class_is_read_from_a_struct_or_a_dictionary(status: str, ready: bool | None) -> None:
    """Both give the same facts; a condition that is Unknown says nothing."""
    conditions = [{"type": "Ready", "status": status, "reason": "Because", "message": "why"}]
    plain = {"metadata": {"name": "default", "generation": 3}, "status": {"conditions": conditions}}

    found = node_class(plain, *OURS[0])

    assert (found.name, found.ready, found.reason, found.generation) == ("default", ready, "Because", 3)
    assert node_class(convert(plain, KWOKNodeClass), *OURS[0]) == found


@pytest.mark.parametrize(
    ("meta", "deleting", "generation"),
    [
        pytest.param({"name": "default"}, False, 0, id="a class that was never changed"),
        pytest.param(
            {"name": "default", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            True,
            2,
            id="a class that goes",
        ),
    ],
)
def test_a_node_class_says_whether_it_goes(meta: dict[str, str], deleting: bool, generation: int) -> None:
    """A class that is being deleted launches nothing; its generation is 0 until the server counts."""
    found = node_class({"metadata": meta}, *OURS[0])

    assert (found.deleting, found.generation, found.ready) == (deleting, generation, None)
