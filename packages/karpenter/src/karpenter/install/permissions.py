"""
What the person who installs must be allowed to do in the account, resource by resource.

A test runs an installation and an uninstallation on the embedded AWS and compares these lists with the calls
that were made: none may be missing, and none may be superfluous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.errors import AccessDenied, NoCredentials
from karpenter.install.preflight import operator_image
from karpenter.install.resources import (
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.install.plan import InstallationPlan


class NeededActions(msgspec.Struct, frozen=True, kw_only=True):
    """The actions that one sort of resource takes."""

    read: tuple[str, ...]
    make: tuple[str, ...]
    change: tuple[str, ...] = ()
    """To bring up one that differs."""


_ROLE_READS: Final = ("iam:GetRole", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies")
ACTIONS: Final[dict[type, NeededActions]] = {
    ServiceLinkedRole: NeededActions(read=("iam:GetRole",), make=("iam:CreateServiceLinkedRole",)),
    OpenIDConnectProvider: NeededActions(
        read=("iam:GetOpenIDConnectProvider",),
        make=("iam:CreateOpenIDConnectProvider", "iam:TagOpenIDConnectProvider"),
        change=("iam:AddClientIDToOpenIDConnectProvider",),
    ),
    IamPolicy: NeededActions(
        read=("iam:GetPolicy", "iam:GetPolicyVersion"),
        make=("iam:CreatePolicy", "iam:TagPolicy"),
        change=("iam:CreatePolicyVersion",),
    ),
    IamRole: NeededActions(
        read=_ROLE_READS,
        make=("iam:CreateRole", "iam:TagRole"),
        change=("iam:UpdateAssumeRolePolicy",),
    ),
    IamInstanceProfile: NeededActions(
        read=("iam:GetInstanceProfile",),
        make=(
            "iam:CreateInstanceProfile",
            "iam:TagInstanceProfile",
            "iam:AddRoleToInstanceProfile",
            "iam:PassRole",
        ),
    ),
    SqsQueue: NeededActions(
        read=("sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:ListQueueTags"),
        make=("sqs:CreateQueue", "sqs:TagQueue"),
        change=("sqs:SetQueueAttributes",),
    ),
    EventBridgeRule: NeededActions(
        read=("events:DescribeRule", "events:ListTargetsByRule", "events:ListTagsForResource"),
        make=("events:PutRule", "events:PutTargets", "events:TagResource"),
    ),
    Ec2Tags: NeededActions(read=("ec2:DescribeTags",), make=("ec2:CreateTags",)),
    EksAccessEntry: NeededActions(
        read=("eks:DescribeAccessEntry",), make=("eks:CreateAccessEntry", "eks:TagResource")
    ),
    EksAddon: NeededActions(read=("eks:DescribeAddon",), make=("eks:CreateAddon", "eks:TagResource")),
    EksPodIdentityAssociation: NeededActions(
        read=("eks:ListPodIdentityAssociations", "eks:DescribePodIdentityAssociation"),
        make=("eks:CreatePodIdentityAssociation", "eks:TagResource", "iam:PassRole", "iam:GetRole"),
        change=("eks:UpdatePodIdentityAssociation",),
    ),
}
FACTS: Final = ("sts:GetCallerIdentity", "eks:DescribeCluster")
"""To find out where the cluster is."""

STACKS: Final = ("cloudformation:CreateStack", "cloudformation:DescribeStacks", "cloudformation:TagResource")
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/control-access-with-iam.html"""

STACK_CHANGES: Final = ("cloudformation:UpdateStack", "cloudformation:DescribeStackEvents")
TAGGING: Final = frozenset(
    {
        "iam:TagOpenIDConnectProvider",
        "iam:TagPolicy",
        "iam:TagRole",
        "iam:TagInstanceProfile",
        "sqs:TagQueue",
        "events:TagResource",
        "eks:TagResource",
        "cloudformation:TagResource",
        "iam:PassRole",
    }
)
"""What AWS asks of a caller that makes a thing with tags, or passes a role on; no call has these names."""


def needed_actions(plan: InstallationPlan, *, changes: bool = True) -> tuple[str, ...]:
    """Return the actions that an installation takes, in order of their names; without what upgrades take."""
    return tuple(sorted(set(_needed(plan, changes=changes))))


def _needed(plan: InstallationPlan, *, changes: bool) -> Iterator[str]:
    yield from FACTS
    yield from (
        ("ssm:GetParameter",)
        if plan.options.naming == "eksdemo"
        else ("ec2:DescribeSubnets", "ec2:DescribeSecurityGroups")
    )
    if any(step.stack for step in plan.steps):
        yield from STACKS
        yield from STACK_CHANGES if changes else ()
    if ".dkr.ecr." in operator_image(plan):
        yield "ecr:DescribeImages"
    for resource in plan.resources:
        needed = ACTIONS.get(type(resource))
        if needed is None:
            continue
        yield from needed.read
        yield from needed.make
        if changes:
            yield from needed.change
        if isinstance(resource, IamRole):
            yield from ("iam:AttachRolePolicy",) if resource.attached else ()
            yield from ("iam:GetRolePolicy", "iam:PutRolePolicy") if resource.inline else ()


def by_service(actions: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in actions:
        service, _, verb = each.partition(":")
        found.setdefault(service, []).append(verb)
    return found


_WHO: Final = "aws sts get-caller-identity shows who you are"


def explain_access(error: AccessDenied) -> tuple[str, str]:
    """Return what a denial means to the person who calls, and what helps."""
    if isinstance(error, NoCredentials):
        return "no AWS credentials were found", f"aws configure, aws sso login, or set AWS_PROFILE; {_WHO}"
    if error.by_credentials:
        why = error.why.replace("its ", "your ", 1)
        return f"AWS refused {error.action}: {why} ({error.code})", f"aws sso login, or new keys; {_WHO}"
    why = error.why.replace("its ", "your ", 1)
    return f"you may not call {error.action}: {why} ({error.code})", f"let your role call {error.action}"
