"""Stacks of CDK as they are synthesised, in one process and without network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from karpenter.cdk.planning import account_part
from karpenter.cdk.rules import AddOnError
from karpenter.install.options import InstallationFacts
from tests.unit.cdk.synth import (
    ACCOUNT,
    CLASS,
    ISSUER,
    POOL,
    PROVIDER,
    REGION,
    Synthesised,
    need_cdk,
    templates,
)
from tests.unit.cdk.test_planning import SEED

pytestmark = pytest.mark.cdk

SEEDS = ("seed", "seed-v2")
ROLE = "eks.amazonaws.com/role-arn"


@pytest.mark.parametrize("name", SEEDS)
def test_the_provisioner_of_the_documentation(name: str) -> None:
    """The example of the documentation synthesises to its Provisioner, with both libraries."""
    spec = Synthesised(name).object("Provisioner", "default")["spec"]

    assert spec["requirements"][1] == {
        "key": "topology.kubernetes.io/zone",
        "operator": "NotIn",
        "values": ["us-west-2c"],
    }
    assert spec["provider"] == {
        "amiFamily": "AL2",
        "subnetSelector": SEED["subnetTags"],
        "securityGroupSelector": SEED["securityGroupTags"],
    }
    assert (spec["taints"], spec["consolidation"]) == (SEED["taints"], {"enabled": True})
    assert (spec["ttlSecondsUntilExpired"], spec["weight"]) == (2592000, 20)


@pytest.mark.parametrize("name", SEEDS)
def test_the_chart_of_the_documentation(name: str) -> None:
    """Namespace, service account, chart and values are those of the documentation."""
    stack = Synthesised(name)
    chart = stack.charts()["karpenter"]
    settings = chart["Values"]["settings"]["aws"]

    assert (chart["Namespace"], chart["Version"]) == ("karpenter", "v0.25.0")
    assert chart["Repository"] == "oci://public.ecr.aws/karpenter/karpenter"
    assert set(settings) == {
        "clusterName",
        "clusterEndpoint",
        "defaultInstanceProfile",
        "interruptionQueueName",
    }
    assert settings["clusterName"] == name
    assert settings["clusterEndpoint"].endswith(".Endpoint>")
    assert chart["Values"]["serviceAccount"]["name"] == "blueprints-addon-karpenter"
    assert chart["Values"]["serviceAccount"]["create"] is False
    assert stack.object("Namespace", "karpenter")
    account = stack.object("ServiceAccount", "blueprints-addon-karpenter")
    assert account["metadata"]["annotations"] == chart["Values"]["serviceAccount"]["annotations"]


@pytest.mark.parametrize("name", SEEDS)
def test_roles_queue_and_rules_of_the_documentation(name: str) -> None:
    """There are node role, instance profile, controller policy, a queue with its policy, and four rules."""
    stack = Synthesised(name)
    trust = json.loads(stack.one("AWS::IAM::Role", "AccountControllerRole")["AssumeRolePolicyDocument"])
    node = stack.one("AWS::IAM::Role", "AccountNodeRole")
    [statement] = trust["Statement"]
    rules = stack.of_type("AWS::Events::Rule", "Karpenter")

    assert node["RoleName"] == f"KarpenterNodeRole-{name}"
    assert node["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert [each.rpartition("/")[2] for each in node["ManagedPolicyArns"]] == [
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ]
    assert (
        stack.one("AWS::IAM::InstanceProfile")["InstanceProfileName"]
        == f"KarpenterNodeInstanceProfile-{name}"
    )
    assert stack.one("AWS::IAM::ManagedPolicy")["ManagedPolicyName"] == f"KarpenterControllerPolicy-{name}"
    assert statement["Principal"] == {"Federated": PROVIDER}
    assert statement["Condition"]["StringEquals"] == {
        f"{ISSUER}:aud": "sts.amazonaws.com",
        f"{ISSUER}:sub": "system:serviceaccount:karpenter:blueprints-addon-karpenter",
    }
    assert stack.one("AWS::SQS::Queue")["MessageRetentionPeriod"] == 300
    assert stack.one("AWS::SQS::QueuePolicy")["PolicyDocument"]["Id"] == "EC2InterruptionPolicy"
    assert len(rules) == 4
    assert {"EC2 Instance State-change Notification"} <= {
        each["EventPattern"]["detail-type"][0] for each in rules.values()
    }


def test_the_order_of_the_documentation() -> None:
    """VPC CNI, roles, node groups, namespace and service account come before the chart, the pool after it."""
    stack = Synthesised("seed")

    for earlier in (
        "VpcCniAddOn",
        "AccountNodeRole",
        "AccountControllerPolicy",
        "NodegroupDefault",
        "OperatorNamespace",
        "OperatorServiceAccount",
        "InterruptionQueue",
    ):
        assert stack.after(earlier, "OperatorChart"), earlier
    assert stack.after("OperatorNamespace", "OperatorServiceAccount")
    assert stack.after("OperatorChart", "OperatorProvisioner")


def test_without_tags_and_interruption_handling() -> None:
    """There is neither a Provisioner, nor a queue, nor a rule; the chart is told no queue."""
    stack = Synthesised("bare")

    assert {each["kind"] for each in stack.manifests()} == {"Namespace", "ServiceAccount"}
    assert not stack.of_type("AWS::SQS::Queue")
    assert not stack.of_type("AWS::Events::Rule")
    assert stack.charts()["karpenter"]["Values"]["settings"]["aws"]["interruptionQueueName"] == ""
    assert "sqs:" not in json.dumps(stack.one("AWS::IAM::ManagedPolicy"))


@pytest.mark.parametrize("name", ["blue", "irsa"])
def test_version_1_is_the_plan_of_install(name: str) -> None:
    """Policies, roles and rules of the template are those of the installation plan, name by name."""
    stack = Synthesised(name)
    facts = InstallationFacts(
        cluster="blue",
        account=ACCOUNT,
        region=REGION,
        issuer=f"https://{ISSUER}",
        subnets=("s",),
        security_groups=("g",),
    )
    part = account_part(
        facts, version=(1, 14, 0), namespace="kube-system", interruption=True, pod_identity=name == "blue"
    )
    policies = stack.of_type("AWS::IAM::ManagedPolicy", "Karpenter").values()
    rules = stack.of_type("AWS::Events::Rule", "Karpenter").values()
    role = stack.one("AWS::IAM::Role", "AccountControllerRole")
    trust = role["AssumeRolePolicyDocument"]

    queue = part.queue
    assert queue is not None
    made = f"<{next(iter(stack.of_type('AWS::SQS::Queue')))}.Arn>"
    assert {
        each["ManagedPolicyName"]: json.dumps(each["PolicyDocument"]).replace(made, queue.arn)
        for each in policies
    } == {each.name: json.dumps(each.document) for each in part.policies}
    assert {each["Name"]: each["EventPattern"] for each in rules} == {
        each.name: each.pattern for each in part.rules
    }
    assert (json.loads(trust) if isinstance(trust, str) else trust) == part.controller_role.trust
    assert stack.one("AWS::SQS::Queue")["QueueName"] == "blue"
    entry = stack.one("AWS::EKS::AccessEntry")
    assert entry["Type"] == "EC2_LINUX"


def test_pod_identity() -> None:
    """The role trusts EKS, the association names the service account, and the agent is an add-on."""
    stack = Synthesised("blue")
    association = stack.one("AWS::EKS::PodIdentityAssociation")

    assert (association["Namespace"], association["ServiceAccount"]) == (
        "kube-system",
        "blueprints-addon-karpenter",
    )
    agents = [each["AddonName"] for each in stack.of_type("AWS::EKS::Addon").values()]
    assert agents == ["eks-pod-identity-agent"]
    assert stack.charts()["karpenter"]["Values"]["serviceAccount"] == {
        "create": True,
        "name": "blueprints-addon-karpenter",
    }
    assert not stack.of_type("AWS::IAM::OIDCProvider")


def test_pools_and_classes_of_version_1() -> None:
    """Classes get role, subnets and security group of the cluster, and come before their pools."""
    stack = Synthesised("irsa")
    node_class, pool = stack.object("EC2NodeClass", "b")["spec"], stack.object("NodePool", "b")["spec"]

    assert node_class["role"].startswith("<KarpenterV1AddOnAccountNodeRole")
    assert len(node_class["subnetSelectorTerms"]) == 2
    assert node_class["securityGroupSelectorTerms"][0]["id"].endswith("ClusterSecurityGroupId>")
    assert pool["template"]["spec"]["nodeClassRef"]["name"] == "b"
    assert pool["limits"] == {"cpu": 100}
    assert stack.after("OperatorChart", "OperatorEC2NodeClassa")
    assert stack.after("OperatorEC2NodeClassb", "OperatorNodePoolb")


def test_the_chart_of_this_project_is_in_the_stack() -> None:
    """Operator and definitions come from charts that CDK uploads; definitions come first."""
    stack = Synthesised("blue")
    charts = stack.charts()

    assert set(charts) == {"karpenter", "karpenter-crd"}
    assert all(each["ChartAssetURL"].startswith("s3://") for each in charts.values())
    assert charts["karpenter"]["SkipCrds"] is True
    assert stack.after("OperatorDefinitions", "OperatorChart")


def test_legacy_props_on_version_1() -> None:
    """Props of the documentation become a NodePool and an EC2NodeClass of the operator of this project."""
    stack = Synthesised("moved")
    pool = stack.object("NodePool", "default")["spec"]

    assert pool["template"]["spec"]["expireAfter"] == "720h"
    assert pool["weight"] == 20
    assert stack.object("EC2NodeClass", "default")["spec"]["role"].startswith("<Karpenter")


def test_a_cluster_that_cloudformation_names() -> None:
    """Nothing is named after it, since its name may be too long, and documents still hold its name."""
    stack = Synthesised("unnamed")
    policies = stack.of_type("AWS::IAM::ManagedPolicy", "Karpenter")
    document = next(each for name, each in policies.items() if "NodeLifecycle" in name)["PolicyDocument"]
    [cluster] = stack.of_type("AWS::EKS::Cluster")
    passing = next(each for name, each in policies.items() if "IAMIntegration" in name)["PolicyDocument"]

    assert not any("ManagedPolicyName" in each for each in policies.values())
    assert not any("RoleName" in each for each in stack.of_type("AWS::IAM::Role", "Karpenter").values())
    assert "QueueName" not in stack.one("AWS::SQS::Queue")
    assert f"aws:ResourceTag/kubernetes.io/cluster/<{cluster}>" in json.dumps(json.loads(document))
    assert "role/<KarpenterV1AddOnAccountNodeRole" in passing
    assert stack.charts()["karpenter"]["Values"]["settings"]["interruptionQueue"].endswith(".QueueName>")


def test_a_cluster_that_reads_aws_auth() -> None:
    """The role of nodes is mapped in aws-auth, with both groups, and there is no access entry."""
    stack = Synthesised("config-map")
    auth = stack.object("ConfigMap", "aws-auth")
    [mine] = [each for each in json.loads(auth["data"]["mapRoles"]) if "AccountNodeRole" in each["rolearn"]]

    assert mine["groups"] == ["system:bootstrappers", "system:nodes"]
    assert mine["username"] == "system:node:{{EC2PrivateDNSName}}"
    assert not stack.of_type("AWS::EKS::AccessEntry")


def test_constructs_for_pools_and_classes() -> None:
    """A NodePool names its EC2NodeClass and comes after it, both after the operator."""
    stack = Synthesised("config-map")

    assert stack.object("NodePool", "gpu-pool")["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "gpu"
    assert stack.object("EC2NodeClass", "gpu")["spec"]["role"].startswith("<KarpenterV1AddOnAccountNodeRole")
    assert stack.after("gpuManifest", "gpupool")
    assert stack.after("OperatorChart", "gpuManifest")


def test_other_add_ons() -> None:
    """The Cluster Autoscaler and the Node Termination Handler are charts of their own."""
    charts = Synthesised("others").charts()

    assert set(charts) == {"cluster-autoscaler", "aws-node-termination-handler"}
    assert charts["cluster-autoscaler"]["Values"]["autoDiscovery"]["clusterName"].startswith("<Cluster")


def test_refusals_come_before_cdk() -> None:
    """Bad lists, bad props, imported clusters and bad objects are refused by one sentence each."""
    need_cdk()
    from aws_cdk import App, Stack, aws_eks  # noqa: PLC0415

    from karpenter.cdk import (  # noqa: PLC0415
        EC2NodeClass,
        EksBlueprint,
        KarpenterAddOn,
        KarpenterV1AddOn,
        NodePool,
        deploy_add_ons,
    )

    app = App()
    stack = Stack(app, "importing")
    imported: Any = aws_eks.Cluster.from_cluster_attributes(stack, "Imported", cluster_name="blue")
    with pytest.raises(AddOnError, match="Assertion failed: Missing a dependency for VpcCniAddOn"):
        EksBlueprint.builder().add_ons(KarpenterAddOn(SEED)).build(app, "my-stack-name")
    with pytest.raises(AddOnError, match="must be mutually exclusive"):
        KarpenterAddOn(SEED, ttl_seconds_after_empty=30)
    with pytest.raises(AddOnError, match="cannot be used with imported clusters"):
        deploy_add_ons(imported, [KarpenterV1AddOn()], kubernetes="1.33")
    with pytest.raises(AddOnError, match="imported clusters"):
        EC2NodeClass(stack, "a", cluster=imported, spec=CLASS)
    with pytest.raises(AddOnError, match=r"nodeClassRef is missing"):
        NodePool(stack, "p", cluster=imported, spec=POOL)
    with pytest.raises(AddOnError, match=r"pip install aws-cdk\.lambda-layer-kubectl-v19|kubectl-v19"):
        EksBlueprint.builder().version("1.19").build(App(), "old")


def test_the_builder_keeps_the_order() -> None:
    """Add-ons are deployed in the order in which they were added, by one call or by several."""
    need_cdk()
    from constructs import Construct  # noqa: PLC0415

    from karpenter.cdk import ClusterAddOn, EksBlueprint  # noqa: PLC0415

    deployed: list[str] = []

    class Noted(ClusterAddOn):
        def __init__(self, name: str) -> None:
            self.id = name

        def deploy(self, context: Any) -> Any:
            deployed.append(self.id)
            return Construct(context.view.stack, self.id)

    from aws_cdk import App  # noqa: PLC0415

    builder = EksBlueprint.builder().add_ons(Noted("a"), Noted("b")).add_ons(Noted("c"))
    stack = builder.build(App(), "ordered")

    assert deployed == ["a", "b", "c"]
    assert list(stack.add_ons) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["seed", "seed-v2", "blue", "irsa", "unnamed", "config-map"])
def test_templates_pass_cfn_lint(name: str) -> None:
    """cfn-lint finds no error, and of warnings only those about dependencies that CDK states twice."""
    need_cdk()
    lint = pytest.importorskip("cfnlint.api", reason="cfn-lint is not installed; hint: pip install cfn-lint")
    from cfnlint.config import ManualArgs  # noqa: PLC0415

    found = lint.lint(json.dumps(templates()[name]), config=ManualArgs(regions=[REGION]))

    assert {each.rule.id for each in found} <= {"W3005", "W2511"}, found


DOCS = Path(__file__).parents[3]
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "docs/guides/cdk.md").read_text("utf-8"), re.DOTALL)


def test_the_guide_shows_the_example() -> None:
    """The first block of the guide is the example, to the letter."""
    assert BLOCKS[0] == (DOCS / "examples/cdk/app.py").read_text("utf-8")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_of_the_guide_synthesises(number: int) -> None:
    """Each block is a whole program that writes a template."""
    need_cdk()
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BLOCKS[number], f"block {number}", "exec"), names)  # noqa: S102  our own text

    [template] = Path(names["app"].synth().directory).glob("*.template.json")
    assert "Custom::AWSCDK-EKS-HelmChart" in template.read_text("utf-8")
