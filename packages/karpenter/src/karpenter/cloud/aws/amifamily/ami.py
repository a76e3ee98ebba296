"""
Which images a class stands for: one for each sort of instance type, the newest that suits it.

Images that are found by an alias say which variant of instance types they are for; all others suit every type
of their architecture. An image that its owner has deprecated is taken only where there is no other.

Which image an instance type starts from: the first, and so the newest, that is for types like it.
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

_PAGE: Final = 1000
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)
_USUAL_OWNERS: Final = ("self", "amazon")
_ID: Final = "ami-"


class FoundImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that suits some instance types."""

    id: str
    name: str
    created: datetime
    deprecated: bool
    requirements: tuple[ImageRequirement, ...]

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """Which of two images for the same types is taken: the one of higher rank."""
        return not self.deprecated, self.created, self.name


class _Query(msgspec.Struct, frozen=True):
    """One question about images, and the variants that the answers are for, by the image's id."""

    parameters: dict[str, Any]
    variants: dict[str, tuple[Variant, ...]] = {}


class AMIProvider:
    """Finds images."""

    def __init__(self, aws: AwsApi, parameters: SSMProvider, *, clock: Clock, seconds: float) -> None:
        self._aws = aws
        self._parameters = parameters
        self._clock = clock
        self._found: TTLCache[tuple[str, int, bytes], tuple[FoundImage, ...]] = TTLCache(
            seconds=seconds, monotonic=clock.monotonic
        )

    async def find(self, node_class: EC2NodeClass, kubernetes: str) -> tuple[FoundImage, ...]:
        """
        Return the images of a class, the newest first; `kubernetes` is a version such as ``1.33``.

        Raises:
            UnsupportedAlias: there are no images for that alias, and there will be none.
            CloudError: AWS does not answer, or publishes nothing under the alias.
        """
        queries = await self._queries(node_class, kubernetes)
        key = (node_class.metadata.uid, node_class.metadata.generation, msgspec.json.encode(queries))
        return await self._found.get(key, lambda: self._look(queries))

    async def deprecated(self, image: str) -> bool:
        """Say whether the owner of an image has deprecated it, or it is gone."""
        found = await self._ask(_Query({"Filters": [where("image-id", image)]}))
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
                image = await self._parameters.published(each.path, mutable=mutable)
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
            value = await self._parameters.own(term.ssm_parameter)
        except ResourceNotFound:
            log.warning("image.parameter_missed", parameter=term.ssm_parameter)
            return ()
        if not value.startswith(_ID):
            log.warning("image.parameter_holds_no_image", parameter=term.ssm_parameter, value=value)
            return ()
        return (value,)

    async def _look(self, queries: Iterable[_Query]) -> tuple[FoundImage, ...]:
        best: dict[tuple[ImageRequirement, ...], FoundImage] = {}
        for query in queries:
            for image in await self._ask(query):
                held = best.get(image.requirements)
                if held is None or image.rank > held.rank:
                    best[image.requirements] = image
        newest_first = sorted(best.values(), key=lambda each: each.id)
        return tuple(sorted(newest_first, key=lambda each: each.created, reverse=True))

    async def _ask(self, query: _Query) -> list[FoundImage]:
        parameters = dict(query.parameters)
        parameters["Filters"] = [*parameters["Filters"], where("state", "available")]
        told = await self._aws.list_all(
            "ec2", "DescribeImages", "Images", IncludeDeprecated=True, MaxResults=_PAGE, **parameters
        )
        return [image for each in told for image in self._images(each, query.variants)]

    def _images(self, told: ApiResponse, variants: Mapping[str, tuple[Variant, ...]]) -> Iterable[FoundImage]:
        arch = ARCHITECTURES.get(told.get("Architecture", ""))
        if arch is None:
            return
        ends = _moment(told.get("DeprecationTime"))
        for variant in variants.get(told["ImageId"], ((),)):
            requirements = (*variant, ImageRequirement(key=ARCH, operator="In", values=(arch,)))
            yield FoundImage(
                id=told["ImageId"],
                name=told.get("Name", ""),
                created=_moment(told.get("CreationDate")) or _OLDEST,
                deprecated=ends is not None and ends <= self._clock.now(),
                requirements=tuple(sorted(requirements, key=lambda each: (len(each.key), each.key))),
            )


def as_status(images: Iterable[FoundImage]) -> tuple[AMI, ...]:
    """Return images as the status of a class lists them."""
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
        query["Owners"] = list(_USUAL_OWNERS)
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
    """The images of a class, ready to be chosen from."""

    def __init__(self, images: Iterable[AMI]) -> None:
        self._images = [(each, Requirements.from_entries(each.requirements)) for each in images]

    def image_of(self, kind: InstanceType) -> AMI | None:
        """Return the image for an instance type; None when none of them is."""
        return next(
            (image for image, needed in self._images if kind.requirements.conflict(needed) is None), None
        )

    def by_image(self, kinds: Iterable[InstanceType]) -> dict[str, list[InstanceType]]:
        """Return the instance types by the id of their image; those without one are left out."""
        found: dict[str, list[InstanceType]] = {}
        for kind in kinds:
            image = self.image_of(kind)
            if image is not None:
                found.setdefault(image.id, []).append(kind)
        return found


def image_ids(images: Sequence[AMI]) -> tuple[str, ...]:
    """Return the ids of images, sorted: what tells one set of images from another."""
    return tuple(sorted(each.id for each in images))
