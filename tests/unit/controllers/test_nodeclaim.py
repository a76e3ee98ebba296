"""Controllers of claims: which events they care about, and what they have carried out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.dra import ResourceSlice
from karpenter.api.labels import INSTANCE_TYPE, NODEPOOL, REQUESTED_DRA_DRIVERS
from karpenter.api.meta import convert
from karpenter.cloud.cloudprovider import Hold, Machine
from karpenter.cloud.errors import MachineNotFound
from karpenter.controllers.nodeclaim import (
    CONFLICTED,
    Expiration,
    GarbageCollection,
    NodeClaimConsistency,
    NodeClaimDisruption,
    NodeClaimLifecycle,
    NodeTermination,
    PodEvents,
)
from karpenter.core.effects import Amend, DeleteObject
from karpenter.core.model.catalog import EMPTY, Catalog
from karpenter.core.state.cluster import ObjectUpdated
from karpenter.kube.errors import Conflict, Status, status_error_of
from karpenter.kube.transport import Request
from tests.unit.controllers.harness import CLASS, Shell, wakes
from tests.unit.core.disruption.clusters import MARKET
from tests.unit.core.lifecycle.objects import (
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
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

GOING = {"deletionTimestamp": at(NOW), "finalizers": ["karpenter.sh/termination"]}
OTHER = claim(name="other", meta={"labels": {NODEPOOL: "other"}})


class Sky:
    """A cloud that answers what a test wants."""

    def __init__(self, *machines: Machine, drift: str | None = "", holds: tuple[Hold, ...] = ()) -> None:
        self.machines = machines
        self._drift = drift
        self._holds = holds

    async def list(self) -> tuple[Machine, ...]:
        return self.machines

    async def get(self, provider_id: str) -> Machine:
        for each in self.machines:
            if each.provider_id == provider_id:
                return each
        raise MachineNotFound(provider_id)

    async def drift(self, item: NodeClaim) -> str:
        """Say why a machine has drifted, or that there is none."""
        if self._drift is None:
            raise MachineNotFound(item.status.provider_id)
        return self._drift

    async def registration_holds(self, item: NodeClaim, there: Node) -> tuple[Hold, ...]:
        del item, there
        return self._holds


NO_SKY: Any = Sky()


class Market:
    """Sells what a test wants."""

    def __init__(self, sold: Catalog = EMPTY) -> None:
        self.sold = sold

    async def of(self, pools: Any) -> Catalog:
        del pools
        return self.sold


def lifecycle(shell: Shell, sky: Any = NO_SKY, **more: Any) -> NodeClaimLifecycle:
    return NodeClaimLifecycle(shell.store, shell.performer, sky, shell.reader, shell.clock, **more)


def test_what_wakes_the_life_of_a_claim() -> None:
    """A claim is woken by itself, by its node before and after a change, and by devices on its node."""
    shell = Shell(launched(), node(), OTHER)
    found = lifecycle(shell)
    moved = node(spec={"providerID": "kwok://two"})
    slice_of = {"metadata": {"name": "s"}, "spec": {"nodeName": "node-1"}}

    assert wakes(found, OTHER) == ["other"]
    assert wakes(found, node()) == ["claim-1"]
    assert wakes(found, moved, node()) == ["claim-1"]
    assert wakes(found, convert(slice_of, ResourceSlice)) == ["claim-1"]
    assert wakes(found, convert({"metadata": {"name": "s"}}, ResourceSlice)) == []
    assert wakes(found, pod()) == []
    assert wakes(found, launched(Drifted="True"), launched()) == []
    assert wakes(found, launched(Registered="True"), launched()) == ["claim-1"]
    assert wakes(found, launched(), launched(), gone=True) == ["claim-1"]

    shell.put(complete())
    assert wakes(found, moved, node()) == wakes(found, convert(slice_of, ResourceSlice)) == []


def test_the_life_of_a_claim() -> None:
    """A claim without a machine gets one; one that is deleted loses it; one that is gone is left alone."""
    shell = Shell(claim())
    found = lifecycle(shell)
    asyncio.run(found.reconcile("claim-1"))
    assert shell.performer.kinds == ["Launch"]

    shell.put(launched(meta=GOING))
    assert asyncio.run(found.reconcile("claim-1")) == 5.0
    assert shell.performer.kinds == ["Terminate"]
    assert asyncio.run(found.reconcile("gone")) is None
    assert shell.performer.kinds == []


def test_what_is_written_of_a_node_is_decided_when_the_turn_has_come() -> None:
    """A node that becomes ready while the rate limit is waited for is registered and initialized at once."""
    shell = Shell(launched(Registered="Unknown", Initialized="Unknown"), node(ready=False))
    shell.performer.meanwhile = lambda: shell.put(node())
    asyncio.run(lifecycle(shell).reconcile("claim-1"))

    assert any("'reason': 'Initialized'" in str(each) for each in shell.performer.effects)
    assert shell.performer.turns == 1


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda shell: shell.drop(launched()), id="gone"),
        pytest.param(lambda shell: shell.put(launched(meta=GOING)), id="on its way out"),
    ],
)
def test_a_claim_that_goes_while_its_turn_is_waited_for_is_looked_at_again(
    happens: Callable[[Shell], None],
) -> None:
    """What was decided before is not done to a claim that is gone or leaves."""
    shell = Shell(launched(Registered="Unknown", Initialized="Unknown"), node())
    shell.performer.meanwhile = lambda: happens(shell)

    assert asyncio.run(lifecycle(shell).reconcile("claim-1")) == 0.0
    assert shell.performer.kinds == []


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((claim(), node()), id="a claim that is to be launched"),
        pytest.param((launched(),), id="a claim without a node"),
        pytest.param((complete(Ready="True"), node()), id="a claim about which nothing is to be written"),
        pytest.param((launched(meta=GOING), node()), id="a claim on its way out"),
    ],
)
def test_only_claims_whose_nodes_join_wait_for_a_turn(objects: tuple[Any, ...]) -> None:
    """No launch waits for writes of other claims, and no turn is taken in vain: others would wait for it."""
    shell = Shell(*objects)
    asyncio.run(lifecycle(shell).reconcile("claim-1"))

    assert shell.performer.turns == 0


def test_a_provider_may_hold_a_node_back() -> None:
    """What holds a node is asked for only when there is one, and is looked at again when it says."""
    shell = Shell(launched(Registered="Unknown"))
    found = lifecycle(shell, Sky(holds=(Hold(because="tags", look_again=3.0),)))
    asyncio.run(found.reconcile("claim-1"))
    assert all("RegistrationHookPending" not in str(each) for each in shell.performer.effects)

    shell.put(node())
    assert asyncio.run(found.reconcile("claim-1")) == 3.0
    assert any("RegistrationHookPending" in str(each) for each in shell.performer.effects)


@pytest.mark.parametrize(
    ("devices", "reason"), [(True, "DRADriverPoolsNotPublished"), (False, "Initialized")]
)
def test_devices_count_where_they_are_switched_on(devices: bool, reason: str) -> None:
    """A node waits for its devices only where somebody asks for devices."""
    notes = {"annotations": {REQUESTED_DRA_DRIVERS: "gpu"}}
    shell = Shell(launched(meta=notes, Registered="True", Initialized="Unknown"), node())
    asyncio.run(lifecycle(shell, devices=devices).reconcile("claim-1"))

    assert any(f"'reason': '{reason}'" in str(each) for each in shell.performer.effects)


def test_marks() -> None:
    """A claim is marked with the drift of its provider; a machine that is gone has not drifted."""
    shell = Shell(complete(), pool(), OTHER, claim(name="young"))
    found = NodeClaimDisruption(shell.store, shell.performer, Sky(drift="ImageDrift"), Market(), shell.clock)  # type: ignore[arg-type]
    assert wakes(found, pool()) == wakes(found, pool(spec={"weight": 7}), pool()) == ["claim-1", "young"]
    assert wakes(found, pool(status={"nodes": 2}), pool()) == []
    assert wakes(found, OTHER) == []  # without a machine
    assert wakes(found, OTHER, gone=True) == ["other"]
    assert wakes(found, launched()) == wakes(found, launched(), OTHER) == ["claim-1"]
    assert wakes(found, complete(), launched(Registered="True")) == ["claim-1"]
    assert wakes(found, launched(Registered="True"), launched(Registered="Unknown")) == []
    assert wakes(found, CLASS, CLASS) == wakes(found, CLASS, gone=True) == ["claim-1"]
    assert wakes(found, msgspec.structs.replace(CLASS, name="another"), CLASS) == []

    asyncio.run(found.reconcile("claim-1"))
    assert "ImageDrift" in str(shell.performer.effects)
    shell.performer.effects.clear()
    assert asyncio.run(found.reconcile("young")) is None
    assert asyncio.run(found.reconcile("gone")) is None
    assert shell.performer.kinds == []

    lost = NodeClaimDisruption(shell.store, shell.performer, Sky(drift=None), Market(), shell.clock)  # type: ignore[arg-type]
    asyncio.run(lost.reconcile("claim-1"))
    assert "Drifted" not in str(shell.performer.effects)


def test_a_type_that_was_found_is_looked_for_again_after_half_an_hour() -> None:
    """A catalog that lacks a type drifts a claim at once, or half an hour after the type was found."""
    labels = {NODEPOOL: "default", INSTANCE_TYPE: "small"}
    old = complete(meta={"labels": labels, "uid": "first"})
    shell = Shell(old, pool())
    shell.clock.seconds += 7200  # an instance type counts from the second hour on
    market = Market(MARKET)
    found = NodeClaimDisruption(shell.store, shell.performer, Sky(), market, shell.clock)  # type: ignore[arg-type]

    def drifts() -> bool:
        shell.performer.effects.clear()
        asyncio.run(found.reconcile("claim-1"))
        return "InstanceTypeNotFound" in str(shell.performer.effects)

    assert not drifts()
    market.sold = Catalog(types=MARKET.types[1:])
    shell.clock.seconds += 29 * 60
    assert not drifts()
    shell.put(complete(meta={"labels": labels, "uid": "second"}))
    assert drifts()  # another claim of the name was never looked at
    shell.put(old)
    shell.clock.seconds += 60
    assert drifts()

    market.sold = MARKET
    assert not drifts()
    shell.drop(old)
    assert not drifts()  # and what was found is forgotten with the claim
    shell.put(old)
    market.sold = Catalog(types=MARKET.types[1:])
    assert drifts()


def test_expiration() -> None:
    """A claim is looked at when it is first seen and when its time has come, and not in between."""
    old = claim(spec={"expireAfter": "1m"})
    shell = Shell(old, claim(name="young", spec={"expireAfter": "1h"}))
    found = Expiration(shell.store, shell.performer, shell.clock)
    assert wakes(found, old) == ["claim-1"]
    assert wakes(found, old, old) == wakes(found, old, gone=True) == wakes(found, node()) == []

    asyncio.run(found.reconcile("claim-1"))
    assert shell.performer.kinds == ["DeleteObject", "Count", "Count"]
    assert asyncio.run(found.reconcile("young")) == pytest.approx(3480.0, abs=1)
    assert asyncio.run(found.reconcile("gone")) is None


def test_upkeep() -> None:
    """What does not name its class is named first; then the node is held to its promise, now and then."""
    shell = Shell(complete(meta={"labels": {NODEPOOL: "default"}}), node())
    found = NodeClaimConsistency(shell.store, shell.performer, shell.clock)
    assert wakes(found, node()) == wakes(found, complete()) == ["claim-1"]
    assert wakes(found, node(status={"capacity": {"cpu": "1"}}), node()) == ["claim-1"]
    assert wakes(found, complete(), launched()) == wakes(found, complete(), complete(), gone=True)
    assert wakes(found, node(ready=False), node()) == wakes(found, complete(Drifted="True"), complete()) == []
    assert wakes(found, pod()) == []
    unnamed = claim(meta={"labels": {NODEPOOL: "default"}})
    assert wakes(found, unnamed) == ["claim-1"]
    assert wakes(found, claim()) == wakes(found, launched(), claim()) == []  # nothing is checked yet

    assert asyncio.run(found.reconcile("claim-1")) == 0.0
    assert shell.performer.kinds == ["Amend"]
    shell.put(complete())
    assert asyncio.run(found.reconcile("claim-1")) == 600.0
    assert "ConsistentStateFound" in str(shell.performer.effects)
    assert asyncio.run(found.reconcile("gone")) is None


@pytest.mark.parametrize(
    "controller",
    [
        NodeClaimLifecycle,
        NodeClaimDisruption,
        Expiration,
        NodeClaimConsistency,
        PodEvents,
        NodeTermination,
    ],
    ids=lambda each: str(each.name),
)
def test_controllers_are_woken_by_the_kinds_they_name(controller: Any) -> None:
    """Events of other kinds are not told to them, so they must not care about those."""
    going = node(meta=GOING)
    shell = Shell(complete(), going, pool())
    found = object.__new__(controller)  # what wakes it reads the store alone
    found._store, found._started = shell.store, NOW
    bound = pod()
    objects = (
        complete(),
        node(),
        going,
        pool(),
        bound,
        convert({"metadata": {"name": "s"}}, ResourceSlice),
        CLASS,
    )
    woken = {type(each) for each in objects if wakes(found, each) or wakes(found, each, gone=True)}

    assert woken <= set(controller.kinds)


def test_pod_events() -> None:
    """The claim of the node on which a pod came or went is noted; other news of pods is not."""
    shell = Shell(complete(), node())
    found = PodEvents(shell.store, shell.performer, shell.clock)
    free = pod(spec={"nodeName": ""})
    assert wakes(found, pod(), free) == wakes(found, pod(), pod(), gone=True) == ["claim-1"]
    assert wakes(found, pod(), pod()) == wakes(found, node()) == []
    assert wakes(found, pod(spec={"nodeName": "unknown"}), free) == []

    asyncio.run(found.reconcile("claim-1"))
    asyncio.run(found.reconcile("gone"))
    assert shell.performer.kinds == ["Amend"]


def test_a_claim_without_a_machine_is_collected() -> None:
    """A claim whose machine is gone is deleted."""
    shell = Shell(complete())
    found = GarbageCollection(shell.store, shell.performer, Sky())  # type: ignore[arg-type]

    assert asyncio.run(found.look()) == 120.0
    assert shell.performer.kinds == ["DeleteObject", "Count", "Count"]


def termination(shell: Shell, sky: Any = NO_SKY) -> NodeTermination:
    return NodeTermination(shell.store, shell.performer, sky, shell.reader, shell.clock)


DRAINED = {"Ready": "True", "Drained": "True", "VolumesDetached": "True"}


@pytest.mark.parametrize(
    ("held", "known", "there", "kinds", "reads"),
    [
        pytest.param(DRAINED, (), [pod()], ["Amend", "Evict"], 1, id="a pod that the state lacks is evicted"),
        pytest.param(DRAINED, (), [], ["Amend", "Terminate"], 1, id="without pods the machine ends"),
        pytest.param(None, (), [pod()], ["Amend", "Evict"], 1, id="so it is for a node without a claim"),
        pytest.param(
            DRAINED, (pod(),), [], ["Amend", "Evict"], 0, id="while the state has pods none are read"
        ),
        pytest.param(
            {"Registered": "True"}, (), [pod()], ["Amend", "Amend"], 0, id="nor before it is drained"
        ),
        pytest.param(
            {**DRAINED, "InstanceTerminating": "True"},
            (),
            [pod()],
            ["Amend", "Terminate"],
            0,
            id="nor while a machine that was terminated goes",
        ),
    ],
)
def test_pods_are_read_before_the_machine_ends(
    held: dict[str, str] | None, known: tuple[Pod, ...], there: list[Pod], kinds: list[str], reads: int
) -> None:
    """A machine ends only if the API server knows no pod on it either, because watches may be late."""
    claims = [] if held is None else [complete(meta=GOING, **held)]
    shell = Shell(*claims, node(meta=GOING), *known)
    shell.reader.objects = (*there,)
    asyncio.run(termination(shell).reconcile("node-1"))

    assert [each for each in shell.performer.kinds if each != "Announce"] == kinds
    assert shell.reader.reads == ["Pod spec.nodeName=node-1"] * reads


@pytest.mark.parametrize(
    ("there", "held", "kinds", "reads"),
    [
        pytest.param(
            [node()], "Registered", ["DeleteObject"], 1, id="a node that the state lacks is drained"
        ),
        pytest.param([], "Registered", ["Terminate"], 1, id="without a node the machine ends"),
        pytest.param(
            [node(spec={"providerID": "kwok://two"})],
            "Registered",
            ["Terminate"],
            1,
            id="a node of another machine",
        ),
        pytest.param([node()], "Launched", ["Terminate"], 0, id="one that never registered has no pods"),
        pytest.param(
            [node()],
            "InstanceTerminating",
            ["Terminate"],
            0,
            id="one whose node was drained is not asked for",
        ),
    ],
)
def test_the_node_of_a_claim_that_goes_is_read(
    there: list[Node], held: str, kinds: list[str], reads: int
) -> None:
    """A machine ends without a drain only if the API server has no Node of it."""
    states = {"Registered": "False" if held == "Launched" else "True", held: "True"}
    shell = Shell(complete(meta=GOING, status={"nodeName": "node-1"}, **states))
    shell.reader.objects = (*there,)
    asyncio.run(lifecycle(shell).reconcile("claim-1"))

    assert shell.performer.kinds == kinds
    assert shell.reader.reads == ["Node metadata.name=node-1"] * reads


def test_nodes_that_leave() -> None:
    """A node that is being deleted is brought to its end with its claim; others are left alone."""
    leaving = node(meta=GOING)
    shell = Shell(complete(), leaving)
    found = termination(shell)
    assert wakes(found, leaving) == wakes(found, complete()) == ["node-1"]
    assert wakes(found, node()) == wakes(found, OTHER) == wakes(found, pod()) == []

    asyncio.run(found.reconcile("node-1"))
    (deletion,) = shell.performer.effects
    assert isinstance(deletion, DeleteObject)
    assert deletion.kind == "NodeClaim"
    assert asyncio.run(found.reconcile("gone")) is None


@pytest.mark.parametrize(
    ("ready", "machines", "ended"),
    [
        pytest.param(False, (), True, id="not ready, and the cloud knows no such machine"),
        pytest.param(False, (Machine(provider_id=ID),), False, id="not ready, but the machine is there"),
        pytest.param(True, (), False, id="ready: the cloud is not even asked"),
    ],
)
def test_a_node_whose_machine_is_gone(ready: bool, machines: tuple[Machine, ...], ended: bool) -> None:
    """A node without a machine is let go at once."""
    shell = Shell(complete(meta=GOING), node(meta=GOING, ready=ready))
    found = termination(shell, Sky(*machines))
    asyncio.run(found.reconcile("node-1"))
    freed = [
        each
        for each in shell.performer.effects
        if isinstance(each, Amend)
        and each.kind == "Node"
        and "finalizers" in each.changes.get("metadata", {})
    ]

    assert bool(freed) == ended


def test_conditions_of_others_do_not_matter() -> None:
    """A claim of a class that is somebody else's is not even held."""
    shell = Shell()
    foreign = {"nodeClassRef": {"group": "other.example", "kind": "OtherClass", "name": "default"}}
    shell.store.apply(
        ObjectUpdated(claim(spec=foreign, status={"conditions": conditions(Launched="Unknown")}))
    )

    assert asyncio.run(lifecycle(shell).reconcile("claim-1")) is None
    assert shell.performer.kinds == []


def test_a_node_that_changes_while_it_registers_is_written_again_soon() -> None:
    """The kubelet writes to it at the same time; after some refusals the queue takes its time."""
    shell = Shell(launched(), node())
    refused = Status(reason="Conflict", code=409, message="it has changed")
    shell.performer.error = status_error_of(Request(method="PATCH", path="/api/v1/nodes/node-1"), refused)
    found = lifecycle(shell)

    waits = [asyncio.run(found.reconcile("claim-1")) for _ in range(5)]
    with pytest.raises(Conflict):
        asyncio.run(found.reconcile("claim-1"))

    assert waits == [CONFLICTED] * 5
