"""How the cluster of a shadow follows the real one, and where it goes its own way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api.manifests import documents, read_object, render_documents
from karpenter.base.clock import SystemClock
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.cloud.cloudprovider import NodeClassKind
from karpenter.core.provisioning.provisioner import ProvisioningSettings
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.shadow.account import ShadowAccount
from karpenter.shadow.cluster import ShadowCluster
from tests.unit.changeover.objects import LATER, machine, pod, pool

TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


class _Sells:
    """A provider that sells what the catalogue has, and refuses everything that would change something."""

    name = "kwok"
    node_classes = (NodeClassKind(group="karpenter.kwok.sh", kind="KWOKNodeClass"),)
    repair_policies = ()

    async def catalog(self, _pool: Any) -> Any:
        """Return the catalogue."""
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
    await asyncio.sleep(0.3)
    task.cancel()

    assert node_of(cluster, "default/web-1") == "b"
    assert cluster.account.shadow.evicted == 1
    assert cluster.account.shadow.placed == 0  # it had a node before
    real = cluster.real.pod("default/web-1")
    assert real is not None
    assert real.spec.node_name == "a"
