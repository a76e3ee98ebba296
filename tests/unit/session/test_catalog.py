from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.nodepool import NodePool
from karpenter.cloud.catalogs.ec2.volumes import node_class_of
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.session.catalog import CatalogUnclear, chosen_catalog
from tests.unit.top.clusters import claim, node

EC2, KWOK, AZURE = "karpenter.k8s.aws", "karpenter.kwok.sh", "karpenter.azure.com"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
EKS = "0ABC.gr7.eu-central-1.eks.amazonaws.com"


def pool(group: str = EC2, *zones: str, name: str = "default") -> NodePool:
    """Return a NodePool that buys by this group's node class, in these zones."""
    wanted = [{"key": ZONE, "operator": "In", "values": list(zones)}] if zones else []
    reference = {"group": group, "kind": "EC2NodeClass" if group == EC2 else "NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": wanted}}
    return convert({"metadata": {"name": name}, "spec": {"template": template}}, NodePool)


def bare(name: str, provider_id: str, **labels: str) -> Any:
    """Return a node that says where it is by its provider id alone."""
    return node(name, labels, providerID=provider_id)


def cluster(*objects: Any, classes: tuple[str, ...] = (), subnets: tuple[str, ...] = ()) -> ClusterView:
    """Return a cluster with node classes of these groups, whose subnets are in these zones."""
    status = {"subnets": [{"id": f"subnet-{each}", "zone": each} for each in subnets]}
    plain = {"metadata": {"name": "default"}, "spec": {}, "status": status}
    return view_of(objects, [node_class_of(plain, each, _kind(each)) for each in classes])


def _kind(group: str) -> str:
    return "EC2NodeClass" if group == EC2 else "KWOKNodeClass"


@pytest.mark.parametrize(
    ("view", "host", "expected"),
    [
        pytest.param(cluster(node("a", {REGION: "eu-west-1"})), "", "aws:eu-west-1", id="a region label"),
        pytest.param(cluster(node("a", {ZONE: "us-west-2b"})), "", "aws:us-west-2", id="a zone label"),
        pytest.param(cluster(node("a", {ZONE: "us-west-2-lax-1a"})), "", "aws:us-west-2", id="a local zone"),
        pytest.param(
            cluster(bare("a", "aws:///us-west-2a/i-0abc")), "", "aws:us-west-2", id="a provider id alone"
        ),
        pytest.param(cluster(pool(), claim("a")), "", "aws:us-east-1", id="a NodeClaim that has no node yet"),
        pytest.param(
            cluster(
                node("a", {REGION: "eu-west-1"}),
                node("b", {REGION: "us-east-1"}),
                node("c", {REGION: "us-east-1"}),
            ),
            "",
            "aws:us-east-1",
            id="most nodes decide",
        ),
        pytest.param(
            cluster(pool(EC2, "eu-north-1a")), "", "aws:eu-north-1", id="a zone that a NodePool names"
        ),
        pytest.param(
            cluster(pool(), classes=(EC2,), subnets=("sa-east-1a", "sa-east-1b")),
            "",
            "aws:sa-east-1",
            id="subnets of an EC2NodeClass, before there is a node",
        ),
        pytest.param(
            cluster(pool(EC2, "us-east-1a", "us-east-1b"), classes=(EC2,), subnets=("sa-east-1a",)),
            "",
            "aws:sa-east-1",
            id="subnets, though a NodePool names zones of another region",
        ),
        pytest.param(
            cluster(pool(EC2, "us-east-1a")),
            EKS,
            "aws:eu-central-1",
            id="the address of EKS, though a NodePool names zones of another region",
        ),
        pytest.param(cluster(pool()), EKS, "aws:eu-central-1", id="the address of EKS"),
        pytest.param(cluster(), EKS, "aws:eu-central-1", id="EKS without Karpenter's objects"),
        pytest.param(cluster(pool("eks.amazonaws.com")), EKS, "aws:eu-central-1", id="EKS Auto Mode"),
        pytest.param(cluster(pool(KWOK)), "", "kwok", id="a NodePool of the cloud in memory"),
        pytest.param(cluster(classes=(KWOK,)), "", "kwok", id="a KWOKNodeClass alone"),
        pytest.param(
            cluster(bare("a", "kwok://a", **{"node.kubernetes.io/instance-type": "c-4x-amd64-linux"})),
            "",
            "kwok",
            id="a machine of the cloud in memory",
        ),
        pytest.param(
            cluster(pool(KWOK), node("a", {REGION: "eu-west-1"})),
            "",
            "kwok",
            id="nodes of EKS around machines of the cloud in memory",
        ),
        pytest.param(
            cluster(pool(KWOK), bare("a", "kwok://a", **{ZONE: "eu-west-1a"})),
            "",
            "aws:eu-west-1",
            id="the cloud in memory with types of EC2",
        ),
    ],
)
def test_the_catalogue_of_a_live_cluster(view: ClusterView, host: str, expected: str) -> None:
    """Machines, NodePools, node classes and the address of the API server say what is on sale."""
    assert chosen_catalog(view, live=True, host=host) == expected


@pytest.mark.parametrize(
    ("view", "problem", "hint"),
    [
        pytest.param(
            cluster(),
            "no node, no NodePool and no node class says which cloud this is",
            "--catalog, such as aws:eu-west-1 or kwok",
            id="an empty cluster",
        ),
        pytest.param(
            cluster(bare("a", "gce://project/us-east1-b/a", **{REGION: "us-east1", ZONE: "us-east1-b"})),
            "no node, no NodePool",
            "--catalog",
            id="nodes of another cloud",
        ),
        pytest.param(
            cluster(pool(), pool(name="other")),
            "NodePool default, other buys from EC2, and no node, no zone and no subnet says in which region",
            "--catalog aws:REGION",
            id="EC2 in an unknown region",
        ),
        pytest.param(
            cluster(pool(), node("a", {REGION: "cn-north-1"})),
            "there is a price list of cn-north-1, and no catalogue",
            "karpenter catalog refresh --region cn-north-1",
            id="a region that has a price list only",
        ),
    ],
)
def test_a_live_cluster_has_no_default(view: ClusterView, problem: str, hint: str) -> None:
    """What a live cluster does not say is asked for, and never assumed."""
    with pytest.raises(CatalogUnclear, match=problem) as refused:
        chosen_catalog(view, live=True)

    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(cluster(), "kwok", id="nothing"),
        pytest.param(cluster(pool()), "aws", id="a NodePool that buys from EC2"),
        pytest.param(cluster(pool(EC2, "eu-west-1a", "eu-west-1b")), "aws:eu-west-1", id="zones of a region"),
        pytest.param(cluster(pool(KWOK)), "kwok", id="a NodePool of the cloud in memory"),
    ],
)
def test_the_catalogue_for_manifests(view: ClusterView, expected: str) -> None:
    """Manifests have the catalogue of their cloud: EC2 in us-east-1, or the cloud in memory."""
    assert chosen_catalog(view, live=False) == expected


def test_manifests_of_another_cloud_need_a_catalogue() -> None:
    """A NodePool of a cloud that has no built-in catalogue is not planned for with types of another."""
    with pytest.raises(CatalogUnclear, match="says which cloud"):
        chosen_catalog(cluster(pool(AZURE)), live=False)


@pytest.mark.parametrize("live", [True, False], ids=["of a live cluster", "of manifests"])
def test_the_cloud_in_memory_sells_nothing_to_ec2(live: bool) -> None:
    """A catalogue that sells nothing to a NodePool is refused, since every answer would be wrong."""
    with pytest.raises(CatalogUnclear, match="kwok sells nothing to NodePool default, which buys from EC2"):
        chosen_catalog(cluster(pool()), "kwok", live=live)


@pytest.mark.parametrize("asked", ["aws:us-west-1", "types.json"])
def test_the_catalogue_that_was_named(asked: str) -> None:
    """What was asked for wins over what the cluster says."""
    assert chosen_catalog(cluster(pool(), node("a", {REGION: "eu-west-1"})), asked, live=True) == asked
