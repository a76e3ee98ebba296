"""From structs to schemas."""

from typing import Any, get_type_hints

import msgspec
import pytest

from karpenter.api.crd.definitions import (
    DEFINITIONS,
    describe_fields,
    describe_struct,
    struct_schema,
    type_schema,
)
from karpenter.api.meta import ObjectMeta, Wire, to_plain


class Inner(Wire, frozen=True, kw_only=True):
    """An inner thing."""

    count: int = 0
    """How many, as in ``3``."""


class Outer(Wire, frozen=True, kw_only=True):
    """
    A thing.

    It goes on
    for two lines.
    """

    inner: Inner
    names: tuple[str, ...] = ()
    flags: dict[str, bool] = msgspec.field(default_factory=dict)


def test_a_struct_is_an_object() -> None:
    """Fields are properties by their names on the wire, and those without a default are required."""
    assert struct_schema(Outer) == {
        "description": "A thing.\n\nIt goes on for two lines.",
        "type": "object",
        "required": ["inner"],
        "properties": {
            "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "inner": {
                "description": "An inner thing.",
                "type": "object",
                "properties": {
                    "count": {"description": "How many, as in `3`.", "type": "integer", "format": "int64"}
                },
            },
            "names": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_fields_are_described_below_them() -> None:
    """The text below a field describes it; a field without one is not described."""
    assert describe_fields(Inner) == {"count": "How many, as in `3`."}
    assert describe_fields(Outer) == {}


class More(Inner, frozen=True, kw_only=True):
    """A further thing."""

    size: int = 0
    """How large."""


def test_a_subclass_inherits_descriptions_and_may_replace_them() -> None:
    """What a base says about a field holds until someone says more."""
    assert describe_fields(More) == {"count": "How many, as in `3`.", "size": "How large."}
    assert describe_struct(More) == "A further thing."


@pytest.mark.parametrize("annotation", [complex, list[int], set[str]], ids=str)
def test_types_without_a_schema_are_a_mistake_of_ours(annotation: Any) -> None:
    """A field of a type that no schema describes is found when the definition is made."""
    with pytest.raises(TypeError, match="has no schema"):
        type_schema(annotation)


def structs(struct: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """Return a struct and all that its fields are made of."""
    found = {struct}
    for hint in get_type_hints(struct).values():
        for each in (hint, *getattr(hint, "__args__", ())):
            if isinstance(each, type) and issubclass(each, Wire) and each is not ObjectMeta:
                found |= structs(each)
    return found


def test_defaults_agree() -> None:
    """What a cluster fills in is what decoding fills in, so that a plan needs no cluster."""
    for definition in DEFINITIONS:
        for struct in structs(definition.kind.struct):
            for field in msgspec.structs.fields(struct):
                said = type_schema(field.type).get("default", msgspec.UNSET)
                if said is msgspec.UNSET:
                    continue
                filled = msgspec.convert(said, field.type)
                assert filled == field.default, f"{struct.__name__}.{field.name}"


SET_BY_THE_WRITER = {("Taint", "effect"), ("Condition", "lastTransitionTime")}
"""Required fields whose default is no value at all."""


def test_what_a_cluster_requires_is_always_written() -> None:
    """A field that a definition requires is written even where it holds its default."""
    for definition in DEFINITIONS:
        for struct in structs(definition.kind.struct):
            required = set(struct_schema(struct).get("required", ()))
            for field in msgspec.structs.fields(struct):
                omitted = field.default is not msgspec.NODEFAULT
                if field.encode_name in required and omitted:
                    assert (struct.__name__, field.encode_name) in SET_BY_THE_WRITER


def test_a_kind_without_a_status_writes_none() -> None:
    """What stands by default is not written."""
    assert to_plain(Outer(inner=Inner())) == {"inner": {}}
