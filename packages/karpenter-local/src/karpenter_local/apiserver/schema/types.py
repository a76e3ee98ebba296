"""
The definitions of the built-in kinds, read from the compressed file beside this module.

The file is written by ``controlplane/schema.py`` from what an API server publishes about itself. A type is
spelled in one letter and what it refers to:

    s string   b bool   i int32   l int64   d double   y bytes in base64   t time   u time with microseconds
    q quantity   x int or string   o any object   j any JSON
    #NAME a definition   [T a list   {T a map of strings to T
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

PREFIX = "io.k8s.api."


class FieldType:
    """The type of a field."""

    __slots__ = ("_definition", "code", "inner", "name")

    def __init__(self, spelled: str) -> None:
        self._definition: TypeDefinition | None = None
        self.code = spelled[0]
        self.inner = FieldType(spelled[1:]) if self.code in "[{" else None
        """What a list or map holds."""
        self.name = spelled[1:] if self.code == "#" else ""

    @property
    def definition(self) -> TypeDefinition:
        if self._definition is None:
            self._definition = built_in_types().definition(self.name)
        return self._definition

    def go(self) -> str:
        """Return the type as decoding errors name it."""
        match self.code:
            case "[":
                assert self.inner is not None
                return f"[]{self.inner.go()}"
            case "{":
                assert self.inner is not None
                return f"map[string]{self.inner.go()}"
            case "#":
                *_, version, short = self.name.split(".")
                return f"{version}.{short}"
            case code:
                return _GO[code]


_GO = {
    "s": "string",
    "b": "bool",
    "i": "int32",
    "l": "int64",
    "d": "float64",
    "y": "[]uint8",
    "t": "v1.Time",
    "u": "v1.MicroTime",
    "q": "resource.Quantity",
    "x": "intstr.IntOrString",
    "o": "runtime.RawExtension",
    "j": "JSON",
}


class TypeField:
    """One field of a definition."""

    __slots__ = (
        "empty",
        "enum",
        "list_keys",
        "list_type",
        "map_type",
        "merge_key",
        "merges",
        "name",
        "number",
        "strategy",
        "type",
    )

    def __init__(self, name: str, spelled: list[Any]) -> None:
        kind, number, empty, *rest = spelled
        options: dict[str, Any] = rest[0] if rest else {}
        self.name = name
        self.type = FieldType(kind)
        self.number: int = number
        """
        In protobuf; negative when it belongs to a struct that JSON shows inline, zero when there is none.
        """
        self.empty: str = empty
        """``p``: absent unless given; ``o``: left out when empty; ``k``: there even when empty."""
        self.list_type: str = options.get("lt", "")
        self.list_keys: tuple[str, ...] = tuple(options.get("lk", ()))
        self.map_type: str = options.get("mt", "")
        self.strategy: str = options.get("ps", "")
        self.merge_key: str = options.get("pk", "")
        self.merges = "merge" in self.strategy.split(",")
        """Whether a strategic merge patch merges the items of the list."""
        self.enum: tuple[str, ...] = tuple(options.get("e", ()))


class TypeDefinition:
    """A struct of the API."""

    __slots__ = ("atomic", "fields", "gvk", "inline", "kept", "name", "required")

    def __init__(self, name: str, spelled: dict[str, Any]) -> None:
        self.name = name
        self.fields = {key: TypeField(key, given) for key, given in spelled["f"].items()}
        self.required: tuple[str, ...] = tuple(spelled.get("r", ()))
        self.atomic = spelled.get("m") == "atomic"
        self.gvk: tuple[str, str, str] | None = tuple(spelled["g"]) if "g" in spelled else None
        self.inline: dict[int, dict[int, str]] = {
            int(outer): {int(number): field for number, field in inner.items()}
            for outer, inner in spelled.get("i", {}).items()
        }
        """In protobuf: the numbers of structs that JSON shows inline, and their fields."""
        self.kept = tuple(field for field in self.fields.values() if field.empty == "k")

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


class BuiltInTypes:
    """All definitions, unfolded as they are asked for."""

    def __init__(self, raw: bytes) -> None:
        document = msgspec.json.decode(raw)
        self.version: str = document["version"]
        self._spelled: dict[str, dict[str, Any]] = document["definitions"]
        self._known: dict[str, TypeDefinition] = {}
        self._kinds = {tuple(given["g"]): name for name, given in self._spelled.items() if "g" in given}

    def definition(self, name: str) -> TypeDefinition:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = TypeDefinition(name, self._spelled[name])
        return found

    def of_kind(self, group: str, version: str, kind: str) -> TypeDefinition | None:
        name = self._kinds.get((group, version, kind))
        return None if name is None else self.definition(name)

    def names(self) -> list[str]:
        return list(self._spelled)


@cache
def built_in_types() -> BuiltInTypes:
    return BuiltInTypes(zlib.decompress(files(__package__).joinpath("builtin.json.z").read_bytes()))
