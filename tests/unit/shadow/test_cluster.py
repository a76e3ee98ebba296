"""How the cluster of a shadow follows the real one, and where it goes its own way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import DELETION_COST_SET, POD_DELETION_COST
from karpenter.api.manifests import documents, read_object, render_documents
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.pod import Pod
from karpenter.base.clock import SystemClock
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import NodeClassKind
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.core.state.pod import is_ready
from karpenter.kube.errors import Conflict, NotFound, ServerFailed, TooManyRequests
from karpenter.kube.rest import Preconditions, Selection, named
from karpenter.shadow.account import ShadowAccount
from karpenter.shadow.cluster import ShadowCluster
from karpenter.shadow.perform import ShadowClient
from tests.unit.changeover.objects import LATER, NOW, machine, pod, pool
from tests.unit.kube.scenarios import until

EARLY = "2026-03-01T09:00:00Z"
GUARD = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "guard", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 5, "currentHealthy": 6, "desiredHealthy": 1, "expectedPods": 6},
}
TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


class _Sells:
    """A provider that sells what the catalogue has, and refuses everything that would change something."""

    name = "kwok"
    node_classes = (NodeClassKind(group="karpenter.kwok.sh", kind="KWOKNodeClass"),)
    repair_policies = ()

    async def catalog(self, _pool: Any) -> Any:
        return load_catalog("kwok")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a shadow has called {name} of the real provider")


def read(plain: dict[str, Any]) -> Any:
    """Return an object as it is watched."""
    (document,) = documents(render_documents([plain]), "test")
    return read_object(document)


def begun(*plain: dict[str, Any]) -> ShadowCluster:
    """Return a shadow of a cluster of these objects."""
    cluster = ShadowCluster(
        _Sells(),
        clock=SystemClock(),
        account=ShadowAccount(),
        settings=ProvisioningSettings(),
    )
    for each in plain:
        cluster.real.apply(ObjectUpdated(read(each)))
    cluster.begin()
    return cluster


def node_of(cluster: ShadowCluster, key: str) -> str | None:
    """Return where a pod is in the shadow; None if it is not there."""
    found = cluster.store.pod(key)
    return found.spec.node_name if found is not None else None


async def test_a_pod_that_karpenter_evicts_stays_in_the_shadow() -> None:
    """Its node is tainted and it goes; the pod that its controller makes instead takes its place."""
    cluster = begun(pool(), *machine("a"), pod("web-1", "a"))
    _, tainted = machine("a")
    tainted["spec"]["taints"] = [TAINT]
    leaving = pod("web-1", "a")
    leaving["metadata"]["deletionTimestamp"] = LATER
    cluster.real.apply(ObjectUpdated(read(tainted)))
    cluster.real.apply(ObjectUpdated(read(leaving)))
    cluster.real.apply(ObjectUpdated(read(pod("web-2", ""))))
    cluster.real.apply(ObjectDeleted(read(leaving)))

    assert (node_of(cluster, "default/web-1"), node_of(cluster, "default/web-2")) == (None, "a")
    assert (cluster.account.real.evicted, cluster.account.shadow.evicted) == (1, 0)
    node = cluster.store.node("a")
    assert node is not None
    assert not node.spec.taints


async def test_a_pod_that_users_delete_goes() -> None:
    """Without a disruption of its node, a pod that goes is no eviction, and its place is free."""
    cluster = begun(pool(), *machine("a"), pod("web-1", "a"))
    cluster.real.apply(ObjectDeleted(read(pod("web-1", "a"))))

    assert node_of(cluster, "default/web-1") is None
    assert cluster.account.real.evicted == 0


@pytest.mark.parametrize(
    ("reason", "leaves"),
    [
        pytest.param("Underutilized", False, id="a decision of Karpenter is not ours"),
        pytest.param("", True, id="what goes without a decision goes here too"),
    ],
)
async def test_a_machine_that_karpenter_removes(reason: str, leaves: bool) -> None:
    """Consolidation of the real cluster is not followed; interruptions and deletions by users are."""
    cluster = begun(pool(), *machine("a"))
    claim, _ = machine("a")
    claim["metadata"]["deletionTimestamp"] = LATER
    claim["metadata"]["finalizers"] = ["karpenter.sh/termination"]
    told = {"type": "DisruptionReason", "status": "True", "reason": reason, "lastTransitionTime": LATER}
    claim["status"]["conditions"] += [{**told, "message": ""}] if reason else []
    cluster.real.apply(ObjectUpdated(read(claim)))

    found = cluster.store.claim("a")
    assert (found is None or found.metadata.deletion_timestamp is not None) == leaves
    assert cluster.account.real.removed == 1


async def test_a_pod_that_the_shadow_evicts_waits_and_is_bound_again() -> None:
    """It is pending in the shadow alone until it is bound to the node with the most room."""
    cluster = begun(pool(), *machine("a"), *machine("b"), pod("web-1", "a"), pod("busy", "a", cpu="8"))
    cluster.evict("default/web-1")
    assert node_of(cluster, "default/web-1") == ""
    task = asyncio.get_running_loop().create_task(cluster.bind_pending())
    await until(lambda: node_of(cluster, "default/web-1") == "b")
    task.cancel()

    assert cluster.account.shadow.evicted == 1
    assert cluster.account.shadow.placed == 0  # it had a node before
    real = cluster.real.pod("default/web-1")
    assert real is not None
    assert real.spec.node_name == "a"


def web(name: str, node: str, since: str = LATER) -> dict[str, Any]:
    body = pod(name, node)
    body["metadata"]["labels"] = {"app": "web"}
    body["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return body


def draining(cluster: ShadowCluster, name: str) -> ShadowClient:
    """Let the shadow take a node away; return what evictions are asked of."""
    node = cluster.store.node(name)
    assert node is not None
    meta = msgspec.structs.replace(node.metadata, deletion_timestamp=NOW, finalizers=("karpenter.sh/t",))
    cluster.store.apply(ObjectUpdated(msgspec.structs.replace(node, metadata=meta)))
    return ShadowClient(cluster)


async def test_the_shadow_answers_what_controllers_read_themselves() -> None:
    """They read the claims, nodes and pods of the shadow and not those of the real cluster."""
    cluster = begun(pool(), *machine("a"), *machine("b"), pod("web-1", "a"))
    client = draining(cluster, "a")
    cluster.evict("default/web-1")
    claims, on = await client.list(NodeClaim), Selection(fields="spec.nodeName=a")

    assert sorted(each.name for each in claims.items) == ["a", "b"]
    assert (await client.list(Pod, on)).items == ()
    assert [each.metadata.deletion_timestamp for each in (await client.list(Node, named("a"))).items] == [NOW]
    assert (await client.list(Node, named("c"))).items == ()


async def test_a_workload_that_shrinks_gives_up_the_pod_that_goes_first_in_the_shadow() -> None:
    """In reality the youngest goes; in the shadow the oldest, which has just been moved and waits there."""
    cluster = begun(pool(), *machine("a"), *machine("b"), web("old", "a", EARLY), web("young", "b"))
    cluster.evict("default/old")
    going = web("young", "b")
    going["metadata"]["deletionTimestamp"] = LATER
    cluster.real.apply(ObjectUpdated(read(going)))
    cluster.real.apply(ObjectUpdated(read(going)))
    assert (node_of(cluster, "default/young"), node_of(cluster, "default/old")) == ("", "b")
    cluster.real.apply(ObjectDeleted(read(going)))

    assert (node_of(cluster, "default/young"), node_of(cluster, "default/old")) == (None, "b")
    assert cluster.account.shadow.placed == 0  # it has taken over a place, and was not placed


async def test_a_pod_that_goes_unseen_gives_up_the_same() -> None:
    """A watch that was away sees that a pod is gone, not that it goes."""
    cluster = begun(pool(), *machine("a"), *machine("b"), web("old", "a", EARLY), web("young", "b"))
    cluster.evict("default/old")
    cluster.real.apply(ObjectDeleted(read(web("young", "b"))))

    assert (node_of(cluster, "default/young"), node_of(cluster, "default/old")) == (None, "b")


async def test_a_pod_that_takes_a_place_serves_there() -> None:
    """While the pod that its controller made starts in reality, the evicted one would serve in the shadow."""
    cluster = begun(pool(), *machine("a"), web("web-1", "a", EARLY))
    _, tainted = machine("a")
    tainted["spec"]["taints"] = [TAINT]
    leaving = web("web-1", "a", EARLY)
    leaving["metadata"]["deletionTimestamp"] = LATER
    starting = pod("web-2", "b")
    for each in (tainted, leaving, *machine("b"), starting):
        cluster.real.apply(ObjectUpdated(read(each)))

    shown = cluster.store.pod("default/web-2")
    assert shown is not None
    [ready] = [each for each in shown.status.conditions if each.type == "Ready"]
    assert (shown.spec.node_name, ready.status, shown.status.phase) == ("a", "True", "Running")
    assert ready.last_transition_time == datetime(2026, 3, 1, 9, tzinfo=UTC)

    starting["status"]["containerStatuses"] = [{"name": "c", "restartCount": 1}]
    cluster.real.apply(ObjectUpdated(read(starting)))
    shown = cluster.store.pod("default/web-2")
    assert shown is not None
    assert not is_ready(shown)  # it fails in reality, and would here


async def test_a_budget_counts_the_pods_of_the_shadow_and_refuses() -> None:
    """One of two pods must stay: the second eviction is refused until the first pod runs again."""
    cluster = begun(pool(), GUARD, *machine("a"), *machine("b"), web("one", "a"), web("two", "a"))
    pods = draining(cluster, "a")
    await pods.evict("one", namespace="default")
    with pytest.raises(TooManyRequests, match="disruption budget") as refused:
        await pods.evict("two", namespace="default")
    assert refused.value.by_budget
    assert node_of(cluster, "default/two") == "a"
    task = asyncio.get_running_loop().create_task(cluster.bind_pending())
    await until(lambda: node_of(cluster, "default/one") == "b")
    task.cancel()
    cluster.real.apply(ObjectUpdated(read(GUARD)))  # what Kubernetes counts does not matter
    await pods.evict("two", namespace="default")

    assert node_of(cluster, "default/two") == ""
    assert cluster.account.shadow.evicted == 2


async def test_what_else_the_eviction_api_refuses() -> None:
    """Two budgets for one pod, another pod of the name, a pod that has left the node, and no pod at all."""
    second = {**GUARD, "metadata": {"name": "second", "namespace": "default"}}
    cluster = begun(pool(), GUARD, second, *machine("a"), *machine("b"), web("one", "a"), pod("two", "b"))
    pods = draining(cluster, "a")

    with pytest.raises(ServerFailed, match="more than one PodDisruptionBudget"):
        await pods.evict("one", namespace="default")
    with pytest.raises(Conflict):
        await pods.evict("one", namespace="default", only_if=Preconditions(uid="another"))
    for name in ("two", "three"):
        with pytest.raises(NotFound):
            await pods.evict(name, namespace="default")
    assert cluster.account.shadow.evicted == 0


async def test_a_deletion_cost_that_the_shadow_has_written_stays() -> None:
    """An event of the real pod does not take it away."""
    cluster = begun(pool(), *machine("a"), web("one", "a"))
    found = cluster.store.pod("default/one")
    assert found is not None
    notes = {POD_DELETION_COST: "-8", DELETION_COST_SET: "-8"}
    meta = msgspec.structs.replace(found.metadata, annotations=notes)
    cluster.store.apply(ObjectUpdated(msgspec.structs.replace(found, metadata=meta)))
    cluster.real.apply(ObjectUpdated(read(web("one", "a", EARLY))))

    found = cluster.store.pod("default/one")
    assert found is not None
    assert found.metadata.annotations == notes
