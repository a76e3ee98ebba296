"""
The AMIs that a node class selects, and the one that each instance type starts from.

An AMI of an alias is for one variant of instance types; every other AMI is for all types of its architecture.
Of several AMIs for the same types the newest is used, and a deprecated one only where there is no other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.ec2nodeclass_status import AMI, ImageRequirement
from karpenter.api.labels import ARCH
from karpenter.cloud.aws.amifamily.alias import Variant, check_alias, parse_alias, published
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.aws.subnet import by_tags, where
from karpenter.cloud.catalogs.ec2.data import ARCHITECTURES
from karpenter.cloud.errors import CloudUnreachable
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass
    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.amifamily.ssm import SSMProvider
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.core.model.catalog import InstanceType


log = structlog.stdlib.get_logger(__name__)

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
_PAGE_SIZE: Final = 1000
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)
# A name without an owner could match a public AMI of any account:
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sharing-amis.html
_DEFAULT_OWNERS: Final = ("self", "amazon")
_ID: Final = "ami-"


class FoundImage(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI, and the requirements of the instance types that it is for."""

    id: str
    name: str
    created: datetime
    deprecated: bool
    requirements: tuple[ImageRequirement, ...]

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """Of two AMIs for the same types, the one of higher rank is used."""
        return not self.deprecated, self.created, self.name


class _Query(msgspec.Struct, frozen=True):
    """The parameters of a DescribeImages call, and the variants of its AMIs by their ids."""

    parameters: dict[str, Any]
    variants: dict[str, tuple[Variant, ...]] = {}


class AMIProvider:
    """Finds AMIs."""

    def __init__(self, aws: AwsApi, ssm: SSMProvider, *, clock: Clock, seconds: float) -> None:
        self._aws = aws
        self._ssm = ssm
        self._clock = clock
        self._found: TTLCache[tuple[str, int, bytes], tuple[FoundImage, ...]] = TTLCache(
            seconds=seconds, monotonic=clock.monotonic
        )

    async def find(self, node_class: EC2NodeClass, kubernetes: str) -> tuple[FoundImage, ...]:
        """
        Return the AMIs of a node class, the newest first; `kubernetes` is a version such as ``1.33``.

        Raises:
            UnsupportedAlias: AWS publishes no AMIs for the alias.
            CloudError: AWS does not answer, or has no AMI under the parameters of the alias.
        """
        queries = await self._queries(node_class, kubernetes)
        key = (node_class.metadata.uid, node_class.metadata.generation, msgspec.json.encode(queries))
        return await self._found.get(key, lambda: self._describe(queries))

    async def deprecated(self, image: str) -> bool:
        """Return whether an AMI is deprecated, or does not exist any longer."""
        found = await self._describe_images(_Query({"Filters": [where("image-id", image)]}))
        return all(each.deprecated for each in found)

    async def _queries(self, node_class: EC2NodeClass, kubernetes: str) -> list[_Query]:
        terms = node_class.spec.ami_selector_terms
        if node_class.spec.alias:
            return [await self._of_alias(node_class.spec.alias, kubernetes)]
        ids = {term.id for term in terms if term.id}
        ids |= {found for term in terms if not term.id for found in await self._of_parameter(term)}
        queries = [_Query({"Filters": [where("image-id", *sorted(ids))]})] if ids else []
        return queries + [_of_term(term) for term in terms if not term.id and (term.name or term.tags)]

    async def _of_alias(self, text: str, kubernetes: str) -> _Query:
        alias = parse_alias(text)
        check_alias(alias, kubernetes)
        mutable = alias.is_latest
        variants: dict[str, tuple[Variant, ...]] = {}
        for each in published(alias, kubernetes):
            try:
                image = await self._ssm.published(each.path, mutable=mutable)
            except ResourceNotFound:
                continue
            variants[image] = variants.get(image, ()) + each.variants
        if not variants:
            raise CloudUnreachable(f"AWS publishes no image for alias {text} and Kubernetes {kubernetes}")
        return _Query({"Filters": [where("image-id", *sorted(variants))]}, variants)

    async def _of_parameter(self, term: AMISelectorTerm) -> tuple[str, ...]:
        if not term.ssm_parameter:
            return ()
        try:
            value = await self._ssm.own(term.ssm_parameter)
        except ResourceNotFound:
            log.warning("image.parameter_missed", parameter=term.ssm_parameter)
            return ()
        if not value.startswith(_ID):
            log.warning("image.parameter_holds_no_image", parameter=term.ssm_parameter, value=value)
            return ()
        return (value,)

    async def _describe(self, queries: Iterable[_Query]) -> tuple[FoundImage, ...]:
        best: dict[tuple[ImageRequirement, ...], FoundImage] = {}
        for query in queries:
            for image in await self._describe_images(query):
                held = best.get(image.requirements)
                if held is None or image.rank > held.rank:
                    best[image.requirements] = image
        newest_first = sorted(best.values(), key=lambda each: each.id)
        return tuple(sorted(newest_first, key=lambda each: each.created, reverse=True))

    async def _describe_images(self, query: _Query) -> list[FoundImage]:
        parameters = dict(query.parameters)
        # AMIs that are pending, failed or deregistered cannot be launched.
        parameters["Filters"] = [*parameters["Filters"], where("state", "available")]
        images = await self._aws.list_all(
            "ec2", "DescribeImages", "Images", IncludeDeprecated=True, MaxResults=_PAGE_SIZE, **parameters
        )
        return [image for each in images for image in self._images(each, query.variants)]

    def _images(
        self, response: ApiResponse, variants: Mapping[str, tuple[Variant, ...]]
    ) -> Iterable[FoundImage]:
        arch = ARCHITECTURES.get(response.get("Architecture", ""))
        if arch is None:
            return
        ends = _moment(response.get("DeprecationTime"))
        for variant in variants.get(response["ImageId"], ((),)):
            requirements = (*variant, ImageRequirement(key=ARCH, operator="In", values=(arch,)))
            yield FoundImage(
                id=response["ImageId"],
                name=response.get("Name", ""),
                created=_moment(response.get("CreationDate")) or _OLDEST,
                deprecated=ends is not None and ends <= self._clock.now(),
                requirements=tuple(sorted(requirements, key=lambda each: (len(each.key), each.key))),
            )


def as_status(images: Iterable[FoundImage]) -> tuple[AMI, ...]:
    """Return AMIs as the status of a node class lists them."""
    return tuple(
        AMI(id=each.id, name=each.name, deprecated=each.deprecated, requirements=each.requirements)
        for each in images
    )


def _of_term(term: AMISelectorTerm) -> _Query:
    named = [where("name", term.name)] if term.name else []
    query: dict[str, Any] = {"Filters": [*named, *by_tags(term.tags)]}
    if term.owner:
        query["Owners"] = [term.owner]
    elif term.name:
        query["Owners"] = list(_DEFAULT_OWNERS)
    return _Query(query)


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class ImageChoice:
    """Maps instance types to the AMIs of a node class."""

    def __init__(self, images: Iterable[AMI]) -> None:
        self._images = [(each, Requirements.from_entries(each.requirements)) for each in images]

    def image_of(self, kind: InstanceType) -> AMI | None:
        """Return the AMI of an instance type: the first, and so the newest, that is for it."""
        return next(
            (image for image, needed in self._images if kind.requirements.conflict(needed) is None), None
        )

    def by_image(self, kinds: Iterable[InstanceType]) -> dict[str, list[InstanceType]]:
        """Return the instance types by the id of their AMI; those without one are left out."""
        found: dict[str, list[InstanceType]] = {}
        for kind in kinds:
            image = self.image_of(kind)
            if image is not None:
                found.setdefault(image.id, []).append(kind)
        return found


def image_ids(images: Sequence[AMI]) -> tuple[str, ...]:
    """Return the ids of AMIs, sorted: equal for equal sets of AMIs."""
    return tuple(sorted(each.id for each in images))
