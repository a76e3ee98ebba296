"""What add-ons consist of: resources of the plan, values of the chart, and objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter import __version__
from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.nodeclaim import NodeClassReference
from karpenter.api.nodepool import NodeClaimTemplate, NodePoolSpec, PoolRequirement, PoolTemplateSpec
from karpenter.cdk.planning import (
    AddOnReferences,
    account_part,
    check_manifest,
    legacy_part,
    node_class_of,
    node_pool_of,
    v1_part,
)
from karpenter.cdk.props import KarpenterProps, KarpenterV1Props, read_props, spec_of
from karpenter.cdk.rules import AddOnError
from karpenter.chart.chart import manifests
from karpenter.chart.tree import Release
from karpenter.chart.values import values_of
from karpenter.install.resources import AwsAuthMapping, EksAccessEntry, IamPolicy, IamRole, SqsQueue
from tests.unit.install.test_plan import FACTS, only, plan

MADE = AddOnReferences(
    cluster="blue",
    endpoint="https://blue.example",
    controller_role="arn:aws:iam::1:role/controller",
    node_role="nodes",
    instance_profile="profile",
    queue="queue",
    subnets=("subnet-1",),
    security_groups=("sg-1",),
)
TOKEN = "${Token[TOKEN.12]}"
SEED: dict[str, Any] = {
    "requirements": [
        {"key": "node.kubernetes.io/instance-type", "op": "In", "vals": ["m5.2xlarge"]},
        {"key": "topology.kubernetes.io/zone", "op": "NotIn", "vals": ["us-west-2c"]},
        {"key": "kubernetes.io/arch", "op": "In", "vals": ["amd64", "arm64"]},
        {"key": "karpenter.sh/capacity-type", "op": "In", "vals": ["spot", "on-demand"]},
    ],
    "subnetTags": {"Name": "blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1"},
    "securityGroupTags": {"kubernetes.io/cluster/blueprint-construct-dev": "owned"},
    "taints": [{"key": "workload", "value": "test", "effect": "NoSchedule"}],
    "amiFamily": "AL2",
    "consolidation": {"enabled": True},
    "ttlSecondsUntilExpired": 2592000,
    "weight": 20,
    "interruptionHandling": True,
}
"""The props of the add-on's documentation."""

ALIAS = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}


def legacy(made: AddOnReferences = MADE, **props: Any) -> Any:
    """Return what the legacy add-on makes in the cluster."""
    return legacy_part(read_props(KarpenterProps, props, {}, identifier="KarpenterAddOn"), made)


def stable(made: AddOnReferences = MADE, **props: Any) -> Any:
    """Return what the add-on for version 1 makes in the cluster."""
    return v1_part(read_props(KarpenterV1Props, props, {}, identifier="KarpenterV1AddOn"), made)


def account(version: Any = (1, 14, 0), **options: Any) -> Any:
    """Return what an add-on makes in the account of the cluster blue."""
    given = {"namespace": "kube-system", "interruption": True, "pod_identity": False, **options}
    return account_part(FACTS, version=version, **given)


def test_the_provisioner_of_the_documentation() -> None:
    """Its props become the Provisioner of v1alpha5 that they became then, without what was not stated."""
    [body] = legacy(**SEED).objects

    assert body == {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": {
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"]},
                {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-west-2c"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
            ],
            "provider": {
                "amiFamily": "AL2",
                "subnetSelector": SEED["subnetTags"],
                "securityGroupSelector": SEED["securityGroupTags"],
            },
            "taints": SEED["taints"],
            "consolidation": {"enabled": True},
            "ttlSecondsUntilExpired": 2592000,
            "weight": 20,
        },
    }


def test_the_same_props_for_version_1() -> None:
    """From 1.0 on they become a NodePool and an EC2NodeClass, through the converter."""
    part = legacy(**SEED, version="1.0.6")
    node_class, pool = part.objects

    assert (node_class["kind"], pool["kind"]) == ("EC2NodeClass", "NodePool")
    assert node_class["spec"]["role"] == "nodes"
    assert node_class["spec"]["subnetSelectorTerms"] == [{"tags": SEED["subnetTags"]}]
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert pool["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }
    zones = {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-west-2c"]}
    assert zones in pool["spec"]["template"]["spec"]["requirements"]
    assert any("drift is always on" in each for each in part.warnings)
    for each in part.objects:
        check_manifest(each)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param((), id="neither"),
        pytest.param(("subnetTags",), id="subnets alone"),
        pytest.param(("securityGroupTags",), id="security groups alone"),
    ],
)
def test_without_both_tags_there_is_no_provisioner(kept: tuple[str, ...]) -> None:
    """The default Provisioner needs tags of subnets and of security groups."""
    props = {key: value for key, value in SEED.items() if not key.endswith("Tags") or key in kept}

    assert legacy(**props).objects == ()


def test_provisioner_specs_are_requirements() -> None:
    """The map that requirements were before means In for each of its labels."""
    specs = {"kubernetes.io/arch": ["amd64", "arm64"], "topology.kubernetes.io/zone": ["us-east-1c"]}
    tags: dict[str, Any] = {"subnetTags": {"a": "b"}, "securityGroupTags": {"a": "b"}}
    [body] = legacy(provisionerSpecs=specs, ttlSecondsAfterEmpty=30, **tags).objects

    assert body["spec"]["requirements"] == [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1c"]},
    ]
    assert body["spec"]["ttlSecondsAfterEmpty"] == 30
    assert "ttlSecondsUntilExpired" not in body["spec"]


POOL = {
    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
    "labels": {"team": "a"},
    "limits": {"cpu": 100},
    "weight": 5,
}


def test_specs_before_0_32() -> None:
    """Two specs become an AWSNodeTemplate and a Provisioner that refers to it."""
    selectors = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    pool = {**POOL, "consolidation": {"enabled": True}, "ttlSecondsUntilExpired": 60}
    template, provisioner = legacy(version="v0.31.0", nodePoolSpec=pool, ec2NodeClassSpec=selectors).objects

    assert (template["kind"], template["metadata"]["name"]) == ("AWSNodeTemplate", "default-nodetemplate")
    assert template["spec"]["amiFamily"] == "AL2"
    assert (provisioner["kind"], provisioner["metadata"]["name"]) == ("Provisioner", "default-provisioner")
    assert provisioner["spec"]["providerRef"] == {"name": "default-nodetemplate"}
    assert provisioner["spec"]["limits"] == {"resources": {"cpu": 100}}
    assert provisioner["spec"]["ttlSecondsUntilExpired"] == 60


@pytest.mark.parametrize(
    ("version", "api"),
    [pytest.param("v0.33.0", "v1beta1", id="v1beta1"), pytest.param("1.0.6", "v1", id="v1 from 1.0 on")],
)
def test_specs_from_0_32_on(version: str, api: str) -> None:
    """Two specs become a NodePool and an EC2NodeClass of the version that the operator reads."""
    selectors = {
        "amiFamily": "AL2",
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    }
    pool = {**POOL, "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}}
    node_class, node_pool = legacy(version=version, nodePoolSpec=pool, ec2NodeClassSpec=selectors).objects

    assert node_class["apiVersion"] == f"karpenter.k8s.aws/{api}"
    assert node_class["metadata"]["name"] == "default-ec2nodeclass"
    assert node_class["spec"]["role"] == "nodes"
    assert node_class["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert (node_pool["apiVersion"], node_pool["metadata"]["name"]) == (
        f"karpenter.sh/{api}",
        "default-nodepool",
    )
    assert node_pool["spec"]["template"]["metadata"]["labels"] == {"team": "a"}
    assert node_pool["spec"]["disruption"] == pool["disruption"]


@pytest.mark.parametrize(
    ("version", "repository", "settings"),
    [
        pytest.param(
            "0.18.0",
            None,
            {
                "clusterName": "blue",
                "clusterEndpoint": "https://blue.example",
                "aws": {"defaultInstanceProfile": "profile"},
            },
            id="before 0.19",
        ),
        pytest.param(
            "v0.25.0",
            None,
            {
                "settings": {
                    "aws": {
                        "clusterName": "blue",
                        "clusterEndpoint": "https://blue.example",
                        "defaultInstanceProfile": "profile",
                        "interruptionQueueName": "queue",
                    }
                }
            },
            id="until 0.31",
        ),
        pytest.param(
            "1.0.6",
            None,
            {
                "settings": {
                    "clusterName": "blue",
                    "clusterEndpoint": "https://blue.example",
                    "interruptionQueue": "queue",
                }
            },
            id="from 0.32 on",
        ),
    ],
)
def test_values_of_the_chart(version: str, repository: str | None, settings: dict[str, Any]) -> None:
    """Charts are told cluster, endpoint, profile and queue where those of their version look for them."""
    part = legacy(version=version, repository=repository, values={"replicas": 1})
    expected = {
        **settings,
        "replicas": 1,
        "serviceAccount": {
            "create": False,
            "name": "blueprints-addon-karpenter",
            "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/controller"},
        },
    }

    assert part.values == expected
    assert part.chart.repository == "oci://public.ecr.aws/karpenter/karpenter"


def test_namespace_and_service_account() -> None:
    """The namespace is made unless it is one of Kubernetes; with pod identity the chart makes the account."""
    flat, specs = legacy(), legacy(nodePoolSpec={}, podIdentity=True)

    assert [(each["kind"], each["metadata"]["name"]) for each in flat.before] == [
        ("Namespace", "karpenter"),
        ("ServiceAccount", "blueprints-addon-karpenter"),
    ]
    assert flat.namespace == "karpenter"
    assert (specs.namespace, specs.before) == ("kube-system", ())
    assert specs.values["serviceAccount"] == {"create": True, "name": "blueprints-addon-karpenter"}


def test_version_1_is_the_plan_of_install() -> None:
    """Roles, policies, queue and rules are those of `karpenter install`, but for the service account."""
    found = account(namespace="karpenter")
    planned = plan(namespace="karpenter", service_account="blueprints-addon-karpenter")

    assert list(found.policies) == [each for each in planned.resources if isinstance(each, IamPolicy)]
    assert found.node_role == only(planned, IamRole, name="KarpenterNodeRole-blue")
    assert found.controller_role == only(planned, IamRole, name="KarpenterControllerRole-blue")
    assert found.queue == only(planned, SqsQueue)
    assert len(found.rules) == 5
    assert isinstance(found.access, EksAccessEntry)


def test_without_interruption_handling() -> None:
    """There is no queue, no rule, and no permission for a queue."""
    found = account(interruption=False)

    assert (found.queue, found.rules) == (None, ())
    assert not any("Interruption" in each.name for each in found.policies)
    assert len(found.controller_role.attached) == 5


def test_the_policy_before_0_32() -> None:
    """One document of 17 actions, passing the role of nodes, and the queue where there is one."""
    found = account((0, 25, 0))
    [policy] = found.policies
    wide, role, queue = policy.document["Statement"]

    assert policy.name == "KarpenterControllerPolicy-blue"
    assert policy.arn == "arn:aws:iam::123456789012:policy/KarpenterControllerPolicy-blue"
    assert found.controller_role.attached == (policy.arn,)
    assert (len(wide["Action"]), wide["Resource"]) == (17, "*")
    assert role["Resource"].endswith(":role/KarpenterNodeRole-blue")
    assert queue["Resource"] == found.queue.arn
    assert len(account((0, 25, 0), interruption=False).policies[0].document["Statement"]) == 2
    assert [each.pattern["detail-type"] for each in found.rules] == [
        ["AWS Health Event"],
        ["EC2 Spot Instance Interruption Warning"],
        ["EC2 Instance Rebalance Recommendation"],
        ["EC2 Instance State-change Notification"],
    ]


def test_the_policies_from_0_32_until_1_0() -> None:
    """They ask for no tag that the operator did not set then."""
    found = account((0, 37, 0))
    text = repr([each.document for each in found.policies])

    assert "aws:RequestTag/eks:eks-cluster-name" not in text
    assert "aws:RequestTag/kubernetes.io/cluster/blue" in text
    assert "ec2:DescribeAvailabilityZones" in text
    assert "'aws:RequestTag/eks:eks-cluster-name': 'blue'" in repr(
        [each.document for each in account().policies]
    )


def test_access_follows_the_cluster() -> None:
    """A cluster that reads aws-auth alone gets a mapping, with the groups as Kubernetes spells them."""
    facts = msgspec.structs.replace(FACTS, authentication_mode="CONFIG_MAP")
    found = account_part(
        facts, version=(1, 0, 6), namespace="karpenter", interruption=False, pod_identity=True
    )

    assert isinstance(found.access, AwsAuthMapping)
    assert found.access.groups == ("system:bootstrappers", "system:nodes")
    assert found.association is not None
    assert found.association.service_account == "blueprints-addon-karpenter"


def test_clusters_of_ipv6() -> None:
    """Nodes may assign addresses, and their metadata service answers by IPv6."""
    [document] = account(ipv6=True).node_role.inline.values()
    node_class = stable(
        msgspec.structs.replace(MADE, ipv6=True), nodePoolSpec={}, ec2NodeClassSpec=ALIAS
    ).objects[0]

    assert "ec2:AssignIpv6Addresses" in document["Statement"][0]["Action"]
    assert node_class["spec"]["metadataOptions"]["httpProtocolIPv6"] == "enabled"


def test_pools_and_classes_of_version_1() -> None:
    """What a class does not state follows from the cluster; a pool finds the class of its name."""
    part = stable(ec2NodeClasses={"a": ALIAS, "b": {**ALIAS, "role": "mine"}}, nodePools={"a": {}, "b": {}})
    specs = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in part.objects}

    assert [each["kind"] for each in part.objects] == ["EC2NodeClass", "EC2NodeClass", "NodePool", "NodePool"]
    assert specs["EC2NodeClass", "a"] == {
        **ALIAS,
        "role": "nodes",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
    }
    assert specs["EC2NodeClass", "b"]["role"] == "mine"
    assert specs["NodePool", "b"]["template"]["spec"]["nodeClassRef"]["name"] == "b"
    with pytest.raises(AddOnError, match=r"NodePool c: template\.spec\.nodeClassRef is missing"):
        stable(ec2NodeClasses={"a": ALIAS, "b": ALIAS}, nodePools={"c": {}})


def test_disruption_as_version_1_has_it() -> None:
    """The policy that the types of the blueprints still have is written as version 1 calls it."""
    disruption = {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "240h"}
    part = stable(nodePoolSpec={"disruption": disruption}, ec2NodeClassSpec=ALIAS)
    spec = part.objects[1]["spec"]

    assert spec["disruption"] == {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    assert spec["template"]["spec"]["expireAfter"] == "240h"
    assert any("WhenUnderutilized is WhenEmptyOrUnderutilized now" in each for each in part.warnings)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        pytest.param(
            {"ec2NodeClasses": {"a": {"amiSelectorTerms": [{"alias": "al2024@latest"}]}}},
            "EC2NodeClass a: spec.amiSelectorTerms",
            id="a family that does not exist",
        ),
        pytest.param({"ec2NodeClasses": {"a": {}}}, "EC2NodeClass a: spec.amiSelectorTerms", id="no images"),
        pytest.param(
            {"ec2NodeClasses": {"a": ALIAS}, "nodePools": {"a": {"weight": 101}}},
            "NodePool a: spec.weight",
            id="too heavy",
        ),
        pytest.param(
            {"values": {"settings": {"clusterNam": "a"}}}, "KarpenterV1AddOn: values: ", id="no such value"
        ),
    ],
)
def test_objects_that_are_refused(props: dict[str, Any], message: str) -> None:
    """What the API server or the chart would refuse is refused at synth, by object and field."""
    with pytest.raises(AddOnError) as caught:
        stable(**props)
    assert str(caught.value).startswith(message)


def test_an_image_without_registry_is_a_warning() -> None:
    """The chart of this project names no registry, so the add-on says that nodes cannot pull."""
    assert any("image=REGISTRY/karpenter" in each for each in stable().warnings)
    part = stable(image="registry.example/karpenter")
    assert part.warnings == ()
    assert part.values["controller"] == {"image": {"repository": "registry.example/karpenter"}}
    assert part.chart.repository == ""


def test_the_pods_of_the_documentation() -> None:
    """They are in the namespace, have the name, and carry the label by which the documentation finds them."""
    part = stable(namespace="karpenter", values={"fullnameOverride": "blueprints-addon-karpenter"})
    release = Release(
        namespace=part.namespace,
        chart_version=__version__,
        app_version=__version__,
        values=values_of([dict(part.values)], []),
    )
    [body] = [each for each in manifests(release, definitions=False) if each["kind"] == "Deployment"]

    assert body["metadata"]["name"] == "blueprints-addon-karpenter"
    assert body["metadata"]["namespace"] == "karpenter"
    assert body["spec"]["template"]["metadata"]["labels"]["karpenter"] == "controller"
    assert body["spec"]["template"]["spec"]["serviceAccountName"] == "blueprints-addon-karpenter"


def test_another_chart_for_version_1() -> None:
    """With a version, the chart comes from Karpenter's registry."""
    part = stable(version="v1.3.0")

    assert part.chart.version == "1.3.0"
    assert part.chart.repository == "oci://public.ecr.aws/karpenter/karpenter"
    assert part.warnings == ()


def test_tokens_count_as_allowed() -> None:
    """Ids that CloudFormation knows first pass the patterns of ids."""
    made = AddOnReferences(
        cluster=TOKEN,
        endpoint=TOKEN,
        controller_role=TOKEN,
        node_role=TOKEN,
        instance_profile=TOKEN,
        subnets=(TOKEN,),
        security_groups=(TOKEN,),
    )
    body = node_class_of("a", dict(ALIAS), made)
    check_manifest(body)

    assert body["spec"]["subnetSelectorTerms"] == [{"id": TOKEN}]
    with pytest.raises(AddOnError, match=r"spec\.subnetSelectorTerms"):
        check_manifest(node_class_of("a", {**ALIAS, "subnetSelectorTerms": [{"id": "net"}]}, made))


def test_typed_specs() -> None:
    """Structs of the API and plain mappings become the same manifests."""
    typed = EC2NodeClassSpec(
        subnet_selector_terms=(SubnetSelectorTerm(id="subnet-1"),),
        security_group_selector_terms=(SecurityGroupSelectorTerm(id="sg-1"),),
        ami_selector_terms=(AMISelectorTerm(alias="al2023@latest"),),
    )
    pool = NodePoolSpec(
        template=NodeClaimTemplate(
            spec=PoolTemplateSpec(
                requirements=(PoolRequirement(key="kubernetes.io/arch", operator="In", values=("arm64",)),),
                node_class_ref=NodeClassReference(group="karpenter.k8s.aws", kind="EC2NodeClass", name="a"),
            )
        ),
        limits={"cpu": 10},
    )
    body = node_pool_of("p", spec_of(pool))
    check_manifest(body)

    assert node_class_of("a", spec_of(typed), MADE) == node_class_of("a", dict(ALIAS), MADE)
    assert body["spec"]["limits"] == {"cpu": 10}
    assert body["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "a"
