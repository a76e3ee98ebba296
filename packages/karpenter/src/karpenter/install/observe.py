"""
What an account has of a plan: each resource is there, is missing, or differs in ways that can be named.

Only reads. :mod:`.apply` writes what this module finds missing or different.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.policy.lint import policy_differences
from karpenter.install.resources import (
    MARKER,
    AwsResource,
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    Json,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.install.account import AccountApi

RETENTION: Final = "MessageRetentionPeriod"
ENCRYPTED: Final = "SqsManagedSseEnabled"


class ResourceState(msgspec.Struct, frozen=True, kw_only=True):
    """What is there of one resource."""

    present: bool = True
    differences: tuple[str, ...] = ()
    """In which ways it is not as planned; for one that is missing, none."""

    ours: bool = False
    """Whether `karpenter install` made it, as its tag says."""

    notes: tuple[str, ...] = ()
    """What is besides the plan and stays."""

    @property
    def state(self) -> str:
        """``missing``, ``differs`` or ``exists``."""
        if not self.present:
            return "missing"
        return "differs" if self.differences else "exists"


ABSENT: Final = ResourceState(present=False)


def observe(aws: AccountApi, resource: AwsResource) -> ResourceState:  # noqa: PLR0911  one case each
    """
    Return what there is of a resource.

    Raises:
        CloudError: AWS does not say.
    """
    match resource:
        case ServiceLinkedRole():
            return ResourceState() if aws.find("iam", "GetRole", RoleName=resource.name) else ABSENT
        case OpenIDConnectProvider():
            return _provider(aws, resource)
        case IamPolicy():
            return _policy(aws, resource)
        case IamRole():
            return _role(aws, resource)
        case IamInstanceProfile():
            return _profile(aws, resource)
        case SqsQueue():
            return _queue(aws, resource)
        case EventBridgeRule():
            return _rule(aws, resource)
        case Ec2Tags():
            return _tags(aws, resource)
        case EksAccessEntry():
            return _entry(aws, resource)
        case EksAddon():
            found = aws.find("eks", "DescribeAddon", clusterName=resource.cluster, addonName=resource.name)
            return ResourceState(ours=MARKER in (found["addon"].get("tags") or {})) if found else ABSENT
        case EksPodIdentityAssociation():
            return _association(aws, resource)
        case _:
            assert_never(resource)


def pairs(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return tags as most services list them, by their keys."""
    return {each["Key"]: each["Value"] for each in tags}


def compact(document: Json) -> str:
    """Return a document as AWS stores patterns: without spaces, keys in order."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def queue_url(aws: AccountApi, name: str) -> str:
    """Return where a queue is; empty if there is none."""
    found = aws.find("sqs", "GetQueueUrl", QueueName=name)
    return str(found["QueueUrl"]) if found else ""


def untagged(aws: AccountApi, tags: Ec2Tags) -> tuple[str, ...]:
    """Return the resources that lack the tag."""
    filters = [
        {"Name": "resource-id", "Values": list(tags.resources)},
        {"Name": "key", "Values": [tags.key]},
        {"Name": "value", "Values": [tags.value]},
    ]
    have = {each["ResourceId"] for each in aws.every("ec2", "DescribeTags", "Tags", Filters=filters)}
    return tuple(each for each in tags.resources if each not in have)


def find_association(aws: AccountApi, resource: EksPodIdentityAssociation) -> dict[str, Any] | None:
    """Return the pod identity association of a service account; None also where the cluster is gone."""
    asked = {
        "clusterName": resource.cluster,
        "namespace": resource.namespace,
        "serviceAccount": resource.service_account,
    }
    try:
        listed = list(aws.every("eks", "ListPodIdentityAssociations", "associations", **asked))
    except ResourceNotFound:
        return None
    for each in listed:
        told = aws.call(
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=resource.cluster,
            associationId=each["associationId"],
        )
        found: dict[str, Any] = told["association"]
        return found
    return None


def _provider(aws: AccountApi, resource: OpenIDConnectProvider) -> ResourceState:
    found = aws.find("iam", "GetOpenIDConnectProvider", OpenIDConnectProviderArn=resource.arn)
    if found is None:
        return ABSENT
    known = found.get("ClientIDList", ())
    differences = () if resource.audience in known else (f"audience {resource.audience} is missing",)
    return ResourceState(differences=differences, ours=MARKER in pairs(found.get("Tags", ())))


def _policy(aws: AccountApi, resource: IamPolicy) -> ResourceState:
    found = aws.find("iam", "GetPolicy", PolicyArn=resource.arn)
    if found is None:
        return ABSENT
    version = aws.call(
        "iam",
        "GetPolicyVersion",
        PolicyArn=resource.arn,
        VersionId=found["Policy"]["DefaultVersionId"],
    )
    return ResourceState(
        differences=policy_differences(document_of(version["PolicyVersion"]["Document"]), resource.document),
        ours=MARKER in pairs(found["Policy"].get("Tags", ())),
    )


def _role(aws: AccountApi, resource: IamRole) -> ResourceState:
    found = aws.find("iam", "GetRole", RoleName=resource.name)
    if found is None:
        return ABSENT
    role = found["Role"]
    differences = [
        f"trust policy: {each}"
        for each in policy_differences(document_of(role["AssumeRolePolicyDocument"]), resource.trust)
    ]
    attached = {
        each["PolicyArn"]
        for each in aws.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=resource.name)
    }
    differences += [
        f"policy {arn.rpartition('/')[2]} is not attached" for arn in resource.attached if arn not in attached
    ]
    inline = set(aws.every("iam", "ListRolePolicies", "PolicyNames", RoleName=resource.name))
    for name, document in resource.inline.items():
        if name not in inline:
            differences.append(f"inline policy {name} is missing")
            continue
        told = aws.call("iam", "GetRolePolicy", RoleName=resource.name, PolicyName=name)
        have = document_of(told["PolicyDocument"])
        differences += [f"inline policy {name}: {each}" for each in policy_differences(have, document)]
    notes = [
        f"policy {each.rpartition('/')[2]} is attached too"
        for each in sorted(attached - set(resource.attached))
    ]
    notes += [f"inline policy {each} is there too" for each in sorted(inline - set(resource.inline))]
    return ResourceState(
        differences=tuple(differences), ours=MARKER in pairs(role.get("Tags", ())), notes=tuple(notes)
    )


def _profile(aws: AccountApi, resource: IamInstanceProfile) -> ResourceState:
    found = aws.find("iam", "GetInstanceProfile", InstanceProfileName=resource.name)
    if found is None:
        return ABSENT
    profile = found["InstanceProfile"]
    roles = [each["RoleName"] for each in profile["Roles"]]
    differences = []
    if resource.role not in roles:
        differences = [f"role {resource.role} is not in it" + (f", but {roles[0]}" if roles else "")]
    return ResourceState(differences=tuple(differences), ours=MARKER in pairs(profile.get("Tags", ())))


def _queue(aws: AccountApi, resource: SqsQueue) -> ResourceState:
    url = queue_url(aws, resource.name)
    if not url:
        return ABSENT
    told = aws.call("sqs", "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    differences = []
    if int(told[RETENTION]) != resource.retention:
        differences.append(f"messages are kept for {told[RETENTION]} s instead of {resource.retention} s")
    if str(told.get(ENCRYPTED, "true")).lower() != "true":
        differences.append("messages are not encrypted")
    have = json.loads(told["Policy"]) if told.get("Policy") else {}
    differences += [f"policy: {each}" for each in policy_differences(have, resource.policy)]
    tags = aws.call("sqs", "ListQueueTags", QueueUrl=url).get("Tags") or {}
    return ResourceState(differences=tuple(differences), ours=MARKER in tags)


def _rule(aws: AccountApi, resource: EventBridgeRule) -> ResourceState:
    found = aws.find("events", "DescribeRule", Name=resource.name)
    if found is None:
        return ABSENT
    differences = []
    if compact(json.loads(found.get("EventPattern") or "{}")) != compact(resource.pattern):
        differences.append(f"its pattern is {found.get('EventPattern')}")
    if found.get("State") != "ENABLED":
        differences.append(f"it is {found.get('State')}")
    targets = aws.call("events", "ListTargetsByRule", Rule=resource.name).get("Targets", ())
    if resource.target not in {each["Arn"] for each in targets}:
        differences.append(f"queue {resource.target.rpartition(':')[2]} is not its target")
    tags = aws.call("events", "ListTagsForResource", ResourceARN=found["Arn"]).get("Tags", ())
    return ResourceState(differences=tuple(differences), ours=MARKER in pairs(tags))


def _tags(aws: AccountApi, resource: Ec2Tags) -> ResourceState:
    lacking = untagged(aws, resource)
    if len(lacking) == len(resource.resources):
        return ABSENT
    return ResourceState(differences=tuple(f"{each} lacks it" for each in lacking))


def _entry(aws: AccountApi, resource: EksAccessEntry) -> ResourceState:
    found = aws.find(
        "eks", "DescribeAccessEntry", clusterName=resource.cluster, principalArn=resource.principal
    )
    if found is None:
        return ABSENT
    entry = found["accessEntry"]
    differences = () if entry["type"] == resource.type else (f"its type is {entry['type']}",)
    return ResourceState(differences=differences, ours=MARKER in (entry.get("tags") or {}))


def _association(aws: AccountApi, resource: EksPodIdentityAssociation) -> ResourceState:
    found = find_association(aws, resource)
    if found is None:
        return ABSENT
    differences = () if found["roleArn"] == resource.role else (f"its role is {found['roleArn']}",)
    return ResourceState(differences=differences, ours=MARKER in (found.get("tags") or {}))


def document_of(document: Any) -> dict[str, Any]:
    """Return a document, which the SDK hands over as data or as text."""
    found: dict[str, Any] = json.loads(document) if isinstance(document, str) else document
    return found
