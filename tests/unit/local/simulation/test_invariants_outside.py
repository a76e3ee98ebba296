"""Every rule about what an operator does can be violated, and is not where the operator could not know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.kube.transport import Request, Response
from karpenter_local.sandbox.operators import REPLICA as ACTING
from karpenter_local.simulation.invariants.disruption import (
    ExplainedInvariant,
    InterruptionInvariant,
    ValidityInvariant,
)
from karpenter_local.simulation.invariants.draining import DrainInvariant, FinalizerOrderInvariant
from karpenter_local.simulation.invariants.invariant import CloudCall, Invariant, amount
from karpenter_local.simulation.invariants.machines import (
    BelongingInvariant,
    ClosedInvariant,
    EmptyInvariant,
    FittingInvariant,
    InitializedInvariant,
    LaunchInvariant,
    RegistrationInvariant,
    TemplateInvariant,
)
from karpenter_local.simulation.invariants.workloads import (
    PATIENCE_SECONDS,
    LeaseInvariant,
    PlacementInvariant,
    WaitingInvariant,
)
from tests.unit.local.simulation.broken import (
    LONG,
    REPLICA,
    asked,
    budget,
    claim,
    found,
    machine,
    node,
    operator,
    pod,
    pool,
    wrote,
)

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter_local.simulation.cluster import SimulatedCluster

KEPT: dict[str, Any] = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
FINALIZER: dict[str, Any] = {"finalizers": ["karpenter.sh/termination"]}
OWNER: dict[str, Any] = {
    "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": "a"}]
}
STARTUP = ("example.com/starting",)


def a_node(cluster: SimulatedCluster, judge: Invariant, *states: str, **more: Any) -> None:
    """Let there be a machine with its claim and its node, called a."""
    machine(cluster, "a")
    claim(cluster, "a", *states)
    wrote(cluster, judge, None, node(cluster, "a", **more))


@pytest.mark.parametrize(
    ("closed", "waits", "wrong"),
    [
        pytest.param(
            True, LONG, ["machine kwok://a ends while pod default/web is on it"], id="a pod is left"
        ),
        pytest.param(True, 0.0, [], id="the pod came a moment ago"),
        pytest.param(
            False,
            0.0,
            ["machine kwok://a ends, and its node was never closed to pods"],
            id="the node takes pods",
        ),
    ],
)
def test_a_machine_ends_only_when_it_is_empty(closed: bool, waits: float, wrong: list[str]) -> None:
    """A machine that the operator terminates has no pod that has to be drained, as far as it can know."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        a_node(cluster, judge, "Registered", closed=closed)
        wrote(cluster, judge, None, pod(cluster, "web", on="a"))
        await asyncio.sleep(waits)
        judge.on_cloud(CloudCall(by=REPLICA, method="terminate", subject="kwok://a"))

    assert found(DrainInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("labels", "wanted", "hashed", "wrong"),
    [
        pytest.param("1", "1", "one", [], id="of the first template"),
        pytest.param("2", "2", "two", [], id="of the second template"),
        pytest.param("", "", "none", [], id="of one without the label"),
        pytest.param("1", "", "none", ["is of no template that pool default has had"], id="half of one"),
        pytest.param("2", "1", "one", ["is of no template that pool default has had"], id="half and half"),
        pytest.param("3", "3", "three", ["is of no template that pool default has had"], id="of none"),
        pytest.param("2", "2", "one", ["has the hash of another template"], id="with another hash"),
    ],
)
def test_a_claim_is_of_one_template(labels: str, wanted: str, hashed: str, wrong: list[str]) -> None:
    """Labels, requirements and hash of a claim are from one version of the template of its pool."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        for version in ({}, {"version": "1"}, {"version": "2"}):
            wrote(cluster, judge, None, pool(cluster, labels=version))
        wrote(cluster, judge, None, _claim_of(cluster, "a", "1", "1", "one"), REPLICA)
        wrote(cluster, judge, None, _claim_of(cluster, "b", labels, wanted, hashed), REPLICA)

    texts = found(TemplateInvariant, scene)
    assert len(texts) == len(wrong)
    assert all(part in text for part, text in zip(wrong, texts, strict=True))


def _claim_of(cluster: SimulatedCluster, name: str, labels: str, wanted: str, hashed: str) -> NodeClaim:
    """Let there be a claim with these versions of a template in its labels, its requirements and its hash."""
    terms = [{"key": "version", "operator": "In", "values": [wanted]}] if wanted else []
    made = claim(cluster, name, requirements=terms)
    metadata = msgspec.structs.replace(
        made.metadata,
        labels={**made.metadata.labels, **({"version": labels} if labels else {})},
        annotations={"karpenter.sh/nodepool-hash": hashed},
    )
    return msgspec.structs.replace(made, metadata=metadata)


@pytest.mark.parametrize(
    ("there", "wrong"),
    [pytest.param(True, 1, id="the machine is there"), pytest.param(False, 0, id="it is gone")],
)
def test_a_finalizer_goes_after_the_machine(there: bool, wrong: int) -> None:
    """Neither a claim nor a node loses its finalizer while the cloud has the machine."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        if there:
            machine(cluster, "a")
        wrote(cluster, judge, node(cluster, "a", **FINALIZER), None, REPLICA)

    assert len(found(FinalizerOrderInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("taints", "wrong"),
    [
        pytest.param((), 0, id="nothing is missing"),
        pytest.param(("example.com/starting",), 1, id="a startup taint is there"),
    ],
)
def test_a_node_is_complete_before_it_is_initialized(taints: tuple[str, ...], wrong: int) -> None:
    """A claim is not initialized while its node has a startup taint."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        a_node(cluster, judge, taints=taints)
        startup = [{"key": "example.com/starting", "effect": "NoSchedule"}]
        before = claim(cluster, "a", startupTaints=startup)
        wrote(cluster, judge, before, claim(cluster, "a", "Initialized", startupTaints=startup), REPLICA)

    assert len(found(InitializedInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        pytest.param({"taints": STARTUP, **FINALIZER, **OWNER}, 0, id="everything is there"),
        pytest.param({**FINALIZER, **OWNER}, 1, id="without its startup taint"),
        pytest.param({"taints": STARTUP, **OWNER}, 1, id="without its finalizer"),
        pytest.param({"taints": STARTUP, **FINALIZER}, 1, id="without its owner"),
    ],
)
def test_a_node_is_opened_with_what_its_claim_gives_it(after: dict[str, Any], wrong: int) -> None:
    """A node loses the taint of those that are not registered only with taints, labels and finalizer."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        startup = [{"key": "example.com/starting", "effect": "NoSchedule"}]
        labels = claim(cluster, "a", startupTaints=startup).metadata.labels
        before = node(cluster, "a", taints=("karpenter.sh/unregistered",))
        wrote(cluster, judge, before, node(cluster, "a", labels=labels, **after), REPLICA)

    assert len(found(RegistrationInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("asks", "wrong"),
    [
        pytest.param("2070m", 0, id="a pod and the daemons"),
        pytest.param("2", 1, id="a pod without the daemons"),
        pytest.param("70m", 1, id="the daemons alone"),
    ],
)
def test_claims_ask_for_pods_and_daemons(asks: str, wrong: int) -> None:
    """What a claim asks for is some set of pods and every daemon."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        pool(cluster)
        pod(cluster, "web", phase="Pending")
        containers = [{"resources": {"requests": {"cpu": "70m"}}}]
        agent = {"metadata": {"name": "agent"}, "spec": {"template": {"spec": {"containers": containers}}}}
        cluster.sandbox.cluster.server.store.put("daemonsets.apps", "default/agent", agent)
        made = claim(cluster, "a", resources={"requests": {"cpu": asks}})
        wrote(cluster, judge, None, made, REPLICA)

    assert len(found(FittingInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("owned", "wrong"), [pytest.param(True, 0, id="it has a claim"), pytest.param(False, 1, id="it has none")]
)
def test_machines_belong_to_a_claim_in_time(owned: bool, wrong: int) -> None:
    """Where nothing goes wrong, a machine is without a claim for a few minutes at most."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.faulty_until = 0.0
        machine(cluster, "a")
        if owned:
            claim(cluster, "a")
        judge.on_tick()
        await asyncio.sleep(310)
        judge.on_tick()

    assert len(found(BelongingInvariant, scene)) == wrong


def disrupted(
    cluster: SimulatedCluster, judge: Invariant, reason: str, *, states: tuple[str, ...] = ("Initialized",)
) -> None:
    """Let the operator begin to disrupt machine a."""
    before = cluster.mirror.claims["a"]
    wrote(cluster, judge, before, claim(cluster, "a", *states, reason=reason), REPLICA)


async def a_protected_node(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be disrupted that must not be."""
    a_node(cluster, judge, "Initialized", **KEPT)
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Underutilized")


async def a_protected_pod(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be disrupted with a pod that must not be."""
    a_node(cluster, judge, "Initialized")
    wrote(cluster, judge, None, pod(cluster, "web", on="a", kept=True))
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Underutilized")


async def a_busy_node(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node count as empty that is not."""
    a_node(cluster, judge, "Initialized")
    wrote(cluster, judge, None, pod(cluster, "web", on="a"))
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Empty")


async def a_guarded_pod(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be disrupted with a pod whose budget lets none go."""
    a_node(cluster, judge, "Initialized")
    wrote(cluster, judge, None, pod(cluster, "web", on="a"))
    budget(cluster, least=1)
    wrote(cluster, judge, None, cluster.mirror.budgets["default/app"])
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Underutilized")


async def a_young_node(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be disrupted that is not initialized."""
    a_node(cluster, judge)
    disrupted(cluster, judge, "Drifted", states=())
    cluster.history.templates.clear()


async def an_impatient_pool(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be consolidated right after a pod has come."""
    pool(cluster, after="1m")
    a_node(cluster, judge, "Initialized")
    await asyncio.sleep(1)
    wrote(cluster, judge, None, pod(cluster, "web", on="a"))
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Underutilized")


async def an_unknown_pod(cluster: SimulatedCluster, judge: Invariant) -> None:
    """Let a node be disrupted to which a pod came a moment ago."""
    a_node(cluster, judge, "Initialized")
    wrote(cluster, judge, None, pod(cluster, "web", on="a", kept=True))
    disrupted(cluster, judge, "Empty")


async def a_sound_command(cluster: SimulatedCluster, judge: Invariant) -> None:
    a_node(cluster, judge, "Initialized")
    await asyncio.sleep(LONG)
    disrupted(cluster, judge, "Empty")
    wrote(cluster, judge, cluster.mirror.claims["a"], None, REPLICA)


@pytest.mark.parametrize(
    ("scene", "wrong"),
    [
        pytest.param(a_sound_command, "", id="an empty node"),
        pytest.param(an_unknown_pod, "", id="a pod that the operator cannot know"),
        pytest.param(a_protected_node, "node a must not be disrupted", id="a protected node"),
        pytest.param(a_protected_pod, "pod default/web must not be disrupted", id="a protected pod"),
        pytest.param(a_busy_node, "pod default/web runs on it", id="a node that is not empty"),
        pytest.param(a_guarded_pod, "budget app does not let pod default/web go", id="a guarded pod"),
        pytest.param(a_young_node, "it is not initialized", id="a node that is not initialized"),
        pytest.param(an_impatient_pool, "where consolidateAfter is 60 s", id="too soon after a pod came"),
    ],
)
def test_a_disruption_is_valid_when_it_begins(scene: Any, wrong: str) -> None:
    """What keeps a node, and was known to the operator, keeps it from being disrupted."""

    async def whole(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pool(cluster)
        await scene(cluster, judge)

    texts = found(ValidityInvariant, whole)
    assert (not texts) if not wrong else any(wrong in text for text in texts), texts


@pytest.mark.parametrize(
    ("reason", "wrong"), [pytest.param("", 1, id="no reason"), pytest.param("Drifted", 0, id="a reason")]
)
def test_claims_go_for_a_reason(reason: str, wrong: int) -> None:
    """A claim with a sound machine is deleted only where a disruption has begun."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        pool(cluster)
        a_node(cluster, judge, "Registered", "Initialized")
        before = claim(cluster, "a", "Registered", "Initialized", reason=reason)
        wrote(cluster, judge, before, None, REPLICA)

    assert len(found(ExplainedInvariant, scene)) == wrong


def test_a_claim_goes_when_it_is_too_old() -> None:
    """A claim that expired some minutes ago, and stays though nothing goes wrong, is a violation."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.faulty_until = 0.0
        claim(cluster, "a", "Registered", expireAfter="10s")
        await asyncio.sleep(150)
        judge.on_tick()

    assert found(ExplainedInvariant, scene) == ["claim a expired 140 s ago, and stays"]


def test_a_machine_that_its_cloud_will_take_is_left() -> None:
    """A minute after the notice the claim of an interrupted machine is being deleted."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        a_node(cluster, judge, "Registered")
        cluster.taken["kwok://a"] = 0.0
        await asyncio.sleep(90)
        judge.on_tick()

    assert found(InterruptionInvariant, scene) == ["claim a stays 90 s after its machine was interrupted"]


def test_pods_do_not_wait_where_they_could_be_served() -> None:
    """Some minutes after the last fault no pod waits that a NodePool could serve."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.faulty_until = 0.0
        pod(cluster, "web", phase="Pending")
        judge.on_tick()
        await asyncio.sleep(PATIENCE_SECONDS + 20)
        judge.on_tick()

    (text,) = found(WaitingInvariant, scene)
    assert text == "pod default/web waits for 10 minutes, and a NodePool could serve it"


@pytest.mark.parametrize(
    ("launched", "waits", "wrong"),
    [
        pytest.param(False, 200.0, 1, id="it has no machine after minutes"),
        pytest.param(False, 100.0, 0, id="it has some time"),
        pytest.param(True, 200.0, 0, id="it has a machine"),
    ],
)
def test_a_launch_is_tried_again(launched: bool, waits: float, wrong: int) -> None:
    """Some minutes after the last fault a claim has its machine."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.faulty_until = 0.0
        made = claim(cluster, "a")
        if not launched:
            bare = msgspec.structs.replace(made.status, provider_id="")
            cluster.mirror.claims["a"] = msgspec.structs.replace(made, status=bare)
        await asyncio.sleep(waits)
        judge.on_tick()

    assert len(found(LaunchInvariant, scene)) == wrong


@pytest.mark.parametrize(
    ("closed", "replaced", "wrong"),
    [
        pytest.param(
            True, False, ["node a is closed for 200 s, and no command goes on"], id="it stays closed"
        ),
        pytest.param(True, True, [], id="its replacement is on its way"),
        pytest.param(False, False, [], id="it takes pods"),
    ],
)
def test_a_closed_node_goes_or_is_opened(closed: bool, replaced: bool, wrong: list[str]) -> None:
    """A node is not closed for minutes while nothing is done about it."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.faulty_until = 0.0
        a_node(cluster, judge, "Initialized", closed=closed)
        if replaced:
            claim(cluster, "b")
        judge.on_tick()
        await asyncio.sleep(200.0)
        judge.on_tick()

    assert found(ClosedInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        pytest.param({}, ["claim a runs no pod and stays"], id="it runs nothing"),
        pytest.param({"runs": True}, [], id="a pod runs on it"),
        pytest.param({"budget": "0"}, [], id="the budget is closed"),
        pytest.param({"kept": True}, [], id="the node is protected"),
        pytest.param({"others": True}, [], id="another machine leaves"),
    ],
)
def test_no_machine_stays_that_runs_nothing(changes: dict[str, Any], wrong: list[str]) -> None:
    """In the end a machine without pods is gone, where users let it go."""

    def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        pool(cluster, budget=changes.get("budget", "100%"))
        a_node(cluster, judge, "Initialized", **(KEPT if "kept" in changes else {}))
        if "runs" in changes:
            pod(cluster, "web", on="a")
        if "others" in changes:
            claim(cluster, "b", leaving=True)

    assert found(EmptyInvariant, scene) == wrong


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
    }
}
SPREAD = [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
POOL_TAINT = [{"key": "pool", "effect": "NoSchedule"}]


def nominated(judge: Invariant, name: str, place: str) -> None:
    """Tell of a nomination, as the operator does."""
    body = {
        "reason": "Nominated",
        "message": f"Pod should schedule on {place}: no existing node takes it; c-2x is the cheapest.",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": name},
    }
    token = ACTING.set(REPLICA)
    path = "/api/v1/namespaces/default/events"
    judge.on_call(Request(method="POST", path=path, body=msgspec.json.encode(body)), Response(status=201))
    ACTING.reset(token)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        pytest.param(["a"], ["pod default/other of its kind is there"], id="both are told of one claim"),
        pytest.param(["b"], [], id="of different claims"),
        pytest.param(["b", "a"], [], id="one of several, of which any may be meant"),
    ],
)
def test_pods_that_stay_apart_are_told_of_different_claims(told: list[str], wrong: list[str]) -> None:
    """Two pods of a kind are not nominated for one claim, as far as Events tell."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        for name in ("a", "b"):
            claim(cluster, name)
        for name in ("other", "web"):
            pod(cluster, name, phase="Pending", affinity=APART)
        for name in told:
            nominated(judge, "other", f"nodeclaim/{name}")
        nominated(judge, "web", "nodeclaim/a")

    assert [text.partition(", and ")[2] for text in found(PlacementInvariant, scene)] == wrong


@pytest.mark.parametrize(
    ("asks", "offers", "wrong"),
    [
        pytest.param({}, {}, [], id="a pod that goes anywhere"),
        pytest.param(
            {"selector": {"disk": "fast"}},
            {},
            ["it selects disk=fast, where there is []"],
            id="a label is missing",
        ),
        pytest.param(
            {"selector": {"karpenter.sh/capacity-type": "on-demand"}}, {}, [], id="a label is there"
        ),
        pytest.param({}, {"taints": POOL_TAINT}, ["it does not tolerate the taint pool"], id="a taint"),
        pytest.param({"spread": SPREAD}, {}, [], id="a zone to be counted in"),
        pytest.param(
            {"affinity": APART}, {}, ["pod default/other of its kind is there"], id="one of its kind"
        ),
    ],
)
def test_pods_go_where_they_can_run(asks: dict[str, Any], offers: dict[str, Any], wrong: list[str]) -> None:
    """A nomination agrees with the selector, the tolerations, the spread and the anti-affinity of its pod."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        operator(cluster)
        machine(cluster, "a")
        made = claim(cluster, "a", **offers)
        wrote(cluster, judge, None, node(cluster, "a", labels=made.metadata.labels))
        wrote(cluster, judge, None, pod(cluster, "other", on="a"))
        pod(cluster, "web", phase="Pending", **asks)
        await asyncio.sleep(LONG)
        nominated(judge, "web", "node/a")

    assert [text.partition(", and ")[2] for text in found(PlacementInvariant, scene)] == wrong


@pytest.mark.parametrize(
    ("holder", "waits", "wrong"),
    [
        pytest.param(REPLICA, 0.0, [], id="it holds the lease"),
        pytest.param(
            "two", 0.0, ["one asks for DELETE /api/v1/nodes/a while two holds the lease"], id="another does"
        ),
        pytest.param(
            REPLICA,
            40.0,
            ["one asks for DELETE /api/v1/nodes/a 40 s after it renewed the lease"],
            id="too late",
        ),
    ],
)
def test_only_the_holder_of_the_lease_writes(holder: str, waits: float, wrong: list[str]) -> None:
    """A write of a replica that does not hold the lease, or has not renewed it in time, is a violation."""

    async def scene(cluster: SimulatedCluster, judge: Invariant) -> None:
        cluster.sandbox.elects = True
        cluster.mirror.leases["kube-system/karpenter-leader-election"] = {"holderIdentity": holder}
        await asyncio.sleep(waits)
        token = ACTING.set(REPLICA)
        judge.on_call(*asked("DELETE", "/api/v1/nodes/a"))
        judge.on_call(*asked("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"))
        ACTING.reset(token)

    assert found(LeaseInvariant, scene) == wrong


def test_amounts_are_read() -> None:
    """Amounts of the API are read as people read them."""
    assert [amount(text) for text in ("250m", "2", "1.5Gi", "1k")] == [0.25, 2, 1.5 * 2**30, 1000]
