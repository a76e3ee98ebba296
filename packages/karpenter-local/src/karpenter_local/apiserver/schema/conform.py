"""
Bring an object of a built-in kind into the form in which the API would write it.

Unknown fields are taken out and named; values of a wrong type are refused in the API's words; quantities
and times are written canonically; fields are left out or kept when empty as the kind has it. Works in
place. Defaults and rules come later; they can rely on every value having its type.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from karpenter.base.quantity import QuantityError, parse_quantity
from karpenter_local.apiserver.bodies import json_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from karpenter_local.apiserver.schema.types import FieldType, TypeDefinition, TypeField

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").fullmatch
# Leases have times with microseconds, other objects with seconds:
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
_MICROSECONDS = re.compile(r".*T\d\d:\d\d:\d\d\.\d{6}(Z|[+-].*)").fullmatch
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_ZEROS: dict[str, Any] = {"s": "", "b": False, "i": 0, "l": 0, "d": 0, "q": "0", "x": 0}


class Mismatch(ValueError):  # noqa: N818  reads as what is the matter
    """A value that cannot be read as its field's type; the text is the API's."""

    def __init__(self, text: str, where: Any) -> None:
        super().__init__(text)
        self.field = path_of(where)
        """Where the value is; the text of the API says it without indices, or not at all."""


def conform(
    value: Any,
    definition: TypeDefinition,
    touched: Collection[str] | None = None,
    before: Mapping[str, Any] | None = None,
) -> list[str]:
    """
    Bring `value` into shape; return the paths of unknown fields, in order.

    `touched` names the fields at the top that are not in shape already; without it, all are looked at. What
    `value` shares with `before`, at the top or one below, is in shape, too.
    """
    unknown: list[str] = []
    _struct(value, definition, None, unknown, touched, before)
    return unknown


def zero(definition: TypeDefinition) -> dict[str, Any]:
    """Return the struct as it is written when nothing is set."""
    return {field.name: _empty(field) for field in definition.kept}


def _empty(field: TypeField) -> Any:
    if field.type.code == "#":
        return zero(field.type.definition)
    return _ZEROS.get(field.type.code)


def _changed(value: Any, touched: Collection[str] | None, before: Mapping[str, Any]) -> list[str]:
    """Return the fields that may not be in shape."""
    return [
        key
        for key, part in value.items()
        if (touched is None or key in touched) and (part is None or part is not before.get(key))
    ]


def _struct(  # noqa: PLR0917  the last two are there for speed alone
    value: Any,
    definition: TypeDefinition,
    where: Any,
    unknown: list[str],
    touched: Collection[str] | None = None,
    before: Mapping[str, Any] | None = None,
) -> Any:
    fields = definition.fields
    for key in list(value) if touched is None and before is None else _changed(value, touched, before or {}):
        field = fields.get(key)
        if field is None:
            del value[key]
            unknown.append(path_of((where, key)))
            continue
        given = value[key]
        if given is None:
            if field.empty != "k":
                del value[key]
            continue
        code = field.type.code
        if code == "s" and type(given) is str:  # most fields are
            read: Any = given
        elif before is not None and code == "#" and type(given) is dict:
            read = _struct(given, field.type.definition, (where, key), unknown, None, before.get(key))
        else:
            read = _READERS[code](given, field.type, (where, key), unknown, definition)
        if read is not given:
            value[key] = read
        if not read and field.empty == "o" and read is not None:
            del value[key]
    if definition.kept:
        _keep_empty(value, definition)
    return value


def _keep_empty(value: dict[str, Any], definition: TypeDefinition) -> None:
    for field in definition.kept:
        if value.get(field.name) is None:
            value[field.name] = _empty(field)


def _wrong(value: Any, type_: FieldType | str, where: Any, definition: TypeDefinition) -> Mismatch:
    got = json_type(value)
    want = type_ if isinstance(type_, str) else type_.go()
    if got == "number" and want.startswith("int"):
        got = f"number {value}"
    path = path_of(where, indices=False)
    return Mismatch(
        f"json: cannot unmarshal {got} into Go struct field {definition.short}.{path} of type {want}", where
    )


def path_of(where: Any, *, indices: bool = True) -> str:
    """Return a place as text: ``spec.containers[0].image``."""
    steps: list[str | int] = []
    while where is not None:
        where, step = where
        steps.append(step)
    text = ""
    for step in reversed(steps):
        if isinstance(step, int):
            text += f"[{step}]" if indices else ""
        else:
            text += f".{step}" if text else step
    return text


def _object(value: Any, type_: FieldType, where: Any, unknown: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not dict:
        raise _wrong(value, type_, where, owner)
    return _struct(value, type_.definition, where, unknown)


def _list(value: Any, type_: FieldType, where: Any, unknown: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not list:
        raise _wrong(value, type_, where, owner)
    inner = type_.inner
    assert inner is not None
    read = _READERS[inner.code]
    for index, item in enumerate(value):
        if item is None:
            value[index] = zero(inner.definition) if inner.code == "#" else _ZEROS.get(inner.code)
        else:
            value[index] = read(item, inner, (where, index), unknown, owner)
    return value


def _map(value: Any, type_: FieldType, where: Any, unknown: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not dict:
        raise _wrong(value, type_, where, owner)
    inner = type_.inner
    assert inner is not None
    if inner.code == "s":
        for key, item in value.items():
            if type(item) is not str:
                if item is not None:
                    raise _wrong(item, inner, where, owner)
                value[key] = ""
        return value
    read = _READERS[inner.code]
    for key, item in value.items():
        if item is None:
            value[key] = zero(inner.definition) if inner.code == "#" else _ZEROS.get(inner.code)
        else:
            value[key] = read(item, inner, (where, key), unknown, owner)
    return value


def _string(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not str:
        raise _wrong(value, type_, where, owner)
    return value


def _bool(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not bool:
        raise _wrong(value, type_, where, owner)
    return value


def _int(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    low, high = _INT32 if type_.code == "i" else _INT64
    if type(value) is not int or not low <= value <= high:
        raise _wrong(value, type_, where, owner)
    return value


def _double(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not int and type(value) is not float:
        raise _wrong(value, type_, where, owner)
    return value


def _bytes(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not str:
        raise _wrong(value, type_, where, owner)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        bad = re.search(r"[^A-Za-z0-9+/=]", value)
        place = bad.start() if bad else len(value)
        raise Mismatch(f"illegal base64 data at input byte {place}", where) from None
    return value


def _time(value: Any, type_: FieldType, where: Any, _: list[str], owner: TypeDefinition) -> Any:
    if type(value) is not str:
        raise _wrong(value, "string", where, owner)
    if type_.code == "t" and _PLAIN_TIME(value):
        return value
    if type_.code == "u" and not _MICROSECONDS(value):
        raise _unreadable_time(value, type_, where)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise _unreadable_time(value, type_, where) from None
    if moment.tzinfo is None or "T" not in value:
        raise _unreadable_time(value, type_, where)
    moment = moment.astimezone(UTC)
    if type_.code == "t":
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _unreadable_time(value: str, type_: FieldType, where: Any) -> Mismatch:
    layout = "2006-01-02T15:04:05Z07:00" if type_.code == "t" else "2006-01-02T15:04:05.000000Z07:00"
    return Mismatch(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"', where)


def _quantity(value: Any, _: FieldType, where: Any, __: list[str], ___: TypeDefinition) -> Any:
    try:
        return canonical(value) if type(value) is str else str(parse_quantity(value))
    except QuantityError:
        raise Mismatch(_QUANTITY_RULE, where) from None


@lru_cache(maxsize=16384)
def canonical(text: str) -> str:
    """Return a quantity as the API writes it."""
    return str(parse_quantity(text))


def _int_or_string(value: Any, _: FieldType, where: Any, __: list[str], owner: TypeDefinition) -> Any:
    if type(value) is str or (type(value) is int and _INT32[0] <= value <= _INT32[1]):
        return value
    raise _wrong(value, "int32", where, owner)


def _any(value: Any, _: FieldType, __: Any, ___: list[str], ____: TypeDefinition) -> Any:
    return value


_READERS: dict[str, Callable[[Any, FieldType, Any, list[str], TypeDefinition], Any]] = {
    "s": _string,
    "b": _bool,
    "i": _int,
    "l": _int,
    "d": _double,
    "y": _bytes,
    "t": _time,
    "u": _time,
    "q": _quantity,
    "x": _int_or_string,
    "o": _any,
    "j": _any,
    "#": _object,
    "[": _list,
    "{": _map,
}
