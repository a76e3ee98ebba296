"""
One stored object: its JSON, and the few facts about it that selectors ask for.

The JSON is authoritative. A writer decodes a private copy of it, so nothing that is stored can be altered by
accident, and lists and watches return the bytes without encoding them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Object = dict[str, Any]
"""A decoded API object."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> bytes:
    """Return `value` as JSON."""
    return _encode(value)


class Entry:
    """An object at one revision. Immutable; `fields` may be given as a function of the object."""

    __slots__ = ("_fields", "key", "labels", "raw", "revision")

    def __init__(
        self,
        key: str,
        revision: int,
        raw: bytes,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | Callable[[Object], Mapping[str, str]],
    ) -> None:
        self.key = key
        """``namespace/name``, or the bare name of what has no namespace."""
        self.revision = revision
        self.raw = raw
        self.labels = labels
        self._fields = fields

    @property
    def fields(self) -> Mapping[str, str]:
        """What field selectors may ask for besides name and namespace; for most objects none ever does."""
        if callable(self._fields):
            self._fields = self._fields(self.object())
        return self._fields

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    def object(self) -> Object:
        copy: Object = _decode(self.raw)
        return copy


def key_of(namespace: str, name: str) -> str:
    """Return the key under which an object is stored; keys sort as the API lists them."""
    return f"{namespace}/{name}" if namespace else name
