"""
The operations of CloudFormation: requests in, answers out, in the words of the service.

Knows how stacks are told, and nothing of how they are made: :mod:`.stacks` does that. :data:`OPERATIONS` has
the function of each operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter_local.aws.cloudformation.resources import TYPES
from karpenter_local.aws.cloudformation.stacks import CAPABILITIES, DELETED, Stack, StackService
from karpenter_local.aws.cloudformation.template import invalid, parse
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter_local.aws.account import Account


def _service(account: Account) -> StackService:
    found: StackService | None = account.services.get("cloudformation")
    if found is None:
        found = account.services["cloudformation"] = StackService(account)
    return found


def _summary(stack: Stack) -> dict[str, Any]:
    told = {
        "StackId": stack.id,
        "StackName": stack.name,
        "CreationTime": stack.made,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason or None,
        "LastUpdatedTime": stack.changed,
        "DeletionTime": stack.ended,
        "TemplateDescription": parse(stack.text).description or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def _described(stack: Stack) -> dict[str, Any]:
    told = _summary(stack)
    description = told.pop("TemplateDescription", None)
    return {
        **told,
        **({"Description": description} if description else {}),
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in {
                **{key: str(said.get("Default", "")) for key, said in parse(stack.text).parameters.items()},
                **stack.parameters,
            }.items()
        ],
        "Outputs": stack.outputs,
        "Tags": stack.tags,
        "Capabilities": stack.capabilities,
        "DisableRollback": False,
        "EnableTerminationProtection": False,
    }


def _describe_stacks(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(account)
    if asked.get("StackName"):
        return {"Stacks": [_described(service.find(asked["StackName"]))]}
    shown = [each for each in service.stacks.values() if each.status != DELETED]
    return {"Stacks": [_described(each) for each in reversed(shown)]}


def _list_stacks(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asked.get("StackStatusFilter")
    shown = [each for each in _service(account).stacks.values() if not wanted or each.status in wanted]
    return {"StackSummaries": [_summary(each) for each in reversed(shown)]}


def _create_stack(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"StackId": _service(account).create(asked).id}


def _update_stack(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(account)
    stack = service.find(asked["StackName"])
    service.update(stack, asked)
    return {"StackId": stack.id}


def _delete_stack(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(account)
    try:
        stack = service.find(asked["StackName"])
    except AwsError:
        return {}  # a stack that does not exist is deleted well
    service.delete(stack)
    return {}


def _describe_stack_events(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"StackEvents": _service(account).find(asked["StackName"]).events[::-1]}


def _resources(stack: Stack) -> list[dict[str, Any]]:
    return [
        {
            "StackId": stack.id,
            "StackName": stack.name,
            "LogicalResourceId": logical,
            "PhysicalResourceId": each.made.id,
            "ResourceType": each.kind,
            "Timestamp": each.changed,
            "LastUpdatedTimestamp": each.changed,
            "ResourceStatus": each.status,
        }
        for logical, each in stack.resources.items()
    ]


def _describe_stack_resources(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _resources(_service(account).find(asked["StackName"]))
    wanted = asked.get("LogicalResourceId")
    return {"StackResources": [each for each in found if wanted in {None, each["LogicalResourceId"]}]}


def _describe_stack_resource(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    logical, stack = asked["LogicalResourceId"], asked["StackName"]
    for each in _resources(_service(account).find(stack)):
        if each["LogicalResourceId"] == logical:
            return {"StackResourceDetail": each}
    raise invalid(f"Resource {logical} does not exist for stack {stack}")


def _list_stack_resources(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"StackResourceSummaries": _resources(_service(account).find(asked["StackName"]))}


def _get_template(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"TemplateBody": _service(account).find(asked["StackName"]).text, "StagesAvailable": ["Original"]}


def _validate_template(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    text = asked.get("TemplateBody") or ""
    if not text and asked.get("StackName"):
        text = _service(account).find(asked["StackName"]).text
    template = parse(text)
    named = any(TYPES[each["Type"]].is_iam for each in template.resources.values() if each["Type"] in TYPES)
    return {
        "Description": template.description,
        "Capabilities": [CAPABILITIES[1]] if named else [],
        "Parameters": [
            {
                "ParameterKey": key,
                "DefaultValue": str(said.get("Default", "")),
                "Description": str(said.get("Description", "")),
                "NoEcho": bool(said.get("NoEcho")),
            }
            for key, said in template.parameters.items()
        ],
    }


def _create_change_set(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    made = _service(account).propose(asked)
    return {"Id": made["ChangeSetId"], "StackId": made["StackId"]}


def _describe_change_set(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _service(account).change_set(asked)
    return {key: value for key, value in found.items() if key != "asked"}


def _execute_change_set(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(account)
    service.execute(service.change_set(asked))
    return {}


def _delete_change_set(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    service = _service(account)
    found = service.change_set(asked)
    del service.find(found["StackId"]).change_sets[found["ChangeSetName"]]
    return {}


def _list_change_sets(account: Account, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = _service(account).find(asked["StackName"]).change_sets.values()
    return {
        "Summaries": [
            {key: value for key, value in each.items() if key not in {"asked", "Changes"}} for each in found
        ]
    }


OPERATIONS: Final[dict[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]]] = {
    "CreateChangeSet": _create_change_set,
    "CreateStack": _create_stack,
    "DeleteChangeSet": _delete_change_set,
    "DeleteStack": _delete_stack,
    "DescribeChangeSet": _describe_change_set,
    "DescribeStackEvents": _describe_stack_events,
    "DescribeStackResource": _describe_stack_resource,
    "DescribeStackResources": _describe_stack_resources,
    "DescribeStacks": _describe_stacks,
    "ExecuteChangeSet": _execute_change_set,
    "GetTemplate": _get_template,
    "GetTemplateSummary": _validate_template,
    "ListChangeSets": _list_change_sets,
    "ListStackResources": _list_stack_resources,
    "ListStacks": _list_stacks,
    "UpdateStack": _update_stack,
    "ValidateTemplate": _validate_template,
}
