"""Definitions as objects, and objects as definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from karpenter.api.kinds import KINDS
from karpenter.api.validation.objects import check_object
from karpenter.definition.model import read_definition
from karpenter.definition.objects import DefinitionError, import_definition, render_definition

SEED = Path(__file__).parents[2] / "data" / "definitions" / "cluster.yaml"
OS = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
BOUGHT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
GPU = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}


def rendered(plain: Any, *, cluster: str = "prod") -> list[dict[str, Any]]:
    """Return the objects of a definition, all of which are valid."""
    found = read_definition(plain)
    assert found.definition is not None, found.problems
    objects = render_definition(found.definition, cluster_name=cluster)
    for each in objects:
        assert check_object(KINDS[each["apiVersion"], each["kind"]], each) == ()
    return objects


def of_pool(**pool: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the specs of the pool and the class of a definition of one pool."""
    node_pool, node_class = rendered({"karpenter": {"node_pools": {"a": {"limits": {"cpu": 1}, **pool}}}})
    return node_pool["spec"], node_class["spec"]


def test_the_definition_of_the_guide() -> None:
    """It becomes the NodePool and the EC2NodeClass that it describes."""
    assert rendered(yaml.safe_load(SEED.read_text("utf-8"))) == [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"foo": "bar"}, "annotations": {"foo": "bar"}},
                    "spec": {
                        "taints": [{"key": "role", "value": "foo", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c"]},
                            OS,
                            ARCH,
                            BOUGHT,
                        ],
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": "default",
                        },
                        "expireAfter": "720h",
                    },
                },
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
                "limits": {"cpu": "111", "memory": "100Gi"},
            },
        },
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "role": "KarpenterNodeRole-prod",
                "subnetSelectorTerms": [{"tags": {"kubernetes.io/role/internal-elb": "1"}}],
                "securityGroupSelectorTerms": [{"tags": {"aws:eks:cluster-name": "prod"}}],
                "tags": {"maintainer": "skyscrapers"},
                "blockDeviceMappings": [
                    {
                        "deviceName": "/dev/xvda",
                        "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True},
                        "rootVolume": True,
                    }
                ],
            },
        },
    ]


def test_the_requirements_of_the_guide() -> None:
    """The second example keeps its order; only what it does not name is added."""
    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}
    generation = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]}
    types = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "NotIn",
        "values": ["m5a.16xlarge", "m5a.24xlarge"],
    }
    pool, _ = of_pool(requirements=[category, generation, ARCH, BOUGHT, types])

    assert pool["template"]["spec"]["requirements"] == [category, generation, ARCH, BOUGHT, types, OS]


@pytest.mark.parametrize(
    ("node_class", "expected"),
    [
        (
            {"public": True},
            {
                "subnetSelectorTerms": [{"tags": {"kubernetes.io/role/elb": "1"}}],
                "associatePublicIPAddress": True,
            },
        ),
        (
            {"extra_securitygroup_ids": ["sg-01", "sg-02"]},
            {
                "securityGroupSelectorTerms": [
                    {"tags": {"aws:eks:cluster-name": "prod"}},
                    {"id": "sg-01"},
                    {"id": "sg-02"},
                ]
            },
        ),
        ({"role": "r"}, {"role": "r"}),
        (
            {"ami_alias": "bottlerocket@latest", "volumeSize": "50Gi"},
            {
                "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
                "blockDeviceMappings": [
                    {
                        "deviceName": "/dev/xvda",
                        "ebs": {"volumeSize": "4Gi", "volumeType": "gp3", "encrypted": True},
                    },
                    {
                        "deviceName": "/dev/xvdb",
                        "ebs": {"volumeSize": "50Gi", "volumeType": "gp3", "encrypted": True},
                        "rootVolume": True,
                    },
                ],
            },
        ),
        (
            {"spec": {"kubelet": {"maxPods": 20}, "role": None, "instanceProfile": "p"}},
            {"kubelet": {"maxPods": 20}, "instanceProfile": "p"},
        ),
    ],
    ids=["public", "security groups", "a role", "bottlerocket", "fields as they are"],
)
def test_classes(node_class: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every key of a class becomes the fields that it stands for."""
    _, spec = of_pool(node_class=node_class)

    assert {key: spec.get(key) for key in expected} == expected
    assert ("role" in spec) != ("instanceProfile" in spec)


def test_machines_with_a_gpu() -> None:
    """Only types with a GPU are allowed; a requirement on their number is kept."""
    pool, _ = of_pool(node_class={"gpu_enabled": True})
    own = {**GPU, "values": ["3"]}
    other, _ = of_pool(node_class={"gpu_enabled": True}, requirements=[own])

    assert pool["template"]["spec"]["requirements"] == [GPU, OS, ARCH, BOUGHT]
    assert other["template"]["spec"]["requirements"] == [own, OS, ARCH, BOUGHT]


def test_defaults_hold_where_a_pool_says_nothing() -> None:
    """The block of defaults is for all pools, and a pool wins over it."""
    defaults = {
        "role": "r",
        "ami_alias": "bottlerocket@latest",
        "tags": {"a": "1", "b": "1"},
        "subnet_tags": {"tier": "private"},
        "security_group_tags": {"mine": "1"},
        "expire_after": "24h",
        "disruption": {"consolidation_policy": "WhenEmpty", "consolidate_after": "5m"},
    }
    pools = {
        "a": {"limits": {"cpu": 1}, "node_class": {"tags": {"b": "2"}}},
        "b": {"limits": {"cpu": 1}, "expire_after": "1h"},
    }
    first, node_class, second, _ = rendered(
        {"karpenter": {"defaults": defaults, "node_pools": pools}}, cluster=""
    )

    assert first["spec"]["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}
    assert first["spec"]["template"]["spec"]["expireAfter"] == "24h"
    assert second["spec"]["template"]["spec"]["expireAfter"] == "1h"
    assert node_class["spec"] == {
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
        "role": "r",
        "subnetSelectorTerms": [{"tags": {"kubernetes.io/role/internal-elb": "1", "tier": "private"}}],
        "securityGroupSelectorTerms": [{"tags": {"mine": "1"}}],
        "tags": {"a": "1", "b": "2"},
    }


def test_pools_may_share_a_class_that_they_agree_on() -> None:
    """One class is rendered once; two definitions of it are a problem."""
    one = {"limits": {"cpu": 1}, "node_class": {"name": "shared"}}
    plain = {"karpenter": {"node_pools": {"a": one, "b": one}}}
    assert [each["kind"] for each in rendered(plain)] == ["NodePool", "EC2NodeClass", "NodePool"]

    plain["karpenter"]["node_pools"]["b"] = {**one, "node_class": {"name": "shared", "public": True}}
    with pytest.raises(DefinitionError, match="EC2NodeClass shared is defined otherwise by another pool"):
        rendered(plain)


def test_without_a_cluster_the_role_is_not_known() -> None:
    """A definition that names neither the cluster nor a role cannot be rendered."""
    with pytest.raises(DefinitionError, match="cluster_name: is needed to name the role"):
        rendered({"karpenter": {"node_pools": {"a": {"limits": {"cpu": 1}}}}}, cluster="")


def test_any_class_can_be_imported() -> None:
    """What a definition has no word for is in spec, and rendering gives the same objects again."""
    objects = [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "a"},
            "spec": {
                "template": {
                    "spec": {
                        "requirements": [BOUGHT, OS, ARCH],
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": "other",
                        },
                        "expireAfter": "Never",
                        "terminationGracePeriod": "1h",
                    }
                },
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": "30s",
                    "budgets": [{"nodes": "1"}],
                },
                "limits": {"cpu": "10", "memory": "1Ti"},
                "weight": 5,
            },
        },
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "other"},
            "spec": {
                "amiFamily": "AL2",
                "amiSelectorTerms": [{"id": "ami-01"}],
                "instanceProfile": "p",
                "subnetSelectorTerms": [{"id": "subnet-01"}],
                "securityGroupSelectorTerms": [{"id": "sg-01"}],
                "kubelet": {"maxPods": 10},
            },
        },
    ]
    found = import_definition(objects)
    again = read_definition(msgspec.to_builtins(found)).definition

    assert again == found
    assert again is not None
    assert render_definition(again) == objects


def test_a_pool_without_its_class_cannot_be_imported() -> None:
    """The sentence names both."""
    pool, _ = rendered({"karpenter": {"node_pools": {"a": {"limits": {"cpu": 1}}}}})

    with pytest.raises(DefinitionError, match="NodePool a: its EC2NodeClass a is not among the objects"):
        import_definition([pool])
