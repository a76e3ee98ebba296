"""
The documents of an installation: who trusts whom, what is allowed, which events go where, the default pool.

Pure functions from names to plain data. What the operator may do is in :mod:`karpenter.cloud.aws.policy`;
here those documents are named as they are in an account, or joined into one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from karpenter.cloud.aws.policy import PolicyScope, policies

EC2_GROUP: Final = "karpenter.k8s.aws"
VERSION: Final = "2012-10-17"
AUDIENCE: Final = "sts.amazonaws.com"
RETENTION: Final = 300
"""Seconds after which a warning is worth nothing: a spot instance is gone two minutes after it."""

QUEUE_TARGET: Final = "KarpenterInterruptionQueueTarget"
ROLE_ANNOTATION: Final = "eks.amazonaws.com/role-arn"
BOOTSTRAP_GROUPS: Final = ("system:bootstrappers", "system:nodes")
NODE_USERNAME: Final = "system:node:{{EC2PrivateDNSName}}"

# In the order in which Karpenter 1.0 had them in one document; what came later stands beside its like.
# https://karpenter.sh/docs/reference/cloudformation/
_ORDER: Final = (
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
    "AllowZonalShiftStatusReadOnly",
    "AllowPassingInstanceRole",
    "AllowScopedInstanceProfileCreationActions",
    "AllowScopedInstanceProfileTagActions",
    "AllowScopedInstanceProfileActions",
    "AllowUnscopedInstanceProfileListAction",
    "AllowInstanceProfileReadActions",
    "AllowAPIServerEndpointDiscovery",
)

# The last Kubernetes version for which EKS publishes Amazon Linux 2.
# https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html
LAST_AL2: Final = (1, 32)


class EventSort(msgspec.Struct, frozen=True):
    """One sort of event that the operator reads."""

    name: str
    source: str
    detail_type: str


EVENTS: Final = (
    EventSort("ScheduledChange", "aws.health", "AWS Health Event"),
    EventSort("SpotInterruption", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    EventSort("Rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    EventSort("InstanceStateChange", "aws.ec2", "EC2 Instance State-change Notification"),
    EventSort(
        "CapacityReservationInterruption",
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
)
EVENTS_OF_1_0: Final = EVENTS[:4]
"""Those that Karpenter 1.0 read."""


def url_suffix(partition: str) -> str:
    """Return what the names of services end with in a partition."""
    return "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"


def node_trust(partition: str) -> dict[str, Any]:
    """Return the policy that lets EC2 assume the role of nodes."""
    service = f"ec2.{url_suffix(partition)}"
    return {
        "Version": VERSION,
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"},
        ],
    }


def irsa_trust(provider: str, *, namespace: str, service_account: str) -> dict[str, Any]:
    """Return the policy that lets one service account assume a role through an OIDC provider's ARN."""
    issuer = provider.partition(":oidc-provider/")[2]
    return {
        "Version": VERSION,
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": provider},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        f"{issuer}:aud": AUDIENCE,
                        f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                    }
                },
            }
        ],
    }


def pod_identity_trust() -> dict[str, Any]:
    """Return the policy that lets EKS give a role to pods."""
    return {
        "Version": VERSION,
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
            }
        ],
    }


def controller_document(place: PolicyScope) -> dict[str, Any]:
    """Return what the operator may do as one document, for a role that holds it itself."""
    by_sid = {each["Sid"]: each for document in policies(place).values() for each in document["Statement"]}
    assert set(by_sid) == set(_ORDER), "every statement has its place"
    return {"Version": VERSION, "Statement": [by_sid[sid] for sid in _ORDER]}


def queue_policy(arn: str) -> dict[str, Any]:
    """Return the policy that lets events into the queue, and nothing that is not encrypted."""
    return {
        # CloudFormation and the SQS API both store this version where none is stated.
        "Version": "2008-10-17",
        "Id": "EC2InterruptionPolicy",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": arn,
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ],
    }


def image_parameters(family: str, kubernetes: str) -> tuple[str, str]:
    """Return the SSM parameters with the images of a family, for x86_64 and for arm64."""
    eks = f"/aws/service/eks/optimized-ami/{kubernetes}"
    match family:
        case "AL2":
            names = ("amazon-linux-2", "amazon-linux-2-arm64")
            return (f"{eks}/{names[0]}/recommended/image_id", f"{eks}/{names[1]}/recommended/image_id")
        case "AL2023":
            base = f"{eks}/amazon-linux-2023"
            return (
                f"{base}/x86_64/standard/recommended/image_id",
                f"{base}/arm64/standard/recommended/image_id",
            )
        case _:
            base = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}"
            return f"{base}/x86_64/latest/image_id", f"{base}/arm64/latest/image_id"


def default_nodepool(
    *, capacity_types: tuple[str, ...], expire_after: str, consolidate_after: str, drift: bool
) -> dict[str, Any]:
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity_types)},
        {"key": f"{EC2_GROUP}/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": f"{EC2_GROUP}/instance-generation", "operator": "Gt", "values": ["2"]},
    ]
    disruption: dict[str, Any] = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": consolidate_after,
    }
    if not drift:
        # Karpenter 1.x has no switch for drift: a budget of no nodes for its reason keeps it off. A list of
        # budgets replaces the default one, which is therefore stated too.
        # https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets
        disruption["budgets"] = [{"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted"]}]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "requirements": requirements,
                    "nodeClassRef": {"group": EC2_GROUP, "kind": "EC2NodeClass", "name": "default"},
                    "expireAfter": expire_after,
                }
            },
            "limits": {"cpu": 1000},
            "disruption": disruption,
        },
    }


def default_nodeclass(
    *,
    family: str,
    role: str,
    subnets: dict[str, str],
    security_groups: dict[str, str],
    tags: dict[str, str],
    images: list[dict[str, str]],
) -> dict[str, Any]:
    """Return the EC2NodeClass to begin with; subnets and security groups are selected by their tags."""
    return {
        "apiVersion": f"{EC2_GROUP}/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "amiFamily": family,
            "role": role,
            "subnetSelectorTerms": [{"tags": subnets}],
            "securityGroupSelectorTerms": [{"tags": security_groups}],
            **({"tags": tags} if tags else {}),
            "amiSelectorTerms": images,
        },
    }
