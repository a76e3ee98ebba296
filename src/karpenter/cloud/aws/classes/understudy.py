"""
Which instance type stands for all of a class when it is tried out: an ordinary one that its pools would buy.

Pure. Whether the type can be had at the moment does not matter, since nothing is bought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.images.choosing import ImageChoice
from karpenter.cloud.aws.types.building import suits_class
from karpenter.cloud.aws.words import (
    ACCELERATOR_COUNT,
    DEDICATED_TENANCY,
    DEFAULT_TENANCY,
    GPU_COUNT,
    TENANCY,
)
from karpenter.core.model.catalog import InstanceType
from karpenter.core.model.labels import RequirementError
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.api.nodepool import NodePool
    from karpenter.cloud.aws.types.sold import SoldType
    from karpenter.cloud.aws.types.traits import Traits
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
