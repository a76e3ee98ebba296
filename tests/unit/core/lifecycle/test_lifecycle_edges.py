"""What holds at the very moment at which a time is up, and what exactly is written."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.storage import VolumeAttachment
from karpenter.cloud.cloudprovider import Machine
from karpenter.core.effects import Amend, Announce, DeleteObject, Measure, RegistrationOutcome, Terminate
from karpenter.core.lifecycle.conditions import remove_finalizer, termination_mode
from karpenter.core.lifecycle.consistency import check_consistency, consistency_inputs
from karpenter.core.lifecycle.disruption_conditions import (
    INSTANCE_TYPE_DRIFT_AGE,
    disruption_conditions,
    drift_reason,
    within_consolidate_after,
)
from karpenter.core.lifecycle.do_not_disrupt import do_not_disrupt_events
from karpenter.core.lifecycle.garbagecollection import MIN_MACHINE_AGE, machines_without_claim
from karpenter.core.lifecycle.health import repair
from karpenter.core.lifecycle.interruption import BANDS, InterruptionHistory
from karpenter.core.lifecycle.liveness import LivenessTimeouts, reconcile_nodeclaim
from karpenter.core.lifecycle.nodepool import nodepool_resources
from karpenter.core.lifecycle.podevents import pod_event_node
from karpenter.core.lifecycle.registrationhealth import history_of_condition, is_outdated
from karpenter.core.lifecycle.termination import (
    TerminatingNode,
    finalize_nodeclaim,
    terminate_node,
    with_disrupted_taint,
)
from karpenter.core.lifecycle.terminator import STUCK_AFTER, drain, is_overdue
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import NodeClass
from tests.unit.core.disruption.clusters import MARKET
from tests.unit.core.lifecycle.objects import (
    BORN,
    ID,
    NOW,
    at,
    claim,
    complete,
    conditions,
    launched,
    node,
    pod,
    pool,
    told,
)

if TYPE_CHECKING:
    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim

SECOND = timedelta(seconds=1)


def test_only_our_finalizer_goes() -> None:
    """The finalizers of others stay on an object that is let go."""
    found = remove_finalizer(claim(meta={"finalizers": ["a/b", labels.TERMINATION_FINALIZER]}), "it is gone")

    assert found.changes["metadata"]["finalizers"] == ["a/b"]


@pytest.mark.parametrize(
    ("grace", "mode"),
    [("1s", "eventual"), ("0s", "forceful")],
    ids=["a second is a grace period", "none at all is none"],
)
def test_a_short_grace_period_is_one(grace: str, mode: str) -> None:
    """Every grace period above zero leaves time to drain."""
    assert termination_mode(claim(spec={"terminationGracePeriod": grace})) == mode


@pytest.mark.parametrize(
    ("asked", "has", "is_short"),
    [
        pytest.param({"cpu": "1"}, {}, True, id="what was asked for is missing"),
        pytest.param({"cpu": "1"}, {"cpu": "9"}, False, id="a tenth less is still enough"),
        pytest.param({"cpu": "1"}, {"cpu": "8900m"}, True, id="more than a tenth less is not"),
        pytest.param({"gpu": "1"}, {}, True, id="the only one is missing"),
        pytest.param({"cpu": "0"}, {}, False, id="nothing of it was asked for"),
        pytest.param({"memory": "1Gi"}, {}, False, id="what was never expected is not missed"),
    ],
)
def test_a_node_is_compared_with_what_was_bought(
    asked: dict[str, str], has: dict[str, str], is_short: bool
) -> None:
    """A node may have a tenth less than its machine should."""
    found = complete(
        spec={"resources": {"requests": asked}},
        status={"capacity": {"cpu": "10", "gpu": "1"}, "providerID": ID},
    )
    due = check_consistency(found, [node(status={"capacity": has})], NOW)

    assert any(isinstance(each, Announce) for each in due.effects) == is_short
    if is_short and "cpu" in asked and not has:
        (said,) = (each for each in due.effects if isinstance(each, Announce))
        assert "has 0 of cpu where 10 was expected (0.0%)" in said.message


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        pytest.param([("a", "NoSchedule")], ["a", labels.DISRUPTED], id="other taints stay"),
        pytest.param(
            [(labels.DISRUPTED, "NoExecute")], [labels.DISRUPTED], id="another form of it is replaced"
        ),
    ],
)
def test_a_node_is_closed_beside_its_other_taints(taints: list[tuple[str, str]], expected: list[str]) -> None:
    """Only a taint of the same key gives way to the one that closes a node."""
    found = node(spec={"taints": [{"key": key, "effect": effect} for key, effect in taints]})
    closed = with_disrupted_taint(found)

    assert [taint.key for taint in closed] == expected
    assert closed[-1].effect == "NoSchedule"


@pytest.mark.parametrize(
    ("now", "text"),
    [(NOW - SECOND, "until"), (NOW, "elapsed"), (NOW + SECOND, "elapsed")],
    ids=["before", "at the moment", "after"],
)
def test_the_protection_of_a_pod_ends(now: Any, text: str) -> None:
    """A protection for a time is over at the moment at which the time is."""
    found = pod(meta={"annotations": {labels.DO_NOT_DISRUPT: "2m"}}, status={"startTime": at(BORN)})
    due = do_not_disrupt_events(found, now)

    assert (due.again is None) == (text == "elapsed")


@pytest.mark.parametrize("early", [True, False], ids=["a second before", "at the moment"])
def test_a_machine_without_a_claim_ends_at_its_age(early: bool) -> None:
    """A machine that has no claim is left alone until it is old enough, and not longer."""
    machine = Machine(
        provider_id=ID,
        claim_uid="other",
        labels={},
        capacity={},
        allocatable={},
        created=BORN,
        deleting=False,
    )
    now = BORN + MIN_MACHINE_AGE - (SECOND if early else timedelta(0))

    assert bool(machines_without_claim([machine], [], now)) != early


class _Policy(NamedTuple):
    condition_type: str = "Ready"
    condition_status: str = "False"
    toleration: timedelta = timedelta(minutes=2)


def broken(number: int, *, is_broken: bool = True) -> Any:
    """Return a node of the pool that is broken since its birth, or is not."""
    held = {"type": "Ready", "status": "False" if is_broken else "True", "lastTransitionTime": at(BORN)}
    meta = {"labels": {labels.NODEPOOL: "default"}}
    return node(name=f"node-{number}", meta=meta, status={"conditions": [held]})


@pytest.mark.parametrize(
    ("of", "count", "repaired"),
    [(5, 1, True), (6, 2, True), (5, 2, False), (10, 2, True), (10, 3, False), (101, 21, True)],
    ids=["one of five", "two of six", "two of five", "two of ten", "three of ten", "21 of 101"],
)
def test_a_fifth_of_a_pool_may_be_broken(of: int, count: int, repaired: bool) -> None:
    """Nodes are repaired while at most a fifth of their pool is broken, rounded up."""
    nodes = [broken(number, is_broken=number < count) for number in range(of)]
    due = repair(nodes[0], [complete()], nodes, [_Policy()], NOW)

    assert any(isinstance(each, DeleteObject) for each in due.effects) == repaired


def test_a_broken_node_is_repaired_at_the_moment() -> None:
    """At the end of its toleration a broken node goes; a termination time of now is not written again."""
    found = complete(meta={"annotations": {labels.TERMINATION_TIMESTAMP: at(NOW)}})
    nodes = [broken(0)]

    assert repair(nodes[0], [found], nodes, [_Policy()], NOW - SECOND).again == 1.0
    due = repair(nodes[0], [found], nodes, [_Policy()], NOW)
    assert not any(isinstance(each, Amend) for each in due.effects)
    assert any(isinstance(each, DeleteObject) for each in due.effects)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"cpu": "1", "nodes": "1"}, None, id="everything is as it was"),
        pytest.param({"cpu": "1", "gone": "4", "nodes": "1"}, {"gone": None}, id="a resource that is gone"),
    ],
)
def test_the_resources_of_a_pool_are_written(
    status: dict[str, str], expected: dict[str, None] | None
) -> None:
    """The write names what has changed, with nothing for what is gone."""
    written = nodepool_resources(pool(), {"cpu": 1000, "nodes": 1})[0]
    assert isinstance(written, Amend)
    before = {**written.status["resources"], **{k: v for k, v in status.items() if k == "gone"}}
    again = nodepool_resources(pool(status={"resources": before, "nodes": 1}), {"cpu": 1000, "nodes": 1})

    assert written.status["nodes"] == 1
    assert nodepool_resources(pool(), {})[0].status["nodes"] == 0  # type: ignore[union-attr]
    if expected is None:
        assert not again
        other = nodepool_resources(pool(status={"resources": before, "nodes": 2}), {"cpu": 1000, "nodes": 1})
        assert other[0].status["nodes"] == 1  # type: ignore[union-attr]
    else:
        assert again[0].status["resources"] == {**written.status["resources"], **expected}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("deleted", "now", "overdue"),
    [
        pytest.param(None, NOW - 30 * SECOND, False, id="its grace period just fits"),
        pytest.param(None, NOW - 29 * SECOND, True, id="it would be late by a second"),
        pytest.param(NOW, NOW, False, id="it is going, and is in time"),
        pytest.param(NOW + SECOND, NOW, True, id="it is going, and too late"),
    ],
)
def test_a_pod_is_overdue_when_it_would_be_late(deleted: Any, now: Any, overdue: bool) -> None:
    """A pod that ends at the termination time itself is not late."""
    meta = {"deletionTimestamp": at(deleted)} if deleted else {}

    assert is_overdue(pod(meta=meta), NOW, now) == overdue


@pytest.mark.parametrize("late", [False, True], ids=["at the moment", "a second later"])
def test_a_pod_that_is_stuck_is_waited_for_until_then(late: bool) -> None:
    """A pod that should be gone is waited for until it counts as stuck."""
    found = pod(meta={"deletionTimestamp": at(BORN)})

    assert drain([found], BORN + STUCK_AFTER + (SECOND if late else timedelta(0))).is_done == late


@pytest.mark.parametrize(
    ("key", "effect", "warned"),
    [
        pytest.param("karpenter.sh/unregistered", "NoExecute", False, id="the taint is there"),
        pytest.param("karpenter.sh/unregistered", "NoSchedule", True, id="with another effect"),
        pytest.param("other", "NoExecute", True, id="another taint"),
    ],
)
def test_a_node_should_join_with_its_taint(key: str, effect: str, warned: bool) -> None:
    """A node that joins without the taint of those that are not registered is told of; it registers still."""
    joined = node(spec={"taints": [{"key": key, "effect": effect}]})
    due = reconcile_nodeclaim(launched(Registered="Unknown", Initialized="Unknown"), [joined], NOW)
    writes = [each for each in due.effects if isinstance(each, Amend) and each.kind == "Node"]

    assert any(isinstance(each, Announce) for each in due.effects) == warned
    (owner,) = writes[0].changes["metadata"]["ownerReferences"]
    assert owner["blockOwnerDeletion"] is True
    assert writes[0].changes["metadata"]["labels"][labels.REGISTERED] == "true"
    assert [each.healthy for each in due.effects if isinstance(each, RegistrationOutcome)] == [True]


def test_a_node_whose_registration_waits_is_not_registered() -> None:
    """While a registration hook is pending the node is synced, and does not count as registered."""
    due = reconcile_nodeclaim(
        launched(Registered="Unknown", Initialized="Unknown"), [node()], NOW, holds=["hook"]
    )
    writes = [each for each in due.effects if isinstance(each, Amend) and each.kind == "Node"]

    assert labels.REGISTERED not in writes[0].changes["metadata"]["labels"]
    assert not any(isinstance(each, RegistrationOutcome) for each in due.effects)


@pytest.mark.parametrize(
    ("registered", "taints", "expected"),
    [
        pytest.param({}, [], ["t", "starting"], id="it joins"),
        pytest.param(
            {labels.REGISTERED: "true"},
            [{"key": labels.UNREGISTERED, "effect": "NoExecute"}],
            ["t", "starting"],
            id="it joins with the label",
        ),
        pytest.param(
            {labels.REGISTERED: "true"}, [], ["t"], id="it was registered, and the claim does not know"
        ),
    ],
)
def test_startup_taints_are_put_on_a_node_once(
    registered: dict[str, str], taints: list[dict[str, str]], expected: list[str]
) -> None:
    """An operator that was killed between its two writes does not bring a startup taint back."""
    found = launched(
        spec={
            "taints": [{"key": "t", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "starting", "effect": "NoSchedule"}],
        },
        Registered="Unknown",
        Initialized="Unknown",
    )
    due = reconcile_nodeclaim(found, [node(meta={"labels": registered}, spec={"taints": taints})], NOW)
    (write,) = (each for each in due.effects if isinstance(each, Amend) and each.kind == "Node")

    assert [taint["key"] for taint in write.changes["spec"]["taints"]] == expected


@pytest.mark.parametrize("left", [0.0, 0.5], ids=["its time is up", "half a second is left"])
def test_a_claim_is_launched_until_its_time_is_up(left: float) -> None:
    """A claim is given up at the moment at which its time is up, and its pool hears that it failed."""
    timeouts = LivenessTimeouts(launch=NOW - BORN + timedelta(seconds=left))
    due = reconcile_nodeclaim(claim(Launched="Unknown"), [], NOW, timeouts=timeouts)
    outcomes = [each.healthy for each in due.effects if isinstance(each, RegistrationOutcome)]

    assert any(isinstance(each, DeleteObject) for each in due.effects) == (left == 0.0)
    assert outcomes == ([False] if left == 0.0 else [])


@pytest.mark.parametrize(
    ("born", "expected"),
    [(NOW, ""), (NOW + SECOND, "node-1")],
    ids=["born when we started", "born after that"],
)
def test_pods_that_were_missed_are_those_born_since(born: Any, expected: str) -> None:
    """A bound pod that is seen for the first time came while we ran only if it is younger than that."""
    assert pod_event_node(pod(meta={"creationTimestamp": at(born)}), None, NOW) == expected


@pytest.mark.parametrize(
    ("rate", "band"),
    [
        pytest.param(BANDS[0], BANDS[0], id="exactly a band"),
        pytest.param(BANDS[0] * 1.01, BANDS[1], id="above a band"),
        pytest.param(BANDS[-1] * 2, BANDS[-1], id="above all"),
        pytest.param(0.01, BANDS[0], id="just remembered"),
        pytest.param(0.009, None, id="forgotten"),
    ],
)
def test_interruptions_are_counted_in_bands(rate: float, band: float | None) -> None:
    """Rates are rounded up to a band; small ones are forgotten; a clock that is behind changes nothing."""
    history = InterruptionHistory({("type", "zone"): rate}, NOW)

    assert history.bands(NOW).get(("type", "zone")) == band
    assert history.bands(NOW - timedelta(days=30)) == history.bands(NOW)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param({"NodeRegistrationHealthy": "True", "Ready": "False"}, True, id="healthy"),
        pytest.param({"Ready": "True", "NodeRegistrationHealthy": "False"}, False, id="not healthy"),
        pytest.param({"Ready": "True"}, None, id="not known"),
    ],
)
def test_the_health_of_a_pool_outlives_a_restart(held: dict[str, str], expected: bool | None) -> None:
    """What a restart forgets is read from the condition of the pool, and from no other one."""
    history = history_of_condition(pool(**dict[str, Any](held)))

    assert history.is_healthy is expected
    if expected:
        assert history.after(outcome=False).is_healthy


@pytest.mark.parametrize(
    ("generation", "observed", "outdated"),
    [
        pytest.param(1, 4, False, id="nothing has changed"),
        pytest.param(2, 4, True, id="the pool has changed"),
        pytest.param(1, 5, True, id="its class has changed"),
    ],
)
def test_history_begins_anew_with_a_new_generation(generation: int, observed: int, outdated: bool) -> None:
    """The health of registrations belongs to a generation of the pool and of its class."""
    held = [
        *conditions(generation=9, Ready="True"),
        *conditions(generation=generation, NodeRegistrationHealthy="True"),
    ]
    found = pool(status={"conditions": held, "nodeClassObservedGeneration": observed})
    node_class = NodeClass(group="g", kind="k", name="default", generation=4)

    assert is_outdated(found, node_class) == outdated


@pytest.mark.parametrize("early", [True, False], ids=["a second before", "at the moment"])
def test_a_node_is_consolidatable_at_the_moment(early: bool) -> None:
    """The time of consolidateAfter is over when that time has passed since the last pod event."""
    found = complete(status={"lastPodEventTime": at(BORN)})
    waits = pool(spec={"disruption": {"consolidateAfter": "2m"}})

    assert within_consolidate_after(found, waits, NOW - (SECOND if early else timedelta(0))) == early


@pytest.mark.parametrize("early", [True, False], ids=["a second before", "at the moment"])
def test_types_that_are_not_sold_any_longer_are_drift_after_a_while(early: bool) -> None:
    """A young claim has not drifted though its instance type is not in the catalog."""
    now = BORN + INSTANCE_TYPE_DRIFT_AGE - (SECOND if early else timedelta(0))

    assert drift_reason(complete(), pool(), MARKET, now) == ("" if early else "InstanceTypeNotFound")


HASHES = {labels.NODEPOOL_HASH: "1", labels.NODEPOOL_HASH_VERSION: "v1"}


@pytest.mark.parametrize(
    ("was", "ours", "expected"),
    [
        pytest.param("Unknown", "2", "NodePoolDrifted", id="the template has changed"),
        pytest.param("True", "1", None, id="what was drift is none any longer"),
    ],
)
def test_drift_is_computed_anew(was: str, ours: str, expected: str | None) -> None:
    """The condition of before does not decide whether a claim has drifted."""
    found = complete(meta={"annotations": {**HASHES, labels.NODEPOOL_HASH: ours}}, Drifted=was)
    due = disruption_conditions(found, pool(meta={"annotations": HASHES}), Catalog(types=()), NOW)
    (write,) = due.effects
    assert isinstance(write, Amend)

    assert {each["type"]: each["reason"] for each in write.status["conditions"]}.get("Drifted") == expected


@pytest.mark.parametrize(
    ("now", "waits"),
    [(NOW, True), (NOW + SECOND, False)],
    ids=["at the termination time", "a second later"],
)
def test_volumes_are_waited_for_until_the_termination_time(now: Any, waits: bool) -> None:
    """A volume that is attached holds a machine until its termination time has passed."""
    attached = convert({"metadata": {"name": "va"}, "spec": {"nodeName": "node-1"}}, VolumeAttachment)
    meta = {"deletionTimestamp": at(BORN), "finalizers": [labels.TERMINATION_FINALIZER]}
    found = complete(
        meta={**meta, "annotations": {labels.TERMINATION_TIMESTAMP: at(NOW)}},
        Drained="True",
    )
    due = terminate_node(TerminatingNode(node=node(meta=meta), claim=found, attachments=(attached,)), now)

    assert any(isinstance(each, Announce) for each in due.effects) == waits


@pytest.mark.parametrize(
    ("registered", "nodes", "expected"),
    [
        pytest.param("True", 1, DeleteObject, id="its node goes first"),
        pytest.param("True", 0, Terminate, id="it has no node any longer"),
        pytest.param("Unknown", 1, Terminate, id="it was never registered"),
    ],
)
def test_what_goes_first(registered: str, nodes: int, expected: type) -> None:
    """The node of a registered claim is drained before its machine ends; else the machine ends at once."""
    found = launched(meta={"deletionTimestamp": at(BORN)}, Registered=registered)
    due = finalize_nodeclaim(found, [node()] * nodes, NOW)

    assert [type(each) for each in due.effects] == [expected]


def test_the_end_of_a_claim_is_measured() -> None:
    """How long a claim took to go counts from when its deletion was asked for."""
    due = finalize_nodeclaim(claim(meta={"deletionTimestamp": at(BORN)}), [], NOW)

    assert [each.value for each in due.effects if isinstance(each, Measure)] == [120.0]


@pytest.mark.parametrize(
    ("asked", "has", "expected"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "4"}, "Initialized", id="everything is there"),
        pytest.param({"cpu": "1", "gpu": "0"}, {"cpu": "4"}, "Initialized", id="nothing of it was asked for"),
        pytest.param({"gpu": "1"}, {"cpu": "4"}, "ResourceNotRegistered", id="a resource is missing"),
    ],
)
def test_a_node_has_what_was_asked_for(asked: dict[str, str], has: dict[str, str], expected: str) -> None:
    """A node is initialized once it offers every resource that its claim asks for."""
    found = launched(spec={"resources": {"requests": asked}}, Registered="True", Initialized="Unknown")
    joined = node(meta={"labels": {labels.REGISTERED: "true"}}, status={"allocatable": has})
    due = reconcile_nodeclaim(found, [joined], NOW)
    writes = [each for each in due.effects if isinstance(each, Amend) and each.kind == "NodeClaim"]

    assert told(writes[0].status["conditions"], "Initialized")[1] == expected


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param(complete(), complete(meta={"resourceVersion": "8"}), True, id="a claim written again"),
        pytest.param(complete(), complete(Drifted="True"), True, id="a claim that drifted"),
        pytest.param(complete(), complete(status={"imageID": "ami-1"}), True, id="a claim with an image"),
        pytest.param(launched(), complete(), False, id="a claim that was initialized"),
        pytest.param(complete(), complete(ConsistentStateFound="True"), False, id="a claim that was checked"),
        pytest.param(complete(), complete(meta={"labels": {}}), False, id="a claim without labels"),
        pytest.param(complete(), complete(meta={"uid": "other"}), False, id="another claim"),
        pytest.param(
            complete(), complete(meta={"deletionTimestamp": at(NOW)}), False, id="a claim that goes"
        ),
        pytest.param(complete(), complete(spec={"expireAfter": "1h"}), False, id="a claim of another spec"),
        pytest.param(complete(), complete(status={"providerID": "kwok://two"}), False, id="another machine"),
        pytest.param(complete(), complete(status={"capacity": {"cpu": "1"}}), False, id="a larger machine"),
        pytest.param(node(), node(ready=False), True, id="a node that is not ready"),
        pytest.param(node(), node(meta={"labels": {"a": "b"}}), False, id="a node with labels"),
        pytest.param(node(), node(meta={"uid": "other"}), False, id="another node"),
        pytest.param(node(), node(spec={"providerID": "kwok://two"}), False, id="a node of another machine"),
        pytest.param(node(), node(status={"capacity": {"cpu": "1"}}), False, id="a larger node"),
    ],
)
def test_what_consistency_depends_on(before: NodeClaim | Node, after: NodeClaim | Node, same: bool) -> None:
    """Most news of a claim and its node leave what was checked as it was."""
    assert (consistency_inputs(before) == consistency_inputs(after)) is same
