"""Converted objects on the embedded AWS: what people had before version 1 leads to pods that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE
from karpenter.api.manifests import render_documents
from karpenter.api.workloads import Deployment
from karpenter.convert.documents import OldDocument, convert_documents
from karpenter.convert.findings import ConversionOptions
from karpenter.kube.patches import MergePatch
from tests.integration.sandboxes import SEEDS, apply_manifest, in_aws

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

OLD = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  labels: {team: a}
  requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  kubeletConfiguration: {maxPods: 17}
  providerRef: {name: bottlerocket}
  ttlSecondsUntilExpired: 2592000
  ttlSecondsAfterEmpty: 30
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: bottlerocket
spec:
  amiFamily: Bottlerocket
  instanceProfile: gone
  subnetSelector: {karpenter.sh/discovery: test}
  securityGroupSelector: {karpenter.sh/discovery: test}
  tags: {cost-center: "42"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: old}
spec:
  replicas: 3
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec:
      nodeSelector: {karpenter.sh/provisioner-name: default}
      containers:
        - {name: c, image: example, resources: {requests: {cpu: "1"}}}
"""


def converted(text: str) -> str:
    documents = [OldDocument(plain=each) for each in yaml.safe_load_all(text)]
    found = convert_documents(documents, ConversionOptions(node_role="KarpenterNodeRole-test"))
    assert not [each for result in found for each in result.findings if each.level == "error"]
    return render_documents([plain for result in found for plain in result.plains])


@in_aws()
async def test_a_provisioner_a_template_and_a_workload(sandbox: Sandbox) -> None:
    """Nodes are what the old objects asked for, down to kubelet settings, tags and labels of pods."""
    await apply_manifest(sandbox, converted(OLD))
    await sandbox.until_running(3)

    for node in await sandbox.nodes():
        assert node.metadata.labels[INSTANCE_TYPE] in {"m5.large", "m5.xlarge"}
        assert node.metadata.labels[CAPACITY_TYPE] == "spot"
        assert node.metadata.labels["team"] == "a"
        assert node.status.allocatable["pods"] == "17"
    (found, *_) = sandbox.aws.site.clients.by_name["ec2"].describe_instances()["Reservations"][0]["Instances"]
    assert {each["Key"]: each["Value"] for each in found["Tags"]}["cost-center"] == "42"


@in_aws(cluster="blueprint-construct-dev", region="us-east-1")
async def test_the_manifest_of_the_guide(sandbox: Sandbox) -> None:
    """Its Provisioner buys the one type in the one zone that it names."""
    text = (SEEDS / "legacy-provisioner.yaml").read_text("utf-8")
    plain = yaml.safe_load(text)
    discovery = {"karpenter.sh/discovery": "blueprint-construct-dev"}
    plain["spec"]["provider"] |= {"subnetSelector": discovery, "securityGroupSelector": discovery}
    found = convert_documents(
        [OldDocument(plain=plain)], ConversionOptions(node_role="KarpenterNodeRole-blueprint-construct-dev")
    )
    objects = [each for result in found for each in result.plains]
    for each in objects:
        if each["kind"] == "EC2NodeClass":  # there is no AL2 image for the Kubernetes that the site runs
            each["spec"]["amiSelectorTerms"] = [{"alias": "al2023@latest"}]
    await apply_manifest(sandbox, render_documents(objects))
    await apply_manifest(sandbox, (SEEDS / "inflate.yaml").read_text("utf-8"))
    await sandbox.client.patch(
        Deployment, "inflate", MergePatch({"spec": {"replicas": 5}}), namespace="default"
    )
    await sandbox.until_running(5)

    assert {node.metadata.labels[INSTANCE_TYPE] for node in await sandbox.nodes()} == {"m5.2xlarge"}
    assert {node.metadata.labels["topology.kubernetes.io/zone"] for node in await sandbox.nodes()} == {
        "us-east-1c"
    }
