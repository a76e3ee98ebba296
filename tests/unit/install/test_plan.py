"""What an installation consists of, document by document, as the guides of Karpenter and eksdemo have it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.cloud.aws.policy import PolicyScope
from karpenter.install.documents import controller_document, image_parameters, pod_identity_trust
from karpenter.install.options import (
    InstallationError,
    InstallationFacts,
    InstallationOptions,
    _fnv1a_32,
    truncate_unique,
)
from karpenter.install.plan import InstallationPlan, make_plan
from karpenter.install.resources import (
    AwsAuthMapping,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamRole,
    KubernetesObject,
    OpenIDConnectProvider,
    SqsQueue,
)

ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
FACTS = InstallationFacts(
    cluster="blue",
    account="123456789012",
    region="us-west-2",
    kubernetes="1.30",
    endpoint="https://blue.example",
    issuer=f"https://{ISSUER}",
    authentication_mode="API_AND_CONFIG_MAP",
    subnets=("subnet-1", "subnet-2"),
    security_groups=("sg-1",),
    images=("ami-0d6c6ac554d62a745", "ami-0eb2ae1eda347f8cf"),
)


def plan(facts: InstallationFacts = FACTS, **options: Any) -> InstallationPlan:
    """Return a plan for the cluster blue."""
    return make_plan(InstallationOptions(cluster="blue", **options), facts)


def only(found: InstallationPlan, kind: type[Any], **having: str) -> Any:
    """Return the one resource of a kind that has some fields."""
    matching = [
        each
        for each in found.resources
        if isinstance(each, kind) and all(getattr(each, key) == value for key, value in having.items())
    ]
    assert len(matching) == 1, matching
    return matching[0]


@pytest.mark.parametrize(
    ("naming", "names"),
    [
        pytest.param(
            "karpenter",
            [
                "spot-service-linked-role",
                "node-role",
                "controller-role",
                "interruption-queue",
                "discovery-tags",
                "node-access",
                "crds",
                "controller",
                "default-nodepool",
            ],
            id="in the order of the issue",
        ),
        pytest.param(
            "eksdemo",
            [
                "ec2-spot-service-linked-role",
                "karpenter-irsa",
                "karpenter-node-role",
                "karpenter-sqs-queue",
                "karpenter-node-iam-auth",
                "crds",
                "controller",
                "karpenter-default-nodepool",
            ],
            id="in the order of eksdemo, whose access comes before its chart",
        ),
    ],
)
def test_the_order_of_steps(naming: Any, names: list[str]) -> None:
    """Steps come in the order in which their resources need each other."""
    assert [step.name for step in plan(naming=naming).steps] == names


def test_eksdemo_has_three_stacks() -> None:
    """The role of the operator, that of nodes and the queue are in stacks of their own."""
    assert [step.stack for step in plan(naming="eksdemo").steps if step.stack] == [
        "eksctl-blue-addon-iamserviceaccount-karpenter-karpenter",
        "eksdemo-blue-karpenter-node-role",
        "eksdemo-blue-karpenter-sqs-queue",
    ]


def test_the_role_of_nodes() -> None:
    """EC2 assumes it, and it has what a node needs, SSM included."""
    role = only(plan(), IamRole, name="KarpenterNodeRole-blue")

    assert role.arn == "arn:aws:iam::123456789012:role/KarpenterNodeRole-blue"
    assert role.trust == {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    assert [each.rpartition("/")[2] for each in role.attached] == [
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ]


def test_the_trust_of_the_operator() -> None:
    """Only the operator's service account may assume the role, through the cluster's OIDC provider."""
    found = plan()
    role = only(found, IamRole, name="KarpenterControllerRole-blue")
    provider = only(found, OpenIDConnectProvider)

    assert provider.arn == f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"
    assert role.trust["Statement"] == [
        {
            "Effect": "Allow",
            "Principal": {"Federated": provider.arn},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    f"{ISSUER}:aud": "sts.amazonaws.com",
                    f"{ISSUER}:sub": "system:serviceaccount:kube-system:karpenter",
                }
            },
        }
    ]


def test_pod_identity() -> None:
    """With pod identity, EKS gives the role to pods: there is an agent, an association, and no provider."""
    found = plan(identity="pod-identity")
    role = only(found, IamRole, name="KarpenterControllerRole-blue")

    assert role.trust == pod_identity_trust()
    assert role.trust["Statement"][0]["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert only(found, EksAddon).name == "eks-pod-identity-agent"
    assert only(found, EksPodIdentityAssociation).role == role.arn
    assert not any(isinstance(each, OpenIDConnectProvider) for each in found.resources)
    assert "annotations" not in found.release.values["serviceAccount"]


def test_the_policy_in_one_document() -> None:
    """It begins and ends as that of Karpenter 1.0, has all of its statements, and fits into a role."""
    document = controller_document(PolicyScope(cluster="c" * 100, region="ap-southeast-2", account="1" * 12))
    sids = [each["Sid"] for each in document["Statement"]]
    of_1_0 = [
        "AllowScopedEC2InstanceAccessActions",
        "AllowScopedEC2LaunchTemplateAccessActions",
        "AllowScopedEC2InstanceActionsWithTags",
        "AllowScopedResourceCreationTagging",
        "AllowScopedResourceTagging",
        "AllowScopedDeletion",
        "AllowRegionalReadActions",
        "AllowSSMReadActions",
        "AllowPricingReadActions",
        "AllowInterruptionQueueActions",
        "AllowPassingInstanceRole",
        "AllowScopedInstanceProfileCreationActions",
        "AllowScopedInstanceProfileTagActions",
        "AllowScopedInstanceProfileActions",
        "AllowInstanceProfileReadActions",
        "AllowAPIServerEndpointDiscovery",
    ]

    assert [sid for sid in sids if sid in of_1_0] == of_1_0
    assert set(sids) - set(of_1_0) == {
        "AllowZonalShiftStatusReadOnly",
        "AllowUnscopedInstanceProfileListAction",
    }
    assert len(json.dumps(document, separators=(",", ":"))) < 10240


def test_the_queue() -> None:
    """Events come in, encrypted only, and are forgotten after five minutes."""
    queue = only(plan(naming="eksdemo"), SqsQueue)
    arn = "arn:aws:sqs:us-west-2:123456789012:karpenter-blue"

    assert (queue.name, queue.retention) == ("karpenter-blue", 300)
    assert json.dumps(queue.policy, separators=(",", ":")) == (
        '{"Version":"2008-10-17","Id":"EC2InterruptionPolicy","Statement":[{"Effect":"Allow","Principal":'
        '{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":'
        f'"{arn}"}},{{"Sid":"DenyHTTP","Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"{arn}",'
        '"Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}'
    )


@pytest.mark.parametrize(
    ("naming", "count"), [pytest.param("karpenter", 5, id="five"), pytest.param("eksdemo", 4, id="four")]
)
def test_the_rules(naming: Any, count: int) -> None:
    """Every sort of event that the operator reads has a rule; a tool of 1.0 knew four."""
    rules = [each for each in plan(naming=naming).resources if isinstance(each, EventBridgeRule)]

    assert {each.name: (each.pattern["source"], each.pattern["detail-type"]) for each in rules[:4]} == {
        "karpenter-blue-ScheduledChange": (["aws.health"], ["AWS Health Event"]),
        "karpenter-blue-SpotInterruption": (["aws.ec2"], ["EC2 Spot Instance Interruption Warning"]),
        "karpenter-blue-Rebalance": (["aws.ec2"], ["EC2 Instance Rebalance Recommendation"]),
        "karpenter-blue-InstanceStateChange": (["aws.ec2"], ["EC2 Instance State-change Notification"]),
    }
    assert len(rules) == count
    assert {each.target_id for each in rules} == {"KarpenterInterruptionQueueTarget"}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        pytest.param("a" * 64, "a" * 64, id="what fits stays"),
        pytest.param("a" * 65, f"{'a' * 55}-2dd603ec", id="what does not is cut, and told apart"),
    ],
)
def test_long_names(name: str, short: str) -> None:
    """A name has 64 characters at most, and two long names stay two names."""
    assert truncate_unique(name) == short
    assert len(truncate_unique(name)) <= 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"", 0x811C9DC5, id="nothing"),
        pytest.param(b"a", 0xE40C292C, id="a letter"),
        pytest.param(b"foobar", 0xBF9CF968, id="a word"),
    ],
)
def test_the_hash_of_long_names(text: bytes, expected: int) -> None:
    """The hash is FNV-1a with 32 bits, as its authors publish its values."""
    assert _fnv1a_32(text) == expected


def test_the_default_class_with_karpenters_names() -> None:
    """It selects by the discovery tag, and images by an alias, so that new ones are found."""
    node_class = only(plan(), KubernetesObject, title="EC2NodeClass default").body

    assert node_class["spec"] == {
        "amiFamily": "AL2023",
        "role": "KarpenterNodeRole-blue",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "blue"}}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
    }


def test_drift_can_be_kept_off() -> None:
    """A budget of no nodes keeps drift off; the default budget stays."""
    pool = only(plan(disable_drift=True), KubernetesObject, title="NodePool default").body

    assert pool["spec"]["disruption"]["budgets"] == [
        {"nodes": "10%"},
        {"nodes": "0", "reasons": ["Drifted"]},
    ]


@pytest.mark.parametrize(
    ("options", "facts", "sort"),
    [
        pytest.param({}, {}, EksAccessEntry, id="an access entry where there can be one"),
        pytest.param({"auth": "aws-auth"}, {}, AwsAuthMapping, id="aws-auth if asked"),
        pytest.param(
            {},
            {"authentication_mode": "CONFIG_MAP"},
            AwsAuthMapping,
            id="aws-auth where nothing else is read",
        ),
        pytest.param({"naming": "eksdemo"}, {}, AwsAuthMapping, id="aws-auth with eksdemo's names"),
    ],
)
def test_how_nodes_are_let_in(options: Any, facts: Any, sort: type[Any]) -> None:
    """Nodes are let in by what the cluster reads."""
    found = plan(InstallationFacts(**{**FACTS_DATA, **facts}), **options)

    assert only(found, sort)


def test_an_access_entry_is_for_nodes() -> None:
    """Nodes join by an entry of the type EC2_LINUX; one of the type STANDARD would keep them out."""
    assert only(plan(), EksAccessEntry).type == "EC2_LINUX"


FACTS_DATA = {name: getattr(FACTS, name) for name in FACTS.__struct_fields__}


@pytest.mark.parametrize(
    ("options", "facts", "problem", "hint"),
    [
        pytest.param(
            {"naming": "eksdemo"},
            {"kubernetes": "1.33"},
            "no image of Amazon Linux 2 for Kubernetes 1.33",
            "--ami-family AL2023",
            id="Amazon Linux 2 has ended",
        ),
        pytest.param(
            {"ami_family": "Ubuntu"}, {}, "must be one of: AL2, AL2023, Bottlerocket", "", id="a family"
        ),
        pytest.param({}, {"issuer": ""}, "names no OIDC issuer", "--identity pod-identity", id="no issuer"),
        pytest.param({}, {"subnets": ()}, "no subnet was found", "--subnet ID", id="no subnets"),
        pytest.param(
            {}, {"security_groups": ()}, "no security group", "--security-group ID", id="no security groups"
        ),
        pytest.param(
            {"auth": "access-entry"},
            {"authentication_mode": "CONFIG_MAP"},
            "reads aws-auth only",
            "--auth aws-auth",
            id="an entry that is not read",
        ),
        pytest.param(
            {"auth": "aws-auth"},
            {"authentication_mode": "API"},
            "reads access entries only",
            "--auth access-entry",
            id="a map that is not read",
        ),
    ],
)
def test_what_cannot_be_installed(options: Any, facts: Any, problem: str, hint: str) -> None:
    """What cannot work is refused before anything is made, with what helps."""
    with pytest.raises(InstallationError, match=problem) as caught:
        plan(InstallationFacts(**{**FACTS_DATA, **facts}), **options)

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("family", "first"),
    [
        pytest.param(
            "AL2", "/aws/service/eks/optimized-ami/1.31/amazon-linux-2/recommended/image_id", id="AL2"
        ),
        pytest.param(
            "AL2023",
            "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/recommended/image_id",
            id="AL2023",
        ),
        pytest.param(
            "Bottlerocket", "/aws/service/bottlerocket/aws-k8s-1.31/x86_64/latest/image_id", id="Bottlerocket"
        ),
    ],
)
def test_where_images_are_published(family: str, first: str) -> None:
    """The image for x86_64 is under the parameter that AWS documents, that for arm64 beside it."""
    amd, arm = image_parameters(family, "1.31")

    assert amd == first
    assert "arm64" in arm


def test_values_are_laid_over_ours() -> None:
    """Files of values win over what install states, and --set over both."""
    found = plan(values=({"replicas": 3, "logLevel": "debug"},), sets=("replicas=5",))
    deployment = next(each for each in found.release.objects if each["kind"] == "Deployment")

    assert found.release.values["replicas"] == 3
    assert found.release.values["settings"]["clusterName"] == "blue"
    assert deployment["spec"]["replicas"] == 5


def test_a_namespace_of_its_own_is_made() -> None:
    """The namespace karpenter is part of the plan; kube-system is there anyway."""
    made = [each for each in plan(naming="eksdemo").resources if each.title == "Namespace karpenter"]

    assert len(made) == 1
    assert not [each for each in plan().resources if each.title.startswith("Namespace")]
