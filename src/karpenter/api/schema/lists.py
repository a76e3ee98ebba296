"""Whether the lists that are sets or maps hold each of their members once."""

from collections.abc import Iterable, Iterator
from typing import Any

from karpenter.api.schema import paths
from karpenter.api.schema.correlation import identity
from karpenter.api.schema.problems import FieldProblem, duplicate, invalid
from karpenter.api.schema.structural import Schema


def check_lists(schema: Schema, value: Any, path: str = "") -> Iterator[FieldProblem]:
    """Find members that occur twice where they may occur once, at any depth."""
    if isinstance(value, list):
        if schema.list_type == "set":
            for i in _repeated(value):
                yield duplicate(paths.index(path, i), value[i])
        elif schema.list_type == "map":
            yield from _check_keys(schema, value, path)
        if schema.items is not None:
            for i, item in enumerate(value):
                yield from check_lists(schema.items, item, paths.index(path, i))
    elif isinstance(value, dict):
        for name, member in value.items():
            known = schema.member(name)
            if known is not None:
                place = paths.child if name in schema.properties else paths.key
                yield from check_lists(known, member, place(path, name))


def _check_keys(schema: Schema, value: list[Any], path: str) -> Iterator[FieldProblem]:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(paths.index(path, i), item, "must be an object for an array of list-type map")
            return
    keys = [{name: item[name] for name in schema.list_map_keys if name in (item or ())} for item in value]
    for i in _repeated(keys):
        yield duplicate(paths.index(path, i), keys[i])


def _repeated(members: Iterable[Any]) -> list[int]:
    """Return where each repeated member occurs for the second time."""
    seen: dict[str, int] = {}
    repeated = []
    for i, member in enumerate(members):
        text = identity(member)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:  # noqa: PLR2004  the second time is the one that is too much
            repeated.append(i)
    return repeated
