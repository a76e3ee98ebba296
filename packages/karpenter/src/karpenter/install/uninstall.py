"""
An installation taken away, in the order that leaves no orphan, and the proof that nothing is left.

NodePools go first, and the operator that still runs ends their machines; then classes, with which their
instance profiles and launch templates go; then the operator, and at last what it needed in the account. Only
what carries the tag of `karpenter install` is deleted, unless told otherwise; the service-linked role stays,
as other things of the account use it.

The proof asks AWS and the cluster anew, by tags and by names, and does not trust what was deleted before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from karpenter.api.labels import NODEPOOL, TERMINATION_FINALIZER
from karpenter.chart.tree import LEASE
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.labels import CLUSTER_TAG, owned_tag
from karpenter.install.apply import IN_CLUSTER, look, stack_reason, stack_status
from karpenter.install.documents import AUDIENCE, ROLE_ANNOTATION
from karpenter.install.observe import find_association, pairs, queue_url
from karpenter.install.options import (
    DISCOVERY,
    NAMESPACES_OF_KUBERNETES,
    InstallationError,
    InstallationOptions,
)
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
from karpenter.kube.patches import MergePatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from karpenter.base.clock import Clock
    from karpenter.install.account import AccountApi
    from karpenter.install.kubernetes import ClusterApi
    from karpenter.install.plan import InstallationPlan
    from karpenter.install.release import ReleaseRecord

NOTHING_LEFT: Final = "nothing of ours is left"
WITHIN: Final = 900.0
"""Seconds that nodes have to drain and machines to end."""

_LOOK: Final = 2.0
_STOPPED_WITHIN: Final = 120.0
_GONE: Final = frozenset({"shutting-down", "terminated"})
_POOLS: Final = ("karpenter.sh/v1", "NodePool")
_CLAIMS: Final = ("karpenter.sh/v1", "NodeClaim")
_CLASSES: Final = ("karpenter.k8s.aws/v1", "EC2NodeClass")
_NODES: Final = ("v1", "Node")
_KEPT_WITH_NODES: Final = (EksAccessEntry, AwsAuthMapping, IamInstanceProfile)


class RemovalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something went, is gone, or stays."""

    outcome: Literal["removed", "gone", "kept", "waits"]
    what: str
    because: str = ""


class Uninstaller:
    """Takes an installation away."""

    def __init__(
        self,
        plan: InstallationPlan,
        aws: AccountApi,
        cluster: ClusterApi | None,
        *,
        clock: Clock,
        keep_nodes: bool = False,
        force: bool = False,
        untagged: bool = False,
        within: float = WITHIN,
    ) -> None:
        """With `untagged`, also what others made under our names goes; with `force`, machines that stay."""
        self._plan = plan
        self._aws = aws
        self._cluster = cluster
        self._clock = clock
        self._keep_nodes = keep_nodes
        self._force = force
        self._untagged = untagged
        self._within = within
        self._name = plan.facts.cluster

    async def run(self) -> AsyncIterator[RemovalEvent]:
        """
        Take everything away, and yield what happens.

        Raises:
            InstallationError: machines do not go; the hint says what helps.
            CloudError, KubeError: AWS or the cluster refuses; the next run goes on there.
        """
        if self._cluster is not None:
            if self._keep_nodes:
                async for event in self._leave_nodes(self._cluster):
                    yield event
            else:
                async for event in self._end_nodes(self._cluster):
                    yield event
                async for event in self._remove_chart(self._cluster):
                    yield event
        if self._force and not self._keep_nodes:
            async for event in self._end_machines():
                yield event
        async for event in self._remove_parts():
            yield event

    async def _end_nodes(self, cluster: ClusterApi) -> AsyncIterator[RemovalEvent]:
        """Let the operator end every machine, and then the classes."""
        for kind in (_POOLS, _CLAIMS):
            for body in await cluster.every(*kind):
                if await cluster.delete(body) and kind is _POOLS:
                    yield _removed(f"NodePool {body['metadata']['name']}")
        async for event in self._until_gone(cluster, _CLAIMS):
            yield event
        for body in await cluster.every(*_CLASSES):
            if await cluster.delete(body):
                yield _removed(f"EC2NodeClass {body['metadata']['name']}")
        async for event in self._until_gone(cluster, _CLASSES):
            yield event

    async def _until_gone(self, cluster: ClusterApi, kind: tuple[str, str]) -> AsyncIterator[RemovalEvent]:
        deadline = self._clock.monotonic() + (0 if self._force else self._within)
        before = -1
        while left := await cluster.every(*kind):
            if len(left) != before:
                before = len(left)
                yield RemovalEvent(outcome="waits", what=f"{before} {kind[1]}{'s' * (before > 1)} to go")
            if self._clock.monotonic() >= deadline:
                if not self._force:
                    names = ", ".join(each["metadata"]["name"] for each in left)
                    raise InstallationError(
                        f"{kind[1]} {names} still there after {self._within:g} s",
                        hint="is the operator running? --force ends the machines without it",
                    )
                for each in left:
                    await self._let_go(cluster, kind, each)
                    yield _removed(f"{kind[1]} {each['metadata']['name']}", because="without the operator")
                return
            await asyncio.sleep(_LOOK)

    async def _leave_nodes(self, cluster: ClusterApi) -> AsyncIterator[RemovalEvent]:
        """Remove the operator first, so that it ends nothing, and then what it watched."""
        async for event in self._remove_chart(cluster, definitions=False):
            yield event
        for node in await self._nodes():
            await self._let_go(cluster, _NODES, node, delete=False)
            yield RemovalEvent(
                outcome="kept", what=f"Node {node['metadata']['name']}", because="--keep-nodes"
            )
        for kind in (_CLAIMS, _POOLS, _CLASSES):
            for body in await cluster.every(*kind):
                await self._let_go(cluster, kind, body)
                because = "its machine stays" if kind is _CLAIMS else ""
                yield _removed(f"{kind[1]} {body['metadata']['name']}", because=because)
        async for event in self._remove_definitions(cluster):
            yield event

    @staticmethod
    async def _let_go(
        cluster: ClusterApi, kind: tuple[str, str], body: dict[str, Any], *, delete: bool = True
    ) -> None:
        """Take our finalizers from an object, and delete it."""
        meta = body["metadata"]
        finalizers = [
            each
            for each in meta.get("finalizers") or ()
            if each != TERMINATION_FINALIZER and not each.startswith("karpenter.k8s.aws/")
        ]
        if delete:
            await cluster.delete(body)
        # A node belongs to its claim, and would be collected with it.
        owners = [each for each in meta.get("ownerReferences") or () if each["kind"] != _CLAIMS[1]]
        change = {"finalizers": finalizers, "ownerReferences": owners}
        if any(change[key] != (meta.get(key) or []) for key in change):
            await cluster.change(*kind, meta["name"], MergePatch({"metadata": change}))

    async def _remove_chart(
        self, cluster: ClusterApi, *, definitions: bool = True
    ) -> AsyncIterator[RemovalEvent]:
        release = self._plan.release
        seen = await cluster.observe(release)
        if seen.present:
            await cluster.remove_release(release)
            await cluster.stopped(release, within=_STOPPED_WITHIN)
            yield _removed(release.title)
        else:
            yield RemovalEvent(outcome="gone", what=release.title)
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": release.namespace},
        }
        if await cluster.delete(lease):
            yield _removed(f"Lease {LEASE}")
        if definitions:
            async for event in self._remove_definitions(cluster):
                yield event
        async for event in self._remove_namespace(cluster, release):
            yield event

    async def _remove_definitions(self, cluster: ClusterApi) -> AsyncIterator[RemovalEvent]:
        for resource in self._plan.resources:
            if (
                not isinstance(resource, KubernetesObject)
                or resource.body["kind"] != "CustomResourceDefinition"
            ):
                continue
            left = await cluster.count(resource.body)
            if left:
                because = f"{left} objects of it are left"
                yield RemovalEvent(outcome="kept", what=resource.title, because=because)
            elif await cluster.delete(resource.body):
                yield _removed(resource.title)

    async def _remove_namespace(
        self, cluster: ClusterApi, release: HelmRelease
    ) -> AsyncIterator[RemovalEvent]:
        if release.namespace in NAMESPACES_OF_KUBERNETES:
            return
        others = [
            each
            for each in await cluster.every("apps/v1", "Deployment")
            if each["metadata"]["namespace"] == release.namespace
        ]
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace}}
        if others:
            yield RemovalEvent(
                outcome="kept", what=f"Namespace {release.namespace}", because="others run there"
            )
        elif await cluster.delete(body):
            await self._namespace_goes(cluster, body)
            yield _removed(f"Namespace {release.namespace}")

    async def _namespace_goes(self, cluster: ClusterApi, body: dict[str, Any]) -> None:
        deadline = self._clock.monotonic() + _STOPPED_WITHIN
        while self._clock.monotonic() < deadline:
            if await cluster.find(body) is None:
                return
            await asyncio.sleep(_LOOK / 4)

    async def _end_machines(self) -> AsyncIterator[RemovalEvent]:
        instances = list(self._instances())
        if instances:
            self._aws.call("ec2", "TerminateInstances", InstanceIds=instances)
        for each in instances:
            yield _removed(f"instance {each}")
        for node in await self._nodes():
            assert self._cluster is not None
            await self._let_go(self._cluster, _NODES, node)
            yield _removed(f"Node {node['metadata']['name']}")
        for name in self._templates():
            self._aws.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
            yield _removed(f"launch template {name}")
        for name in self._profiles():
            _remove(self._aws, IamInstanceProfile(name=name, role=""))
            yield _removed(f"instance profile {name}")

    async def _remove_parts(self) -> AsyncIterator[RemovalEvent]:
        for step in reversed(self._plan.steps):
            if step.phase != "dependency":
                continue
            stays = self._keep_nodes and any(self._for_nodes(each) for each in step.resources)
            if step.stack and not stays and stack_status(self._aws, step.stack):
                self._aws.call("cloudformation", "DeleteStack", StackName=step.stack)
                await self._stack_goes(step.stack)
                yield _removed(f"stack {step.stack}")
            for resource in reversed(step.resources):
                yield await self._remove_part(resource)
        for provider in self._orphans():
            yield await self._remove_part(provider)

    async def _remove_part(self, resource: InstallationResource) -> RemovalEvent:
        if self._keep_nodes and self._for_nodes(resource):
            return RemovalEvent(outcome="kept", what=resource.title, because="its nodes stay")
        if isinstance(resource, ServiceLinkedRole):
            return RemovalEvent(outcome="kept", what=resource.title, because="it belongs to the account")
        if isinstance(resource, Ec2Tags):
            return self._remove_tags(resource)
        if isinstance(resource, AwsAuthMapping):
            if self._cluster is None:
                return RemovalEvent(outcome="gone", what=resource.title)
            removed = await self._cluster.unmap(resource)
            return _removed(resource.title) if removed else RemovalEvent(outcome="gone", what=resource.title)
        assert not isinstance(resource, IN_CLUSTER)
        seen = await look(self._aws, self._cluster, resource)
        if not seen.present:
            return RemovalEvent(outcome="gone", what=resource.title)
        if not seen.ours and not self._untagged:
            because = f"it lacks the tag {MARKER}: others made it"
            return RemovalEvent(outcome="kept", what=resource.title, because=because)
        if because := self._needed(resource):
            return RemovalEvent(outcome="kept", what=resource.title, because=because)
        _remove(self._aws, resource)
        return _removed(resource.title)

    def _for_nodes(self, resource: InstallationResource) -> bool:
        node_role = isinstance(resource, IamRole) and resource.name == self._plan.names.node_role
        return node_role or isinstance(resource, _KEPT_WITH_NODES)

    def _needed(self, resource: AwsResource) -> str:
        """Return who else needs a resource that more than one may use."""
        if isinstance(resource, OpenIDConnectProvider):
            for role in self._aws.every("iam", "ListRoles", "Roles"):
                if resource.arn in str(role.get("AssumeRolePolicyDocument")):
                    return f"role {role['RoleName']} trusts it"
        if isinstance(resource, EksAddon):
            others = list(
                self._aws.every(
                    "eks", "ListPodIdentityAssociations", "associations", clusterName=resource.cluster
                )
            )
            if others:
                return f"{len(others)} other pod identity associations use it"
        return ""

    def _remove_tags(self, resource: Ec2Tags) -> RemovalEvent:
        marked = self._marked()
        if not marked:
            return RemovalEvent(outcome="gone", what=f"tag {resource.key}={resource.value}")
        tags = [{"Key": resource.key, "Value": resource.value}, {"Key": MARKER, "Value": self._name}]
        self._aws.call("ec2", "DeleteTags", Resources=marked, Tags=tags)
        return _removed(f"tag {resource.key}={resource.value} on {', '.join(marked)}")

    async def _stack_goes(self, name: str) -> None:
        deadline = self._clock.monotonic() + self._within
        while status := stack_status(self._aws, name):
            if status == "DELETE_FAILED" or self._clock.monotonic() >= deadline:
                raise InstallationError(f"stack {name} is in {status}: {stack_reason(self._aws, name)}")
            await asyncio.sleep(_LOOK)

    def _orphans(self) -> list[OpenIDConnectProvider]:
        """Return the providers of a cluster that is gone: nothing but their tags tells whose they were."""
        if self._plan.facts.exists:
            return []
        found = []
        for each in self._aws.every("iam", "ListOpenIDConnectProviders", "OpenIDConnectProviderList"):
            told = self._aws.call("iam", "GetOpenIDConnectProvider", OpenIDConnectProviderArn=each["Arn"])
            if pairs(told.get("Tags", ())).get(MARKER) == self._name:
                found.append(OpenIDConnectProvider(arn=each["Arn"], url=told["Url"], audience=AUDIENCE))
        return found

    def _marked(self) -> list[str]:
        """Return what carries a tag of ours; with `untagged`, also what others gave the discovery tag."""
        keys = [MARKER, DISCOVERY] if self._untagged else [MARKER]
        filters = [{"Name": "key", "Values": keys}, {"Name": "value", "Values": [self._name]}]
        return sorted(
            {each["ResourceId"] for each in self._aws.every("ec2", "DescribeTags", "Tags", Filters=filters)}
        )

    def _instances(self) -> Iterator[str]:
        filters = [
            {"Name": f"tag:{owned_tag(self._name)}", "Values": ["owned"]},
            {"Name": "tag-key", "Values": [NODEPOOL]},
        ]
        for reservation in self._aws.every("ec2", "DescribeInstances", "Reservations", Filters=filters):
            for each in reservation["Instances"]:
                if each["State"]["Name"] not in _GONE:
                    yield each["InstanceId"]

    async def _nodes(self) -> list[dict[str, Any]]:
        return await self._cluster.every(*_NODES, labels=NODEPOOL) if self._cluster is not None else []

    def _templates(self) -> list[str]:
        filters = [
            {"Name": f"tag:{CLUSTER_TAG}", "Values": [self._name]},
            {"Name": "tag-key", "Values": [NODEPOOL]},
        ]
        found = self._aws.every("ec2", "DescribeLaunchTemplates", "LaunchTemplates", Filters=filters)
        return sorted(each["LaunchTemplateName"] for each in found)

    def _profiles(self) -> list[str]:
        prefix = f"/karpenter/{self._plan.facts.region}/{self._name}/"
        found = self._aws.every("iam", "ListInstanceProfiles", "InstanceProfiles", PathPrefix=prefix)
        return sorted(each["InstanceProfileName"] for each in found if each["Path"].startswith(prefix))

    async def left(self) -> tuple[list[str], list[str]]:
        """Return what is left of the installation: what should not be, and what stays on purpose."""
        found = [f"instance {each}" for each in self._instances()]
        found += [f"Node {each['metadata']['name']}" for each in await self._nodes()]
        found += [f"launch template {each}" for each in self._templates()]
        found += [f"instance profile {each}" for each in self._profiles()]
        kept = list(found) if self._keep_nodes else []
        found = [] if self._keep_nodes else found
        found += [f"tag of the installation on {each}" for each in self._marked()]
        found += [each.title for each in self._orphans()]
        for step in self._plan.steps:
            if step.stack and stack_status(self._aws, step.stack):
                stays = self._keep_nodes and any(self._for_nodes(each) for each in step.resources)
                (kept if stays else found).append(f"stack {step.stack}")
            for resource in step.resources:
                if (why := await self._still(resource)) is not None:
                    (kept if why else found).append(f"{resource.title}{f' ({why})' if why else ''}")
        return found, kept

    async def _still(self, resource: InstallationResource) -> str | None:
        """Return None if a resource is gone, why it stays, or nothing if it should not be there."""
        if isinstance(resource, ServiceLinkedRole | Ec2Tags):
            return None  # one is the account's; the other is looked for by its marker
        if isinstance(resource, IN_CLUSTER) and self._cluster is None:
            return None
        seen = await look(self._aws, self._cluster, resource)
        if not seen.present:
            return None
        if self._keep_nodes and self._for_nodes(resource):
            return "its nodes stay"
        if isinstance(resource, IN_CLUSTER):
            if isinstance(resource, KubernetesObject) and resource.body["kind"] == "Namespace":
                return "others run there"
            return ""
        if not seen.ours and not self._untagged:
            return "others made it"
        return self._needed(resource)


def _removed(what: str, *, because: str = "") -> RemovalEvent:
    return RemovalEvent(outcome="removed", what=what, because=because)


def found_options(
    options: InstallationOptions, records: list[ReleaseRecord], *, stated: bool
) -> InstallationOptions:
    """Return options with what the release in the cluster says of how it was installed."""
    record = next((each for each in records if options.namespace in {"", each.namespace}), None)
    if record is None:
        return options
    account = record.config.get("serviceAccount") or {}
    role = str((account.get("annotations") or {}).get(ROLE_ANNOTATION, "")).rpartition("/")[2]
    naming = options.naming if stated or not role.startswith("eksdemo.") else "eksdemo"
    return msgspec.structs.replace(
        options,
        naming=naming,
        namespace=record.namespace,
        service_account=account.get("name") or options.service_account,
        identity="irsa" if role else "pod-identity",
    )


def _remove(aws: AccountApi, resource: AwsResource) -> None:
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
