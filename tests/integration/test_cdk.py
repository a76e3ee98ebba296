"""The part of a CDK stack that is in the account, made by CloudFormation, and an operator that uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.api.manifests import render_documents
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.workloads import Deployment
from karpenter.cdk.planning import converted_props
from karpenter.cdk.props import KarpenterProps, read_props
from karpenter.cloud.aws.policy import PolicyScope, policies
from karpenter.install.account import read_facts
from karpenter.install.options import InstallationFacts, InstallationOptions
from karpenter.install.resources import KubernetesObject
from karpenter.kube.patches import MergePatch
from tests.integration.installing import CLUSTER, BareSandbox, in_bare_aws
from tests.integration.sandboxes import SEEDS, apply_manifest, in_aws
from tests.integration.test_install import scale
from tests.unit.cdk.synth import need_cdk, templates
from tests.unit.cdk.test_planning import SEED
from tests.unit.cloud.aws.policy.authorizing import Gate
from tests.unit.cloud.aws.policy.evaluator import uses

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.cdk, pytest.mark.usefixtures("untraced")]

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
MADE_HERE = ("AWS::IAM::", "AWS::SQS::", "AWS::Events::", "AWS::EKS::A", "AWS::EKS::PodIdentity")


class DeployedStack:
    """The resources of the add-on and what they refer to, deployed beside a cluster that exists."""

    def __init__(self, world: BareSandbox, name: str) -> None:
        self._world, self.name = world, f"cdk-{name}"
        self.template = templates()[name]
        self.facts = self._facts()
        resources = self.template["Resources"]
        kept = {
            logical: self._about_cluster(each)
            for logical, each in resources.items()
            if each["Type"].startswith(MADE_HERE)
            and (logical.startswith("Karpenter") or "Oidc" in logical or "PodIdentity" in logical)
        }
        for each in kept.values():
            each["DependsOn"] = [other for other in each.get("DependsOn", []) if other in kept]
        self._call(
            "CreateStack",
            TemplateBody=json.dumps({"Resources": kept}),
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        self.ids = {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in self._call("DescribeStackResources")["StackResources"]
        }

    def _facts(self) -> InstallationFacts:
        asked = InstallationOptions(cluster=CLUSTER)
        return read_facts(self._world.aws, asked, region=self._world.account.region)

    def _call(self, operation: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._world.aws.call(
            "cloudformation", operation, StackName=self.name, **more
        )
        return answer

    def _about_cluster(self, value: Any) -> Any:
        """Return a part of the template with what it says of the cluster and its network worked out."""
        if isinstance(value, list):
            return [self._about_cluster(each) for each in value]
        if not isinstance(value, dict):
            return value
        named = value.get("Ref") or (value.get("Fn::GetAtt") or [""])[0]
        kind = self.template["Resources"].get(named, {}).get("Type", "")
        if kind == "AWS::EKS::Cluster":
            return {
                "": CLUSTER,
                "Endpoint": self.facts.endpoint,
                "ClusterSecurityGroupId": self.facts.security_groups[0],
                "OpenIdConnectIssuerUrl": self.facts.issuer,
            }[value.get("Fn::GetAtt", ["", ""])[1]]
        if kind == "AWS::EC2::Subnet":
            return self.facts.subnets[0]
        return {key: self._about_cluster(each) for key, each in value.items()}

    def status(self) -> str:
        [stack] = self._call("DescribeStacks")["Stacks"]
        failed = [
            each["ResourceStatusReason"]
            for each in self._call("DescribeStackEvents")["StackEvents"]
            if each["ResourceStatus"].endswith("FAILED")
        ]
        return " ".join([stack["StackStatus"], *failed])

    def id_of(self, part: str) -> str:
        """Return what a resource is called in the account, by a part of its id in the template."""
        [found] = [
            physical
            for logical, physical in self.ids.items()
            if logical.rstrip("0123456789ABCDEF").endswith(part)
        ]
        return str(found)

    def objects(self) -> list[dict[str, Any]]:
        """Return NodePools and EC2NodeClasses of the stack, as CloudFormation would hand them over."""
        found = []
        for each in self.template["Resources"].values():
            if each["Type"] != MANIFEST:
                continue
            text = self._about_cluster(each["Properties"]["Manifest"])
            if isinstance(text, dict):
                parts = text["Fn::Join"][1]
                text = "".join(self._text(part) for part in parts)
            found += json.loads(text)
        return sorted(
            (each for each in found if each["kind"] in {"NodePool", "EC2NodeClass"}),
            key=lambda each: str(each["kind"]),
        )

    def _text(self, part: Any) -> str:
        if isinstance(part, dict):
            return self.ids[part["Ref"]] if "Ref" in part else str(part)
        return str(part)

    def policies(self) -> dict[str, Any]:
        """Return what the operator's role may do, as IAM tells it."""
        aws, role = self._world.aws, self.id_of("ControllerRole")
        found = {}
        for each in aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=role):
            arn = each["PolicyArn"]
            version = aws.call("iam", "GetPolicy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
            told = aws.call("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version)["PolicyVersion"]
            text = told["Document"]
            found[each["PolicyName"]] = json.loads(text) if isinstance(text, str) else text
        return found

    def delete(self) -> None:
        self._call("DeleteStack")


async def _with_an_operator(world: BareSandbox, name: str) -> None:
    stack = DeployedStack(world, name)
    assert stack.status() == "CREATE_COMPLETE"
    policies = stack.policies()
    told = world.aws.call("iam", "GetRole", RoleName=stack.id_of("ControllerRole"))["Role"]
    trust = json.dumps(told["AssumeRolePolicyDocument"])
    assert (stack.facts.issuer.removeprefix("https://") if name == "irsa" else "pods.eks") in trust
    for each in world.plan().resources:
        if isinstance(each, KubernetesObject) and each.body["kind"] == "CustomResourceDefinition":
            await world.kubernetes.apply(msgspec.json.decode(msgspec.json.encode(each.body)))
    for body in stack.objects():
        await world.kubernetes.apply(body)
    async with world.operator():
        world.account.forget_calls()
        await scale(world, 2)
        claims = (await world.client.list(NodeClaim)).items
        asked = world.account.calls()
    gate = Gate(account=world.account.number, cluster=CLUSTER, role=stack.id_of("AccountNodeRole"))
    denied = {
        (request.action, request.resource)
        for each in gate.questions(asked)
        for request in each.requests
        if not uses(policies, request)
    }
    assert claims
    assert "CreateFleet" in {call.operation for call in asked}
    assert "ReceiveMessage" in {call.operation for call in asked}
    assert denied == set()


@pytest.mark.parametrize(
    "name", [pytest.param("blue", id="with pod identity"), pytest.param("irsa", id="with IRSA")]
)
def test_the_operator_may_do_all_that_it_does(name: str) -> None:
    """Pods get machines from the stack's pool, and the stack's policies allow every call on the way."""
    need_cdk()

    async def test(world: BareSandbox) -> None:
        await _with_an_operator(world, name)

    in_bare_aws(test)()


def test_a_cluster_that_cloudformation_names() -> None:
    """Documents that are written as text mean the same; events reach the queue; and all of it goes away."""
    need_cdk()

    async def test(world: BareSandbox) -> None:
        stack = DeployedStack(world, "unnamed")
        assert stack.status() == "CREATE_COMPLETE"
        queue, role = stack.id_of("InterruptionQueue").rpartition("/")[2], stack.id_of("AccountNodeRole")
        scope = PolicyScope(
            cluster=CLUSTER,
            region=world.account.region,
            account=world.account.number,
            node_role=role,
            queue=queue,
        )
        have = sorted(json.dumps(each, sort_keys=True) for each in stack.policies().values())

        assert have == sorted(json.dumps(each, sort_keys=True) for each in policies(scope).values())
        entry = {"Source": "aws.ec2", "DetailType": "EC2 Spot Instance Interruption Warning", "Detail": "{}"}
        world.aws.call("events", "PutEvents", Entries=[entry])
        url = world.aws.call("sqs", "GetQueueUrl", QueueName=queue)["QueueUrl"]
        [message] = world.aws.call("sqs", "ReceiveMessage", QueueUrl=url)["Messages"]
        assert json.loads(message["Body"])["detail-type"] == entry["DetailType"]
        stack.delete()
        names = [each["RoleName"] for each in world.aws.every("iam", "ListRoles", "Roles")]
        assert role not in names
        assert not world.aws.call("sqs", "ListQueues").get("QueueUrls")

    in_bare_aws(test)()


@in_aws(cluster="blueprint-construct-dev", region="us-west-2")
async def test_the_props_of_the_documentation(sandbox: Sandbox) -> None:
    """Ten pods run on the type, off the zone and behind the taint that the documented props name."""
    discovery = {"karpenter.sh/discovery": "blueprint-construct-dev"}
    tags = {"subnetTags": discovery, "securityGroupTags": discovery}
    props = read_props(KarpenterProps, SEED, {**tags, "version": "1.0.6"}, identifier="KarpenterAddOn")
    objects, _ = converted_props(props, node_role="KarpenterNodeRole-blueprint-construct-dev")
    # There is no AL2 image for the Kubernetes that the site runs.
    objects[0]["spec"]["amiSelectorTerms"] = [{"alias": "al2023@latest"}]
    await apply_manifest(sandbox, render_documents(objects))
    await apply_manifest(sandbox, (SEEDS / "inflate.yaml").read_text("utf-8"))
    tolerations = [{"key": "workload", "operator": "Exists"}]
    change = {"spec": {"replicas": 10, "template": {"spec": {"tolerations": tolerations}}}}
    await sandbox.client.patch(Deployment, "inflate", MergePatch(change), namespace="default")
    await sandbox.until_running(10)
    nodes = await sandbox.nodes()

    assert {node.metadata.labels[INSTANCE_TYPE] for node in nodes} == {"m5.2xlarge"}
    assert "us-west-2c" not in {node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes}
    assert {("workload", "test", "NoSchedule")} <= {
        (each.key, each.value, each.effect) for node in nodes for each in node.spec.taints
    }
