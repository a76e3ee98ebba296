"""
Four values that change part of an object.

    MergePatch       fields with their new values; null removes one; a list is replaced whole (RFC 7386)
    JsonPatch        operations in order, with tests; all or nothing (RFC 6902)
    StrategicPatch   like MergePatch, but lists of built-in kinds are merged by key; not for custom resources
    Apply            all fields that we own of an object; the server keeps what other managers own

``version`` makes a merge or strategic patch conditional: the server answers Conflict if the object is no
longer at that resourceVersion. Use it whenever a list (conditions, taints, finalizers) is written whole.
See https://kubernetes.io/docs/reference/using-api/server-side-apply/.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec


class MergePatch(msgspec.Struct, frozen=True):
    """Fields as they shall be."""

    # https://www.rfc-editor.org/rfc/rfc7396
    content_type: ClassVar[str] = "application/merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        return msgspec.json.encode(_conditional(self.changes, self.version))


class StrategicPatch(msgspec.Struct, frozen=True):
    """Fields as they shall be; lists are merged by key."""

    # Lists of built-in kinds are merged by key; kinds of definitions do not have it:
    # https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
    content_type: ClassVar[str] = "application/strategic-merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        return msgspec.json.encode(_conditional(self.changes, self.version))


class JsonPatch(msgspec.Struct, frozen=True):
    """Operations in order; a test among them that fails undoes all."""

    # https://www.rfc-editor.org/rfc/rfc6902
    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[Mapping[str, Any]]

    def body(self) -> bytes:
        return msgspec.json.encode(self.operations)


class Apply(msgspec.Struct, frozen=True):
    """Everything that we own of an object."""

    # https://kubernetes.io/docs/reference/using-api/server-side-apply/
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
