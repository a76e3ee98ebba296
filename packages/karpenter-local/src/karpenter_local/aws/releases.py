"""
What AWS publishes for EKS at a release: images of all families, their names, and who holds their ids.

A release is a date. Its images can be had as the latest ones, or by the version that bears the date.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cloud.aws.amifamily.alias import Alias, UnsupportedAlias, check_alias, published

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The date of the first release; one follows every week."""

_LINUX: Final = ("al2", "al2023")
_WINDOWS: Final = ("windows2019", "windows2022", "windows2025")
_FIRST_BOTTLEROCKET: Final = 50


class ReleasedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image of a release."""

    name: str
    arch: str
    parameters: tuple[str, ...]
    root_device: str = "/dev/xvda"


def released(number: int) -> datetime:
    return FIRST + timedelta(days=7) * number


def images_of(number: int, kubernetes: str) -> Iterator[ReleasedImage]:
    date = released(number)
    for family in _LINUX:
        for latest, pinned in _paths(family, f"v{date:%Y%m%d}", kubernetes):
            name = pinned.split("/")[-2]
            yield ReleasedImage(name=name, arch=_arch(pinned), parameters=(latest, pinned))
    version = f"1.{_FIRST_BOTTLEROCKET + number}.0"
    for latest, pinned in _paths("bottlerocket", f"v{version}", kubernetes):
        variant, arch = pinned.split("/")[4:6]
        name = f"bottlerocket-{variant}-{arch}-v{version}"
        yield ReleasedImage(name=name, arch=_arch(pinned), parameters=(latest, pinned))
    for family in _WINDOWS:
        for latest, _ in _paths(family, "", kubernetes):
            name = f"{latest.split('/')[-2]}-{date:%Y.%m.%d}"
            yield ReleasedImage(name=name, arch="x86_64", parameters=(latest,), root_device="/dev/sda1")


def _paths(family: str, version: str, kubernetes: str) -> Iterator[tuple[str, str]]:
    """
    Yield the parameters of the latest image and of the one of a version, variant by variant.

    There are none of families that AWS does not publish for the version of Kubernetes.
    """
    try:
        check_alias(Alias(family, version), kubernetes)
    except UnsupportedAlias:
        return
    latest = published(Alias(family, "latest"), kubernetes)
    pinned = published(Alias(family, version), kubernetes)
    for newest, fixed in zip(latest, pinned, strict=True):
        yield newest.path, fixed.path


def _arch(path: str) -> str:
    return "arm64" if "arm64" in path else "x86_64"
