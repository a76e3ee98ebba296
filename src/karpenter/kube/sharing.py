"""
Holding many objects that are nearly alike in the memory of a few.

Pods of one owner differ in their names, their nodes and little else. :func:`share` makes the equal parts of
two objects one and the same, so that twenty thousand pods take the room of their differences. A new version
of an object shares what did not change with the one before, which also lets anyone see at a glance what
changed: ``before.spec is after.spec``.

Values never change: a part is only ever replaced by one that equals it. Plain dictionaries are left alone,
since whoever holds them may write to them.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import force_setattr

_Fields = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]
"""The names of a struct's fields, and how to read them all at once."""

_FIELDS: dict[type, _Fields] = {}


def share(new: object, old: object) -> None:
    """Let `new` use the parts of `old` that equal its own, at any depth; both must be structs of one type."""
    if not isinstance(new, msgspec.Struct) or type(new) is not type(old):
        return
    names, read = _FIELDS.get(type(new)) or _fields(type(new))
    for name, mine, other in zip(names, read(new), read(old), strict=True):
        if mine is other or type(mine) is not type(other):
            continue
        if mine == other:
            force_setattr(new, name, other)
        elif isinstance(mine, tuple):
            if len(mine) == len(other):
                force_setattr(new, name, tuple(map(_shared, mine, other)))
        else:
            share(mine, other)


def _shared(mine: Any, other: Any) -> Any:
    if mine == other and type(mine) is type(other):
        return other
    share(mine, other)
    return mine


def _fields(kind: type[msgspec.Struct]) -> _Fields:
    names = kind.__struct_fields__
    # A getter of one name returns a bare value, and there is none of no name: use the slow way for those.
    read = attrgetter(*names) if len(names) > 1 else msgspec.structs.astuple
    _FIELDS[kind] = (names, read)
    return _FIELDS[kind]
