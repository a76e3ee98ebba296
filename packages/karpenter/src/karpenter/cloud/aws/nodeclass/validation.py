"""
Trying out whether machines of a class could be launched, without launching one.

A launch template is made as a launch would make it, and EC2 is asked what it would say to a fleet and to an
instance from it. So a permission that is missing shows on the class, and not on the first claim. What came of
it is remembered for half an hour, unless the class changes; an annotation counts as a change.

What is wrong with what a class says, as far as nobody but us can tell.

The checks run in order; the first that fails is told, as a reason of the condition ``ValidationSucceeded``.

Which instance type stands for all of a class when it is tried out: an ordinary one that its pools would buy.

Pure. Whether the type can be had at the moment does not matter, since nothing is bought.
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
from karpenter.cloud.aws.amifamily.resolver import Kitchen
from karpenter.cloud.aws.cache import Memory
from karpenter.cloud.aws.cluster import Cluster
from karpenter.cloud.aws.errors import DRY_RUN, NotAllowed, Refused
from karpenter.cloud.aws.instance.filter import Option, Purchase
from karpenter.cloud.aws.instancetype.instancetype import suits_class, traits_of
from karpenter.cloud.aws.instancetype.offering import Catalogs, Shop
from karpenter.cloud.aws.instancetype.types import settle
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
)
from karpenter.cloud.aws.launchtemplate import Recipe, Templates
from karpenter.cloud.aws.options import AwsSettings
from karpenter.cloud.aws.placementgroup import PlacementGroups
from karpenter.cloud.aws.tags import specification, tags_of, wrong_tags
from karpenter.cloud.cloudprovider import ClusterObjects
from karpenter.cloud.errors import CloudUnreachable
from karpenter.core.model.catalog import InstanceType
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karpenter.cloud.aws.instancetype.instancetype import SoldType, Traits
    from karpenter.cloud.aws.sdk import Aws
    from karpenter.core.model.catalog import Catalog


USUAL: Final = ("m5.large", "m6g.large")
"""Types that stand in where the pools of a class do not tell, or there is none."""


class Understudy(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type, and how it would be bought."""

    kind: InstanceType
    tenancy: str = DEFAULT_TENANCY
    pool: str = ""


def understudy(
    catalog: Catalog,
    sold: Mapping[str, SoldType],
    traits: Traits,
    node_class: EC2NodeClass,
    pools: Sequence[NodePool],
) -> Understudy | None:
    """Return the type that stands for a class; None when no image of the class suits any type."""
    suitable = [each for each in catalog.types if suits_class(sold[each.name], traits)]
    wanted = [(pool.name, found) for pool in pools if (found := _requirements(pool)) is not None]
    if not family_of(node_class.spec.family).is_windows:
        of_pools = [each for each in suitable if any(_would_do(each, needs) for _, needs in wanted)]
    else:
        of_pools = []
    usual = [each for each in suitable if each.name in USUAL]
    images = ImageChoice(node_class.status.amis)
    chosen = _first(of_pools or usual or suitable, images)
    if chosen is None:
        return None
    dedicated = any(TENANCY in needs and needs[TENANCY].allows(DEDICATED_TENANCY) for _, needs in wanted)
    return Understudy(
        kind=chosen,
        tenancy=DEDICATED_TENANCY if dedicated else DEFAULT_TENANCY,
        pool=wanted[0][0] if wanted else "",
    )


def _first(kinds: Iterable[InstanceType], images: ImageChoice) -> InstanceType | None:
    """Return the first type that starts from an ordinary image, or else the first that starts from any."""
    startable = [each for each in kinds if images.image_of(each) is not None]
    ordinary = (each for each in startable if not _is_accelerated(each))
    return next(ordinary, startable[0] if startable else None)


def _is_accelerated(kind: InstanceType) -> bool:
    return any(kind.requirements[key].values for key in (GPU_COUNT, ACCELERATOR_COUNT))


def _requirements(pool: NodePool) -> Requirements | None:
    template = pool.spec.template
    try:
        labels = Requirements.from_labels(template.metadata.labels)
        return Requirements.from_entries(template.spec.requirements).intersect(labels)
    except RequirementError:
        return None


def _would_do(kind: InstanceType, wanted: Requirements) -> bool:
    return kind.requirements.conflict(wanted) is None


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a class: a reason in one word, and a message for people."""

    reason: str
    message: str


def check_kubelet(node_class: EC2NodeClass, *, expressions: bool) -> Fault | None:
    """Return what is wrong with the kubelet settings of a class, whatever it has found."""
    kubelet = node_class.spec.kubelet
    wrong = check_settings(kubelet)
    if wrong:
        return Fault("InvalidKubeletConfiguration", "; ".join(wrong))
    written = expressions_of(kubelet)
    if written and not expressions:
        names = ", ".join(sorted(written))
        return Fault(
            "KubeletExpressionsDisabled",
            f"{names}: expressions need the feature gate NodeClassCEL, which is off",
        )
    for place, source in written.items():
        try:
            check_expression(source)
        except BadExpression as error:
            return Fault("KubeletExpressionInvalid", f"{place}: {error}")
    unsupported = check_family(kubelet, family_of(node_class.spec.family))
    if unsupported:
        return Fault("UnsupportedKubeletConfiguration", "; ".join(unsupported))
    return None


def check_tags(node_class: EC2NodeClass) -> Fault | None:
    """Return whether a class sets tags that are ours."""
    wrong = wrong_tags(node_class.spec.tags)
    if not wrong:
        return None
    return Fault("TagValidationFailed", f"spec.tags: {', '.join(map(repr, wrong))} may not be set")


def check_types(types: Iterable[SoldType], traits: Traits) -> Fault | None:
    """Return whether an expression of a class comes to nothing for some instance type."""
    for sold in types:
        try:
            machine = settle(sold, traits)
        except BadExpression as error:
            return Fault("KubeletExpressionEvaluationFailed", str(error))
        del machine
    return None


KEPT_FOR: Final = 30 * 60.0

_OURS: Final = frozenset({CLASS_HASH, CLASS_HASH_VERSION})
_NO_PROFILE: Final = "invalid iam instance profile name"
_TOO_MUCH: Final = "user data is limited to"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What a rehearsal works with."""

    settings: AwsSettings
    region: str
    objects: ClusterObjects
    cluster: Cluster
    shop: Shop
    catalogs: Catalogs
    templates: Templates
    placement_groups: PlacementGroups


class _Play(msgspec.Struct, frozen=True, kw_only=True):
    """One rehearsal."""

    node_class: EC2NodeClass
    recipe: Recipe
    instance_type: str
    tags: dict[str, str]


class Rehearsal:
    """Tries classes out."""

    def __init__(self, aws: Aws, stage: Stage, *, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._with = stage
        self._known: Memory[tuple[str, bytes], Fault | None] = Memory(seconds=KEPT_FOR, monotonic=monotonic)

    async def __call__(self, node_class: EC2NodeClass) -> Fault | None:
        """
        Return what is in the way of launches; nothing when all would go well.

        Raises:
            CloudError: it is too early to tell.
        """
        key = (node_class.name, _key(node_class))
        try:
            return await self._known.get(key, lambda: self._rehearse(node_class))
        except _Passing as passing:
            return passing.fault

    def forget(self, name: str) -> None:
        """Forget what came of trying a class out."""
        for key in [key for key, _ in self._known.items() if key[0] == name]:
            self._known.forget(key)

    async def _rehearse(self, node_class: EC2NodeClass) -> Fault | None:
        try:
            play = await self._prepare(node_class)
        except TooMuchUserData as error:
            return Fault("UserDataSizeLimitExceeded", str(error))
        except BadUserData as error:
            return Fault("InvalidUserData", str(error))
        except BadExpression as error:
            return Fault("KubeletExpressionEvaluationFailed", str(error))
        return await self._template(play) or await self._fleet(play) or await self._instance(play)

    async def _prepare(self, node_class: EC2NodeClass) -> _Play:
        group = await self._with.placement_groups.last_known(node_class.spec.placement_group_selector)
        traits = traits_of(node_class, settings=self._with.settings, region=self._with.region, group=group)
        catalog = self._with.catalogs.catalog(traits, node_class=node_class.name)
        pools = [
            each
            for each in await self._with.objects.list(NodePool)
            if names_class(each.spec.template.spec.node_class_ref, node_class.name)
        ]
        chosen = understudy(catalog, self._with.shop.types, traits, node_class, pools)
        if chosen is None:
            raise CloudUnreachable(
                f"no image of node class {node_class.name} suits an instance type that it can buy"
            )
        tags = tags_of(node_class, cluster=self._with.settings.cluster, pool=chosen.pool)
        kitchen = Kitchen(
            node_class=node_class,
            traits=traits,
            types=self._with.shop.types,
            joining=await self._with.cluster.joining(),
            service_cidr=await self._cidr(takes=traits.family.takes_any_kubelet_setting),
            tags=tags,
            reserved_capacity=self._with.settings.reserved_capacity,
        )
        cooked = kitchen.cook(_claim(node_class, chosen), _purchase(chosen))
        return _Play(
            node_class=node_class, recipe=cooked[0].recipe, instance_type=chosen.kind.name, tags=tags
        )

    async def _cidr(self, *, takes: bool) -> str:
        return await self._with.cluster.service_cidr() if takes else ""

    async def _template(self, play: _Play) -> Fault | None:
        try:
            await self._with.templates.ensure([play.recipe])
        except NotAllowed as error:
            return Fault("CreateLaunchTemplateAuthCheckFailed", str(error))
        except Refused as error:
            if _TOO_MUCH in error.message.lower():
                return Fault("UserDataSizeLimitExceeded", str(error))
            raise
        return None

    async def _fleet(self, play: _Play) -> Fault | None:
        recipe = play.recipe
        overrides = [
            {"InstanceType": play.instance_type, "SubnetId": subnet.id, "ImageId": recipe.image}
            for subnet in play.node_class.status.subnets
        ]
        template = {"LaunchTemplateName": recipe.name, "Version": "$Latest"}
        refused = await self._dry_run(
            "CreateFleet",
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
            TargetCapacitySpecification={"DefaultTargetCapacityType": ON_DEMAND, "TotalTargetCapacity": 1},
            TagSpecifications=[specification(each, play.tags) for each in ("instance", "volume", "fleet")],
        )
        if isinstance(refused, NotAllowed):
            return Fault("CreateFleetAuthCheckFailed", str(refused))
        if refused is not None:
            raise refused
        return None

    async def _instance(self, play: _Play) -> Fault | None:
        """Ask for an instance in each subnet until EC2 says that it would launch one."""
        first: Refused | None = None
        for subnet in play.node_class.status.subnets:
            refused = await self._dry_run("RunInstances", **_instance_request(play, subnet.id))
            if refused is None:
                return None
            first = first or refused
        assert first is not None  # a class without subnets is not tried out
        if _NO_PROFILE in first.message.lower():
            named = play.node_class.spec.instance_profile
            because = f"EC2 does not know instance profile {play.recipe.profile}"
            if named:
                raise _Passing(Fault("InstanceProfileNotFound", because))
            raise CloudUnreachable(because) from first
        if isinstance(first, NotAllowed):
            return Fault("RunInstancesAuthCheckFailed", str(first))
        raise first

    async def _dry_run(self, operation: str, **parameters: Any) -> Refused | None:
        """Return why EC2 would not do something; None when it would."""
        try:
            await self._aws.ask("ec2", operation, DryRun=True, **parameters)
        except Refused as error:
            return None if error.code == DRY_RUN else error
        return None


class _Passing(Exception):  # noqa: N818  not an error, but an answer that is not to be remembered
    """A fault that may be gone the next time."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _key(node_class: EC2NodeClass) -> bytes:
    """Return what a class looks like to a launch; that we have noted its hash on it is no change."""
    status = node_class.status
    notes = {key: value for key, value in node_class.metadata.annotations.items() if key not in _OURS}
    seen = (
        status.subnets,
        status.security_groups,
        status.amis,
        status.instance_profile,
        node_class.spec,
        notes,
    )
    return msgspec.json.encode(seen, order="deterministic")


def _claim(node_class: EC2NodeClass, chosen: Understudy) -> NodeClaim:
    reference = NodeClassReference(
        group=EC2NodeClass.api_version.partition("/")[0], kind=EC2NodeClass.kind, name=node_class.name
    )
    return NodeClaim(
        metadata=ObjectMeta(name="rehearsal", labels={NODEPOOL: chosen.pool}),
        spec=NodeClaimSpec(node_class_ref=reference),
    )


def _purchase(chosen: Understudy) -> Purchase:
    return Purchase(
        options=(Option(chosen.kind, chosen.kind.offerings[:1]),),
        capacity_type=ON_DEMAND,
        tenancy=chosen.tenancy,
    )


def _instance_request(play: _Play, subnet: str) -> dict[str, Any]:
    recipe = play.recipe
    interfaces = [
        {
            "NetworkCardIndex": each.network_card_index,
            "DeviceIndex": each.device_index,
            "InterfaceType": each.interface_type,
            "SubnetId": subnet,
        }
        for each in recipe.interfaces
    ]
    return {
        "LaunchTemplate": {"LaunchTemplateName": recipe.name, "Version": "$Latest"},
        "InstanceType": play.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "NetworkInterfaces": interfaces or [{"DeviceIndex": 0, "SubnetId": subnet}],
        "TagSpecifications": [
            specification(each, play.tags) for each in ("instance", "volume", "network-interface")
        ],
    }
