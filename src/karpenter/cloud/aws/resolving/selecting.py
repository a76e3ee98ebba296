"""Selector terms as the filters of EC2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY: Final = "*"

Filter: TypeAlias = "dict[str, Any]"


def by_tags(tags: Mapping[str, str]) -> list[Filter]:
    """Return filters that let through what has all of these tags."""
    return [
        where("tag-key", key) if value == ANY else where(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def where(name: str, *values: str) -> Filter:
    """Return one filter: one of these values."""
    return {"Name": name, "Values": list(values)}


def key_of(terms: object) -> bytes:
    """Return what terms are remembered by; the same for the same terms."""
    return msgspec.json.encode(terms, order="deterministic")
