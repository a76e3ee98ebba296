"""Single resources of an account deleted, with what hangs on them: versions, attachments, targets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.install.observe import find_association, queue_url
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
    from karpenter.install.account import AccountApi
    from karpenter.install.resources import AwsResource


def remove(aws: AccountApi, resource: AwsResource) -> None:  # noqa: C901  one case each
    """Delete a resource that is there."""
    match resource:
        case OpenIDConnectProvider():
            aws.call("iam", "DeleteOpenIDConnectProvider", OpenIDConnectProviderArn=resource.arn)
        case IamPolicy():
            _remove_policy(aws, resource.arn)
        case IamRole():
            _remove_role(aws, resource.name)
        case IamInstanceProfile():
            told = aws.call("iam", "GetInstanceProfile", InstanceProfileName=resource.name)
            for role in told["InstanceProfile"]["Roles"]:
                aws.call(
                    "iam",
                    "RemoveRoleFromInstanceProfile",
                    InstanceProfileName=resource.name,
                    RoleName=role["RoleName"],
                )
            aws.call("iam", "DeleteInstanceProfile", InstanceProfileName=resource.name)
        case SqsQueue():
            aws.call("sqs", "DeleteQueue", QueueUrl=queue_url(aws, resource.name))
        case EventBridgeRule():
            targets = aws.call("events", "ListTargetsByRule", Rule=resource.name).get("Targets", ())
            if targets:
                aws.call("events", "RemoveTargets", Rule=resource.name, Ids=[each["Id"] for each in targets])
            aws.call("events", "DeleteRule", Name=resource.name)
        case EksAccessEntry():
            aws.call(
                "eks", "DeleteAccessEntry", clusterName=resource.cluster, principalArn=resource.principal
            )
        case EksAddon():
            aws.call("eks", "DeleteAddon", clusterName=resource.cluster, addonName=resource.name)
        case EksPodIdentityAssociation():
            found = find_association(aws, resource) or {}
            aws.call(
                "eks",
                "DeletePodIdentityAssociation",
                clusterName=resource.cluster,
                associationId=found["associationId"],
            )
        case ServiceLinkedRole() | Ec2Tags():
            raise AssertionError(f"{resource.title} is not removed like that")


def _remove_policy(aws: AccountApi, arn: str) -> None:
    for version in aws.every("iam", "ListPolicyVersions", "Versions", PolicyArn=arn):
        if not version["IsDefaultVersion"]:
            aws.call("iam", "DeletePolicyVersion", PolicyArn=arn, VersionId=version["VersionId"])
    for role in aws.every("iam", "ListEntitiesForPolicy", "PolicyRoles", PolicyArn=arn):
        aws.call("iam", "DetachRolePolicy", RoleName=role["RoleName"], PolicyArn=arn)
    aws.call("iam", "DeletePolicy", PolicyArn=arn)


def _remove_role(aws: AccountApi, name: str) -> None:
    for each in aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=name):
        aws.call("iam", "DetachRolePolicy", RoleName=name, PolicyArn=each["PolicyArn"])
    for policy in aws.every("iam", "ListRolePolicies", "PolicyNames", RoleName=name):
        aws.call("iam", "DeleteRolePolicy", RoleName=name, PolicyName=policy)
    with suppress(ResourceNotFound):
        for profile in aws.every("iam", "ListInstanceProfilesForRole", "InstanceProfiles", RoleName=name):
            aws.call(
                "iam",
                "RemoveRoleFromInstanceProfile",
                InstanceProfileName=profile["InstanceProfileName"],
                RoleName=name,
            )
    aws.call("iam", "DeleteRole", RoleName=name)
