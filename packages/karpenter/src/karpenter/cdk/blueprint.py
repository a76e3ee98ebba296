"""
Add-ons, and the builder of a stack with a cluster and its add-ons.

The shape is that of CDK EKS Blueprints: ``EksBlueprint.builder().add_ons(...).build(app, "name")``. Add-ons
are deployed in the order of the list; whether the list can work is decided by :mod:`.rules` before anything
is made.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Literal

from aws_cdk import Annotations, Stack, aws_ec2, aws_eks, aws_eks_v2, aws_iam
from constructs import Construct

from karpenter.cdk.constructs import AccountResources, CdkCluster, Cluster, OperatorRelease
from karpenter.cdk.planning import account_part, converted_props, legacy_part, v1_part
from karpenter.cdk.props import KarpenterProps, KarpenterV1Props, read_props
from karpenter.cdk.rules import (
    KARPENTER,
    KARPENTER_V1,
    NODE_TERMINATION_HANDLER,
    VPC_CNI,
    AddOnError,
    ListedAddOn,
    check_add_ons,
    check_props,
    check_v1_props,
    v1_version,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ClusterLibrary = Literal["aws_eks", "aws_eks_v2"]
_KUBERNETES: Final = "1.33"


class AddOnContext:
    """The cluster that add-ons are deployed to, and those that are deployed already."""

    def __init__(self, cluster: Cluster, *, kubernetes: str = "") -> None:
        self.view = CdkCluster(cluster, kubernetes=kubernetes)
        self.scheduled: dict[str, Construct] = {}


class ClusterAddOn(ABC):
    """Something that is deployed to a cluster."""

    id: str
    dependency_mode: bool = True

    @abstractmethod
    def deploy(self, context: AddOnContext) -> Construct:
        """Add it to the stack of the cluster; return what later add-ons wait for."""

    def listed(self) -> ListedAddOn:
        """Return what the order of add-ons depends on."""
        return ListedAddOn(id=self.id)


def deploy_add_ons(
    cluster: Cluster, add_ons: Sequence[ClusterAddOn], *, kubernetes: str = ""
) -> dict[str, Construct]:
    """
    Deploy add-ons to a cluster, in order; `kubernetes` is its version, such as ``1.33``.

    Raises:
        AddOnError: the list or an add-on of it cannot work; nothing is deployed then but what came before.
    """
    context = AddOnContext(cluster, kubernetes=kubernetes)
    check_add_ons([each.listed() for each in add_ons], stack=context.view.stack.stack_name)
    for each in add_ons:
        made = each.deploy(context)
        if each.dependency_mode:
            for earlier in context.scheduled.values():
                made.node.add_dependency(earlier)
        context.scheduled[each.id] = made
    return context.scheduled


class KarpenterAddOn(ClusterAddOn):
    """Karpenter before version 1, by the props that the add-on of the blueprints had."""

    id = KARPENTER

    def __init__(self, props: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """
        Read props, as a mapping or as keywords, spelled ``subnetTags`` or ``subnet_tags``.

        Raises:
            AddOnError: they contradict each other, or their version.
        """
        self.props = read_props(KarpenterProps, props, more, identifier=self.id)
        self.dependency_mode = self.props.dependency_mode
        check_props(self.props, kubernetes="")

    def listed(self) -> ListedAddOn:
        version = version_of(self.props.stated_version)
        return ListedAddOn(id=self.id, version=version, interruption=self.props.interruption_handling)

    def deploy(self, context: AddOnContext) -> Construct:
        """Add roles, policies, queue, chart and Provisioner."""
        props, view = self.props, context.view
        for each in check_props(props, kubernetes=view.kubernetes):
            Annotations.of(view.stack).add_warning_v2("karpenter:version", each)
        root = Construct(view.stack, self.id)
        part = account_part(
            view.facts(irsa=not props.pod_identity),
            version=version_of(props.stated_version),
            namespace=props.stated_namespace,
            interruption=props.interruption_handling,
            pod_identity=props.pod_identity,
            linked_role=props.create_spot_service_linked_role,
            ipv6=view.ipv6,
        )
        account = AccountResources(root, "Account", view=view, part=part)
        OperatorRelease(
            root,
            "Operator",
            view=view,
            part=legacy_part(props, account.references()),
            timeout=props.helm_chart_timeout,
            crds=props.install_crds,
            after=[account],
        )
        return root


class KarpenterV1AddOn(ClusterAddOn):
    """
    The operator with its NodePools and EC2NodeClasses.

    Without `version` and `repository` it is the operator of this project, whose chart is part of the stack.
    """

    id = KARPENTER_V1

    def __init__(self, props: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """
        Read props, as a mapping or as keywords, spelled ``nodePools`` or ``node_pools``.

        Raises:
            AddOnError: one does not exist, or the version is too old.
        """
        self.props = read_props(KarpenterV1Props, props, more, identifier=self.id)
        self.dependency_mode = self.props.dependency_mode
        self.node_role = ""
        """The name of the role of nodes, once the add-on is deployed."""

        self._warnings: list[str] = []
        check_v1_props(self.props, kubernetes="")

    @classmethod
    def from_legacy(cls, props: Mapping[str, Any], /, **more: Any) -> KarpenterV1AddOn:
        """
        Return the add-on with the NodePool and the EC2NodeClass that props of the legacy add-on become.

        Raises:
            AddOnError: something has no counterpart in version 1.
        """
        legacy = read_props(KarpenterProps, props, {}, identifier=KARPENTER)
        objects, warnings = converted_props(legacy, node_role=KARPENTER)
        pools: dict[str, Any] = {}
        classes: dict[str, Any] = {}
        for each in objects:
            into = pools if each["kind"] == "NodePool" else classes
            # The role of nodes has no name yet: a class that names none gets that of the add-on.
            spec = {key: value for key, value in each["spec"].items() if key != "role"}
            into[each["metadata"]["name"]] = spec
        given = {
            "node_pools": pools,
            "ec2_node_classes": classes,
            "interruption_handling": legacy.interruption_handling,
        }
        made = cls({**given, **more})
        made._warnings = warnings
        return made

    def listed(self) -> ListedAddOn:
        return ListedAddOn(
            id=self.id, version=v1_version(self.props), interruption=self.props.interruption_handling
        )

    def deploy(self, context: AddOnContext) -> Construct:
        """Add roles, policies, queue, chart, EC2NodeClasses and NodePools."""
        props, view = self.props, context.view
        check_v1_props(props, kubernetes=view.kubernetes)
        root = Construct(view.stack, self.id)
        for each in self._warnings:
            Annotations.of(root).add_warning_v2("karpenter:conversion", each)
        part = account_part(
            view.facts(irsa=not props.pod_identity),
            version=v1_version(props),
            namespace=props.stated_namespace,
            interruption=props.interruption_handling,
            pod_identity=props.pod_identity,
            service_account=props.service_account,
            linked_role=props.create_spot_service_linked_role,
            ipv6=view.ipv6,
        )
        account = AccountResources(root, "Account", view=view, part=part)
        made = account.references()
        self.node_role = made.node_role
        OperatorRelease(
            root,
            "Operator",
            view=view,
            part=v1_part(props, made),
            timeout=props.helm_chart_timeout,
            crds=props.install_crds,
            after=[account],
        )
        return root


class VpcCniAddOn(ClusterAddOn):
    """The add-on of EKS that gives pods their addresses."""

    id = VPC_CNI

    def __init__(self, *, version: str | None = None) -> None:
        self._version = version

    def deploy(self, context: AddOnContext) -> Construct:
        view = context.view
        return aws_eks.CfnAddon(
            view.stack,
            self.id,
            addon_name="vpc-cni",
            addon_version=self._version,
            cluster_name=view.cluster.cluster_name,
            resolve_conflicts="OVERWRITE",
        )


class ClusterAutoScalerAddOn(ClusterAddOn):
    """The Cluster Autoscaler, which grows node groups; it excludes Karpenter."""

    id = "ClusterAutoScalerAddOn"

    def __init__(self, *, version: str = "9.46.6", values: Mapping[str, Any] | None = None) -> None:
        self._version, self._values = version, dict(values or {})

    def deploy(self, context: AddOnContext) -> Construct:
        """Add the service account with its role, and the chart."""
        view = context.view
        root = Construct(view.stack, self.id)
        account = view.cluster.add_service_account(
            "cluster-autoscaler-sa", name="cluster-autoscaler", namespace="kube-system"
        )
        # https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
        for actions in (
            [
                "autoscaling:Describe*",
                "ec2:Describe*",
                "ec2:GetInstanceTypesFromInstanceRequirements",
                "eks:DescribeNodegroup",
            ],
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
        ):
            account.add_to_principal_policy(aws_iam.PolicyStatement(actions=actions, resources=["*"]))
        values = {
            "autoDiscovery": {"clusterName": view.cluster.cluster_name},
            "awsRegion": view.stack.region,
            "rbac": {"serviceAccount": {"create": False, "name": "cluster-autoscaler"}},
            **self._values,
        }
        chart = view.library.HelmChart(
            root,
            "Chart",
            cluster=view.cluster,
            chart="cluster-autoscaler",
            repository="https://kubernetes.github.io/autoscaler",
            version=self._version,
            release="cluster-autoscaler",
            namespace="kube-system",
            values=values,
        )
        chart.node.add_dependency(account)
        return root


class AwsNodeTerminationHandlerAddOn(ClusterAddOn):
    """Drains nodes that are interrupted, on every node; for Karpenter before 0.19, which it comes after."""

    id = NODE_TERMINATION_HANDLER

    def __init__(self, *, version: str = "0.21.0", values: Mapping[str, Any] | None = None) -> None:
        self._version, self._values = version, dict(values or {})

    def deploy(self, context: AddOnContext) -> Construct:
        """Add the chart, which asks the metadata service of each node and needs no role."""
        view = context.view
        chart: Construct = view.library.HelmChart(
            view.stack,
            self.id,
            cluster=view.cluster,
            chart="aws-node-termination-handler",
            repository="https://aws.github.io/eks-charts",
            version=self._version,
            release="aws-node-termination-handler",
            namespace="kube-system",
            values={
                "enableSpotInterruptionDraining": True,
                "enableRebalanceMonitoring": True,
                **self._values,
            },
        )
        return chart


class BlueprintBuilder:
    """Collects what a blueprint consists of."""

    def __init__(self) -> None:
        self._add_ons: list[ClusterAddOn] = []
        self._library: ClusterLibrary = "aws_eks_v2"
        self._kubernetes = _KUBERNETES
        self._cluster: dict[str, Any] = {}

    def add_ons(self, *add_ons: ClusterAddOn) -> BlueprintBuilder:
        """Add add-ons, which are deployed in this order."""
        self._add_ons += add_ons
        return self

    def version(self, kubernetes: str) -> BlueprintBuilder:
        self._kubernetes = kubernetes
        return self

    def library(self, library: ClusterLibrary) -> BlueprintBuilder:
        """Choose between ``aws_eks`` and ``aws_eks_v2``, which is the default."""
        self._library = library
        return self

    def cluster_props(self, **props: Any) -> BlueprintBuilder:
        """Set props of the cluster, such as ``vpc``, ``cluster_name`` or ``default_capacity``."""
        self._cluster |= props
        return self

    def build(self, scope: Construct, id: str, **stack: Any) -> EksBlueprint:  # noqa: A002  what CDK calls it
        """
        Return the stack; more are props of a stack, such as ``env``.

        Raises:
            AddOnError: the add-ons cannot be deployed together, or not to this cluster.
        """
        check_add_ons([each.listed() for each in self._add_ons], stack=id)
        return EksBlueprint(
            scope,
            id,
            add_ons=self._add_ons,
            library=self._library,
            kubernetes=self._kubernetes,
            cluster_props=self._cluster,
            **stack,
        )


class EksBlueprint(Stack):
    """A stack with a cluster and its add-ons; the cluster is called like the stack."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002  what CDK calls it
        *,
        add_ons: Sequence[ClusterAddOn],
        library: ClusterLibrary = "aws_eks_v2",
        kubernetes: str = _KUBERNETES,
        cluster_props: Mapping[str, Any] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__(scope, id, **stack)
        given = {"cluster_name": id, "default_capacity": 2, **(cluster_props or {})}
        given.setdefault("vpc", None)
        if given["vpc"] is None:
            given["vpc"] = aws_ec2.Vpc(self, "Vpc")
        layer = given.pop("kubectl_layer", None) or kubectl_layer(self, kubernetes)
        if library == "aws_eks_v2":
            # Without the type of capacity EKS Auto Mode would add nodes itself.
            # https://docs.aws.amazon.com/cdk/api/v2/python/aws_cdk.aws_eks_v2/README.html
            given.setdefault("default_capacity_type", aws_eks_v2.DefaultCapacityType.NODEGROUP)
            given.setdefault(
                "kubectl_provider_options", aws_eks_v2.KubectlProviderOptions(kubectl_layer=layer)
            )
            version: Any = aws_eks_v2.KubernetesVersion.of(kubernetes)
            self.cluster: Cluster = aws_eks_v2.Cluster(self, "Cluster", version=version, **given)
        else:
            given.setdefault("authentication_mode", aws_eks.AuthenticationMode.API_AND_CONFIG_MAP)
            version = aws_eks.KubernetesVersion.of(kubernetes)
            self.cluster = aws_eks.Cluster(self, "Cluster", version=version, kubectl_layer=layer, **given)
        self.add_ons = deploy_add_ons(self.cluster, add_ons, kubernetes=kubernetes)

    @staticmethod
    def builder() -> BlueprintBuilder:
        return BlueprintBuilder()


def kubectl_layer(scope: Construct, kubernetes: str) -> Any:
    """
    Return the layer with kubectl and Helm for a version of Kubernetes.

    Raises:
        AddOnError: the package that holds it is not installed.
    """
    minor = kubernetes.split(".")[1]
    try:
        module = importlib.import_module(f"aws_cdk.lambda_layer_kubectl_v{minor}")
    except ModuleNotFoundError as error:
        package = f"aws-cdk.lambda-layer-kubectl-v{minor}"
        raise AddOnError(
            f"Kubernetes {kubernetes} needs the package {package}, which is not installed",
            hint=f"pip install {package}",
        ) from error
    return getattr(module, f"KubectlV{minor}Layer")(scope, "KubectlLayer")
