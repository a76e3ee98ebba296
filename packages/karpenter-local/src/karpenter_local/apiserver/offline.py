"""
What this API server would say to a new object, without a server: its fields decoded, defaulted and judged.

``karpenter validate`` and ``karpenter plan`` ask :func:`create_problems` through the entry-point group
``karpenter.validation``. Nothing is stored, and what needs other objects is left out: admission, names that
are taken, and custom kinds, whose schemas are objects.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.schema.field import INVALID, FieldProblem
from karpenter.api.validation.objects import unknown_field
from karpenter_local.apiserver import conversion, errors, metadata
from karpenter_local.apiserver.resources import BUILT_IN, REVIEW, APIResource
from karpenter_local.apiserver.schema.conform import Mismatch, conform
from karpenter_local.apiserver.schema.types import TypeDefinition, built_in_types
from karpenter_local.apiserver.strategies import BUILT_IN as STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.field_errors import FieldError

_RESOURCES: Final[Mapping[tuple[str, str], APIResource]] = MappingProxyType(
    {(each.api_version, each.kind): each for each in BUILT_IN if each.verbs != REVIEW}
)
"""Kinds of which objects are stored, by apiVersion and kind."""

_STORED: Final[Mapping[str, APIResource]] = MappingProxyType(
    {each.table: each for each in BUILT_IN if each.stored}
)
_DEFAULT_NAMESPACE: Final = "default"
_WHOLE: Final = ""
"""The field of what is wrong with an object as a whole."""


def create_problems(plain: Mapping[str, Any]) -> tuple[FieldProblem, ...] | None:
    """
    Return what the server would hold against a new object; None for a kind that it does not serve.

    Unknown fields come first, as in a request with strict field validation; a value of a wrong type ends the
    search, as it does in the server. The object is left as it is.
    """
    resource = _RESOURCES.get((str(plain.get("apiVersion")), str(plain.get("kind"))))
    if resource is None:
        return None
    try:
        return tuple(dict.fromkeys(_problems(resource, plain)))
    except RecursionError:
        return (FieldProblem(_WHOLE, INVALID, "is nested deeper than any object"),)


def _problems(resource: APIResource, plain: Mapping[str, Any]) -> Iterator[FieldProblem]:
    try:
        value = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, UnicodeError) as error:
        yield FieldProblem(_WHOLE, INVALID, f"cannot be written as JSON: {error}")
        return
    definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
    assert definition is not None, resource.kind
    try:
        unknown = conform(value, definition)
    except Mismatch as error:
        yield FieldProblem(error.field, INVALID, str(error))
        return
    for path in unknown:
        yield unknown_field(path, _names_at(definition, path))
    try:
        for each in _judged(resource, value):
            yield FieldProblem(each.field, each.reason, each.message)
    except errors.APIStatusError as error:  # a version that cannot be converted
        yield FieldProblem(_WHOLE, INVALID, error.message)


class _Stamps:
    """Gives objects names and times that are as good as those of a server, and always the same."""

    def now(self) -> str:
        return "2026-01-01T00:00:00Z"

    def new_uid(self) -> str:
        return "00000000-0000-4000-8000-000000000000"

    def generate(self, prefix: str) -> str:
        return metadata.generated(prefix, "x" * metadata.SUFFIX_LENGTH)


_STAMPS: Final = _Stamps()


def _judged(resource: APIResource, value: Object) -> Sequence[FieldError]:
    if not resource.stored:
        value = conversion.to_stored(resource, value)
        resource = _STORED[resource.table]
    strategy = STRATEGIES[resource.table]
    meta = metadata.of(value)
    metadata.check_namespace(resource, meta, meta.get("namespace") or _DEFAULT_NAMESPACE)
    metadata.for_create(_STAMPS, resource, meta)
    strategy.default(value)
    strategy.prepare_create(resource, value)
    return strategy.validate_create(resource, value)


def _names_at(definition: TypeDefinition, path: str) -> list[str]:
    """Return the fields that there are beside an unknown one; none where the path cannot be followed."""
    steps = iter(path.split(".")[:-1])
    for step in steps:
        field = definition.fields.get(step.partition("[")[0])
        if field is None:  # a name with a point
            return []
        kind = field.type
        while kind.inner is not None:
            if kind.code == "{":
                next(steps, None)
            kind = kind.inner
        if kind.code != "#":
            return []
        definition = kind.definition
    return list(definition.fields)
