"""One decision of the provisioner: claims to create, nodes to promise, and what to tell."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.labels import INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, TERMINATION_FINALIZER, ZONE
from karpenter.api.meta import convert
from karpenter.api.pod import PodTemplate
from karpenter.core.effects import Announce, Nominate
from karpenter.core.model.catalog import Catalog
from karpenter.core.provisioning.nomination import Nomination
from karpenter.core.provisioning.provisioner import (
    ProvisioningDecision,
    ProvisioningMemory,
    ProvisioningSettings,
    creation_problem,
    is_provisionable,
    nomination_events,
    over_limit,
    provision,
)
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.encode.preferences import MOST_PREFERENCES
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.cluster import view_of
from karpenter_local.testing.builders import RESERVATION, instance_type
from karpenter_local.testing.builders.machines import CORES
from tests.unit.core.lifecycle.objects import CLASS_LABEL, NOW, at, complete, launched, node, pod, pool
from tests.unit.core.provisioning.test_provisioner_demand import waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKET = Catalog(
    types=(instance_type("small", cpu=2), instance_type("large", cpu=8)),
    well_known=frozenset({CORES, RESERVATION}),
)
UNTIL = NOW + timedelta(seconds=20)
ASKS: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}
HALF: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}
HUGE: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "900"}}}]}
ROOM = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "4"}}
OURS = {REGISTERED: "true", INITIALIZED: "true", NODEPOOL: "default"}


def decide(
    *objects: Any,
    catalog: Catalog = MARKET,
    nominations: Mapping[str, Nomination] | None = None,
    **settings: Any,
) -> ProvisioningDecision:
    memory = ProvisioningMemory(nominations=nominations or {})
    return provision(view_of(objects), catalog, memory, now=NOW, settings=ProvisioningSettings(**settings))


def reasons(decision: ProvisioningDecision) -> list[str]:
    return [each.reason for each in decision.effects if isinstance(each, Announce)]


def test_without_a_pending_pod_nothing_is_done() -> None:
    """Without a pod that waits there is no decision."""
    assert decide(pool(), pod()) == ProvisioningDecision()


def test_a_waiting_pod_gets_a_claim() -> None:
    """The claim carries all that is needed to launch its machine and to know it again."""
    found = pool(
        template={
            "metadata": {"labels": {"team": "web"}, "annotations": {"note": "yes"}},
            "spec": {
                "expireAfter": "48h",
                "terminationGracePeriod": "30s",
                "taints": [{"key": "t", "effect": "NoSchedule"}],
                "requirements": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
            },
        }
    )
    pods = waiting(**ASKS, tolerations=[{"operator": "Exists"}])
    decision = decide(found, pods)
    (effect,) = decision.claims
    claim = effect.claim

    assert effect.pods == ("default/waits",)
    assert claim.metadata.generate_name == "default-"
    assert claim.metadata.labels == {"team": "web", "tier": "a", NODEPOOL: "default", CLASS_LABEL: "default"}
    assert claim.metadata.annotations["note"] == "yes"
    assert claim.metadata.finalizers == (TERMINATION_FINALIZER,)
    owner = claim.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid, owner.block_owner_deletion) == (
        "NodePool",
        "default",
        "pool-uid",
        True,
    )
    assert (claim.spec.expire_after, claim.spec.termination_grace_period) == ("48h", "30s")
    assert [taint.key for taint in claim.spec.taints] == ["t"]
    assert claim.spec.resources.requests == {"cpu": "1", "pods": "1"}
    by_key = {each.key: each for each in claim.spec.requirements}
    assert set(by_key[INSTANCE_TYPE].values) == {"small", "large"}
    assert (by_key[CLASS_LABEL].operator, by_key[CLASS_LABEL].values) == ("In", ("default",))
    assert (decision.considered, decision.ignored) == (1, ())


def test_pods_that_fit_on_a_node_are_promised_it() -> None:
    """No machine is launched for a pod that has room already; node and pod learn of each other."""
    existing = node(meta={"labels": OURS}, status=ROOM)
    decision = decide(pool(), existing, complete(), waiting(**ASKS))
    promise, announced = decision.effects

    assert not decision.claims
    assert promise == Nominate(node="claim-1", until=UNTIL, because="1 pods that wait fit on it")
    assert isinstance(announced, Announce)
    assert announced.message.endswith("nodeclaim/claim-1 and node/node-1.")
    assert (decision.starting, decision.places) == ({}, {"default/waits": "default"})


def test_machines_on_their_way_and_nodes_of_others_take_pods_too() -> None:
    """A claim without a node is promised by its own name, and so is a node without a claim."""
    on_its_way = complete(status={"providerID": "kwok://one", **ROOM})
    first = decide(pool(), on_its_way, waiting(**ASKS))
    second = decide(pool(), node(status=ROOM), waiting(**ASKS))

    assert [each.node for each in first.effects if isinstance(each, Nominate)] == ["claim-1"]
    assert [each.node for each in second.effects if isinstance(each, Nominate)] == ["node-1"]


def test_a_node_waits_for_pods_that_have_not_left_theirs_yet() -> None:
    """A node that was launched for pods of a deleted node stays nominated while they are still there."""
    gone = complete(meta={"deletionTimestamp": at(NOW)})
    coming = launched(name="claim-2", status={**ROOM, "providerID": "kwok://two"})
    stays = pod(spec={"nodeName": "node-1", **ASKS})

    found = decide(pool(), node(), gone, coming, stays, nominations={stays.key: Nomination("claim-2", NOW)})

    assert found.effects == (
        Nominate(node="claim-2", until=UNTIL, because="pods of nodes that leave are to come"),
    )
    assert not found.claims


def test_a_pod_without_a_place_learns_why() -> None:
    """What was turned away and what nothing can serve is told; without a usable pool only the former."""
    refusals = waiting("odd", nodeSelector={"kubernetes.io/hostname": "x"})
    refused = decide(pool(), refusals, waiting(**HUGE))
    unready = decide(pool(Ready="False"), waiting(**HUGE))

    assert reasons(refused) == ["FailedScheduling"] * 2
    assert len(refused.ignored) == 1
    assert reasons(unready) == []


@pytest.mark.parametrize(
    ("count", "policy", "expected"),
    [
        pytest.param(MOST_PREFERENCES, "Respect", [], id="as many as are considered"),
        pytest.param(MOST_PREFERENCES + 1, "Respect", ["PreferencesIgnored"], id="one more"),
        pytest.param(MOST_PREFERENCES + 1, "Ignore", [], id="preferences are left out anyway"),
    ],
)
def test_a_pod_with_too_many_preferences_is_told(
    count: int, policy: Literal["Respect", "Ignore"], expected: list[str]
) -> None:
    """A pod of which not every preference is considered gets a place, and an Event that says so."""
    terms = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{each}", "operator": "Exists"}]}}
        for each in range(count)
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}

    found = decide(pool(), waiting(**ASKS, affinity=affinity), options=Options(preferences=policy))

    assert reasons(found) == expected
    assert len(found.claims) == 1


def test_a_pool_that_nothing_satisfies_is_told() -> None:
    """A pool whose requirements leave nothing to buy says so."""
    template = {"spec": {"requirements": [{"key": INSTANCE_TYPE, "operator": "In", "values": ["none"]}]}}
    sold_out = Catalog(types=(instance_type("small", sold=()),))

    assert "NoCompatibleInstanceTypes" in reasons(decide(pool(template=template), waiting(**ASKS)))
    assert "NoCompatibleInstanceTypes" in reasons(decide(pool(), waiting(**ASKS), catalog=sold_out))


@pytest.mark.parametrize(
    ("least", "policy", "told"),
    [
        pytest.param(2, "Strict", False, id="as many as there are"),
        pytest.param(3, "Strict", True, id="more than there are"),
        pytest.param(3, "BestEffort", False, id="more than there are, if that can be had"),
    ],
)
def test_a_pool_that_wants_too_much_choice_is_told(
    least: int, policy: Literal["Strict", "BestEffort"], told: bool
) -> None:
    """A pool with minValues that nothing satisfies says which, unless they are only a wish."""
    requirement = {"key": INSTANCE_TYPE, "operator": "Exists", "minValues": least}
    choosy = pool(template={"spec": {"requirements": [requirement]}})
    decision = decide(choosy, waiting(**(ASKS if least > 2 else HUGE)), options=Options(min_values=policy))
    found = [
        each.message
        for each in decision.effects
        if isinstance(each, Announce) and each.reason == "NoCompatibleInstanceTypes"
    ]

    assert bool(found) == told
    assert all(f"minValues: {INSTANCE_TYPE} has 2 of 3" in each for each in found)


def test_pods_of_a_buffer_are_not_nominated() -> None:
    """Pods that stand for room are placed, but no Event tells of them."""
    template = {"metadata": {"name": "t", "namespace": "default"}, "template": {"spec": ASKS}}
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 1}
    buffer = {"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "spec": spec}
    room = [convert(template, PodTemplate), convert(buffer, CapacityBuffer)]
    existing = node(meta={"labels": OURS}, status=ROOM)
    placed = decide(pool(), existing, complete(), *room, policy=SchedulingPolicy(buffers=True))
    unplaced = decide(pool(spec={"limits": {"cpu": "0"}}), *room, policy=SchedulingPolicy(buffers=True))

    assert placed.memory.buffered == {"node-1", "claim-1"}
    assert (placed.buffers, unplaced.buffers) == ({"default/b": True}, {"default/b": False})
    assert placed.effects == ()
    assert "FailedScheduling" not in reasons(unplaced)
    assert (placed.places, unplaced.refused) == ({}, frozenset())


def test_only_nodes_with_room_for_a_buffer_are_remembered() -> None:
    """A node beside it, of which nothing was asked, is empty; a pod that waits is promised its place."""
    template = {"metadata": {"name": "t", "namespace": "default"}, "template": {"spec": ASKS}}
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 1}
    buffer = {"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "spec": spec}
    room = [convert(template, PodTemplate), convert(buffer, CapacityBuffer)]
    tight = {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "1"}}
    nodes = [
        each
        for name in ("a", "b", "c")
        for each in (
            node(name=name, meta={"labels": OURS}, spec={"providerID": f"kwok://{name}"}, status=tight),
            complete(
                name=f"claim-{name}", status={"providerID": f"kwok://{name}", "nodeName": name, **tight}
            ),
        )
    ]

    found = decide(pool(), *nodes, *room, waiting(**ASKS), policy=SchedulingPolicy(buffers=True))

    (buffered,) = (name for name in found.memory.buffered if not name.startswith("claim-"))
    (promised,) = (each.node for each in found.effects if isinstance(each, Nominate))
    assert found.memory.buffered == {buffered, f"claim-{buffered}"}
    assert promised.removeprefix("claim-") != buffered
    assert list(found.places) == ["default/waits"]


def test_a_decision_ends_when_it_is_told_to() -> None:
    """The stop of the settings counts, or that of the options; pods that were not reached are refused."""
    first = decide(pool(), waiting(**ASKS), stop=lambda: True)
    second = decide(pool(), waiting(**ASKS), options=Options(stop=lambda: True))
    neither = decide(pool(), waiting(**ASKS))

    assert [each.plan.complete for each in (first, second, neither)] == [False, False, True]


def test_a_claim_for_a_buffer_is_remembered_from_its_creation() -> None:
    """Its node is not empty when it joins, though no decision has seen it yet."""
    memory = ProvisioningMemory(buffered=frozenset({"node-7"}))

    assert memory.with_claim(complete(), [], NOW, is_buffered=True).buffered == {"node-7", "claim-1"}
    assert memory.with_claim(complete(), [], NOW).buffered == {"node-7"}


def test_pods_of_a_new_claim_are_told_its_name() -> None:
    """Once the claim has a name its pods learn it, and why it is that one."""
    pods = {"default/waits": waiting()}
    told = nomination_events(complete(), pods, {}) + nomination_events(
        complete(), pods, {"default/waits": "it is cheap"}
    )

    assert [each.message for each in told if isinstance(each, Announce)] == [
        "Pod should schedule on nodeclaim/claim-1.",
        "Pod should schedule on nodeclaim/claim-1: it is cheap.",
    ]


def test_a_limit_that_is_passed_is_named() -> None:
    """Usage up to the limit is fine; beyond it no claim is created."""
    limited = pool(spec={"limits": {"cpu": "4", "memory": "1Gi"}})

    assert over_limit(limited, {"cpu": 4000, "memory": 2**30}) == ""
    assert over_limit(limited, {"cpu": 4001}) == "NodePool default has 4001m of cpu and its limit is 4"
    assert over_limit(pool(spec={"limits": {"gpu": "0"}}), {}) == ""


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param([("PodScheduled", "Unschedulable")], True, id="no node was found"),
        pytest.param([("PodScheduled", "SchedulingGated")], False, id="it may not be scheduled yet"),
        pytest.param([("Other", "Unschedulable")], False, id="another condition says so"),
    ],
)
def test_pods_that_are_provisioned_for(held: list[tuple[str, str]], expected: bool) -> None:
    """A pod counts once kube-scheduler has found no node for it."""
    conditions = [{"type": kind, "status": "False", "reason": reason} for kind, reason in held]
    found = pod(spec={"nodeName": ""}, status={"phase": "Pending", "conditions": conditions})

    assert is_provisionable(found) == expected


def test_a_claim_has_no_labels_that_the_cloud_gives() -> None:
    """A label that the machine brings along is a requirement of its claim, and not a label."""
    (effect,) = decide(pool(), waiting(**ASKS, nodeSelector={INSTANCE_TYPE: "small"})).claims

    assert effect.claim.metadata.labels.keys() == {NODEPOOL, CLASS_LABEL}


def test_pods_keep_the_places_that_they_were_given() -> None:
    """A pod that was promised a place is not looked at again; another finds only the room beside it."""
    room = {"cpu": "1500m", "memory": "8Gi", "pods": "10"}
    machine = launched(status={"allocatable": room, "capacity": room})
    cluster = [pool(), machine, waiting("first", **ASKS), waiting("second", **ASKS)]
    there = Nomination("claim-1", NOW)

    free = decide(*cluster)
    assert sorted(free.starting.values()) == ["claim-1"]
    assert len(free.claims) == 1
    assert set(free.memory.nominations.values()) == {there}

    held = decide(*cluster, nominations={"default/first": there, "default/gone": there})
    assert [each.pods for each in held.claims] == [("default/second",)]
    assert held.starting == {}
    assert held.memory.nominations == {"default/first": there}
    assert sum(held.zones.values()) == 2

    alone = decide(pool(), machine, waiting("first", **ASKS), nominations={"default/first": there})
    assert (alone.considered, alone.claims, sum(alone.zones.values())) == (0, (), 1)
    assert alone.memory.nominations == {"default/first": there}

    both = decide(*cluster, nominations={"default/first": there, "default/second": there})
    assert sorted(both.starting.values()) == ["claim-1"]


@pytest.mark.parametrize(
    ("spread", "nominate", "kept"),
    [
        pytest.param("", True, True, id="it is told to kube-scheduler"),
        pytest.param("", False, False, id="nothing is"),
        pytest.param("ScheduleAnyway", True, True, id="the pod should be spread"),
        pytest.param("DoNotSchedule", True, False, id="the pod must be spread"),
    ],
)
def test_a_place_on_a_running_node_is_kept_where_kube_scheduler_is_told(
    spread: str, nominate: bool, kept: bool
) -> None:
    """Otherwise it may put the pod anywhere, and no other pod should wait for that."""
    rules = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": spread}] if spread else []
    existing = node(meta={"labels": {**OURS, ZONE: "zone-a"}}, status=ROOM)
    found = waiting(**ASKS, topologySpreadConstraints=rules)
    decision = decide(pool(), existing, complete(), found, nominate=nominate)

    assert decision.places == {"default/waits": "default"}
    assert decision.memory.nominations == ({"default/waits": Nomination("claim-1", NOW)} if kept else {})


def test_a_claim_is_not_created_where_its_pool_is_gone_or_full() -> None:
    """What has changed since the decision counts, for pods and for replacements."""
    (effect,) = decide(pool(), waiting(**ASKS)).claims

    assert creation_problem(effect, view_of([pool()])) == ""
    assert creation_problem(effect, view_of([])) == "NodePool default is gone"
    going = pool(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert creation_problem(effect, view_of([going])) == "NodePool default is gone"
    full = view_of([pool(spec={"limits": {"nodes": "0"}}), complete(), node(meta={"labels": OURS})])
    assert creation_problem(effect, full) == "NodePool default has 1 of nodes and its limit is 0"


def test_the_memory_of_a_created_claim() -> None:
    """Its pods are nominated for it; pods that only stand for room are not."""
    memory = ProvisioningMemory().with_claim(complete(), [waiting()], NOW)

    assert memory.nominations == {"default/waits": Nomination("claim-1", NOW)}


def test_what_is_left_out_is_reported_where_that_is_asked() -> None:
    """Though no pod waits, the readiness of pools is known."""
    assert [each.pool.name for each in decide(pool(), report=True).pools] == ["default"]
    assert decide(pool()).pools == ()


def test_a_buffer_that_keeps_no_room_is_said_to() -> None:
    """What a decision leaves out names each CapacityBuffer that cannot be served, and why."""
    buffer = {"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "spec": {"replicas": 1}}

    found = decide(
        pool(), convert(buffer, CapacityBuffer), waiting(**ASKS), policy=SchedulingPolicy(buffers=True)
    )

    assert any(each.startswith("CapacityBuffer default/b keeps no room: ") for each in found.left_out)
