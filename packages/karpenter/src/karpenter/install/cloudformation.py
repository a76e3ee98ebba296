"""
The plan as CloudFormation: one template per stack.

With the naming ``karpenter`` there is one stack for everything that CloudFormation can make; with ``eksdemo``
there are its three. The one stack makes the service-linked role where a parameter asks for it, because it
fails where the account has it. What is not in a template is said beside it: tags on subnets that exist, an
entry of the ConfigMap aws-auth, and whatever else is in Kubernetes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.manifests import render_documents
from karpenter.install.resources import (
    MARKER,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    InstallationResource,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.install.plan import InstallationPlan, InstallationStep

FORMAT: Final = "2010-09-09"
IN_STACKS: Final = (IamPolicy, IamRole, IamInstanceProfile, SqsQueue, EventBridgeRule)
"""What the stack of one step holds; an OIDC provider belongs to the cluster and is made beside it."""

IN_TEMPLATES: Final = (
    *IN_STACKS,
    ServiceLinkedRole,
    OpenIDConnectProvider,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
)
_QUEUE: Final = "KarpenterInterruptionQueue"
LINKED_ROLE: Final = "CreateSpotServiceLinkedRole"
"""The parameter, and the condition, by which the account's role for EC2 Spot is made."""

_LINKED_ROLE: Final = {
    "Parameters": {
        LINKED_ROLE: {
            "Type": "String",
            "AllowedValues": ["true", "false"],
            "Default": "false",
            "Description": "Whether to make the role of the account for EC2 Spot; fails where it exists.",
        }
    },
    "Conditions": {LINKED_ROLE: {"Fn::Equals": [{"Ref": LINKED_ROLE}, "true"]}},
}


def stack_template(plan: InstallationPlan, step: InstallationStep) -> dict[str, Any]:
    inside = [each for each in step.resources if isinstance(each, IN_STACKS)]
    return _template(plan, f"{step.title} of the cluster {plan.facts.cluster}", inside)


def stack_templates(plan: InstallationPlan) -> dict[str, dict[str, Any]]:
    stacks = {step.stack: stack_template(plan, step) for step in plan.steps if step.stack}
    if stacks:
        return stacks
    inside = [each for each in plan.resources if isinstance(each, IN_TEMPLATES)]
    about = f"What Karpenter needs in the account of the cluster {plan.facts.cluster}"
    return {f"Karpenter-{plan.facts.cluster}": _template(plan, about, inside)}


def render_cloudformation(plan: InstallationPlan) -> str:
    """Return the templates as YAML, each with the command that makes its stack."""
    stacks = stack_templates(plan)
    held: tuple[type, ...] = IN_STACKS if any(step.stack for step in plan.steps) else IN_TEMPLATES
    lines = ["# Not in these templates:"]
    outside = [each for each in plan.resources if not isinstance(each, held)]
    lines += [f"#   {each.title}" for each in outside]
    lines.append("# `karpenter install` makes those, and skips what the stacks hold.")
    for name, template in stacks.items():
        command = f"aws cloudformation deploy --stack-name {name} --template-file FILE"
        lines += ["---", f"# {command} --capabilities CAPABILITY_NAMED_IAM"]
        if LINKED_ROLE in template.get("Conditions", {}):
            more = f"--parameter-overrides {LINKED_ROLE}=true"
            lines.append(f"# Once for each account, without AWSServiceRoleForEC2Spot: {more}")
        lines.append(render_documents([template]).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _template(plan: InstallationPlan, about: str, inside: Iterable[InstallationResource]) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    listed = list(inside)
    ids = {_key(each): _logical(plan, each) for each in listed}
    for each in listed:
        resources.update(_entries(plan, each, ids))
    asked = _LINKED_ROLE if any(isinstance(each, ServiceLinkedRole) for each in listed) else {}
    return {"AWSTemplateFormatVersion": FORMAT, "Description": about, **asked, "Resources": resources}


def _key(resource: InstallationResource) -> str:
    return f"{type(resource).__name__}/{resource.title}"


_LOGICAL: Final[Mapping[type, str]] = {
    SqsQueue: _QUEUE,
    IamInstanceProfile: "KarpenterNodeInstanceProfile",
    ServiceLinkedRole: "SpotServiceLinkedRole",
    OpenIDConnectProvider: "OIDCProvider",
    EksAccessEntry: "NodeAccessEntry",
    EksAddon: "PodIdentityAgent",
    EksPodIdentityAssociation: "PodIdentityAssociation",
}
"""What resources are called in a template of which there is one."""


def _logical(plan: InstallationPlan, resource: InstallationResource) -> str:
    match resource:
        case EventBridgeRule():
            return resource.resource
        case IamRole() if resource.name == plan.names.controller_role:
            return "KarpenterControllerRole"
        case IamRole():
            return "KarpenterNodeRole"
        case IamPolicy():
            return re.sub(r"[^0-9A-Za-z]", "", resource.name.removesuffix(f"-{plan.facts.cluster}"))
        case _:
            return _LOGICAL[type(resource)]


def _entries(
    plan: InstallationPlan, resource: InstallationResource, ids: dict[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ids[_key(resource)]
    tags = [{"Key": MARKER, "Value": plan.facts.cluster}]
    given: dict[str, Any]
    match resource:
        case IamRole():
            yield name, _resource("AWS::IAM::Role", _role(resource, ids, tags))
        case IamPolicy():
            named = {"ManagedPolicyName": resource.name, "PolicyDocument": resource.document}
            yield name, _resource("AWS::IAM::ManagedPolicy", named)
        case IamInstanceProfile():
            role = {"Ref": "KarpenterNodeRole"} if "KarpenterNodeRole" in ids.values() else resource.role
            yield (
                name,
                _resource(
                    "AWS::IAM::InstanceProfile", {"InstanceProfileName": resource.name, "Roles": [role]}
                ),
            )
        case SqsQueue():
            yield name, _resource("AWS::SQS::Queue", _queue(resource, tags))
            policy = {"Queues": [{"Ref": name}], "PolicyDocument": resource.policy}
            yield f"{name}Policy", _resource("AWS::SQS::QueuePolicy", policy)
        case EventBridgeRule():
            yield name, _resource("AWS::Events::Rule", _rule(resource))
        case OpenIDConnectProvider():
            given = {"Url": resource.url, "ClientIdList": [resource.audience], "Tags": tags}
            yield name, _resource("AWS::IAM::OIDCProvider", given)
        case _:
            yield name, _of_account(resource, tags)


def _of_account(resource: InstallationResource, tags: list[dict[str, str]]) -> dict[str, Any]:
    """Return what is there once: for the cluster, or for the whole account."""
    given: dict[str, Any]
    match resource:
        case EksAccessEntry():
            given = {
                "ClusterName": resource.cluster,
                "PrincipalArn": {"Fn::GetAtt": ["KarpenterNodeRole", "Arn"]},
                "Type": resource.type,
                "Tags": tags,
            }
            return _resource("AWS::EKS::AccessEntry", given)
        case EksAddon():
            given = {"AddonName": resource.name, "ClusterName": resource.cluster, "Tags": tags}
            return _resource("AWS::EKS::Addon", given)
        case EksPodIdentityAssociation():
            given = {
                "ClusterName": resource.cluster,
                "Namespace": resource.namespace,
                "ServiceAccount": resource.service_account,
                "RoleArn": {"Fn::GetAtt": ["KarpenterControllerRole", "Arn"]},
                "Tags": tags,
            }
            return _resource("AWS::EKS::PodIdentityAssociation", given)
        case ServiceLinkedRole():
            # Everything else of the account that uses spot needs the role too.
            kept = {"Condition": LINKED_ROLE, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
            return {
                **_resource("AWS::IAM::ServiceLinkedRole", {"AWSServiceName": resource.service}),
                **kept,
            }
    raise TypeError(resource)


def _resource(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


def _role(role: IamRole, ids: dict[str, str], tags: list[dict[str, str]]) -> dict[str, Any]:
    def reference(arn: str) -> Any:
        known = ids.get(f"IamPolicy/policy {arn.rpartition('/')[2]}")
        return {"Ref": known} if known else arn

    found: dict[str, Any] = {
        "RoleName": role.name,
        "Path": "/",
        "AssumeRolePolicyDocument": role.trust,
        "Tags": tags,
    }
    if role.attached:
        found["ManagedPolicyArns"] = [reference(each) for each in role.attached]
    if role.inline:
        found["Policies"] = [
            {"PolicyName": name, "PolicyDocument": document} for name, document in role.inline.items()
        ]
    return found


def _queue(queue: SqsQueue, tags: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "QueueName": queue.name,
        "MessageRetentionPeriod": queue.retention,
        "SqsManagedSseEnabled": True,
        "Tags": tags,
    }


def _rule(rule: EventBridgeRule) -> dict[str, Any]:
    return {
        "Name": rule.name,
        "EventPattern": rule.pattern,
        "State": "ENABLED",
        "Targets": [{"Id": rule.target_id, "Arn": {"Fn::GetAtt": [_QUEUE, "Arn"]}}],
    }
