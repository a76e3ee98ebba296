"""
A plan made so: step by step, what exists is left, what is missing is made, what differs is brought up.

Nothing is ever deleted. Every resource is looked at before it is written, so that a second run changes
nothing and a run that died goes on where it stopped. What happens is yielded as values; how it is shown is
:mod:`.text`'s business.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

import msgspec

from karpenter.cloud.aws.errors import AccessDenied, AwsApiError, ResourceNotFound
from karpenter.cloud.errors import CloudError
from karpenter.install.cloudformation import IN_STACKS, stack_template
from karpenter.install.observe import (
    ENCRYPTED,
    RETENTION,
    ResourceState,
    compact,
    find_association,
    observe,
    queue_url,
    untagged,
)
from karpenter.install.options import InstallationError
from karpenter.install.permissions import explain_access
from karpenter.install.plan import InstallationPlan, InstallationStep
from karpenter.install.resources import (
    MARKER,
    AwsAuthMapping,
    AwsResource,
    Ec2Tags,
    EksAccessEntry,
    EksAddon,
    EksPodIdentityAssociation,
    EventBridgeRule,
    HelmRelease,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    InstallationResource,
    KubernetesObject,
    OpenIDConnectProvider,
    ServiceLinkedRole,
    SqsQueue,
)
from karpenter.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from karpenter.base.clock import Clock
    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi

IN_CLUSTER: Final = (AwsAuthMapping, KubernetesObject, HelmRelease)
LEADS_WITHIN: Final = 300.0
READY_WITHIN: Final = 120.0
STACK_WITHIN: Final = 300.0
_LOOK: Final = 2.0
_PATIENCE: Final = 75.0
"""Seconds to try again for: SQS refuses the name of a deleted queue for a minute."""

_NOT_YET: Final = frozenset(
    {
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "QueueDeletedRecently",
        "ConcurrentModification",
        "EntityTemporarilyUnmodifiable",
        "ResourceInUseException",
    }
)
_MOST_VERSIONS: Final = "LimitExceeded"
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/access_policies_managed-versioning.html: five at most."""

Outcome = Literal["exists", "made", "changed", "kept"]


class StepBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A step begins."""

    step: InstallationStep
    number: int
    of: int


class ResourceDone(msgspec.Struct, frozen=True, kw_only=True):
    """A resource is as planned, or is left as it is."""

    step: InstallationStep
    resource: InstallationResource
    before: ResourceState
    outcome: Outcome


class StackDone(msgspec.Struct, frozen=True, kw_only=True):
    """The stack of a step was made, updated, or exists."""

    step: InstallationStep
    outcome: Outcome


class StepWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Something takes its time."""

    step: InstallationStep
    said: str


InstallationEvent: TypeAlias = StepBegun | ResourceDone | StackDone | StepWaits


class StepFailed(InstallationError):  # noqa: N818  says what has happened
    """A step could not be completed; what was made before it stays."""

    def __init__(self, step: InstallationStep, problem: str, *, hint: str = "") -> None:
        super().__init__(f"step {step.name}: {problem}", hint=hint)
        self.step = step


class Installer:
    """Makes a plan so."""

    def __init__(
        self,
        plan: InstallationPlan,
        aws: AccountApi,
        cluster: ClusterApi,
        *,
        clock: Clock,
        leads_within: float = LEADS_WITHIN,
    ) -> None:
        """With `leads_within` zero, nothing is waited for."""
        self._plan = plan
        self._aws = aws
        self._cluster = cluster
        self._clock = clock
        self._leads_within = leads_within

    async def run(self) -> AsyncIterator[InstallationEvent]:
        """
        Take every step, and yield what happens.

        Raises:
            StepFailed: a step could not be completed; the next run goes on there.
        """
        for number, step in enumerate(self._plan.steps, start=1):
            yield StepBegun(step=step, number=number, of=len(self._plan.steps))
            try:
                async for event in self._take(step):
                    yield event
            except (CloudError, KubeError, InstallationError) as error:
                raise self._failure(step, error) from error

    async def _take(self, step: InstallationStep) -> AsyncIterator[InstallationEvent]:
        rest: Sequence[InstallationResource] = step.resources
        if step.stack:
            inside: Sequence[InstallationResource] = [each for each in rest if isinstance(each, IN_STACKS)]
            for beside in [each for each in rest if not isinstance(each, IN_STACKS)]:
                yield await self._settle(step, beside)
            handled = await self._stack(step, inside)
            if handled is not None:
                yield handled
                return
            rest = inside
        for each in rest:
            if isinstance(each, HelmRelease):
                async for event in self._chart(step, each):
                    yield event
            else:
                yield await self._settle(step, each)
        if step.phase == "post-install" and self._leads_within:
            bodies = [each.body for each in rest if isinstance(each, KubernetesObject)]
            # An EC2NodeClass first: a NodePool waits for its class.
            bodies.sort(key=lambda body: str(body["kind"]))
            async for said in self._cluster.ready(bodies, within=min(READY_WITHIN, self._leads_within)):
                yield StepWaits(step=step, said=said)

    async def _settle(self, step: InstallationStep, resource: InstallationResource) -> ResourceDone:
        deadline = self._clock.monotonic() + _PATIENCE
        while True:
            try:
                return await self._attempt(step, resource)
            except AwsApiError as error:
                if not _not_yet(error) or self._clock.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_LOOK)

    async def _attempt(self, step: InstallationStep, resource: InstallationResource) -> ResourceDone:
        before = await look(self._aws, self._cluster, resource)
        outcome: Outcome = "made" if not before.present else "changed" if before.differences else "exists"
        if isinstance(resource, KubernetesObject) and resource.once and outcome == "changed":
            outcome = "kept"
        if outcome in {"made", "changed"}:
            if isinstance(resource, IN_CLUSTER):
                await self._cluster.make(resource)
            else:
                make(self._aws, resource, before, owner=self._plan.facts.cluster)
        return ResourceDone(step=step, resource=resource, before=before, outcome=outcome)

    async def _chart(self, step: InstallationStep, release: HelmRelease) -> AsyncIterator[InstallationEvent]:
        done = await self._settle(step, release)
        yield done
        if not self._leads_within:
            return
        # A lease that is renewed every few seconds was renewed lately, if its holder lives.
        since = self._clock.now()
        async for said in self._cluster.leads(release, since=since, within=self._leads_within):
            yield StepWaits(step=step, said=said)

    async def _stack(
        self, step: InstallationStep, inside: Sequence[InstallationResource]
    ) -> StackDone | None:
        """Make or update the stack of a step; None where its resources are there without it."""
        seen = [await look(self._aws, self._cluster, each) for each in inside]
        status = stack_status(self._aws, step.stack)
        if status.startswith("ROLLBACK") or status.endswith("_FAILED"):
            raise InstallationError(
                f"stack {step.stack} is in {status}: {stack_reason(self._aws, step.stack)}",
                hint=f"aws cloudformation delete-stack --stack-name {step.stack}, then run this again",
            )
        if not status and any(each.present for each in seen):
            return None
        complete = all(each.state == "exists" for each in seen)
        if status and complete:
            return StackDone(step=step, outcome="exists")
        body = json.dumps(stack_template(self._plan, step))
        asked: dict[str, Any] = {
            "StackName": step.stack,
            "TemplateBody": body,
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
            "Tags": [{"Key": MARKER, "Value": self._plan.facts.cluster}],
        }
        self._aws.call("cloudformation", "UpdateStack" if status else "CreateStack", **asked)
        await self._stack_settles(step.stack)
        return StackDone(step=step, outcome="changed" if status else "made")

    async def _stack_settles(self, name: str) -> None:
        deadline = self._clock.monotonic() + STACK_WITHIN
        while True:
            status = stack_status(self._aws, name)
            if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
                return
            if not status.endswith("_IN_PROGRESS"):
                raise InstallationError(f"stack {name} is in {status}: {stack_reason(self._aws, name)}")
            if self._clock.monotonic() >= deadline:
                raise InstallationError(f"stack {name} is still in {status} after {STACK_WITHIN:g} s")
            await asyncio.sleep(_LOOK)

    def _failure(self, step: InstallationStep, error: Exception) -> StepFailed:
        again = "run the same command again: it goes on here"
        if isinstance(error, StepFailed):
            return error
        if isinstance(error, AccessDenied):
            problem, hint = explain_access(error)
            return StepFailed(step, problem, hint=f"{hint}; then {again}")
        if isinstance(error, InstallationError):
            return StepFailed(step, str(error), hint=error.hint or again)
        return StepFailed(step, str(error), hint=again)


async def look(aws: AccountApi, cluster: ClusterApi | None, resource: InstallationResource) -> ResourceState:
    """Return what there is of a resource; without a cluster, nothing of what is in it."""
    if isinstance(resource, IN_CLUSTER):
        if cluster is None:
            return ResourceState(present=False, notes=("the cluster was not asked",))
        return await cluster.observe(resource)
    return observe(aws, resource)


async def survey(
    plan: InstallationPlan, aws: AccountApi, cluster: ClusterApi | None
) -> list[tuple[InstallationStep, InstallationResource, ResourceState]]:
    """Return what there is of every resource; only reads."""
    return [(step, each, await look(aws, cluster, each)) for step in plan.steps for each in step.resources]


def stack_status(aws: AccountApi, name: str) -> str:
    """Return the status of a stack; empty if there is none."""
    try:
        found = aws.call("cloudformation", "DescribeStacks", StackName=name)["Stacks"]
    except ResourceNotFound:
        return ""
    except AwsApiError as error:
        # CloudFormation says so of a stack that does not exist.
        if error.code == "ValidationError" and "does not exist" in error.message:
            return ""
        raise
    status = str(found[0]["StackStatus"]) if found else ""
    return "" if status == "DELETE_COMPLETE" else status


def stack_reason(aws: AccountApi, name: str) -> str:
    """Return why a stack failed, as its first failed event tells."""
    events = list(aws.every("cloudformation", "DescribeStackEvents", "StackEvents", StackName=name))
    failed = [each for each in events if str(each.get("ResourceStatus", "")).endswith("_FAILED")]
    if not failed:
        return "its events name no reason"
    first = failed[-1]  # the newest come first
    return f"{first.get('LogicalResourceId')}: {first.get('ResourceStatusReason', 'no reason given')}"


def make(aws: AccountApi, resource: AwsResource, before: ResourceState, *, owner: str) -> None:
    """Write what is missing of a resource, or differs."""
    tags = [{"Key": MARKER, "Value": owner}]
    match resource:
        case ServiceLinkedRole():
            aws.call("iam", "CreateServiceLinkedRole", AWSServiceName=resource.service)
        case OpenIDConnectProvider():
            _provider(aws, resource, before, tags)
        case IamPolicy():
            _policy(aws, resource, before, tags)
        case IamRole():
            _role(aws, resource, before, tags)
        case IamInstanceProfile():
            _profile(aws, resource, before, tags)
        case SqsQueue():
            _queue(aws, resource, before, {MARKER: owner})
        case EventBridgeRule():
            _rule(aws, resource, before, tags)
        case Ec2Tags():
            both = [{"Key": resource.key, "Value": resource.value}, *tags]
            aws.call("ec2", "CreateTags", Resources=list(untagged(aws, resource)), Tags=both)
        case EksAccessEntry():
            _entry(aws, resource, before, {MARKER: owner})
        case EksAddon():
            aws.call(
                "eks",
                "CreateAddon",
                clusterName=resource.cluster,
                addonName=resource.name,
                tags={MARKER: owner},
            )
        case EksPodIdentityAssociation():
            _association(aws, resource, before, {MARKER: owner})
        case _:
            assert_never(resource)


def _provider(
    aws: AccountApi, resource: OpenIDConnectProvider, before: ResourceState, tags: list[dict[str, str]]
) -> None:
    if before.present:
        aws.call(
            "iam",
            "AddClientIDToOpenIDConnectProvider",
            OpenIDConnectProviderArn=resource.arn,
            ClientID=resource.audience,
        )
        return
    aws.call(
        "iam", "CreateOpenIDConnectProvider", Url=resource.url, ClientIDList=[resource.audience], Tags=tags
    )


def _policy(aws: AccountApi, resource: IamPolicy, before: ResourceState, tags: list[dict[str, str]]) -> None:
    document = json.dumps(resource.document, separators=(",", ":"))
    if not before.present:
        aws.call("iam", "CreatePolicy", PolicyName=resource.name, PolicyDocument=document, Tags=tags)
        return
    try:
        aws.call(
            "iam",
            "CreatePolicyVersion",
            PolicyArn=resource.arn,
            PolicyDocument=document,
            SetAsDefault=True,
        )
    except AwsApiError as error:
        if error.code != _MOST_VERSIONS:
            raise
        raise InstallationError(
            f"policy {resource.name} has five versions, and install deletes none",
            hint=f"aws iam list-policy-versions --policy-arn {resource.arn},"
            " then aws iam delete-policy-version of the oldest",
        ) from error


def _role(aws: AccountApi, resource: IamRole, before: ResourceState, tags: list[dict[str, str]]) -> None:
    trust = json.dumps(resource.trust, separators=(",", ":"))
    if not before.present:
        aws.call("iam", "CreateRole", RoleName=resource.name, AssumeRolePolicyDocument=trust, Tags=tags)
    elif any(each.startswith("trust policy") for each in before.differences):
        aws.call("iam", "UpdateAssumeRolePolicy", RoleName=resource.name, PolicyDocument=trust)
    for arn in resource.attached:
        lacking = f"policy {arn.rpartition('/')[2]} is not attached"
        if not before.present or lacking in before.differences:
            aws.call("iam", "AttachRolePolicy", RoleName=resource.name, PolicyArn=arn)
    for name, document in resource.inline.items():
        if not before.present or any(each.startswith(f"inline policy {name}") for each in before.differences):
            aws.call(
                "iam",
                "PutRolePolicy",
                RoleName=resource.name,
                PolicyName=name,
                PolicyDocument=json.dumps(document, separators=(",", ":")),
            )


def _profile(
    aws: AccountApi, resource: IamInstanceProfile, before: ResourceState, tags: list[dict[str, str]]
) -> None:
    if not before.present:
        aws.call("iam", "CreateInstanceProfile", InstanceProfileName=resource.name, Tags=tags)
    elif any(", but " in each for each in before.differences):
        # A profile holds one role: the other one would have to be removed.
        raise InstallationError(
            f"instance profile {resource.name}: {before.differences[0]}",
            hint="aws iam remove-role-from-instance-profile, then run this again",
        )
    aws.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=resource.name, RoleName=resource.role)


def _queue(aws: AccountApi, resource: SqsQueue, before: ResourceState, tags: dict[str, str]) -> None:
    attributes = {
        RETENTION: str(resource.retention),
        ENCRYPTED: "true",
        "Policy": json.dumps(resource.policy, separators=(",", ":")),
    }
    if not before.present:
        aws.call("sqs", "CreateQueue", QueueName=resource.name, Attributes=attributes, tags=tags)
        return
    url = queue_url(aws, resource.name)
    aws.call("sqs", "SetQueueAttributes", QueueUrl=url, Attributes=attributes)


def _rule(
    aws: AccountApi, resource: EventBridgeRule, before: ResourceState, tags: list[dict[str, str]]
) -> None:
    asked: dict[str, Any] = {
        "Name": resource.name,
        "EventPattern": compact(resource.pattern),
        "State": "ENABLED",
    }
    # PutRule refuses tags for a rule that exists.
    # https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html
    aws.call("events", "PutRule", **asked, **({} if before.present else {"Tags": tags}))
    target = {"Id": resource.target_id, "Arn": resource.target}
    answer = aws.call("events", "PutTargets", Rule=resource.name, Targets=[target])
    if answer.get("FailedEntryCount"):
        raise InstallationError(f"event rule {resource.name}: {answer['FailedEntries'][0]['ErrorMessage']}")


def _entry(aws: AccountApi, resource: EksAccessEntry, before: ResourceState, tags: dict[str, str]) -> None:
    if before.present:
        # The type of an entry cannot be changed, and install deletes nothing.
        delete = f"aws eks delete-access-entry --cluster-name {resource.cluster}"
        raise InstallationError(
            f"the access entry of {resource.principal} is not of the type {resource.type}:"
            f" {before.differences[0]}, so nodes cannot join",
            hint=f"{delete} --principal-arn {resource.principal}, then run this again",
        )
    aws.call(
        "eks",
        "CreateAccessEntry",
        clusterName=resource.cluster,
        principalArn=resource.principal,
        type=resource.type,
        tags=tags,
    )


def _association(
    aws: AccountApi, resource: EksPodIdentityAssociation, before: ResourceState, tags: dict[str, str]
) -> None:
    if before.present:
        found = find_association(aws, resource) or {}
        aws.call(
            "eks",
            "UpdatePodIdentityAssociation",
            clusterName=resource.cluster,
            associationId=found["associationId"],
            roleArn=resource.role,
        )
        return
    aws.call(
        "eks",
        "CreatePodIdentityAssociation",
        clusterName=resource.cluster,
        namespace=resource.namespace,
        serviceAccount=resource.service_account,
        roleArn=resource.role,
        tags=tags,
    )


def _not_yet(error: AwsApiError) -> bool:
    """Say whether AWS may do it in a while: a role that was just made is not known everywhere at once."""
    unknown = error.code == "InvalidParameterException" and "principal" in error.message.lower()
    return error.code in _NOT_YET or unknown or error.is_server_error
