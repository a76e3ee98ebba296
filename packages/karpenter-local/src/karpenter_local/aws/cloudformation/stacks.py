"""
Stacks: what a template makes together, changes together and deletes together.

A call has done everything when it returns; events tell in which order. What fails is undone, as
CloudFormation does it: a stack that could not be made is in ROLLBACK_COMPLETE, one that could not be changed
in UPDATE_ROLLBACK_COMPLETE. :mod:`.operations` answers the service.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from botocore.exceptions import ClientError, ParamValidationError
from moto.moto_api._internal import mock_random

from karpenter_local.aws.cloudformation.resources import TYPES, Made, Maker, ResourceType, name_for
from karpenter_local.aws.cloudformation.template import (
    CfnTemplate,
    TemplateScope,
    given,
    holds,
    invalid,
    order,
    parse,
    resolve,
)
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter_local.aws.account import Account

_STACK: Final = "AWS::CloudFormation::Stack"
CAPABILITIES: Final = ("CAPABILITY_IAM", "CAPABILITY_NAMED_IAM")
DELETED: Final = "DELETE_COMPLETE"
_GONE: Final = frozenset(
    {
        "NoSuchEntity",
        "ResourceNotFoundException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
    }
)
"""Errors that say that a resource that is to be deleted is gone already."""

_REVIEW: Final = "REVIEW_IN_PROGRESS"


class StackResource(msgspec.Struct):
    """One resource of a stack."""

    kind: str
    properties: dict[str, Any]
    made: Made
    status: str
    reason: str
    changed: datetime
    retained: bool = False


class Stack(msgspec.Struct, kw_only=True):
    """A stack."""

    id: str
    name: str
    text: str

    parameters: dict[str, str]
    tags: list[dict[str, str]]
    capabilities: list[str]
    status: str
    made: datetime
    reason: str = ""
    changed: datetime | None = None
    ended: datetime | None = None
    resources: dict[str, StackResource] = {}
    """In the order in which they were made."""

    outputs: list[dict[str, str]] = []
    events: list[dict[str, Any]] = []
    """Oldest first."""

    change_sets: dict[str, dict[str, Any]] = {}


class _Failed(Exception):  # noqa: N818  says what has happened
    """A resource could not be made, changed or deleted; the text says why."""

    def __init__(self, logical: str, why: str) -> None:
        super().__init__(why)
        self.logical = logical


class StackService:
    """The stacks of one account."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._maker = Maker(account)
        self.stacks: dict[str, Stack] = {}
        """By id, those that were deleted included."""

    def find(self, named: str) -> Stack:
        """
        Return a stack by its name, or by its id.

        Raises:
            AwsError: there is no such stack, or it is called by name and was deleted.
        """
        if named in self.stacks:
            return self.stacks[named]
        for stack in self.stacks.values():
            if stack.name == named and stack.status != DELETED:
                return stack
        raise invalid(f"Stack with id {named} does not exist")

    def create(self, asked: Mapping[str, Any]) -> Stack:
        """
        Make a stack and everything in it.

        Raises:
            AwsError: it exists, or its template cannot be used.
        """
        name = asked["StackName"]
        if any(each.name == name and each.status != DELETED for each in self.stacks.values()):
            raise AwsError("AlreadyExistsException", f"Stack [{name}] already exists")
        stack = self._draft(asked, "CREATE_IN_PROGRESS")
        self._build(stack)
        return stack

    def _draft(self, asked: Mapping[str, Any], status: str) -> Stack:
        """Return a stack with nothing in it; its template is sound."""
        text, parameters, tags, capabilities = _told(asked)
        template = parse(text)
        _check_capabilities(template, capabilities)
        account = self._account
        number = mock_random.uuid4()
        stack = Stack(
            id=f"arn:aws:cloudformation:{account.region}:{account.number}:stack/{asked['StackName']}/{number}",
            name=asked["StackName"],
            text=text,
            parameters=parameters,
            tags=tags,
            capabilities=capabilities,
            status=status,
            made=account.now(),
        )
        order(template, self._scope(stack, template))
        self.stacks[stack.id] = stack
        return stack

    def _build(self, stack: Stack) -> None:
        """Make the resources of a stack; if one cannot be made, delete the others."""
        self._enter(stack, "CREATE_IN_PROGRESS", "User Initiated")
        template = parse(stack.text)
        scope = self._scope(stack, template)
        try:
            for logical in order(template, scope):
                self._make(stack, template, scope, logical)
            stack.outputs = _outputs(scope)
        except (_Failed, AwsError) as error:
            self._enter(stack, "ROLLBACK_IN_PROGRESS", _why(error, "create"))
            self._clear(stack)
            self._enter(stack, "ROLLBACK_COMPLETE", "")
        else:
            self._enter(stack, "CREATE_COMPLETE", "")

    def update(self, stack: Stack, asked: Mapping[str, Any]) -> None:
        """
        Change a stack to what a template says now.

        Raises:
            AwsError: nothing would change, the stack cannot be changed, or the template cannot be used.
        """
        before = msgspec.structs.replace(stack)
        text, parameters, tags, capabilities = _told(asked, stack)
        template = parse(text)
        _check_capabilities(template, capabilities)
        if not stack.status.endswith("_COMPLETE") or stack.status in {"ROLLBACK_COMPLETE", DELETED}:
            raise invalid(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        stack.text, stack.parameters, stack.tags = text, parameters, tags or stack.tags
        try:
            scope = self._scope(stack, template)
            planned = self._differences(stack, template, scope)
            outputs = _outputs(scope)
            if not planned and outputs == stack.outputs and stack.tags == before.tags:
                raise invalid("No updates are to be performed.")
        except AwsError:
            stack.text, stack.parameters, stack.tags = before.text, before.parameters, before.tags
            raise
        self._enter(stack, "UPDATE_IN_PROGRESS", "User Initiated")
        try:
            self._apply(stack, template, scope)
            stack.outputs = _outputs(scope)
        except (_Failed, AwsError) as error:
            self._enter(stack, "UPDATE_ROLLBACK_IN_PROGRESS", _why(error, "update"))
            stack.text, stack.parameters, stack.tags = before.text, before.parameters, before.tags
            old = parse(stack.text)
            self._apply(stack, old, self._scope(stack, old))
            self._enter(stack, "UPDATE_ROLLBACK_COMPLETE", "")
        else:
            self._enter(stack, "UPDATE_COMPLETE", "")
        stack.changed = self._account.now()

    def _differences(self, stack: Stack, template: CfnTemplate, scope: TemplateScope) -> list[dict[str, Any]]:
        """Return what a template would change, as change sets tell it."""
        found = []
        wanted = order(template, scope)
        for logical in wanted:
            kind = template.resources[logical]["Type"]
            there = stack.resources.get(logical)
            if there is None:
                found.append({"Action": "Add", "LogicalResourceId": logical, "ResourceType": kind})
            elif there.properties != resolve(scope, template.resources[logical].get("Properties") or {}):
                change = {"Action": "Modify", "LogicalResourceId": logical, "ResourceType": kind}
                found.append({**change, "PhysicalResourceId": there.made.id, "Replacement": "False"})
        for logical, there in stack.resources.items():
            if logical not in wanted:
                change = {"Action": "Remove", "LogicalResourceId": logical, "ResourceType": there.kind}
                found.append({**change, "PhysicalResourceId": there.made.id})
        return found

    def _apply(self, stack: Stack, template: CfnTemplate, scope: TemplateScope) -> None:
        wanted = order(template, scope)
        for logical in wanted:
            there = stack.resources.get(logical)
            if there is None or there.kind != template.resources[logical]["Type"]:
                self._make(stack, template, scope, logical)
            else:
                self._change(stack, template, scope, logical)
        for logical in [each for each in reversed(stack.resources) if each not in wanted]:
            self._delete(stack, logical)
            del stack.resources[logical]

    def _make(self, stack: Stack, template: CfnTemplate, scope: TemplateScope, logical: str) -> None:
        said = template.resources[logical]
        kind = said["Type"]
        properties = resolve(scope, said.get("Properties") or {})
        resource = StackResource(kind, properties, Made(""), "", "", self._account.now())
        resource.retained = str(said.get("DeletionPolicy", "")).startswith("Retain")
        self._note(stack, logical, resource, "CREATE_IN_PROGRESS")
        try:
            resource.made = self._called(
                logical, lambda: _type(kind).make(self._maker, name_for(stack.name, logical), properties)
            )
        except _Failed as error:
            self._note(stack, logical, resource, "CREATE_FAILED", str(error))
            raise
        stack.resources[logical] = resource
        self._note(stack, logical, resource, "CREATE_COMPLETE")

    def _change(self, stack: Stack, template: CfnTemplate, scope: TemplateScope, logical: str) -> None:
        resource = stack.resources[logical]
        properties = resolve(scope, template.resources[logical].get("Properties") or {})
        if properties == resource.properties:
            return
        self._note(stack, logical, resource, "UPDATE_IN_PROGRESS")
        kind = _type(resource.kind)
        named = kind.named_by
        anew = kind.change is None or properties.get(named) != resource.properties.get(named)

        def change() -> Made:
            if not anew:
                assert kind.change is not None
                return kind.change(self._maker, resource.made, resource.properties, properties)
            self._remove(resource)
            return kind.make(self._maker, name_for(stack.name, logical), properties)

        try:
            resource.made = self._called(logical, change)
        except _Failed as error:
            self._note(stack, logical, resource, "UPDATE_FAILED", str(error))
            raise
        finally:
            resource.properties = properties  # also of a change that failed half way, so that it is undone
        self._note(stack, logical, resource, "UPDATE_COMPLETE")

    def _delete(self, stack: Stack, logical: str) -> None:
        resource = stack.resources[logical]
        if resource.retained:
            self._note(stack, logical, resource, "DELETE_SKIPPED")
            return
        self._note(stack, logical, resource, "DELETE_IN_PROGRESS")

        try:
            self._called(logical, lambda: self._remove(resource))
        except _Failed as error:
            self._note(stack, logical, resource, "DELETE_FAILED", str(error))
            raise
        self._note(stack, logical, resource, DELETED)

    def _remove(self, resource: StackResource) -> None:
        """Delete a resource; one that is gone already is deleted well."""
        try:
            _type(resource.kind).delete(self._maker, resource.made, resource.properties)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise

    @staticmethod
    def _called(logical: str, work: Callable[[], Any]) -> Any:
        """Do something to a resource, and say what it fails by in the words of stacks."""
        try:
            return work()
        except ClientError as error:
            raise _Failed(logical, str(error)) from error
        except (ParamValidationError, AwsError) as error:
            raise _Failed(logical, str(error)) from error
        except KeyError as error:
            raise _Failed(logical, f"Properties validation failed: required key {error} not found") from error

    def delete(self, stack: Stack) -> None:
        """Delete a stack and everything in it; what cannot be deleted stays, and the stack with it."""
        if stack.status == DELETED:
            return
        self._enter(stack, "DELETE_IN_PROGRESS", "User Initiated")
        failed = self._clear(stack)
        if failed:
            why = f"The following resource(s) failed to delete: [{', '.join(failed)}]."
            self._enter(stack, "DELETE_FAILED", why)
            return
        self._enter(stack, DELETED, "")
        stack.ended = self._account.now()

    def _clear(self, stack: Stack) -> list[str]:
        """Delete the resources of a stack, the last one first, and return those that cannot be deleted."""
        failed = []
        for logical in tuple(reversed(stack.resources)):
            if stack.resources[logical].status in {DELETED, "DELETE_SKIPPED"}:
                continue
            try:
                self._delete(stack, logical)
            except _Failed:
                failed.append(logical)
        return failed

    def propose(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """
        Make a change set, and the stack that it is for if that is wanted.

        Raises:
            AwsError: the stack, or the template, cannot be used.
        """
        if asked.get("ChangeSetType") == "CREATE":
            stack = self._draft(asked, _REVIEW)
            self._enter(stack, _REVIEW, "User Initiated")
        else:
            stack = self.find(asked["StackName"])
        text, parameters, _, capabilities = _told(asked, stack)
        template = parse(text)
        _check_capabilities(template, capabilities)
        draft = msgspec.structs.replace(stack, text=text, parameters=parameters)
        changes = self._differences(draft, template, self._scope(draft, template))
        name, number = asked["ChangeSetName"], mock_random.uuid4()
        account = self._account
        place = f"arn:aws:cloudformation:{account.region}:{account.number}"
        made = {
            "ChangeSetName": name,
            "ChangeSetId": f"{place}:changeSet/{name}/{number}",
            "StackId": stack.id,
            "StackName": stack.name,
            "CreationTime": account.now(),
            "Status": "CREATE_COMPLETE" if changes else "FAILED",
            "ExecutionStatus": "AVAILABLE" if changes else "UNAVAILABLE",
            "Changes": [{"Type": "Resource", "ResourceChange": {"Scope": [], **each}} for each in changes],
            "asked": dict(asked),
        }
        if not changes:
            made["StatusReason"] = (
                "The submitted information didn't contain changes. Submit different information to create"
                " a change set."
            )
        stack.change_sets[name] = made
        return made

    def change_set(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return a change set, by its name and its stack, or by its id.

        Raises:
            AwsError: there is none.
        """
        named = asked["ChangeSetName"]
        stacks = [self.find(asked["StackName"])] if asked.get("StackName") else list(self.stacks.values())
        for stack in stacks:
            for each in stack.change_sets.values():
                if named in {each["ChangeSetName"], each["ChangeSetId"]}:
                    return each
        raise AwsError("ChangeSetNotFoundException", f"ChangeSet [{named}] does not exist")

    def execute(self, change_set: dict[str, Any]) -> None:
        """
        Do what a change set proposes.

        Raises:
            AwsError: it cannot be carried out.
        """
        if change_set["ExecutionStatus"] != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatusException",
                f"ChangeSet [{change_set['ChangeSetId']}] cannot be executed in its current status of"
                f" [{change_set['Status']}]",
            )
        stack = self.find(change_set["StackId"])
        change_set["ExecutionStatus"] = "EXECUTE_COMPLETE"
        if stack.status == _REVIEW:
            self._build(stack)
        else:
            self.update(stack, change_set["asked"])

    def _scope(self, stack: Stack, template: CfnTemplate) -> TemplateScope:
        account = self._account
        values = {
            **given(template, stack.parameters),
            "AWS::AccountId": account.number,
            "AWS::Region": account.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": stack.name,
            "AWS::StackId": stack.id,
        }

        def physical(logical: str) -> str:
            there = stack.resources.get(logical)
            return there.made.id if there is not None else f"<{logical}>"

        def attribute(logical: str, name: str) -> Any:
            there = stack.resources.get(logical)
            if there is None:
                return f"<{logical}.{name}>"
            if name not in there.made.attributes:
                raise invalid(f"Template error: resource {logical} does not support attribute type {name}")
            return there.made.attributes[name]

        return TemplateScope(template=template, values=values, physical=physical, attribute=attribute)

    def _enter(self, stack: Stack, status: str, why: str) -> None:
        stack.status, stack.reason = status, why
        self._event(stack, stack.name, (stack.id, _STACK), status, why)

    def _note(self, stack: Stack, logical: str, resource: StackResource, status: str, why: str = "") -> None:
        resource.status, resource.reason, resource.changed = status, why, self._account.now()
        self._event(stack, logical, (resource.made.id, resource.kind), status, why)

    def _event(self, stack: Stack, logical: str, what: tuple[str, str], status: str, why: str) -> None:
        told = {
            "StackId": stack.id,
            "StackName": stack.name,
            "EventId": f"{logical}-{status}-{mock_random.uuid4()}",
            "LogicalResourceId": logical,
            "PhysicalResourceId": what[0],
            "ResourceType": what[1],
            "Timestamp": self._account.now(),
            "ResourceStatus": status,
        }
        stack.events.append({**told, **({"ResourceStatusReason": why} if why else {})})


def _type(kind: str) -> ResourceType:
    if kind not in TYPES:
        raise invalid(f"Resource type {kind} is not supported by the embedded AWS")
    return TYPES[kind]


def _why(error: Exception, work: str) -> str:
    if isinstance(error, _Failed):
        return f"The following resource(s) failed to {work}: [{error.logical}]."
    return str(error)


def _told(
    asked: Mapping[str, Any], stack: Stack | None = None
) -> tuple[str, dict[str, str], list[dict[str, str]], list[str]]:
    """Return the template, the parameters, the tags and the capabilities of a request."""
    text = asked.get("TemplateBody") or ""
    if not text and asked.get("UsePreviousTemplate") and stack is not None:
        text = stack.text
    if not text:
        raise invalid("Either Template URL or Template Body must be specified.")
    before = stack.parameters if stack is not None else {}
    parameters = {
        each["ParameterKey"]: before[each["ParameterKey"]]
        if each.get("UsePreviousValue")
        else each.get("ParameterValue", "")
        for each in asked.get("Parameters") or ()
    }
    return text, parameters, list(asked.get("Tags") or ()), list(asked.get("Capabilities") or ())


def _check_capabilities(template: CfnTemplate, capabilities: list[str]) -> None:
    """Refuse a template that makes IAM resources for a caller who does not say that it may."""
    kinds = [
        (TYPES[each["Type"]], each.get("Properties") or {})
        for each in template.resources.values()
        if each["Type"] in TYPES and TYPES[each["Type"]].is_iam
    ]
    named = any(kind.named_by in said for kind, said in kinds if kind.named_by != "PolicyName")
    needed = CAPABILITIES[1] if named else CAPABILITIES[0]
    if kinds and needed not in capabilities and CAPABILITIES[1] not in capabilities:
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed}]")


def _outputs(scope: TemplateScope) -> list[dict[str, str]]:
    found = []
    for name, said in scope.template.outputs.items():
        if "Condition" in said and not holds(scope, said["Condition"]):
            continue
        told = {"OutputKey": name, "OutputValue": str(resolve(scope, said["Value"]))}
        if said.get("Description"):
            told["Description"] = said["Description"]
        if said.get("Export"):
            told["ExportName"] = str(resolve(scope, said["Export"]["Name"]))
        found.append(told)
    return found
