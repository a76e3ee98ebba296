"""
Constructs of CDK: the parts of an add-on, NodePools and EC2NodeClasses, for ``aws_eks`` and ``aws_eks_v2``.

Thin: what there is and what it is called is decided in :mod:`.planning`. Roles, policies, queue and rules are
made as CloudFormation has them, so that they are those of the installation plan to the letter.

Where CloudFormation gives the cluster its name, nothing else is named after it: the name may be longer than
names of roles may be. Documents with that name in a key are written as text, as Karpenter's own template
does: https://karpenter.sh/docs/reference/cloudformation/
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from aws_cdk import (
    Acknowledgment,
    Annotations,
    CfnOutput,
    CfnTag,
    Duration,
    Names,
    RemovalPolicy,
    Stack,
    Token,
    Validations,
    aws_eks,
    aws_eks_v2,
    aws_events,
    aws_iam,
    aws_s3_assets,
    aws_sqs,
)
from constructs import Construct

from karpenter.cdk.planning import (
    AccountPart,
    AddOnReferences,
    ClusterPart,
    check_manifest,
    node_class_of,
    node_pool_of,
)
from karpenter.cdk.props import EC2NodeClassSource, NodePoolSource, spec_of
from karpenter.cdk.rules import KARPENTER, KARPENTER_V1, AddOnError, check_imported
from karpenter.chart.chart import definition_files, files
from karpenter.install.options import InstallationFacts
from karpenter.install.resources import MARKER, AwsAuthMapping, IamRole, Json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Cluster: TypeAlias = aws_eks.Cluster | aws_eks_v2.Cluster
_CRDS: Final = "karpenter-crd"


class CdkCluster:
    """A cluster of either library, and what add-ons need to know of it."""

    def __init__(self, cluster: Cluster, *, kubernetes: str = "") -> None:
        check_imported(imported=not isinstance(cluster, aws_eks.Cluster | aws_eks_v2.Cluster))
        self.cluster = cluster
        self.kubernetes = kubernetes
        self.library: Any = aws_eks_v2 if isinstance(cluster, aws_eks_v2.Cluster) else aws_eks
        self.stack = Stack.of(cluster)

    @property
    def name(self) -> str:
        """The name that users gave the cluster, or a token for the one that it will get."""
        given: str = self.cluster._physical_name  # noqa: SLF001  the public name is a token always
        return self.cluster.cluster_name if Token.is_unresolved(given) else given

    @property
    def ipv6(self) -> bool:
        return bool(self.cluster.ip_family == self.library.IpFamily.IP_V6)

    @property
    def fargate(self) -> bool:
        return isinstance(self.cluster, aws_eks.FargateCluster | aws_eks_v2.FargateCluster)

    @property
    def subnets(self) -> tuple[str, ...]:
        """Where nodes shall be: the private subnets, or all where there are none."""
        vpc = self.cluster.vpc
        return tuple(each.subnet_id for each in (vpc.private_subnets or vpc.public_subnets))

    def facts(self, *, irsa: bool) -> InstallationFacts:
        issuer = ""
        if irsa:
            provider = self.cluster.open_id_connect_provider
            issuer = f"https://{provider.open_id_connect_provider_issuer}"
        mode = "API_AND_CONFIG_MAP"
        if isinstance(self.cluster, aws_eks.Cluster):
            # A cluster of this library reads aws-auth unless something else is stated.
            # https://docs.aws.amazon.com/cdk/api/v2/python/aws_cdk.aws_eks/README.html#access-entry
            told = self.cluster.authentication_mode
            mode = "CONFIG_MAP" if told is None else str(told.name)
        return InstallationFacts(
            cluster=self.name,
            account=self.stack.account,
            region=self.stack.region,
            partition=self.stack.partition,
            kubernetes=self.kubernetes,
            endpoint=self.cluster.cluster_endpoint,
            issuer=issuer,
            authentication_mode=mode,
            subnets=self.subnets,
            security_groups=(self.cluster.cluster_security_group_id,),
        )

    def manifest(self, scope: Construct, name: str, *bodies: Json) -> Any:
        """Return objects of Kubernetes that are applied together."""
        plain = [msgspec.json.decode(msgspec.json.encode(each)) for each in bodies]
        return self.library.KubernetesManifest(scope, name, cluster=self.cluster, manifest=plain)

    def node_groups(self) -> list[Any]:
        """Return what the operator may run on."""
        kinds = (aws_eks.Nodegroup, aws_eks_v2.Nodegroup, aws_eks.FargateProfile, aws_eks_v2.FargateProfile)
        return [each for each in self.cluster.node.find_all() if isinstance(each, kinds)]

    def after_operator(self, made: Any) -> None:
        """Let an object of Karpenter come after the chart that brings its kind, where the stack has it."""
        for name in (KARPENTER_V1, KARPENTER):
            if (found := self.stack.node.try_find_child(name)) is not None:
                made.node.add_dependency(found)


class AccountResources(Construct):
    """Roles, policies, queue and rules of an installation plan."""

    def __init__(self, scope: Construct, name: str, *, view: CdkCluster, part: AccountPart) -> None:
        super().__init__(scope, name)
        self._view, self._part = view, part
        self._named = not Token.is_unresolved(view.name)
        self._tags = [CfnTag(key=MARKER, value=view.name)]
        self._references: dict[str, str] = {}
        self.queue = self._make_queue()
        self.node_role = self._role("NodeRole", part.node_role, list(part.node_role.attached))
        if not self._named:
            self._references[part.node_role.name] = self.node_role.ref
        self.instance_profile = aws_iam.CfnInstanceProfile(
            self,
            "NodeInstanceProfile",
            roles=[self.node_role.ref],
            instance_profile_name=self._name(part.instance_profile.name),
        )
        policies = [
            aws_iam.CfnManagedPolicy(
                self,
                each.name.partition("Policy")[0].removeprefix("Karpenter") + "Policy",
                policy_document=self._document(each.document),
                managed_policy_name=self._name(each.name),
            )
            for each in part.policies
        ]
        self.controller_role = self._role(
            "ControllerRole", part.controller_role, [each.ref for each in policies]
        )
        self._let_in()
        self._associate()
        self._make_linked_role()
        self._export()

    def references(self) -> AddOnReferences:
        """Return what Kubernetes is told of these resources."""
        return AddOnReferences(
            cluster=self._view.name,
            endpoint=self._view.cluster.cluster_endpoint,
            controller_role=self.controller_role.attr_arn,
            node_role=self.node_role.ref,
            instance_profile=self.instance_profile.ref,
            service_account=self._part.service_account,
            queue=self.queue.attr_queue_name if self.queue is not None else "",
            subnets=self._view.subnets,
            security_groups=(self._view.cluster.cluster_security_group_id,),
            ipv6=self._view.ipv6,
            fargate=self._view.fargate,
        )

    def _name(self, name: str) -> str | None:
        return name if self._named else None

    def _document(self, document: Json) -> Any:
        text = json.dumps(document)
        for planned, reference in self._references.items():
            text = text.replace(planned, reference)
        found = json.loads(text)
        return text if _has_unknown_keys(found) else found

    def _role(self, name: str, role: IamRole, attached: list[str]) -> aws_iam.CfnRole:
        inline = [
            aws_iam.CfnRole.PolicyProperty(policy_name=each, policy_document=self._document(document))
            for each, document in role.inline.items()
        ]
        return aws_iam.CfnRole(
            self,
            name,
            role_name=self._name(role.name),
            assume_role_policy_document=self._document(self._trust(role.trust)),
            managed_policy_arns=attached,
            policies=inline or None,
            tags=self._tags,
        )

    def _trust(self, trust: Json) -> Json:
        """Return who may assume a role, in a partition that CloudFormation may know first."""
        if not Token.is_unresolved(self._view.stack.partition):
            return trust
        text = json.dumps(trust).replace('"ec2.amazonaws.com"', f'"ec2.{self._view.stack.url_suffix}"')
        found: dict[str, Any] = json.loads(text)
        return found

    def _make_queue(self) -> aws_sqs.CfnQueue | None:
        queue = self._part.queue
        if queue is None:
            return None
        made = aws_sqs.CfnQueue(
            self,
            "InterruptionQueue",
            queue_name=self._name(queue.name),
            message_retention_period=queue.retention,
            sqs_managed_sse_enabled=True,
            tags=self._tags,
        )
        self._references[queue.arn] = made.attr_arn
        policy = aws_sqs.CfnQueuePolicy(
            self, "InterruptionQueuePolicy", queues=[made.ref], policy_document=self._document(queue.policy)
        )
        # CDK wants the version of a document that has variables, of which there are none here.
        stored = Acknowledgment(
            id="CloudFormation-Validate::W2511", reason="the version that SQS stores by default"
        )
        Validations.of(policy).acknowledge(stored)
        for rule in self._part.rules:
            target = aws_events.CfnRule.TargetProperty(id=rule.target_id, arn=made.attr_arn)
            aws_events.CfnRule(
                self,
                rule.resource,
                name=self._name(rule.name),
                event_pattern=dict(rule.pattern),
                state="ENABLED",
                targets=[target],
            )
        return made

    def _let_in(self) -> None:
        access, cluster = self._part.access, self._view.cluster
        if isinstance(access, AwsAuthMapping):
            assert isinstance(cluster, aws_eks.Cluster), "the other library has no aws-auth"
            role = aws_iam.Role.from_role_arn(self, "NodeRoleReference", self.node_role.attr_arn)
            cluster.aws_auth.add_role_mapping(role, username=access.username, groups=list(access.groups))
            return
        aws_eks.CfnAccessEntry(
            self,
            "NodeAccessEntry",
            cluster_name=cluster.cluster_name,
            principal_arn=self.node_role.attr_arn,
            type=access.type,
            tags=self._tags,
        )

    def _associate(self) -> None:
        association, cluster = self._part.association, self._view.cluster
        if association is None:
            return
        made = aws_eks.CfnPodIdentityAssociation(
            self,
            "PodIdentityAssociation",
            cluster_name=cluster.cluster_name,
            namespace=association.namespace,
            service_account=association.service_account,
            role_arn=self.controller_role.attr_arn,
            tags=self._tags,
        )
        if cluster.eks_pod_identity_agent is not None:
            made.node.add_dependency(cluster.eks_pod_identity_agent)

    def _make_linked_role(self) -> None:
        if self._part.linked_role is None:
            return
        service = self._part.linked_role.service
        made = aws_iam.CfnServiceLinkedRole(self, "SpotServiceLinkedRole", aws_service_name=service)
        # Everything else of the account that uses spot needs the role too.
        made.apply_removal_policy(RemovalPolicy.RETAIN)

    def _export(self) -> None:
        unique = Names.unique_id(self._view.cluster)
        for name, about, value in (
            ("NodeRoleName", "Karpenter Instance Node Role", self.node_role.ref),
            ("InstanceProfileName", "Karpenter Instance Profile name", self.instance_profile.ref),
        ):
            CfnOutput(self, name, description=about, value=value, export_name=f"{unique}Karpenter{name}")


def _has_unknown_keys(value: Any) -> bool:
    """Say whether CloudFormation knows a key of a document first, which templates have no way to write."""
    if isinstance(value, dict):
        return any(Token.is_unresolved(key) or _has_unknown_keys(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_has_unknown_keys, value))


class OperatorRelease(Construct):
    """The chart with what it needs before it, and the objects that need it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        view: CdkCluster,
        part: ClusterPart,
        timeout: int,
        crds: bool,
        after: Iterable[Construct],
    ) -> None:
        super().__init__(scope, name)
        self._view, self._part, self._timeout = view, part, timeout
        before: list[Construct] = [*after, *view.node_groups()]
        for number, body in enumerate(part.before):
            made = view.manifest(self, body["kind"], body)
            if number:  # the service account, after its namespace
                made.node.add_dependency(before[-1])
            before.append(made)
        ours = not part.chart.repository
        if crds:
            repository = part.chart.repository and part.chart.repository.rpartition("/")[0] + f"/{_CRDS}"
            definitions = self._chart(
                "Definitions", _CRDS, repository, {}, release=_CRDS, asset=ours, skip_crds=False
            )
            before.append(definitions)
        self.chart = self._chart(
            "Chart",
            part.chart.chart,
            part.chart.repository,
            part.values,
            release=part.release,
            asset=ours,
            skip_crds=crds,
        )
        for each in before:
            self.chart.node.add_dependency(each)
        self.objects: dict[str, Any] = {}
        last: Construct = self.chart
        for body in part.objects:
            title = f"{body['kind']}-{body['metadata']['name']}"
            made = self.objects[title] = view.manifest(self, title, body)
            made.node.add_dependency(last)
            # A pool comes after its class, so that on the way back its machines end before the class goes.
            last = made
        for warning in part.warnings:
            Annotations.of(self).add_warning_v2("karpenter:props", warning)

    def _chart(
        self,
        name: str,
        chart: str,
        repository: str,
        values: Mapping[str, Any],
        *,
        release: str,
        asset: bool,
        skip_crds: bool,
    ) -> Any:
        source: dict[str, Any] = {
            "chart": chart,
            "repository": repository,
            "version": self._part.chart.version or None,
        }
        if asset:
            source = {"chart_asset": aws_s3_assets.Asset(self, f"{name}Files", path=_chart_folder(chart))}
        return self._view.library.HelmChart(
            self,
            name,
            cluster=self._view.cluster,
            release=release,
            namespace=self._part.namespace,
            create_namespace=False,
            values=dict(values),
            wait=True,
            timeout=Duration.minutes(self._timeout),
            skip_crds=skip_crds,
            **source,
        )


_FOLDERS: Final = tempfile.TemporaryDirectory(prefix="karpenter-cdk-")
"""Where charts are until CDK has copied them; gone at the end of the program."""


@cache
def _chart_folder(chart: str) -> str:
    folder = Path(_FOLDERS.name, chart)
    for name, text in (definition_files() if chart == _CRDS else files()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return str(folder)


class EC2NodeClassConstruct(Construct):
    """An EC2NodeClass, checked as by the API server; what it does not state follows from the cluster."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002  what CDK calls it
        *,
        cluster: Cluster,
        spec: EC2NodeClassSource,
        name: str = "",
        role: str = "",
    ) -> None:
        super().__init__(scope, id)
        view = CdkCluster(cluster)
        made = AddOnReferences(
            cluster=view.name,
            endpoint="",
            controller_role="",
            node_role=role,
            instance_profile="",
            subnets=view.subnets,
            security_groups=(cluster.cluster_security_group_id,),
        )
        body = node_class_of(name or id.lower(), spec_of(spec), made)
        check_manifest(body)
        self.name: str = body["metadata"]["name"]
        self.manifest = view.manifest(self, "Manifest", body)
        view.after_operator(self.manifest)


class NodePoolConstruct(Construct):
    """A NodePool, checked as by the API server; it comes after its class."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002  what CDK calls it
        *,
        cluster: Cluster,
        spec: NodePoolSource,
        name: str = "",
        node_class: EC2NodeClassConstruct | None = None,
    ) -> None:
        super().__init__(scope, id)
        body = node_pool_of(
            name or id.lower(), spec_of(spec), node_class=node_class.name if node_class is not None else ""
        )
        check_manifest(body)
        named = body["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        if node_class is not None and named != node_class.name:
            raise AddOnError(
                f"NodePool {name or id.lower()}: nodeClassRef names {named}, node_class is {node_class.name}"
            )
        self.name: str = body["metadata"]["name"]
        view = CdkCluster(cluster)
        self.manifest = view.manifest(self, "Manifest", body)
        view.after_operator(self.manifest)
        if node_class is not None:
            self.manifest.node.add_dependency(node_class.manifest)
