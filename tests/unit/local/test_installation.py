"""The objects of the operator that runs in the process of a local cluster."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from karpenter.api.cluster import Lease
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.kube.errors import NotFound
from karpenter.kube.rest import Selection
from karpenter.kube.targets import untyped
from karpenter_local.cluster import LocalCluster
from karpenter_local.installation import LEASE, installed, objects

SYSTEM = Selection(namespace="kube-system")


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    """A cluster without nodes."""
    async with LocalCluster(seed=1) as running:
        yield running


async def test_the_operator_is_found_where_an_installed_one_is(cluster: LocalCluster) -> None:
    """A Deployment with a pod that runs on no node, a Service and a lease; all are gone with the operator."""
    async with installed(cluster.client, cluster="blue", provider="kwok", clock=cluster.clock):
        [pod] = (await cluster.client.list(Pod, SYSTEM)).items
        lease = await cluster.client.get(Lease, LEASE, namespace="kube-system")
        services = untyped("v1", "services", kind="Service", namespaced=True)
        service = await cluster.client.get(services, "karpenter", namespace="kube-system")

        assert (pod.status.phase, pod.spec.node_name) == ("Running", "")
        assert lease.spec.holder_identity == f"{pod.name}_{pod.metadata.uid}"
        assert service["spec"]["ports"][0]["port"] == 8080

        await cluster.client.delete(Pod, pod.name, namespace="kube-system", grace=0)
        for _ in range(60):
            await asyncio.sleep(0.05)
            pods = (await cluster.client.list(Pod, SYSTEM)).items
            if pods and pods[0].name != pod.name and pods[0].status.phase == "Running":
                break
        assert [each.status.phase for each in pods] == ["Running"]

    assert (await cluster.client.list(Pod, SYSTEM)).items == ()
    with pytest.raises(NotFound):
        await cluster.client.get(Deployment, "karpenter", namespace="kube-system")


@pytest.mark.parametrize("provider", ["kwok", "aws"])
def test_objects_are_those_of_the_chart(provider: str) -> None:
    """One replica, for a scheduler that does not exist, under the labels that tools look for."""
    found = {each["kind"]: each for each in objects("blue", provider)}
    deployment = found["Deployment"]

    assert set(found) == {"ServiceAccount", "Service", "Deployment"}
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["template"]["spec"]["schedulerName"] == "karpenter-local"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter"
