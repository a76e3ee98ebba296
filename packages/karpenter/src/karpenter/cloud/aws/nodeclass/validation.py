"""
Whether an EC2NodeClass can launch instances: checks of what it says, and a dry run of a launch.

The checks run in order; the first that fails is the reason of the condition ``ValidationSucceeded``. The dry
run creates a launch template as a launch would, and calls CreateFleet and RunInstances with DryRun. So a
missing permission shows on the class, and not on the first claim. The result is cached for half an hour,
unless the class changes; an annotation counts as a change.

:func:`validation_instance_type` is pure: it chooses the instance type for the dry run, an ordinary one that a
NodePool of the class would launch. Whether EC2 has capacity of it does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass, names_class
from karpenter.api.labels import NODEPOOL, ON_DEMAND
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.amifamily.ami import ImageChoice
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData
from karpenter.cloud.aws.amifamily.bootstrap.userdata import TooMuchUserData
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.cloud.aws.amifamily.resolver import LaunchTemplateBuilder
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import DRY_RUN, AccessDenied, AwsApiError
from karpenter.cloud.aws.instance.filter import InstanceOption, LaunchOptions
from karpenter.cloud.aws.instancetype.compatibility import is_compatible
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, Traits, resolve_kubelet, traits_of
from karpenter.cloud.aws.kubelet.expressions import BadExpression, check_expression, expressions_of
from karpenter.cloud.aws.kubelet.validation import check_family, check_settings
from karpenter.cloud.aws.labels import (
    ACCELERATOR_COUNT,
    CLASS_HASH,
    CLASS_HASH_VERSION,
    DEDICATED_TENANCY,
    DEFAULT_TENANCY,
    GPU_COUNT,
    TENANCY,
    specification,
    tags_of,
    wrong_tags,
)
from karpenter.cloud.aws.launchtemplate import LaunchTemplate
from karpenter.cloud.errors import CloudUnreachable
from karpenter.core.model.catalog import Catalog, InstanceType
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.cloud.aws.services import Services


# A dry run costs a call of EC2 with a low rate limit, and its answer changes with the class or its
# permissions only:
# https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
KEPT_SECONDS: Final = 30 * 60.0

_HASH_ANNOTATIONS: Final = frozenset({CLASS_HASH, CLASS_HASH_VERSION})
# EC2 may not know an instance profile for some seconds after IAM created it:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html
_NO_PROFILE: Final = "invalid iam instance profile name"
_USER_DATA_LIMIT: Final = "user data is limited to"

DEFAULT_TYPES: Final = ("m5.large", "m6g.large")
"""Instance types for the dry run where the class has no NodePool, or none of its types fits."""


class ValidationFailure(msgspec.Struct, frozen=True):
    """Why a class cannot launch: the reason and the message of its condition."""

    reason: str
    message: str


def check_kubelet(node_class: EC2NodeClass, *, expressions: bool) -> ValidationFailure | None:
    kubelet = node_class.spec.kubelet
    wrong = check_settings(kubelet)
    if wrong:
        return ValidationFailure("InvalidKubeletConfiguration", "; ".join(wrong))
    written = expressions_of(kubelet)
    if written and not expressions:
        names = ", ".join(sorted(written))
        return ValidationFailure(
            "KubeletExpressionsDisabled",
            f"{names}: expressions need the feature gate NodeClassCEL, which is off",
        )
    for place, source in written.items():
        try:
            check_expression(source)
        except BadExpression as error:
            return ValidationFailure("KubeletExpressionInvalid", f"{place}: {error}")
    unsupported = check_family(kubelet, family_of(node_class.spec.family))
    if unsupported:
        return ValidationFailure("UnsupportedKubeletConfiguration", "; ".join(unsupported))
    return None


def check_tags(node_class: EC2NodeClass) -> ValidationFailure | None:
    """Return a failure if a class sets tags that Karpenter sets itself."""
    wrong = wrong_tags(node_class.spec.tags)
    if not wrong:
        return None
    return ValidationFailure(
        "TagValidationFailed", f"spec.tags: {', '.join(map(repr, wrong))} may not be set"
    )


def check_types(types: Iterable[InstanceTypeInfo], traits: Traits) -> ValidationFailure | None:
    """Return a failure if an expression of a class has no value for some instance type."""
    for info in types:
        try:
            resolve_kubelet(info, traits)
        except BadExpression as error:
            return ValidationFailure("KubeletExpressionEvaluationFailed", str(error))
    return None


class ValidationInstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """The instance type that a class is validated with, and how it would be launched."""

    kind: InstanceType
    tenancy: str = DEFAULT_TENANCY
    pool: str = ""


def validation_instance_type(
    catalog: Catalog,
    info: Mapping[str, InstanceTypeInfo],
    traits: Traits,
    node_class: EC2NodeClass,
    pools: Sequence[NodePool],
) -> ValidationInstanceType | None:
    """Return the instance type for the dry run; None when no AMI of the class fits any type."""
    suitable = [each for each in catalog.types if is_compatible(info[each.name], traits)]
    wanted = [(pool.name, found) for pool in pools if (found := _requirements(pool)) is not None]
    # A Windows class is validated with a default type, not with one of its NodePools.
    if not family_of(node_class.spec.family).is_windows:
        of_pools = [
            each for each in suitable if any(each.requirements.conflict(needs) is None for _, needs in wanted)
        ]
    else:
        of_pools = []
    usual = [each for each in suitable if each.name in DEFAULT_TYPES]
    images = ImageChoice(node_class.status.amis)
    # The first type without accelerators that an AMI fits, or else the first that an AMI fits.
    startable = [each for each in (of_pools or usual or suitable) if images.image_of(each) is not None]
    ordinary = (
        each
        for each in startable
        if not any(each.requirements[key].values for key in (GPU_COUNT, ACCELERATOR_COUNT))
    )
    chosen = next(ordinary, startable[0] if startable else None)
    if chosen is None:
        return None
    dedicated = any(TENANCY in needs and needs[TENANCY].allows(DEDICATED_TENANCY) for _, needs in wanted)
    return ValidationInstanceType(
        kind=chosen,
        tenancy=DEDICATED_TENANCY if dedicated else DEFAULT_TENANCY,
        pool=wanted[0][0] if wanted else "",
    )


def _requirements(pool: NodePool) -> Requirements | None:
    template = pool.spec.template
    try:
        labels = Requirements.from_labels(template.metadata.labels)
        return Requirements.from_entries(template.spec.requirements).intersect(labels)
    except RequirementError:
        return None


class _DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """One dry run."""

    node_class: EC2NodeClass
    template: LaunchTemplate
    instance_type: str
    tags: dict[str, str]


class DryRunValidator:
    """Validates node classes with a dry run of a launch."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._results: TTLCache[tuple[str, bytes], ValidationFailure | None] = TTLCache(
            seconds=KEPT_SECONDS, monotonic=services.clock.monotonic
        )

    async def __call__(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        """
        Return why a class cannot launch; None when a launch would succeed.

        Raises:
            CloudError: AWS does not answer, or does not know yet what was just created.
        """
        key = (node_class.name, _key(node_class))
        try:
            return await self._results.get(key, lambda: self._validate(node_class))
        except _UncachedFailure as uncached:
            return uncached.failure

    def forget(self, name: str) -> None:
        for key in [key for key, _ in self._results.items() if key[0] == name]:
            self._results.forget(key)

    async def _validate(self, node_class: EC2NodeClass) -> ValidationFailure | None:
        try:
            dry_run = await self._prepare(node_class)
        except TooMuchUserData as error:
            return ValidationFailure("UserDataSizeLimitExceeded", str(error))
        except BadUserData as error:
            return ValidationFailure("InvalidUserData", str(error))
        except BadExpression as error:
            return ValidationFailure("KubeletExpressionEvaluationFailed", str(error))
        return await self._template(dry_run) or await self._fleet(dry_run) or await self._instance(dry_run)

    async def _prepare(self, node_class: EC2NodeClass) -> _DryRun:
        group = await self._services.placement_groups.last_known(node_class.spec.placement_group_selector)
        traits = traits_of(
            node_class, settings=self._services.settings, region=self._services.aws.region, group=group
        )
        catalog = self._services.catalogs.catalog(traits, node_class=node_class.name)
        pools = [
            each
            for each in await self._services.objects.list(NodePool)
            if names_class(each.spec.template.spec.node_class_ref, node_class.name)
        ]
        chosen = validation_instance_type(
            catalog, self._services.instance_types.types, traits, node_class, pools
        )
        if chosen is None:
            raise CloudUnreachable(
                f"no image of node class {node_class.name} suits an instance type that it can buy"
            )
        tags = tags_of(node_class, cluster=self._services.settings.cluster, pool=chosen.pool)
        builder = LaunchTemplateBuilder(
            node_class=node_class,
            traits=traits,
            types=self._services.instance_types.types,
            joining=await self._services.cluster.joining(),
            service_cidr=await self._services.cluster.service_cidr()
            if traits.family.takes_any_kubelet_setting
            else "",
            tags=tags,
            reserved_capacity=self._services.settings.reserved_capacity,
        )
        templates = builder.render(
            _claim(node_class, chosen),
            LaunchOptions(
                options=(InstanceOption(chosen.kind, chosen.kind.offerings[:1]),),
                capacity_type=ON_DEMAND,
                tenancy=chosen.tenancy,
            ),
        )
        return _DryRun(
            node_class=node_class, template=templates[0].template, instance_type=chosen.kind.name, tags=tags
        )

    async def _template(self, dry_run: _DryRun) -> ValidationFailure | None:
        try:
            await self._services.launch_templates.ensure([dry_run.template])
        except AccessDenied as error:
            return ValidationFailure("CreateLaunchTemplateAuthCheckFailed", str(error))
        except AwsApiError as error:
            if _USER_DATA_LIMIT in error.message.lower():
                return ValidationFailure("UserDataSizeLimitExceeded", str(error))
            raise
        return None

    async def _fleet(self, dry_run: _DryRun) -> ValidationFailure | None:
        template = dry_run.template
        overrides = [
            {"InstanceType": dry_run.instance_type, "SubnetId": subnet.id, "ImageId": template.image}
            for subnet in dry_run.node_class.status.subnets
        ]
        named = {"LaunchTemplateName": template.name, "Version": "$Latest"}
        refused = await self._dry_run(
            "CreateFleet",
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": named, "Overrides": overrides}],
            TargetCapacitySpecification={"DefaultTargetCapacityType": ON_DEMAND, "TotalTargetCapacity": 1},
            TagSpecifications=[specification(each, dry_run.tags) for each in ("instance", "volume", "fleet")],
        )
        if isinstance(refused, AccessDenied):
            return ValidationFailure("CreateFleetAuthCheckFailed", str(refused))
        if refused is not None:
            raise refused
        return None

    async def _instance(self, dry_run: _DryRun) -> ValidationFailure | None:
        """Call RunInstances for each subnet, until EC2 answers that it would launch an instance."""
        first: AwsApiError | None = None
        for subnet in dry_run.node_class.status.subnets:
            refused = await self._dry_run("RunInstances", **_instance_request(dry_run, subnet.id))
            if refused is None:
                return None
            first = first or refused
        assert first is not None  # a class without subnets is not validated
        if _NO_PROFILE in first.message.lower():
            named = dry_run.node_class.spec.instance_profile
            because = f"EC2 does not know instance profile {dry_run.template.profile}"
            # A profile of the user may be created later; it is checked again with the next reconcile.
            if named:
                raise _UncachedFailure(ValidationFailure("InstanceProfileNotFound", because))
            raise CloudUnreachable(because) from first
        if isinstance(first, AccessDenied):
            return ValidationFailure("RunInstancesAuthCheckFailed", str(first))
        raise first

    async def _dry_run(self, operation: str, **parameters: Any) -> AwsApiError | None:
        """Return the error of a dry run; None when the call would have succeeded."""
        try:
            await self._services.aws.call("ec2", operation, DryRun=True, **parameters)
        except AwsApiError as error:
            # EC2 answers a dry run that would succeed with an error of this code.
            return None if error.code == DRY_RUN else error
        return None


class _UncachedFailure(Exception):  # noqa: N818  a result that is not cached
    """A failure that may be gone with the next validation, since IAM is eventually consistent."""

    def __init__(self, failure: ValidationFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _key(node_class: EC2NodeClass) -> bytes:
    """Return what a launch depends on; the hash annotations that Karpenter writes are no change."""
    status = node_class.status
    annotations = {
        key: value for key, value in node_class.metadata.annotations.items() if key not in _HASH_ANNOTATIONS
    }
    seen = (
        status.subnets,
        status.security_groups,
        status.amis,
        status.instance_profile,
        node_class.spec,
        annotations,
    )
    return msgspec.json.encode(seen, order="deterministic")


def _claim(node_class: EC2NodeClass, chosen: ValidationInstanceType) -> NodeClaim:
    reference = NodeClassReference(
        group=EC2NodeClass.api_version.partition("/")[0], kind=EC2NodeClass.kind, name=node_class.name
    )
    return NodeClaim(
        metadata=ObjectMeta(name="validation", labels={NODEPOOL: chosen.pool}),
        spec=NodeClaimSpec(node_class_ref=reference),
    )


def _instance_request(dry_run: _DryRun, subnet: str) -> dict[str, Any]:
    template = dry_run.template
    interfaces = [
        {
            "NetworkCardIndex": each.network_card_index,
            "DeviceIndex": each.device_index,
            "InterfaceType": each.interface_type,
            "SubnetId": subnet,
        }
        for each in template.interfaces
    ]
    return {
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "InstanceType": dry_run.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "NetworkInterfaces": interfaces or [{"DeviceIndex": 0, "SubnetId": subnet}],
        "TagSpecifications": [
            specification(each, dry_run.tags) for each in ("instance", "volume", "network-interface")
        ],
    }
