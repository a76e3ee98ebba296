"""Which image an instance type starts from: the first, and so the newest, that is for types like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.ec2.status import AMI
    from karpenter.core.model.catalog import InstanceType


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
