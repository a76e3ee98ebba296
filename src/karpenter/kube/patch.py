"""
The four ways to change part of an object, as values.

    MergePatch       fields as they shall be; null removes one; lists are replaced whole (RFC 7386) JsonPatch
    operations in order, with tests; all or nothing (RFC 6902) StrategicPatch   like merge, but lists of
    built-in kinds are merged by their keys; not for custom resources Apply            everything that we own
    of an object; the server keeps what others own, and names conflicts

``version`` makes a merge or strategic patch conditional: if the object is no longer at that resourceVersion,
the server answers Conflict. Use it whenever a list (conditions, taints, finalizers) is written whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec


class MergePatch(msgspec.Struct, frozen=True):
    """Fields as they shall be."""

    content_type: ClassVar[str] = "application/merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(_conditional(self.changes, self.version))


class StrategicPatch(msgspec.Struct, frozen=True):
    """Fields as they shall be; lists are merged by key."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(_conditional(self.changes, self.version))


class JsonPatch(msgspec.Struct, frozen=True):
    """Operations in order; a test among them that fails undoes all."""

    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[Mapping[str, Any]]

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(self.operations)


class Apply(msgspec.Struct, frozen=True):
    """Everything that we own of an object."""

    content_type: ClassVar[str] = "application/apply-patch+yaml"

    object: Mapping[str, Any]
    force: bool = True
    """Take over fields that others own, instead of answering Conflict."""

    def body(self) -> bytes:
        """Write the object; JSON is YAML."""
        return msgspec.json.encode(self.object)


Patch: TypeAlias = MergePatch | StrategicPatch | JsonPatch | Apply


def pointer(*parts: str) -> str:
    """Return the JSON pointer to a field, such as ``/metadata/annotations/karpenter.sh~1nodepool-hash``."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _conditional(changes: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    if not version:
        return changes
    return {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": version}}
