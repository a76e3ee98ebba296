"""
What the add-ons refuse: versions, props, charts, the order of add-ons and those that exclude each other.

Pure: no CDK, so that every rule can be tried without node. Messages are those of CDK EKS Blueprints, whose
stacks people move from, because scripts and people look for them; what helps is in the hint beside.
What becomes of props that pass is in :mod:`.planning`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter import __version__
from karpenter.doctor.facts import parse_version, spelled
from karpenter.doctor.installation import (
    LEAST,
    LEAST_KUBERNETES,
    OCI,
    OCI_SINCE,
    OLD_REPOSITORY,
    PREFIXED,
    QUEUE_SINCE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karpenter.cdk.props import HelmProps, KarpenterProps, KarpenterV1Props

Version = tuple[int, int, int]

COMPATIBLE: Final[Version] = (1, 14, 0)
"""The version of Karpenter that the operator of this project is compatible with."""

CONSOLIDATION_SINCE: Final[Version] = (0, 15, 0)
WEIGHT_SINCE: Final[Version] = (0, 16, 0)
MONITORING_SINCE: Final[Version] = (0, 23, 0)
BETA_SINCE: Final[Version] = (0, 32, 0)
"""From here on there are NodePools and EC2NodeClasses in place of Provisioners and AWSNodeTemplates."""

BUDGETS_SINCE: Final[Version] = (0, 34, 0)
POD_IDENTITY_SINCE: Final[Version] = (0, 35, 0)
STABLE_SINCE: Final[Version] = (1, 0, 0)
_LEAST_OF_SPECS: Final[Version] = (0, 21, 0)
_POD_IDENTITY_KUBERNETES: Final = (1, 24)
_LEAST_KUBERNETES_OF_V1: Final = (1, 29)

# Charts from 0.14 until before 0.34 resolve names outside of the cluster by themselves.
# https://karpenter.sh/docs/troubleshooting/
_DNS_BY_CHART: Final = ((0, 14, 0), (0, 34, 0))

VPC_CNI: Final = "VpcCniAddOn"
NODE_TERMINATION_HANDLER: Final = "AwsNodeTerminationHandlerAddOn"
KARPENTER: Final = "KarpenterAddOn"
KARPENTER_V1: Final = "KarpenterV1AddOn"
CLUSTER_AUTOSCALER: Final = "ClusterAutoscalerAddOn"
"""As the documentation of the blueprints spells it in the message; their class is ClusterAutoScalerAddOn."""

_AUTOSCALERS: Final = frozenset({CLUSTER_AUTOSCALER.lower()})
_KARPENTERS: Final = frozenset({KARPENTER, KARPENTER_V1})

_FAMILIES: Final = ("AL2", "Bottlerocket", "Ubuntu")
_FAMILIES_OF_SPECS: Final = (*_FAMILIES, "AL2023", "Windows2019", "Windows2022", "Windows2025", "Custom")
_OPERATORS: Final = ("In", "NotIn")
_OPERATORS_OF_SPECS: Final = (*_OPERATORS, "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# https://docs.aws.amazon.com/cdk/api/v2/python/aws_cdk.aws_eks/HelmChart.html and the limits of Kubernetes.
_LENGTHS: Final = (
    ("name", 1, 63),
    ("chart", 1, 63),
    ("namespace", 1, 63),
    ("release", 1, 53),
    ("repository", 0, 4096),
    ("version", 1, 1024),
)


class AddOnError(ValueError):
    """An add-on that cannot be deployed like this; the message says why, the hint what helps."""

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class ListedAddOn(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one add-on that the order of add-ons depends on."""

    id: str
    version: Version = COMPATIBLE
    interruption: bool = False
    """Whether it is Karpenter, and reads interruptions itself."""


def is_autoscaler(name: str) -> bool:
    """Say whether an id is that of the Cluster Autoscaler, in either spelling."""
    return name.lower() in _AUTOSCALERS


def check_add_ons(add_ons: Sequence[ListedAddOn], *, stack: str) -> None:
    """
    Refuse a list of add-ons whose members exclude each other, or whose order cannot work.

    Raises:
        AddOnError: naming the add-on that is in the way, or that is missing.
    """
    place = {each.id: number for number, each in reversed(list(enumerate(add_ons)))}
    for number, each in enumerate(add_ons):
        if each.id not in _KARPENTERS:
            continue
        if any(is_autoscaler(other.id) for other in add_ons):
            raise AddOnError(
                f"Deploying {stack} failed due to conflicting add-on: {CLUSTER_AUTOSCALER}.",
                hint=f"keep {CLUSTER_AUTOSCALER} or {each.id}: both would add nodes for the same pods",
            )
        other = next((name for name in _KARPENTERS if name != each.id and name in place), "")
        if other:
            raise AddOnError(
                f"Deploying {stack} failed due to conflicting add-on: {other}.",
                hint=f"keep one of {KARPENTER} and {KARPENTER_V1}",
            )
        if each.id == KARPENTER and place.get(VPC_CNI, number) >= number:
            raise AddOnError(
                f"Assertion failed: Missing a dependency for {VPC_CNI}",
                hint=f"put {VPC_CNI} before {KARPENTER} in the add-ons of {stack}",
            )
        _check_termination_handler(each, number, place.get(NODE_TERMINATION_HANDLER))


def _check_termination_handler(karpenter: ListedAddOn, number: int, handler: int | None) -> None:
    if handler is None:
        return
    if karpenter.version >= QUEUE_SINCE and (handler < number or karpenter.interruption):
        raise AddOnError(
            "Karpenter supports native interruption handling, so Node Termination Handler will not be"
            " necessary.",
            hint=f"leave {NODE_TERMINATION_HANDLER} out, and set interruptionHandling",
        )
    if handler < number:
        raise AddOnError(
            f"{NODE_TERMINATION_HANDLER} must be in the add-on array after {karpenter.id}",
            hint=f"move it behind {karpenter.id}",
        )


def version_of(text: str) -> Version:
    """
    Return a version as numbers.

    Raises:
        AddOnError: the text is none.
    """
    found = parse_version(text)
    if found is None:
        raise AddOnError(f'version is "{text}"; it is one such as v0.25.0 or 1.3.0')
    return found


def chart_version(text: str) -> str:
    """Return a chart version as its repository spells it: with ``v`` from 0.17.0 until before 0.35.0."""
    number = text.strip().removeprefix("v")
    first, end = PREFIXED
    return f"v{number}" if first <= version_of(number) < end else number


def fargate_values(version: Version, *, fargate: bool) -> dict[str, Any]:
    """Return what the chart must be told where there are no nodes that CoreDNS could run on."""
    first, end = _DNS_BY_CHART
    return {"dnsPolicy": "Default"} if fargate and not first <= version < end else {}


def check_helm_props(props: HelmProps, *, identifier: str) -> None:
    """
    Refuse names that Helm or Kubernetes would refuse.

    Raises:
        AddOnError: naming the prop and its value.
    """
    for key, least, most in _LENGTHS:
        value = getattr(props, key)
        if value is None:
            continue
        if len(value) < least:
            raise AddOnError(f"{key} ({identifier}: {value}) must be no less than {least} characters long.")
        if len(value) > most:
            raise AddOnError(f"{key} ({identifier}: {value}) must be no more than {most} characters long.")


def check_imported(*, imported: bool) -> None:
    """
    Refuse a cluster that another stack or tool made.

    Raises:
        AddOnError: it is one.
    """
    if imported:
        raise AddOnError(
            "KarpenterAddOn cannot be used with imported clusters as it requires changes to the cluster"
            " authentication.",
            hint="karpenter install -c CLUSTER, or karpenter render cloudformation",
        )


def owned_values(version: Version, *, interruption: bool) -> tuple[str, ...]:
    """Return the paths of chart values that the add-on sets itself, so that users must not."""
    if version >= BETA_SINCE:
        owned = ["settings.clusterName", "settings.clusterEndpoint"]
        queue = "settings.interruptionQueue"
    elif version >= QUEUE_SINCE:
        owned = [
            f"settings.aws.{each}" for each in ("defaultInstanceProfile", "clusterEndpoint", "clusterName")
        ]
        queue = "settings.aws.interruptionQueueName"
    else:
        owned, queue = ["clusterEndpoint", "clusterName", "aws.defaultInstanceProfile"], ""
    owned += [queue] if interruption and queue else []
    return (*owned, "serviceAccount.create", "serviceAccount.name", _ROLE_ANNOTATION)


_ROLE_ANNOTATION: Final = "serviceAccount.annotations.eks.amazonaws.com/role-arn"


def check_values(values: Mapping[str, Any], version: Version, *, identifier: str, interruption: bool) -> None:
    """
    Refuse chart values that the add-on sets itself.

    Raises:
        AddOnError: naming the first of them.
    """
    for path in owned_values(version, interruption=interruption):
        if path == _ROLE_ANNOTATION:
            words = ["serviceAccount", "annotations", "eks.amazonaws.com/role-arn"]
        else:
            words = path.split(".")
        level: Any = values
        for word in words:
            level = level.get(word) if isinstance(level, dict) else None
        if level is not None:
            raise AddOnError(
                f"values: {path} is set by {identifier}, from the cluster and the roles that it makes",
                hint="leave it out of values",
            )


def check_props(props: KarpenterProps, *, kubernetes: str) -> tuple[str, ...]:
    """
    Refuse props of the legacy add-on that its version does not know; return warnings.

    Raises:
        AddOnError: with the message of the blueprints.
    """
    check_helm_props(props, identifier=KARPENTER)
    version = version_of(props.stated_version)
    _check_chart(props, version)
    _check_flat(props, version)
    warnings: tuple[str, ...] = ()
    if props.has_specs:
        _check_specs(props, version)
    if not props.skip_version_validation:
        warnings = tuple(_check_kubernetes(props, version, kubernetes))
    if props.pod_identity and (
        version < POD_IDENTITY_SINCE or (minor_of(kubernetes) or (9, 9)) < _POD_IDENTITY_KUBERNETES
    ):
        raise AddOnError(
            f"podIdentity needs Karpenter {spelled(POD_IDENTITY_SINCE)} and Kubernetes "
            f"{spelled(_POD_IDENTITY_KUBERNETES)}, or later"
        )
    check_values(props.values, version, identifier=KARPENTER, interruption=props.interruption_handling)
    return warnings


def _check_chart(props: KarpenterProps, version: Version) -> None:
    repository = OCI if props.repository is None else props.repository
    if version >= OCI_SINCE and repository != OCI:
        raise AddOnError("Please provide the OCI repository.", hint=OCI)
    if version < OCI_SINCE and repository != OLD_REPOSITORY:
        raise AddOnError("Please provide the older Karpenter repository url.", hint=OLD_REPOSITORY)
    if version >= OCI_SINCE and props.release != "karpenter":
        raise AddOnError(
            f"release is {props.release}: from v{spelled(OCI_SINCE)} on, charts unpack under karpenter only",
            hint="remove the add-on, then deploy it again with the release name karpenter",
        )


def _check_flat(props: KarpenterProps, version: Version) -> None:
    consolidation = props.consolidation or {}
    if props.consolidation is not None and version < CONSOLIDATION_SINCE:
        raise AddOnError("The prop consolidation is only supported on versions v0.15.0 and later.")
    if consolidation.get("enabled") and props.ttl_seconds_after_empty is not None:
        raise AddOnError("Consolidation and ttlSecondsAfterEmpty must be mutually exclusive.")
    if props.weight is not None and version < WEIGHT_SINCE:
        raise AddOnError("The prop weight is only supported on versions v0.16.0 and later.")
    if props.interruption_handling and version < QUEUE_SINCE:
        raise AddOnError(
            "Interruption handling is only supported on versions v0.19.0 and later.",
            hint=f"add {NODE_TERMINATION_HANDLER} after {KARPENTER}",
        )
    if props.has_flat and BETA_SINCE <= version < STABLE_SINCE:
        raise AddOnError(
            f"Karpenter {spelled(version)} reads NodePools and EC2NodeClasses of v1beta1, which "
            "requirements, subnetTags and the like do not become",
            hint="write nodePoolSpec and ec2NodeClassSpec, or use version 1.0.0 or later",
        )
    _check_choices("amiFamily", props.ami_family, _FAMILIES)
    for number, each in enumerate(props.requirements):
        _check_choices(f"requirements[{number}].op", each.operator, _OPERATORS)
    for number, taint in enumerate(props.taints):
        _check_choices(f"taints[{number}].effect", str(taint.get("effect", "")), _EFFECTS)


def _check_choices(key: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise AddOnError(f'{key} is "{value}"; it is one of {", ".join(choices)}')


def _check_specs(props: KarpenterProps, version: Version) -> None:
    """Refuse what the version does not know of the two specs."""
    pool, node_class = props.node_pool_spec or {}, props.ec2_node_class_spec or {}
    if node_class.get("detailedMonitoring") and version < MONITORING_SINCE:
        raise AddOnError(
            "Detailed Monitoring is not available in this version of Karpenter. Please upgrade to at least"
            " 0.23.0."
        )
    disruption = pool.get("disruption") or {}
    if disruption.get("budgets") and version < BUDGETS_SINCE:
        raise AddOnError(
            "You cannot set disruption budgets for this version of Karpenter. Please upgrade to 0.34.0 or"
            " higher."
        )
    for number, each in enumerate(pool.get("requirements") or ()):
        _check_choices(
            f"nodePoolSpec.requirements[{number}].operator", each.get("operator"), _OPERATORS_OF_SPECS
        )
    _check_choices("ec2NodeClassSpec.amiFamily", node_class.get("amiFamily"), _FAMILIES_OF_SPECS)
    if version >= BETA_SINCE:
        _check_beta(pool, node_class, disruption)
        return
    if disruption:
        raise AddOnError("Disruption configuration is only supported on versions v0.32.0 and later.")
    if (pool.get("consolidation") or {}).get("enabled") and pool.get("ttlSecondsAfterEmpty") is not None:
        raise AddOnError("Consolidation and ttlSecondsAfterEmpty must be mutually exclusive.")
    if node_class:
        _check_selectors(node_class, "AWSNodeTemplate", "securityGroupSelector", "subnetSelector")


def _check_beta(
    pool: Mapping[str, Any], node_class: Mapping[str, Any], disruption: Mapping[str, Any]
) -> None:
    if any(
        pool.get(key) is not None
        for key in ("consolidation", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired")
    ):
        raise AddOnError("Consolidation features are only available for previous versions of Karpenter.")
    if disruption.get("consolidationPolicy") == "WhenUnderutilized" and disruption.get("consolidateAfter"):
        raise AddOnError(
            "You cannot set consolidateAfter value if the consolidation policy is set to Underutilized."
        )
    if node_class:
        if not node_class.get("amiFamily"):
            raise AddOnError("Please provide the AMI Family for your EC2NodeClass.")
        _check_selectors(node_class, "EC2NodeClass", "securityGroupSelectorTerms", "subnetSelectorTerms")


def _check_selectors(node_class: Mapping[str, Any], kind: str, groups: str, subnets: str) -> None:
    if not node_class.get(groups):
        raise AddOnError(f"Please provide SecurityGroupTerm for your {kind}.", hint=groups)
    if not node_class.get(subnets):
        raise AddOnError(f"Please provide subnetGroupTerm for your {kind}.", hint=subnets)


def minor_of(kubernetes: str) -> tuple[int, int] | None:
    """Return a version of Kubernetes as two numbers; None where it is not known."""
    found = parse_version(kubernetes)
    return found[:2] if found else None


def _check_kubernetes(props: KarpenterProps, version: Version, kubernetes: str) -> Iterator[str]:
    minor = minor_of(kubernetes)
    if minor is None:
        return
    since, least = LEAST_KUBERNETES
    if version >= since and minor < least:
        raise AddOnError(
            f"Karpenter v{spelled(since)} and later does not work on Kubernetes {spelled(minor)}",
            hint=f"upgrade the cluster to {spelled(least)} or later, or use an earlier Karpenter",
        )
    if props.has_specs:
        if minor < min(LEAST):
            raise AddOnError("Please upgrade your EKS Kubernetes version to start using Karpenter.")
        if version < _LEAST_OF_SPECS:
            raise AddOnError("Please use Karpenter version 0.21.0 or above.")
    wanted = LEAST.get(minor) or (max(LEAST.values()) if minor > max(LEAST) else version)
    if version < wanted:
        yield (
            f"Please use minimum Karpenter version for this Kubernetes Version: {spelled(wanted)}, otherwise"
            " you will run into compatibility issues."
        )


def v1_version(props: KarpenterV1Props) -> Version:
    if not props.version or props.version.removeprefix("v") == __version__:
        return COMPATIBLE
    return version_of(props.version)


def check_v1_props(props: KarpenterV1Props, *, kubernetes: str) -> None:
    """
    Refuse props of the add-on for version 1 that its version, or that of the cluster, cannot do.

    Raises:
        AddOnError: with the message of the blueprints.
    """
    check_helm_props(props, identifier=KARPENTER_V1)
    version = v1_version(props)
    minor = minor_of(kubernetes)
    if version < BETA_SINCE:
        raise AddOnError(
            f"Karpenter interruption handling requires version >= 0.32.0. Current version: {props.version}"
        )
    if minor is not None and minor < _LEAST_KUBERNETES_OF_V1 and not props.skip_version_validation:
        raise AddOnError(
            "Cluster version must be >= 1.29 for Karpenter interruption handling. Current version: "
            f"{spelled(minor)}"
        )
    if version < STABLE_SINCE:
        raise AddOnError(
            f"version is {props.version}, which does not read objects of version 1",
            hint=f"use 1.0.0 or later, or {KARPENTER}",
        )
    if props.version and props.release != "karpenter":
        raise AddOnError(
            f"release is {props.release}: the chart of the registry unpacks under karpenter only"
        )
    check_values(props.values, version, identifier=KARPENTER_V1, interruption=props.interruption_handling)
