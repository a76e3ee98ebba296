"""The operator on the embedded AWS: manifests that people have, followed to pods that run, and further."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import yaml

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.api.meta import find_status_condition
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import Pod
from karpenter.api.workloads import Deployment
from karpenter.definition.model import read_definition
from karpenter.definition.objects import render_definition
from karpenter.kube.patches import MergePatch
from karpenter_local.aws.commands import Impair, Interrupt, Kill, Lag, Limit, ReleaseAmi, SellOutOfferings
from tests.integration.sandboxes import SEEDS, apply_manifest, in_aws

if TYPE_CHECKING:
    from karpenter_local.sandbox.sandbox import Sandbox

CLASS: dict[str, Any] = {
    "role": "KarpenterNodeRole-test",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
    "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
}
NEWEST = [{"name": "amazon-eks-node-al2023-x86_64-standard-*", "owner": "amazon"}]
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


async def apply(sandbox: Sandbox, *, bought: tuple[str, ...] = ("on-demand",), **spec: Any) -> None:
    """Create a class, a pool that buys for it and leaves its nodes alone, and a Deployment of no pods."""
    await sandbox.client.create(EC2NodeClass, {"metadata": {"name": "default"}, "spec": {**CLASS, **spec}})
    wanted = {"kubernetes.io/arch": ("amd64",), CAPACITY_TYPE: bought}
    requirements = [{"key": key, "operator": "In", "values": list(values)} for key, values in wanted.items()]
    template = {"nodeClassRef": REFERENCE, "requirements": requirements, "expireAfter": "Never"}
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    body = {
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": template}, "disruption": disruption},
    }
    await sandbox.client.create(NodePool, body)
    await apply_manifest(sandbox, (SEEDS / "inflate.yaml").read_text())


async def scale(sandbox: Sandbox, replicas: int) -> None:
    """Change how many pods the Deployment has."""
    change = MergePatch({"spec": {"replicas": replicas}})
    await sandbox.client.patch(Deployment, "inflate", change, namespace="default")


async def follow(sandbox: Sandbox, manifest: str) -> set[str]:
    """Apply a manifest as it is written, let five pods run on it, and return the images of their machines."""
    await apply_manifest(sandbox, (SEEDS / manifest).read_text())
    await apply_manifest(sandbox, (SEEDS / "inflate.yaml").read_text())
    await scale(sandbox, 5)
    await sandbox.until_running(5)
    nodes = {node.spec.provider_id for node in await sandbox.nodes()}
    claims = {claim.status.provider_id for claim in await sandbox.node_claims()}
    machines = {f"aws:///{each.zone}/{each.id}" for each in sandbox.aws.control.instances()}
    assert nodes == claims == machines
    return {each.image for each in sandbox.aws.control.instances()}


@in_aws(cluster="eks-cluster")
async def test_manifests_of_a_hand_install(sandbox: Sandbox) -> None:
    """The NodePool and EC2NodeClass of one guide lead to nodes and pods that run, as they are written."""
    assert await follow(sandbox, "hand-install.yaml") == {"ami-09f1941e8730d7702"}


@in_aws(cluster="blue")
async def test_manifests_of_a_tutorial(sandbox: Sandbox) -> None:
    """Those of another guide do so, too, with other tags, other images and tags of their own."""
    assert await follow(sandbox, "tutorial.yaml") == {"ami-0d6c6ac554d62a745"}
    (found, *_) = sandbox.aws.site.clients.by_name["ec2"].describe_instances()["Reservations"][0]["Instances"]
    tags = {each["Key"]: each["Value"] for each in found["Tags"]}
    assert tags["eksdemo.io/version"] == "v0.16.0"


@in_aws(cluster="blue", region="eu-west-1")
async def test_a_cluster_definition_becomes_nodes(sandbox: Sandbox) -> None:
    """Both pools of a third guide's definition, as they are written, lead to nodes as they say."""
    plain = yaml.safe_load((SEEDS.parent / "definitions" / "cluster.yaml").read_text())
    listed = yaml.safe_load((SEEDS / "cluster-definition.yaml").read_text())["spec"]["template"]["spec"]
    plain["karpenter"]["node_pools"]["listed"] = {
        "limits": {"cpu": 111},
        "requirements": listed["requirements"],
    }
    definition = read_definition(plain).definition
    assert definition is not None
    await apply_manifest(sandbox, yaml.safe_dump_all(render_definition(definition, cluster_name="blue")))
    await apply_manifest(sandbox, (SEEDS / "inflate.yaml").read_text())
    await scale(sandbox, 2)
    await sandbox.until_running(2)
    first = {node.name for node in await sandbox.nodes()}
    for node in await sandbox.nodes():
        assert node.metadata.labels[CAPACITY_TYPE] == "on-demand"
        assert node.metadata.labels[ZONE].startswith("eu-west-1")
        assert node.metadata.labels["karpenter.sh/nodepool"] == "listed"

    taint = {"key": "role", "value": "foo", "effect": "NoSchedule"}
    pods = {"tolerations": [{**taint, "operator": "Equal"}], "nodeSelector": {"foo": "bar"}}
    change = MergePatch({"spec": {"template": {"spec": pods}}})
    await sandbox.client.patch(Deployment, "inflate", change, namespace="default")

    async def moved() -> bool:
        return bool({node.name for node in await sandbox.nodes()} - first)

    await sandbox.until(moved)
    (node, *_) = [each for each in await sandbox.nodes() if each.name not in first]
    labels = node.metadata.labels
    assert (labels["foo"], node.metadata.annotations["foo"]) == ("bar", "bar")
    assert ("role", "foo", "NoSchedule") in [(each.key, each.value, each.effect) for each in node.spec.taints]
    assert labels["karpenter.k8s.aws/instance-category"] == "c"
    ec2 = sandbox.aws.site.clients.by_name["ec2"]
    machine = ec2.describe_instances(InstanceIds=[node.spec.provider_id.rpartition("/")[2]])
    tags = machine["Reservations"][0]["Instances"][0]["Tags"]
    assert {"Key": "maintainer", "Value": "skyscrapers"} in tags
    templates = [
        ec2.describe_launch_template_versions(LaunchTemplateId=each["LaunchTemplateId"])
        for each in ec2.describe_launch_templates()["LaunchTemplates"]
    ]
    disks = [
        each["LaunchTemplateVersions"][0]["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]
        for each in templates
    ]
    assert (100, "gp3", True) in [
        (each["VolumeSize"], each["VolumeType"], each.get("Encrypted")) for each in disks
    ]


@in_aws()
async def test_from_the_first_node_to_the_last(sandbox: Sandbox) -> None:
    """Nodes are what their machines read; one that vanishes is replaced; with the class, everything goes."""
    sandbox.aws.control.perform(
        Lag(seconds=8)
    )  # none of this depends on EC2 showing at once what it has launched
    await apply(sandbox, kubelet={"maxPods": 17})
    await scale(sandbox, 1)
    await sandbox.until_running(1)
    (node,) = await sandbox.nodes()
    (claim,) = await sandbox.node_claims()
    (machine,) = sandbox.aws.control.instances()
    assert node.name == machine.node
    assert node.status.allocatable == {**claim.status.allocatable}
    assert node.status.allocatable["pods"] == "17"
    assert node.spec.taints == ()
    labels = node.metadata.labels
    assert labels[INSTANCE_TYPE] == machine.instance_type
    assert labels[ZONE] == labels["topology.ebs.csi.aws.com/zone"] == machine.zone

    sandbox.aws.control.perform(Kill(instance=machine.id))

    async def replaced() -> bool:
        return await sandbox.running_pods() == 1 and machine.node not in {
            each.name for each in await sandbox.nodes()
        }

    await sandbox.until(replaced)

    await scale(sandbox, 0)
    await sandbox.client.delete(NodePool, "default")
    await sandbox.client.delete(EC2NodeClass, "default")

    async def gone() -> bool:
        classes = (await sandbox.client.list(EC2NodeClass)).items
        return not classes and not await sandbox.node_claims() and not sandbox.aws.control.instances()

    await sandbox.until(gone, within=1200)
    ec2, iam = sandbox.aws.site.clients.by_name["ec2"], sandbox.aws.site.clients.by_name["iam"]
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert iam.list_instance_profiles()["InstanceProfiles"] == []


FAMILIES: dict[str, dict[str, Any]] = {
    "al2": {"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-0d6c6ac554d62a745"}]},
    "bottlerocket": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    "windows": {"amiSelectorTerms": [{"alias": "windows2022@latest"}]},
    "custom": {
        "amiFamily": "Custom",
        "amiSelectorTerms": NEWEST,
        "userData": """
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: test
    apiServerEndpoint: https://test.example
    certificateAuthority: dGVzdA==
    cidr: 10.100.0.0/16
  kubelet:
    config:
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
""",
    },
}


@in_aws()
async def test_every_family_joins(sandbox: Sandbox) -> None:
    """Machines of every family read what they are told in their own words, and pods run on all of them."""
    for name, spec in FAMILIES.items():
        os = "windows" if name == "windows" else "linux"
        reference = {**REFERENCE, "name": name}
        wanted = {"kubernetes.io/os": os, "kubernetes.io/arch": "amd64", CAPACITY_TYPE: "on-demand"}
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
        template = {
            "metadata": {"labels": {"family": name}},
            "spec": {"nodeClassRef": reference, "requirements": terms},
        }
        body = {"metadata": {"name": name}, "spec": {**CLASS, **spec}}
        await sandbox.client.create(EC2NodeClass, body)
        await sandbox.client.create(NodePool, {"metadata": {"name": name}, "spec": {"template": template}})
        pod = {
            "nodeSelector": {"family": name, "kubernetes.io/os": os},
            "containers": [{"name": "main", "image": "pause"}],
        }
        await sandbox.client.create(Pod, {"metadata": {"name": name}, "spec": pod}, namespace="default")

    await sandbox.until_running(len(FAMILIES))

    systems = {
        node.metadata.labels["family"]: node.status.node_info.os_image for node in await sandbox.nodes()
    }
    assert systems == {
        "al2": "Amazon Linux 2",
        "bottlerocket": "Bottlerocket OS",
        "custom": "Amazon Linux 2023",
        "windows": "Windows Server 2022 Datacenter",
    }


@in_aws()
async def test_a_release_rolls_the_nodes(sandbox: Sandbox) -> None:
    """When a newer image comes out, every node is replaced by one of it, and the pods run there."""
    await apply(sandbox, amiFamily="AL2023", amiSelectorTerms=NEWEST)
    await scale(sandbox, 3)
    await sandbox.until_running(3)
    before = {each.id: each.image for each in sandbox.aws.control.instances()}

    sandbox.aws.control.perform(ReleaseAmi())

    async def rolled() -> bool:
        machines = sandbox.aws.control.instances()
        old = before.keys() & {each.id for each in machines}
        return not old and await sandbox.running_pods() == 3 and len(await sandbox.nodes()) == len(machines)

    await sandbox.until(rolled, within=900)
    assert not {each.image for each in sandbox.aws.control.instances()} & set(before.values())


@in_aws()
async def test_a_changed_class_drifts_its_machines_at_once(sandbox: Sandbox) -> None:
    """NodeClaims are marked when their node class changes, and not when they are looked at next."""
    await apply(sandbox)
    await scale(sandbox, 3)
    await sandbox.until_running(3)
    await asyncio.sleep(60)  # what was begun for the new nodes is done

    change = MergePatch({"spec": {"tags": {"team": "web"}}})
    await sandbox.client.patch(EC2NodeClass, "default", change)

    async def drifted() -> bool:
        claims = await sandbox.node_claims()
        found = [find_status_condition(each.status.conditions, "Drifted") for each in claims]
        return all(each is not None and each.reason == "NodeClassDrift" for each in found)

    await sandbox.until(drifted, within=5)


@in_aws()
async def test_an_interruption_is_over_before_the_machine_dies(sandbox: Sandbox) -> None:
    """A warning is followed by another machine, and pods move there before the first one is taken away."""
    await apply(sandbox, bought=("spot",))
    await scale(sandbox, 1)
    await sandbox.until_running(1)
    (first,) = sandbox.aws.control.instances()

    sandbox.aws.control.perform(Interrupt(instance=first.id))

    async def moved() -> bool:
        pods = await sandbox.pods()
        here = {pod.spec.node_name for pod in pods if pod.status.phase == "Running"}
        return len(pods) == 1 and bool(here) and first.node not in here

    assert await sandbox.until(moved) < 120
    (second,) = (each for each in sandbox.aws.control.instances() if each.id != first.id)
    assert (second.instance_type, second.zone) != (first.instance_type, first.zone)
    await sandbox.until(lambda: first.id not in {each.id for each in sandbox.aws.control.instances()})


@in_aws()
async def test_a_machine_that_is_broken_is_replaced(sandbox: Sandbox) -> None:
    """A machine whose status check fails for two minutes goes, and its pods run elsewhere."""
    await apply(sandbox)
    await scale(sandbox, 1)
    await sandbox.until_running(1)
    (first,) = sandbox.aws.control.instances()

    sandbox.aws.control.perform(Impair(instance=first.id, what="system"))

    async def replaced() -> bool:
        machines = {each.id for each in sandbox.aws.control.instances()}
        return first.id not in machines and await sandbox.running_pods() == 1

    assert await sandbox.until(replaced) > 120


@in_aws()
async def test_what_is_sold_out_is_bought_elsewhere(sandbox: Sandbox) -> None:
    """Where EC2 has nothing left, pods get other machines: in other zones, or of other types."""
    await apply(sandbox)
    sandbox.aws.control.perform(SellOutOfferings(zone="us-west-2a"))
    sandbox.aws.control.perform(SellOutOfferings(zone="us-west-2b"))
    sandbox.aws.control.perform(Limit(instance_type="c5.large", count=1))
    for replicas in (1, 2, 3):
        await scale(sandbox, replicas)
        await sandbox.until_running(replicas)

    machines = sandbox.aws.control.instances()
    assert {each.zone for each in machines} == {"us-west-2c"}
    assert [each.instance_type for each in machines].count("c5.large") == 1
    assert len(machines) > 1


@in_aws(CLUSTER_ENDPOINT="https://elsewhere.example")
async def test_machines_that_were_told_nonsense_do_not_join(sandbox: Sandbox) -> None:
    """With a wrong setting, machines run and do not join; their consoles say why."""
    await apply(sandbox)
    await scale(sandbox, 1)

    def told() -> bool:
        consoles = [sandbox.aws.control.console(each.id) for each in sandbox.aws.control.instances()]
        return any("dial https://elsewhere.example: no such host" in each for each in consoles)

    await sandbox.until(told)
    assert await sandbox.nodes() == []
