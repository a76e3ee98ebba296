"""
What CloudFormation makes: each type of resource is made, changed and deleted through the API of its service.

A kind is three functions of a :class:`Maker`, which has the clients: make from properties, change from old
properties to new ones, delete. Types without a way to be changed are made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import boto3
import msgspec
from botocore.exceptions import ClientError
from botocore.session import Session
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from karpenter_local.aws.front import AwsFrontend
from karpenter_local.aws.inprocess import InProcessWire

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account

Properties = Mapping[str, Any]

_ENDPOINT: Final = "http://cloudformation.invalid"
_PRINCIPAL: Final = "cloudformation.amazonaws.com"
_VERSIONS: Final = 5
"""Versions that a managed policy can have.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

_QUEUE: Final = (
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
    "KmsMasterKeyId",
)


class Made(msgspec.Struct, frozen=True):
    """A resource that was made."""

    id: str
    """What references to it stand for."""

    attributes: Mapping[str, Any] = {}


class Maker:
    """Makes the resources of one account."""

    def __init__(self, account: Account) -> None:
        self.account = account
        key = f"ASIA{account.number}CFN0"
        account.sessions[key] = _PRINCIPAL
        shared = Session()
        wire = InProcessWire(AwsFrontend(DomainDispatcherApplication(create_backend_app)), _ENDPOINT)
        answer: Any = wire.answer
        shared.register("before-send", answer)
        self._session = boto3.Session(
            botocore_session=shared,
            aws_access_key_id=key,
            aws_secret_access_key="not a secret",  # noqa: S106  of our own AWS
            region_name=account.region,
        )

    @cached_property
    def iam(self) -> Any:
        return self._session.client("iam", endpoint_url=_ENDPOINT)

    @cached_property
    def sqs(self) -> Any:
        return self._session.client("sqs", endpoint_url=_ENDPOINT)

    @cached_property
    def events(self) -> Any:
        return self._session.client("events", endpoint_url=_ENDPOINT)

    @cached_property
    def eks(self) -> Any:
        return self._session.client("eks", endpoint_url=_ENDPOINT)


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that make, change and delete resources of a type."""

    make: Callable[[Maker, str, Properties], Made]
    """From a name for those that have none, and properties."""

    delete: Callable[[Maker, Made, Properties], None]
    change: Callable[[Maker, Made, Properties, Properties], Made] | None = None
    """From the old properties to the new ones; None where it is made anew."""

    named_by: str = ""
    """The property that names it; another name makes another resource."""

    is_iam: bool = False


def _document(value: Any) -> str:
    """Return a policy document as text; templates may write it as one."""
    return value if isinstance(value, str) else json.dumps(value)


def _make_role(maker: Maker, name: str, said: Properties) -> Made:
    name = said.get("RoleName", name)
    more = {key: said[key] for key in ("Path", "Description", "PermissionsBoundary") if said.get(key)}
    if said.get("MaxSessionDuration"):
        more["MaxSessionDuration"] = int(said["MaxSessionDuration"])
    role = maker.iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=_document(said["AssumeRolePolicyDocument"]),
        **more,
        **({"Tags": said["Tags"]} if said.get("Tags") else {}),
    )["Role"]
    try:
        _fill_role(maker, name, said)
    except ClientError:
        _empty_role(maker, name, said)
        maker.iam.delete_role(RoleName=name)
        raise
    return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _fill_role(maker: Maker, name: str, said: Properties) -> None:
    for arn in said.get("ManagedPolicyArns") or ():
        maker.iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    for policy in said.get("Policies") or ():
        maker.iam.put_role_policy(
            RoleName=name,
            PolicyName=policy["PolicyName"],
            PolicyDocument=_document(policy["PolicyDocument"]),
        )


def _empty_role(maker: Maker, name: str, said: Properties) -> None:
    for arn in said.get("ManagedPolicyArns") or ():
        with suppress(ClientError):
            maker.iam.detach_role_policy(RoleName=name, PolicyArn=arn)
    for policy in said.get("Policies") or ():
        with suppress(ClientError):
            maker.iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])


def _change_role(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    maker.iam.update_assume_role_policy(
        RoleName=made.id, PolicyDocument=_document(new["AssumeRolePolicyDocument"])
    )
    if old.get("Description") != new.get("Description"):
        maker.iam.update_role(RoleName=made.id, Description=new.get("Description") or "")
    _empty_role(maker, made.id, old)
    _fill_role(maker, made.id, new)
    return made


def _delete_role(maker: Maker, made: Made, said: Properties) -> None:
    _empty_role(maker, made.id, said)
    maker.iam.delete_role(RoleName=made.id)


def _make_managed_policy(maker: Maker, name: str, said: Properties) -> Made:
    more = {key: said[key] for key in ("Path", "Description") if said.get(key)}
    policy = maker.iam.create_policy(
        PolicyName=said.get("ManagedPolicyName", name),
        PolicyDocument=_document(said["PolicyDocument"]),
        **more,
    )["Policy"]
    for role in said.get("Roles") or ():
        maker.iam.attach_role_policy(RoleName=role, PolicyArn=policy["Arn"])
    return Made(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]})


def _change_managed_policy(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    if _document(old["PolicyDocument"]) != _document(new["PolicyDocument"]):
        versions = maker.iam.list_policy_versions(PolicyArn=made.id)["Versions"]
        spare = [each["VersionId"] for each in versions if not each["IsDefaultVersion"]]
        if len(versions) >= _VERSIONS:
            oldest = min(spare, key=lambda each: int(each.removeprefix("v")))
            maker.iam.delete_policy_version(PolicyArn=made.id, VersionId=oldest)
        maker.iam.create_policy_version(
            PolicyArn=made.id, PolicyDocument=_document(new["PolicyDocument"]), SetAsDefault=True
        )
    before, after = set(old.get("Roles") or ()), set(new.get("Roles") or ())
    for role in sorted(after - before):
        maker.iam.attach_role_policy(RoleName=role, PolicyArn=made.id)
    for role in sorted(before - after):
        maker.iam.detach_role_policy(RoleName=role, PolicyArn=made.id)
    return made


def _delete_managed_policy(maker: Maker, made: Made, said: Properties) -> None:
    for role in said.get("Roles") or ():
        with suppress(ClientError):
            maker.iam.detach_role_policy(RoleName=role, PolicyArn=made.id)
    for each in maker.iam.list_policy_versions(PolicyArn=made.id)["Versions"]:
        if not each["IsDefaultVersion"]:
            maker.iam.delete_policy_version(PolicyArn=made.id, VersionId=each["VersionId"])
    maker.iam.delete_policy(PolicyArn=made.id)


def _inline(said: Properties) -> tuple[str, list[str]]:
    """Return the name of an inline policy and the roles that have it."""
    roles = said.get("Roles") or [said["RoleName"]]
    return said["PolicyName"], list(roles)


def _make_inline_policy(maker: Maker, name: str, said: Properties) -> Made:
    policy, roles = _inline(said)
    for role in roles:
        maker.iam.put_role_policy(
            RoleName=role, PolicyName=policy, PolicyDocument=_document(said["PolicyDocument"])
        )
    return Made(name)


def _change_inline_policy(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    gone = set(_inline(old)[1]) - set(_inline(new)[1])
    for role in sorted(gone):
        maker.iam.delete_role_policy(RoleName=role, PolicyName=old["PolicyName"])
    _make_inline_policy(maker, made.id, new)
    return made


def _delete_inline_policy(maker: Maker, made: Made, said: Properties) -> None:
    del made
    policy, roles = _inline(said)
    for role in roles:
        with suppress(maker.iam.exceptions.NoSuchEntityException):
            maker.iam.delete_role_policy(RoleName=role, PolicyName=policy)


def _make_instance_profile(maker: Maker, name: str, said: Properties) -> Made:
    name = said.get("InstanceProfileName", name)
    path = {"Path": said["Path"]} if said.get("Path") else {}
    made = maker.iam.create_instance_profile(InstanceProfileName=name, **path)["InstanceProfile"]
    for role in said["Roles"]:
        maker.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    return Made(name, {"Arn": made["Arn"]})


def _delete_instance_profile(maker: Maker, made: Made, said: Properties) -> None:
    for role in said["Roles"]:
        with suppress(maker.iam.exceptions.NoSuchEntityException):
            maker.iam.remove_role_from_instance_profile(InstanceProfileName=made.id, RoleName=role)
    maker.iam.delete_instance_profile(InstanceProfileName=made.id)


def _make_linked_role(maker: Maker, name: str, said: Properties) -> Made:
    del name
    role = maker.iam.create_service_linked_role(AWSServiceName=said["AWSServiceName"])["Role"]
    return Made(role["RoleName"], {"RoleName": role["RoleName"]})


def _delete_linked_role(maker: Maker, made: Made, said: Properties) -> None:
    del said
    maker.iam.delete_service_linked_role(RoleName=made.id)


def _make_oidc_provider(maker: Maker, name: str, said: Properties) -> Made:
    del name
    made = maker.iam.create_open_id_connect_provider(
        Url=said["Url"],
        ClientIDList=said.get("ClientIdList") or [],
        ThumbprintList=said.get("ThumbprintList") or [],
    )
    arn = made["OpenIDConnectProviderArn"]
    return Made(arn, {"Arn": arn})


def _delete_oidc_provider(maker: Maker, made: Made, said: Properties) -> None:
    del said
    maker.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=made.id)


def _make_queue(maker: Maker, name: str, said: Properties) -> Made:
    name = said.get("QueueName", name)
    tags = {"tags": {each["Key"]: each["Value"] for each in said["Tags"]}} if said.get("Tags") else {}
    maker.sqs.create_queue(QueueName=name, Attributes=_queue_attributes(said), **tags)
    account = maker.account
    url = f"https://sqs.{account.region}.amazonaws.com/{account.number}/{name}"
    arn = f"arn:aws:sqs:{account.region}:{account.number}:{name}"
    return Made(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


def _queue_attributes(said: Properties) -> dict[str, str]:
    found = {key: said[key] for key in _QUEUE if key in said}
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()
    }


def _change_queue(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    del old
    maker.sqs.set_queue_attributes(QueueUrl=made.id, Attributes=_queue_attributes(new))
    return made


def _delete_queue(maker: Maker, made: Made, said: Properties) -> None:
    del said
    maker.sqs.delete_queue(QueueUrl=made.id)


def _make_queue_policy(maker: Maker, name: str, said: Properties) -> Made:
    for url in said["Queues"]:
        maker.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": _document(said["PolicyDocument"])})
    return Made(name)


def _change_queue_policy(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    del old
    return _make_queue_policy(maker, made.id, new)


def _delete_queue_policy(maker: Maker, made: Made, said: Properties) -> None:
    del made
    for url in said["Queues"]:
        with suppress(ClientError):
            maker.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


def _make_rule(maker: Maker, name: str, said: Properties) -> Made:
    name = said.get("Name", name)
    more = {
        key: said[key] for key in ("Description", "ScheduleExpression", "State", "RoleArn") if said.get(key)
    }
    if said.get("EventPattern"):
        more["EventPattern"] = _document(said["EventPattern"])
    arn = maker.events.put_rule(Name=name, **more)["RuleArn"]
    if said.get("Targets"):
        maker.events.put_targets(Rule=name, Targets=list(said["Targets"]))
    return Made(name, {"Arn": arn})


def _change_rule(maker: Maker, made: Made, old: Properties, new: Properties) -> Made:
    gone = {each["Id"] for each in old.get("Targets") or ()} - {
        each["Id"] for each in new.get("Targets") or ()
    }
    if gone:
        maker.events.remove_targets(Rule=made.id, Ids=sorted(gone))
    return _make_rule(maker, made.id, new)


def _delete_rule(maker: Maker, made: Made, said: Properties) -> None:
    targets = [each["Id"] for each in said.get("Targets") or ()]
    if targets:
        maker.events.remove_targets(Rule=made.id, Ids=targets)
    maker.events.delete_rule(Name=made.id)


def _make_access_entry(maker: Maker, name: str, said: Properties) -> Made:
    del name
    more = {
        theirs: said[ours]
        for ours, theirs in (
            ("Type", "type"),
            ("KubernetesGroups", "kubernetesGroups"),
            ("Username", "username"),
        )
        if said.get(ours)
    }
    cluster, principal = said["ClusterName"], said["PrincipalArn"]
    entry = maker.eks.create_access_entry(clusterName=cluster, principalArn=principal, **more)["accessEntry"]
    for policy in said.get("AccessPolicies") or ():
        scope = policy["AccessScope"]
        maker.eks.associate_access_policy(
            clusterName=cluster,
            principalArn=principal,
            policyArn=policy["PolicyArn"],
            accessScope={"type": scope["Type"], "namespaces": scope.get("Namespaces") or []},
        )
    return Made(f"{principal}|{cluster}", {"AccessEntryArn": entry["accessEntryArn"]})


def _delete_access_entry(maker: Maker, made: Made, said: Properties) -> None:
    del made
    maker.eks.delete_access_entry(clusterName=said["ClusterName"], principalArn=said["PrincipalArn"])


def _make_association(maker: Maker, name: str, said: Properties) -> Made:
    del name
    made = maker.eks.create_pod_identity_association(
        clusterName=said["ClusterName"],
        namespace=said["Namespace"],
        serviceAccount=said["ServiceAccount"],
        roleArn=said["RoleArn"],
    )["association"]
    arn, number = made["associationArn"], made["associationId"]
    return Made(arn, {"AssociationArn": arn, "AssociationId": number})


def _delete_association(maker: Maker, made: Made, said: Properties) -> None:
    maker.eks.delete_pod_identity_association(
        clusterName=said["ClusterName"], associationId=made.attributes["AssociationId"]
    )


def _make_add_on(maker: Maker, name: str, said: Properties) -> Made:
    del name
    version = {"addonVersion": said["AddonVersion"]} if said.get("AddonVersion") else {}
    made = maker.eks.create_addon(clusterName=said["ClusterName"], addonName=said["AddonName"], **version)
    return Made(f"{said['ClusterName']}|{said['AddonName']}", {"Arn": made["addon"]["addonArn"]})


def _delete_add_on(maker: Maker, made: Made, said: Properties) -> None:
    del made
    maker.eks.delete_addon(clusterName=said["ClusterName"], addonName=said["AddonName"])


def _make_nothing(maker: Maker, name: str, said: Properties) -> Made:
    del maker, said
    return Made(name)


def _delete_nothing(maker: Maker, made: Made, said: Properties) -> None:
    del maker, made, said


_INLINE: Final = ResourceType(
    make=_make_inline_policy,
    change=_change_inline_policy,
    delete=_delete_inline_policy,
    named_by="PolicyName",
    is_iam=True,
)
_NOTHING: Final = ResourceType(make=_make_nothing, delete=_delete_nothing)

TYPES: Final[Mapping[str, ResourceType]] = {
    "AWS::CDK::Metadata": _NOTHING,
    "AWS::CloudFormation::WaitConditionHandle": _NOTHING,
    "AWS::EKS::AccessEntry": ResourceType(make=_make_access_entry, delete=_delete_access_entry),
    "AWS::EKS::Addon": ResourceType(make=_make_add_on, delete=_delete_add_on),
    "AWS::EKS::PodIdentityAssociation": ResourceType(make=_make_association, delete=_delete_association),
    "AWS::Events::Rule": ResourceType(
        make=_make_rule, change=_change_rule, delete=_delete_rule, named_by="Name"
    ),
    "AWS::IAM::InstanceProfile": ResourceType(
        make=_make_instance_profile,
        delete=_delete_instance_profile,
        named_by="InstanceProfileName",
        is_iam=True,
    ),
    "AWS::IAM::ManagedPolicy": ResourceType(
        make=_make_managed_policy,
        change=_change_managed_policy,
        delete=_delete_managed_policy,
        named_by="ManagedPolicyName",
        is_iam=True,
    ),
    "AWS::IAM::OIDCProvider": ResourceType(make=_make_oidc_provider, delete=_delete_oidc_provider),
    "AWS::IAM::Policy": _INLINE,
    "AWS::IAM::Role": ResourceType(
        make=_make_role, change=_change_role, delete=_delete_role, named_by="RoleName", is_iam=True
    ),
    "AWS::IAM::RolePolicy": _INLINE,
    "AWS::IAM::ServiceLinkedRole": ResourceType(make=_make_linked_role, delete=_delete_linked_role),
    "AWS::SQS::Queue": ResourceType(
        make=_make_queue, change=_change_queue, delete=_delete_queue, named_by="QueueName"
    ),
    "AWS::SQS::QueuePolicy": ResourceType(
        make=_make_queue_policy, change=_change_queue_policy, delete=_delete_queue_policy
    ),
}


def name_for(stack: str, logical: str) -> str:
    """Return a name for a resource whose template gives it none."""
    return f"{stack}-{logical}-{mock_random.uuid4().hex[:12].upper()}"
