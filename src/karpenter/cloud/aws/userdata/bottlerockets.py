"""Which version of Bottlerocket machines start from, as far as anyone says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.images.aliases import LATEST

if TYPE_CHECKING:
    from karpenter.api.ec2nodeclass import EC2NodeClass

_BINDS_BY_ITSELF: Final = (1, 46, 0)
_PARTS: Final = 3


def binds_directories(node_class: EC2NodeClass, image_name: str) -> bool:
    """Say whether the image is so old that it has to be told which directories go to local disks."""
    version = find_version(node_class, image_name)
    if version == LATEST:
        return False
    parts = version.lstrip("v").split("-")[0].split(".")
    if len(parts) < _PARTS or not all(part.isdigit() for part in parts[:_PARTS]):
        return True
    return tuple(map(int, parts[:_PARTS])) < _BINDS_BY_ITSELF


def find_version(node_class: EC2NodeClass, image_name: str) -> str:
    """Return the version that the alias, a selector by name or the image itself names; empty if none does."""
    alias = node_class.spec.alias
    if alias:
        return alias.partition("@")[2]
    for term in node_class.spec.ami_selector_terms:
        found = _version_in(term.name)
        if found:
            return found
    return _version_in(image_name) if "bottlerocket" in image_name else ""


def _version_in(name: str) -> str:
    return next((piece for piece in name.split("-") if piece.startswith("v") and "." in piece), "")
