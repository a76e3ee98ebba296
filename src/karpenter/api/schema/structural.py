"""
A structural schema: the OpenAPI subset by which a CustomResourceDefinition describes its objects.

Read once from plain data with :func:`load`; the other modules of this package walk it. Only the
parts that decide about objects are kept. Whether a schema is structural in every detail is the
business of whoever accepts definitions, not of this module.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from karpenter.api.errors import InvalidObject
from karpenter.api.wire import explain


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A CEL expression that must be true of the value beside which it stands."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", dict=True):
    """One node of a structural schema. What is found out about it once may be noted in its ``__dict__``."""

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = UNSET
    enum: tuple[Any, ...] | UnsetType = UNSET
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: dict[str, "Schema"] = field(default_factory=dict)
    additional_properties: "Schema | bool | None" = None
    items: "Schema | None" = None
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    not_: "Schema | None" = field(name="not", default=None)
    preserve_unknown: bool = field(name="x-kubernetes-preserve-unknown-fields", default=False)
    embedded: bool = field(name="x-kubernetes-embedded-resource", default=False)
    int_or_string: bool = field(name="x-kubernetes-int-or-string", default=False)
    list_type: str = field(name="x-kubernetes-list-type", default="")
    list_map_keys: tuple[str, ...] = field(name="x-kubernetes-list-map-keys", default=())
    map_type: str = field(name="x-kubernetes-map-type", default="")
    rules: tuple[Rule, ...] = field(name="x-kubernetes-validations", default=())

    @property
    def values(self) -> "Schema | None":
        """The schema of a map's values; none when this is no map of known values."""
        return self.additional_properties if isinstance(self.additional_properties, Schema) else None

    def member(self, name: str) -> "Schema | None":
        """Return the schema of one member of an object or map; none when it is unknown."""
        return self.properties.get(name, self.values)


def load(plain: object) -> Schema:
    """
    Read a schema from plain data, such as ``spec.versions[].schema.openAPIV3Schema``.

    Raises:
        InvalidObject: if the data is no schema.
    """
    try:
        return msgspec.convert(plain, Schema)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        raise InvalidObject(subject="schema", field=place, problem=problem) from error
    except (RecursionError, UnicodeError) as error:
        raise InvalidObject(subject="schema", problem="nested too deep, or not text") from error
