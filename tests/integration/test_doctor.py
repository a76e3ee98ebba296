"""The doctor on the embedded AWS and the embedded cluster: facts are gathered by real calls."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any

import boto3
import msgspec
import pytest
from click.testing import CliRunner

from karpenter.api.crd.definitions import DEFINITIONS, render
from karpenter.api.manifests import render_documents
from karpenter.cli.doctor import doctor
from karpenter.doctor.facts import AwsFacts, DoctorFacts
from karpenter.doctor.gather import read_cluster
from karpenter.doctor.gather_aws import AccountReader
from karpenter.doctor.rules import diagnose
from karpenter.kube.client import Client
from karpenter.kube.targets import untyped
from karpenter_local import kubeconfig
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.apiserver.verbs.logs import ContainerLog
from karpenter_local.aws.quotas import forget_quotas, set_quota
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import ClusterAccount
from karpenter_local.cluster import LocalCluster
from karpenter_local.sandbox.cluster import install_definitions
from karpenter_local.virtual import VirtualClock, run_virtual
from tests.integration.process import connected
from tests.integration.serving import Running
from tests.unit.doctor.world import CLASS, OPERATOR, POOL, WORKLOAD, changed, facts, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


CONTROLLER = "WideControllerRole"
WIDE: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["ec2:*", "iam:*"], "Resource": "*"}],
}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
SERVED = (
    ("NodePool", untyped("karpenter.sh/v1", "nodepools", kind="NodePool", namespaced=False)),
    (
        "EC2NodeClass",
        untyped("karpenter.k8s.aws/v1", "ec2nodeclasses", kind="EC2NodeClass", namespaced=False),
    ),
    ("Deployment", untyped("apps/v1", "deployments", kind="Deployment", namespaced=True)),
    ("ServiceAccount", untyped("v1", "serviceaccounts", kind="ServiceAccount", namespaced=True)),
)


@pytest.fixture(scope="module")
def site() -> Iterator[ClusterAccount]:
    """An account with everything that a cluster needs, for the tests of this module."""
    with EmbeddedAws() as server:
        made = ClusterAccount(server, cluster="blue", types=("c5.large",))
        yield made
        made.close()


def clients(site: ClusterAccount) -> Callable[[str], Any]:
    found = site.environment
    session = boto3.Session(
        aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        region_name=found["AWS_REGION"],
    )
    return lambda name: session.client(name, endpoint_url=found["AWS_ENDPOINT_URL"])


def read(site: ClusterAccount, known: DoctorFacts) -> DoctorFacts:
    reader = AccountReader(clients(site), region=site.environment["AWS_REGION"], cluster="blue")
    aws = reader.read(known)
    return msgspec.structs.replace(known, aws=aws, unread=reader.unread)


def found(known: DoctorFacts, *rules: str) -> list[str]:
    return [each.message for each in diagnose(known).findings if each.rule in rules]


def test_every_fact_is_read_or_said_not_to_be(site: ClusterAccount) -> None:
    """Whatever AWS does not tell has a reason, and the facts that rules need most are there."""
    known = read(site, facts(POOL, CLASS, OPERATOR))
    named = {field.name for field in msgspec.structs.fields(AwsFacts)}
    missing = {name for name in named if getattr(known.aws, name) is None}

    assert {f"aws.{name}" for name in missing} == known.unread.keys()
    assert missing.isdisjoint(
        {"zones", "subnets", "security_groups", "roles", "queues", "eks", "event_rules"}
    )
    assert known.aws.eks is not None
    assert known.aws.eks.vpc.startswith("vpc-")


def test_a_sound_network_has_no_findings(site: ClusterAccount) -> None:
    """What the account has is what the class selects."""
    known = read(site, facts(POOL, CLASS, OPERATOR))
    sound = (
        "subnet-selector",
        "security-group-selector",
        "subnet-zones",
        "zone-unknown",
        "node-role",
        "queue-missing",
    )

    assert found(known, *sound) == []
    assert not [each for each in diagnose(known).skipped if set(sound) & set(each.rules)]


def test_what_is_not_there_is_found(site: ClusterAccount) -> None:
    """Tags, roles, profiles and queues that do not exist are named."""
    text = changed(
        CLASS, ("discovery: blue", "discovery: green"), ("role: KarpenterNodeRole-blue", "role: gone")
    )
    other = changed(
        CLASS, ("name: default", "name: other"), ("role: KarpenterNodeRole-blue", "instanceProfile: gone")
    )
    known = read(site, facts(POOL, text, other, changed(OPERATOR, ("value: blue}", "value: gone}"))))

    assert found(known, "subnet-selector") == ["no subnet of us-west-2 has karpenter.sh/discovery=green"]
    assert found(known, "node-role") == ["the role gone does not exist in the account"]
    assert found(known, "instance-profile") == ["the instance profile gone does not exist"]
    assert found(known, "queue-missing") == ["does not exist in us-west-2"]


def test_policies_of_the_operator_s_role(site: ClusterAccount) -> None:
    """Policies are read from the role, inline and managed, and judged with line and column."""
    iam = clients(site)("iam")
    arn = iam.create_role(RoleName=CONTROLLER, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
    iam.put_role_policy(RoleName=CONTROLLER, PolicyName="wide", PolicyDocument=json.dumps(WIDE))
    narrow = {
        "Version": "2012-10-17",
        "Statement": [{**WIDE["Statement"][0], "Action": "ec2:DescribeImages"}],
    }
    policy = iam.create_policy(PolicyName="narrow", PolicyDocument=json.dumps(narrow))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=CONTROLLER, PolicyArn=policy)
    annotated = f"""
apiVersion: v1
kind: ServiceAccount
metadata: {{name: karpenter, namespace: kube-system, annotations: {{eks.amazonaws.com/role-arn: "{arn}"}}}}
"""
    known = read(site, facts(POOL, CLASS, OPERATOR, annotated))
    role = (known.aws.roles or {})[CONTROLLER]
    wide = [each for each in diagnose(known).findings if each.rule == "policy-wildcard-action"]

    assert role is not None
    assert [each.source for each in role.policies] == ["policy/narrow", f"role/{CONTROLLER}/wide"]
    assert [each.message for each in wide] == [
        "ec2:* allows every action of ec2",
        "iam:* allows every action of iam",
    ]
    assert wide[0].object.startswith(f"role/{CONTROLLER}/wide:")


def test_rules_that_reach_the_queue(site: ClusterAccount) -> None:
    """Rules are found by their target, and a misspelt one is told from those that are missing."""
    make = clients(site)
    queue = make("sqs").get_queue_url(QueueName="blue")["QueueUrl"]
    arn = make("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    events = make("events")
    pattern = {"source": ["aws.ec2"], "detail-type": ["C2 Instance State-change Notification"]}
    events.put_rule(Name="doctor-state", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="doctor-state", Targets=[{"Id": "q", "Arn": arn}])
    known = read(site, facts(OPERATOR))
    events.remove_targets(Rule="doctor-state", Ids=["q"])

    assert "'C2 Instance State-change Notification' matches no event" in found(known, "event-rules")


def test_the_command_on_an_account(
    site: ClusterAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command finds the account as every program does: by the environment."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    manifest = tmp_path / "class.yaml"
    manifest.write_text(f"{POOL}---{changed(CLASS, ('discovery: blue', 'discovery: green'))}", "utf-8")
    result = CliRunner().invoke(
        doctor, ["-f", str(manifest), "--region", "us-west-2", "--cluster", "blue", "-o", "json"]
    )

    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert {"subnet-selector", "security-group-selector"} <= {each["rule"] for each in data["findings"]}
    assert "reading the AWS account, us-west-2, cluster blue" in result.stderr


def test_quotas_are_read(site: ClusterAccount) -> None:
    """Limits come from Service Quotas, what is used from the instances that run."""
    set_quota(site.account, "L-1216C47A", 8)
    ec2 = clients(site)("ec2")
    [image, *_] = ec2.describe_images()["Images"]
    made = ec2.run_instances(ImageId=image["ImageId"], InstanceType="c5.xlarge", MinCount=2, MaxCount=2)
    known = read(site, facts(POOL, CLASS, OPERATOR))
    ec2.terminate_instances(InstanceIds=[each["InstanceId"] for each in made["Instances"]])
    forget_quotas(site.account)

    assert found(known, "quota-used") == [
        (
            "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances is used up in us-west-2: 8 of 8"
            " vCPUs run"
        )
    ]


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        pytest.param(
            "blue", "reading the AWS account, us-west-2, cluster blue", id="the cluster of the tags"
        ),
        pytest.param(
            "green",
            "the AWS account was not read: cluster green does not exist in us-west-2",
            id="another one",
        ),
    ],
)
def test_the_account_of_a_live_cluster_is_found(
    site: ClusterAccount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: str, said: str
) -> None:
    """Neither region nor cluster have to be given; an account that cannot be read is no error."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    running = Running()
    assert running.front is not None
    front = running.front
    config = kubeconfig.render(
        name="live", url=front.url, authority=front.certificates.authority, token=front.token
    )
    kubeconfig.write(tmp_path / "kubeconfig", config)
    node_class = changed(CLASS, ("subnetSelectorTerms: [{tags: {karpenter.sh/discovery: blue}}]", SUBNETS))

    async def fill() -> None:
        async with connected(tmp_path / "kubeconfig") as client:
            await install_definitions(client)
            for each in objects(node_class.replace("CLUSTER", cluster)):
                await client.create(dict(SERVED)[each.identity[1]], each.plain)

    asyncio.run(fill())
    result = CliRunner().invoke(doctor, ["--kubeconfig", str(tmp_path / "kubeconfig")])
    running.stop()

    assert said in " ".join(result.stderr.split())
    assert ("give --region and --cluster" in result.stderr) is (cluster == "green")


SUBNETS = "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: CLUSTER}}]"


def test_a_cluster_that_is_not_there(site: ClusterAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that EKS does not know is refused, with the names that it knows."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(doctor, ["--region", "us-west-2", "--cluster", "red"])

    assert result.exit_code == 2
    assert "error: cluster red does not exist in us-west-2\nhint: there are: blue\n" in result.stderr


def test_a_live_cluster() -> None:
    """Objects of the cluster are judged as manifests are, and rules that need all of them are checked."""

    async def scenario() -> None:
        async with LocalCluster(VirtualClock(), seed=1, controllers=False) as cluster:
            definitions = untyped(
                "apiextensions.k8s.io/v1",
                "customresourcedefinitions",
                kind="CustomResourceDefinition",
                namespaced=False,
            )
            for definition in DEFINITIONS:
                await cluster.client.create(definitions, render(definition))
            namespaces = untyped("v1", "namespaces", kind="Namespace", namespaced=False)
            await cluster.client.create(namespaces, {"metadata": {"name": "shop"}})
            kinds = dict(SERVED)
            pool = changed(POOL, ('  limits: {cpu: "1000"}\n', ""))
            selector = ("spec:\n  replicas", "spec:\n  selector: {matchLabels: {app: web}}\n  replicas")
            for each in objects(pool, CLASS, changed(WORKLOAD, selector)):
                target = kinds[each.identity[1]]
                namespace = each.plain["metadata"].get("namespace", "")
                await cluster.client.create(target, each.plain, namespace=namespace)
            read = await read_cluster(cluster.client)
            known = facts(POOL)
            known = msgspec.structs.replace(
                known, objects=read.objects, live=True, kubernetes=read.kubernetes
            )
            diagnosis = diagnose(known)

            assert read.unread == ()
            assert (read.kubernetes or "").startswith("1.")
            assert [each.rule for each in diagnosis.findings if each.severity != "info"] == [
                "nodepool-limits"
            ]
            assert not [each for each in diagnosis.skipped if "crd-version" in each.rules]

    run_virtual(scenario())


PODS = untyped("v1", "pods", kind="Pod", namespaced=True)
ROLES = untyped("rbac.authorization.k8s.io/v1", "clusterroles", kind="ClusterRole", namespaced=False)
BINDINGS = untyped(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", kind="ClusterRoleBinding", namespaced=False
)
SAID = """\
{"level":"INFO","message":"starting"}
{"level":"ERROR","error":"UnauthorizedOperation: You are not authorized to perform this operation"}
{"level":"ERROR","error":"no subnets found"}
{"level":"ERROR","error":"no subnets found"}
"""


async def operator_pod(cluster: LocalCluster, said: str) -> None:
    """Let a pod of the operator have written something."""
    labels = {"app.kubernetes.io/name": "karpenter"}
    body = {
        "metadata": {"name": "karpenter-0", "labels": labels},
        "spec": {"containers": [{"name": "controller", "image": "karpenter"}]},
    }
    made = await cluster.client.create(PODS, body, namespace="kube-system")
    cluster.server.backend.container_logs[made["metadata"]["uid"]] = ContainerLog(text=said)


def test_logs_of_the_operator_are_read() -> None:
    """The last lines of its pods come from the API, and what is known of their texts is said."""

    async def scenario() -> None:
        async with LocalCluster(VirtualClock(), seed=1, controllers=False) as cluster:
            await operator_pod(cluster, SAID)
            all_of_it = await read_cluster(cluster.client)
            last = await read_cluster(cluster.client, lines=1)
            none = await read_cluster(cluster.client, lines=0)
            known = msgspec.structs.replace(facts(POOL), logs=last.logs)
            [finding] = [each for each in diagnose(known).findings if each.rule.startswith("log-")]

            assert [(each.source, each.text) for each in all_of_it.logs] == [("pod/karpenter-0", SAID)]
            assert none.logs == ()
            assert (finding.rule, finding.object) == ("log-no-subnets", "pod/karpenter-0:1")
            assert all_of_it.unread == last.unread == none.unread == ()

    run_virtual(scenario())


def test_logs_that_may_not_be_read_are_named() -> None:
    """Without the right to read logs, one sentence says so, and everything else is read."""

    async def scenario() -> None:
        async with LocalCluster(VirtualClock(), seed=1, controllers=False) as cluster:
            await operator_pod(cluster, SAID)
            rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
            await cluster.client.create(ROLES, {"metadata": {"name": "lists"}, "rules": [rule]})
            binding = {
                "metadata": {"name": "lists"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lists"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
            }
            await cluster.client.create(BINDINGS, binding)
            transport = InProcess(cluster.server, headers=(("impersonate-user", "jane"),))
            read = await read_cluster(Client(transport, chance=Random(1)))  # noqa: S311  retries

            assert read.logs == ()
            [sentence] = read.unread
            assert sentence.startswith("the logs of the operator's pods: ")
            assert 'User "jane" cannot get resource "pods/log"' in sentence

    run_virtual(scenario())


def test_a_folder_and_a_cluster_print_the_same_object_once(tmp_path: Path) -> None:
    """A folder alone needs neither a cluster nor an account."""
    (tmp_path / "pool.yaml").write_text(
        render_documents([each.plain for each in objects(POOL, CLASS)]), "utf-8"
    )
    result = CliRunner().invoke(doctor, ["-f", str(tmp_path)])

    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 errors, 0 warnings, 0 notes" in result.stderr
