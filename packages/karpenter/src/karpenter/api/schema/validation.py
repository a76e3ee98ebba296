"""
Validation by a structural schema: types, bounds, patterns, required fields, and uniqueness in lists.

:func:`check` returns everything wrong with one object: its values, its lists, and the CEL rules that it
breaks (:mod:`.rules`), in the API server's order and words. A value that an update leaves unchanged is not
checked again, so that a schema which became stricter does not block unrelated changes (ratcheting
validation).
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import UNSET

from karpenter.api.schema import field
from karpenter.api.schema.cel import matches
from karpenter.api.schema.field import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldProblem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from karpenter.api.schema.formats import is_of_format
from karpenter.api.schema.rules import check_rules, has_rules
from karpenter.api.schema.structural import (
    ABSENT,
    Schema,
    held,
    identity,
    is_whole,
    old_item,
    old_member,
    unchanged,
)

_EMBEDDED = ("apiVersion", "kind")


def check_value(schema: Schema, value: Any, path: str = "", *, old: object = ABSENT) -> list[FieldProblem]:
    """Return what is wrong with `value`; nothing when an update leaves it as it was."""
    if unchanged(old, value):
        return []
    return list(_check(schema, value, path, old))


def _check(schema: Schema, value: Any, path: str, old: object) -> Iterator[FieldProblem]:
    if value is None and schema.nullable:
        return
    yield from _check_type(schema, value, path)
    yield from _check_alternatives(schema, value, path)
    match value:
        case str():
            yield from _check_text(schema, value, path)
        case bool() | None:
            pass
        case int() | float():
            yield from _check_number(schema, value, path)
        case list():
            yield from _check_list(schema, value, path, old)
    if schema.enum is not UNSET and not _is_one_of(value, schema.enum):
        yield not_supported(path, value, schema.enum)
    if isinstance(value, dict):
        yield from _check_object(schema, value, path, old)


_TYPE_NAMES: Mapping[type, str] = MappingProxyType(
    {
        type(None): "null",
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
)


def type_name(value: object) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _allowed_types(schema: Schema) -> tuple[str, ...]:
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else ()


def _check_type(schema: Schema, value: object, path: str) -> Iterator[FieldProblem]:
    allowed = _allowed_types(schema)
    if not allowed or _is_of_type(value, allowed):
        return
    wanted, found = ",".join(allowed), type_name(value)
    if schema.format and not isinstance(value, str | list | None):
        wanted, found = schema.format, {int: "int64", float: "float64"}.get(type(value), "")
    yield type_invalid(path, found, f'{path} in body must be of type {wanted}: "{found}"')


def _is_of_type(value: object, allowed: tuple[str, ...]) -> bool:
    found = type_name(value)
    if found in allowed:
        return True
    if found == "integer":
        return "number" in allowed
    return isinstance(value, float) and "integer" in allowed and is_whole(value)


def _check_text(schema: Schema, value: str, path: str) -> Iterator[FieldProblem]:
    if schema.max_length is not None and len(value) > schema.max_length:
        yield too_long(path, schema.max_length)
    elif schema.min_length is not None and len(value) < schema.min_length:
        yield invalid(path, value, f"{path} in body should be at least {schema.min_length} chars long")
    elif schema.pattern and not matches(schema.pattern, value):
        yield invalid(path, value, f"{path} in body should match '{schema.pattern}'")
    if schema.format and not is_of_format(schema.format, value):
        found = value.replace('"', '\\"')
        yield type_invalid(path, value, f'{path} in body must be of type {schema.format}: "{found}"')


def _check_number(schema: Schema, value: float, path: str) -> Iterator[FieldProblem]:
    low, high = schema.minimum, schema.maximum
    value = held(value)
    if schema.type == "integer" and not (
        is_whole(value) and (schema.format != "int32" or -(2**31) <= value < 2**31)
    ):
        form = f" with format {schema.format}" if schema.format else " (default format)"
        yield invalid("", "", f"Checked value must be of type integer{form} in {path}")
    if schema.multiple_of and value % schema.multiple_of != 0:
        yield invalid(path, value, f"{path} in body should be a multiple of {schema.multiple_of}")
    if high is not None and (value >= high if schema.exclusive_maximum else value > high):
        orequal = "" if schema.exclusive_maximum else " or equal to"
        yield invalid(path, value, f"{path} in body should be less than{orequal} {high}")
    if low is not None and (value <= low if schema.exclusive_minimum else value < low):
        orequal = "" if schema.exclusive_minimum else " or equal to"
        yield invalid(path, value, f"{path} in body should be greater than{orequal} {low}")


def _check_list(schema: Schema, value: list[Any], path: str, old: object) -> Iterator[FieldProblem]:
    if schema.items is not None:
        for i, item in enumerate(value):
            past = old_item(schema, old, item)
            yield from check_value(schema.items, item, field.index(path, i), old=past)
    if schema.min_items is not None and len(value) < schema.min_items:
        yield invalid(path, len(value), f"{path} in body should have at least {schema.min_items} items")
    if schema.max_items is not None and len(value) > schema.max_items:
        yield too_many(path, len(value), schema.max_items)


def _check_object(schema: Schema, value: dict[str, Any], path: str, old: object) -> Iterator[FieldProblem]:
    count = len(value)
    if schema.min_properties is not None and count < schema.min_properties:
        yield invalid(path, count, f"{path} in body should have at least {schema.min_properties} properties")
    if schema.max_properties is not None and count > schema.max_properties:
        yield too_many(path, count, schema.max_properties)
    for name in (*schema.required, *(_EMBEDDED if schema.embedded else ())):
        if name not in value:
            yield required(field.child(path, name))
    for name, member in value.items():
        known = schema.member(name)
        if known is not None:
            past = old_member(old, name)
            yield from check_value(known, member, field.child(path, name), old=past)


def _check_alternatives(schema: Schema, value: object, path: str) -> Iterator[FieldProblem]:
    place = path or "."
    yield from _check_all(schema.all_of, value, path)
    if schema.any_of and all(check_value(each, value, path) for each in schema.any_of):
        yield invalid("", "", f'"{place}" must validate at least one schema (anyOf)')
        yield from _closest(schema.any_of, value, path)
    if schema.one_of:
        found = sum(not check_value(each, value, path) for each in schema.one_of)
        if found != 1:
            how_many = f"Found {found} valid alternatives" if found else "Found none valid"
            yield invalid("", "", f'"{place}" must validate one and only one schema (oneOf). {how_many}')
        if found == 0:
            yield from _closest(schema.one_of, value, path)
    if schema.not_ is not None and not check_value(schema.not_, value, path):
        yield invalid("", "", f'"{place}" must not validate the schema (not)')


def _check_all(parts: tuple[Schema, ...], value: object, path: str) -> Iterator[FieldProblem]:
    tried = [check_value(each, value, path) for each in parts]
    if any(tried):
        none = ". None validated" if all(tried) else ""
        yield invalid("", "", f'"{path or "."}" must validate all the schemas (allOf){none}')
    for found in tried:
        yield from found


def _closest(alternatives: tuple[Schema, ...], value: object, path: str) -> list[FieldProblem]:
    """Return the problems of the alternative that fits best: the first with the fewest wrong types."""
    tried = [check_value(each, value, path) for each in alternatives]
    return min(tried, key=lambda found: sum(problem.reason == TYPE_INVALID for problem in found))


def _is_one_of(value: object, allowed: tuple[Any, ...]) -> bool:
    """Say whether `value` is listed, where true is not 1."""
    return any(isinstance(value, bool) == isinstance(each, bool) and value == each for each in allowed)


def check_lists(
    schema: Schema, value: Any, path: str = "", *, old: object = ABSENT
) -> Iterator[FieldProblem]:
    """Find members that occur twice where they may occur once, at any depth; not in what is as it was."""
    if isinstance(value, list):
        if schema.list_type == "set":
            for i in _repeated(value):
                yield duplicate(field.index(path, i), value[i])
        elif schema.list_type == "map":
            yield from _check_keys(schema, value, path)
        if schema.items is not None:
            for i, item in enumerate(value):
                yield from check_lists(schema.items, item, field.index(path, i))
    elif isinstance(value, dict):
        for name, member in value.items():
            known, past = schema.member(name), old_member(old, name)
            if known is not None and not unchanged(past, member):
                place = field.child if name in schema.properties else field.key
                yield from check_lists(known, member, place(path, name), old=past)


def _check_keys(schema: Schema, value: list[Any], path: str) -> Iterator[FieldProblem]:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(field.index(path, i), item, "must be an object for an array of list-type map")
            return
    keys = [{name: item[name] for name in schema.list_map_keys if name in (item or ())} for item in value]
    for i in _repeated(keys):
        yield duplicate(field.index(path, i), keys[i])


def _repeated(members: Iterable[Any]) -> list[int]:
    """Return where each repeated member occurs for the second time."""
    seen: dict[str, int] = {}
    repeated = []
    for i, member in enumerate(members):
        text = identity(member)
        seen[text] = seen.get(text, 0) + 1
        # The API server reports a duplicate once, however often the member occurs.
        if seen[text] == 2:  # noqa: PLR2004  the second time is the one that is too much
            repeated.append(i)
    return repeated


# The API server skips CEL rules after these errors, because rules could not be evaluated on such objects:
# https://github.com/kubernetes/apiextensions-apiserver
_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def check(schema: Schema, value: dict[str, Any], *, old: object = ABSENT) -> tuple[FieldProblem, ...]:
    """
    Return everything wrong with an object: its values, its lists, and the rules it breaks.

    `old` is what an update replaces. Rules are not asked about an object whose shape is wrong, since
    their answers would be about something else; the last problem then says so.
    """
    problems = (*check_value(schema, value, old=old), *check_lists(schema, value, old=old))
    found = tuple(dict.fromkeys(problems))
    if any(problem.reason in _BLOCKING for problem in found):
        return (*found, invalid("", None, _NOT_CHECKED)) if has_rules(schema) else found
    return (*found, *check_rules(schema, value, old=old, root=True))
