"""
Stacks that are synthesised once for all tests, because the first template of a process takes seconds.

CDK is imported inside functions: without node, or without aws-cdk-lib, the tests are skipped and say so.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.install.resources import AwsAuthMapping
from karpenter_local.aws.cloudformation.template import TemplateScope, parse, resolve
from tests.unit.cdk.test_planning import SEED

if TYPE_CHECKING:
    from karpenter.install.plan import InstallationPlan

ACCOUNT, REGION = "123456789012", "us-west-2"
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
PROVIDER = f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}"
POOL = {
    "template": {
        "spec": {
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m"]},
            ]
        }
    },
    "limits": {"cpu": 100},
}
CLASS = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/karpenter"


def need_cdk() -> None:
    """Skip a test, with a sentence, where CDK cannot run."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed, on which CDK runs; hint: install Node.js 22 or later")
    if find_spec("aws_cdk") is None:
        pytest.skip("aws-cdk-lib is not installed; hint: make cdk")


def _stacks(app: Any) -> dict[str, Any]:
    from aws_cdk import Stack, aws_eks, aws_eks_v2  # noqa: PLC0415

    from karpenter.cdk import (  # noqa: PLC0415
        AwsNodeTerminationHandlerAddOn,
        ClusterAutoScalerAddOn,
        EC2NodeClass,
        EksBlueprint,
        KarpenterAddOn,
        KarpenterV1AddOn,
        NodePool,
        VpcCniAddOn,
        deploy_add_ons,
        kubectl_layer,
    )

    def blueprint(name: str, *add_ons: Any, library: Any = "aws_eks_v2", **cluster: Any) -> Any:
        builder = EksBlueprint.builder().library(library).cluster_props(**cluster)
        return builder.add_ons(*add_ons).build(app, name)

    def unnamed() -> Any:
        stack = Stack(app, "unnamed")
        cluster = aws_eks_v2.Cluster(
            stack,
            "Cluster",
            version=aws_eks_v2.KubernetesVersion.of("1.33"),
            default_capacity_type=aws_eks_v2.DefaultCapacityType.NODEGROUP,
            kubectl_provider_options=aws_eks_v2.KubectlProviderOptions(
                kubectl_layer=kubectl_layer(stack, "1.33")
            ),
        )
        add_on = KarpenterV1AddOn(node_pools={"a": POOL}, ec2_node_classes={"a": CLASS}, image=IMAGE)
        deploy_add_ons(cluster, [add_on], kubernetes="1.33")
        return stack

    def config_map() -> Any:
        stack = Stack(app, "config-map")
        layer = kubectl_layer(stack, "1.33")
        cluster = aws_eks.Cluster(
            stack, "Cluster", version=aws_eks.KubernetesVersion.of("1.33"), kubectl_layer=layer
        )
        add_on = KarpenterV1AddOn(version="1.3.0", node_pool_spec={}, ec2_node_class_spec=CLASS)
        deploy_add_ons(cluster, [add_on], kubernetes="1.33")
        node_class = EC2NodeClass(stack, "gpu", cluster=cluster, spec=CLASS, role=add_on.node_role)
        NodePool(stack, "gpu-pool", cluster=cluster, spec=POOL, node_class=node_class)
        return stack

    both = {"node_pools": {"a": POOL, "b": POOL}, "ec2_node_classes": {"a": CLASS, "b": CLASS}}
    return {
        "seed": blueprint("seed", VpcCniAddOn(), KarpenterAddOn(SEED), library="aws_eks"),
        "seed-v2": blueprint("seed-v2", VpcCniAddOn(), KarpenterAddOn(SEED)),
        "bare": blueprint("bare", VpcCniAddOn(), KarpenterAddOn()),
        "blue": blueprint("blue", KarpenterV1AddOn(both, image=IMAGE, pod_identity=True)),
        "irsa": blueprint("irsa", KarpenterV1AddOn(both, image=IMAGE), cluster_name="blue"),
        "moved": blueprint("moved", KarpenterV1AddOn.from_legacy(SEED, image=IMAGE)),
        "others": blueprint("others", ClusterAutoScalerAddOn(), AwsNodeTerminationHandlerAddOn()),
        "unnamed": unnamed(),
        "config-map": config_map(),
    }


def synthesised(plan: InstallationPlan) -> dict[str, Any]:
    """Return the template of a stack whose add-on is asked for what a plan was asked for."""
    from aws_cdk import App, Environment, Stack, assertions, aws_ec2, aws_eks, aws_eks_v2  # noqa: PLC0415

    from karpenter.cdk import KarpenterV1AddOn, deploy_add_ons, kubectl_layer  # noqa: PLC0415

    app = App(context={"@aws-cdk/aws-eks:useNativeOidcProvider": True})
    options, facts = plan.options, plan.facts
    stack = Stack(app, "faces", env=Environment(account=facts.account, region=facts.region))
    vpc = aws_ec2.Vpc(stack, "Vpc", availability_zones=[f"{facts.region}a", f"{facts.region}b"])
    layer = kubectl_layer(stack, "1.33")
    common = {"cluster_name": facts.cluster, "vpc": vpc}
    cluster: Any
    if any(isinstance(each, AwsAuthMapping) for each in plan.resources):
        mode = aws_eks.AuthenticationMode.CONFIG_MAP
        version = aws_eks.KubernetesVersion.of("1.33")
        cluster = aws_eks.Cluster(
            stack, "Cluster", version=version, kubectl_layer=layer, authentication_mode=mode, **common
        )
    else:
        cluster = aws_eks_v2.Cluster(
            stack,
            "Cluster",
            version=aws_eks_v2.KubernetesVersion.of("1.33"),
            default_capacity_type=aws_eks_v2.DefaultCapacityType.NODEGROUP,
            kubectl_provider_options=aws_eks_v2.KubectlProviderOptions(kubectl_layer=layer),
            **common,
        )
    add_on = KarpenterV1AddOn(
        namespace=plan.names.namespace,
        service_account=options.service_account,
        pod_identity=options.identity == "pod-identity",
        create_spot_service_linked_role=True,
        node_pools={"a": POOL},
        ec2_node_classes={"a": CLASS},
        image=IMAGE,
    )
    deploy_add_ons(cluster, [add_on], kubernetes="1.33")
    found: dict[str, Any] = assertions.Template.from_stack(stack).to_json()
    return found


@cache
def templates() -> dict[str, dict[str, Any]]:
    """Return the templates of all stacks, by their names."""
    from aws_cdk import App, assertions  # noqa: PLC0415

    app = App(context={"@aws-cdk/aws-eks:useNativeOidcProvider": True})
    stacks = _stacks(app)
    return {name: assertions.Template.from_stack(stack).to_json() for name, stack in stacks.items()}


class Synthesised:
    """A template with its references worked out."""

    def __init__(self, name: str) -> None:
        need_cdk()
        self.template = templates()[name]
        found = parse(json.dumps(self.template))
        known = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
        }

        def physical(logical: str) -> str:
            return PROVIDER if "OidcProvider" in logical else f"<{logical}>"

        self._scope = TemplateScope(template=found, values=known, physical=physical)

    def of_type(self, kind: str, path: str = "") -> dict[str, Any]:
        """Return the properties of resources of a type, by logical id, whose ids begin with a text."""
        return {
            name: resolve(self._scope, each.get("Properties", {}))
            for name, each in self.template["Resources"].items()
            if each["Type"] == kind and name.startswith(path)
        }

    def one(self, kind: str, part: str = "Karpenter") -> Any:
        """Return the properties of the one resource of a type whose id has a part."""
        [found] = [value for name, value in self.of_type(kind).items() if part in name]
        return found

    def manifests(self) -> list[dict[str, Any]]:
        """Return the objects of Kubernetes, without the label that CDK prunes by."""
        found = [
            body
            for each in self.of_type("Custom::AWSCDK-EKS-KubernetesResource").values()
            for body in json.loads(each["Manifest"])
        ]
        for body in found:
            body["metadata"].pop("labels", None)
        return found

    def object(self, kind: str, name: str) -> dict[str, Any]:
        [found] = [
            each for each in self.manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)
        ]
        return found

    def charts(self) -> dict[str, dict[str, Any]]:
        """Return the releases of Helm by their names, with their values read."""
        charts = self.of_type("Custom::AWSCDK-EKS-HelmChart").values()
        return {each["Release"]: {**each, "Values": json.loads(each["Values"])} for each in charts}

    def after(self, earlier: str, later: str) -> bool:
        """Say whether a resource waits for another, by parts of their ids, also by way of others."""
        resources = self.template["Resources"]
        waiting = [name for name in resources if later in name]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            waiting += resources[name].get("DependsOn", [])
        return any(earlier in name for name in seen)
