# ruff: noqa: INP001  a script, not a package
"""
Write down the facts about the built-in kinds that the embedded API server ships with.

Reads the API's own descriptions of itself: the OpenAPI document that a running server publishes, and the
protobuf definitions of its groups (field numbers, because some clients send bodies in that encoding), with
the JSON tags beside them (which empty fields are left out and which are not). Keeps names, types, list
keys, merge keys, enumerations, numbers and tags; every sentence is left out.

    kubectl get --raw /openapi/v2 > openapi.json
    python controlplane/schema.py --openapi openapi.json --protos DIRECTORY [--protos DIRECTORY ...]

``DIRECTORY`` is searched for ``generated.proto`` and ``types*.go``. The result is one compressed file, read
by ``karpenter_local.apiserver.schema``.
"""

from __future__ import annotations

import argparse
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec

from karpenter_local.apiserver.resources import BUILT_IN

TARGET = (
    Path(__file__).parents[1] / "packages/karpenter-local/src/karpenter_local/apiserver/schema/builtin.json.z"
)

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "q",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "x",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "o",
    f"{_META}.Time": "t",
    f"{_META}.MicroTime": "u",
    f"{_META}.FieldsV1": "o",
    f"{_EXTENSIONS}.JSON": "j",
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": "j",
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": "j",
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": "j",
}
_PRIMITIVES = {
    ("string", None): "s",
    ("string", "byte"): "y",
    ("string", "date-time"): "t",
    ("boolean", None): "b",
    ("integer", "int32"): "i",
    ("integer", "int64"): "l",
    ("number", "double"): "d",
    ("object", None): "o",
}
_STRUCTS = frozenset("#tuqxo")
_EXTRA_KINDS = (
    f"{_META}.DeleteOptions",
    f"{_META}.Status",
    f"{_META}.ListMeta",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.authentication.v1.TokenRequest",
)
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\s*(?:optional |repeated )?(map<\s*\w+\s*,\s*[\w.]+\s*>|[.\w]+) (\w+) = (\d+);$", re.MULTILINE
)
_PACKAGE = re.compile(r"^package ([\w.]+);$", re.MULTILINE)

_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_TAG = re.compile(r'^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`json:"([^"]*)"', re.MULTILINE)

Message = dict[str, tuple[int, str]]
Tags = dict[str, str]
"""How an empty value is written: ``p`` never (it may be absent), ``o`` left out, ``k`` kept."""


def read_tags(folders: list[Path]) -> dict[str, Tags]:
    """Return how each struct writes its empty fields, by the struct's qualified protobuf name."""
    bodies: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("generated.proto")):
            package = _PACKAGE.search(path.read_text(encoding="utf-8"))
            assert package is not None, f"{path} names no package"
            for source in sorted(path.parent.glob("*types*.go")):
                for name, body in _STRUCT.findall(source.read_text(encoding="utf-8")):
                    bodies[f"{package.group(1)}.{name}"] = body

    def tags(name: str) -> Tags:
        found: Tags = {}
        for _, kind, tag in _TAG.findall(bodies.get(name, "")):
            json_name, *words = tag.split(",")
            if "inline" in words:
                inner = kind.rpartition(".")[2].lstrip("*")
                found |= tags(f"{name.rpartition('.')[0]}.{inner}")
            elif json_name:
                omits = "omitempty" in words or "omitzero" in words
                found[json_name] = (
                    "p" if kind.startswith("*") else "z" if "omitzero" in words else "o" if omits else "k"
                )
        return found

    return {name: tags(name) for name in bodies}


def read_protos(folders: list[Path]) -> dict[str, Message]:
    """Return the fields of every message: name to number and type, by the message's qualified name."""
    messages: dict[str, Message] = {}
    for folder in folders:
        for path in sorted(folder.rglob("generated.proto")):
            text = path.read_text(encoding="utf-8")
            package = _PACKAGE.search(text)
            assert package is not None, f"{path} names no package"
            for name, body in _MESSAGE.findall(text):
                fields = {field: (int(number), kind) for kind, field, number in _FIELD.findall(body)}
                messages[f"{package.group(1)}.{name}"] = fields
    return messages


def message_name(definition: str) -> str:
    """Return the protobuf name of an OpenAPI definition."""
    for prefix, package in (
        ("io.k8s.apiextensions-apiserver.", "k8s.io.apiextensions_apiserver."),
        ("io.k8s.apimachinery.", "k8s.io.apimachinery."),
        ("io.k8s.kube-aggregator.", "k8s.io.kube_aggregator."),
        ("io.k8s.api.", "k8s.io.api."),
    ):
        if definition.startswith(prefix):
            return package + definition.removeprefix(prefix)
    return definition


class Writer:
    """Collects the definitions that the served kinds reach."""

    def __init__(
        self, definitions: dict[str, Any], messages: dict[str, Message], tags: dict[str, Tags]
    ) -> None:
        self._source = definitions
        self._messages = messages
        self._tags = tags
        self._done: dict[str, Any] = {}

    def add(self, name: str) -> None:
        """Take a definition and everything that it refers to."""
        if name in self._done or name in _SCALARS:
            return
        source = self._source[name]
        target = self._done[name] = dict[str, Any]()
        properties = source.get("properties", {})
        numbers = self._messages.get(message_name(name), {})
        tags = self._tags.get(message_name(name), {})
        target["f"] = {
            field: self._field(given, numbers.get(field, (0, ""))[0], tags.get(field, "o"))
            for field, given in properties.items()
        }
        if source.get("required"):
            target["r"] = source["required"]
        if source.get("x-kubernetes-map-type"):
            target["m"] = source["x-kubernetes-map-type"]
        gvks = [
            [k["group"], k["version"], k["kind"]] for k in source.get("x-kubernetes-group-version-kind", [])
        ]
        if len(gvks) == 1:
            target["g"] = gvks[0]
        self._inline(name, target, numbers)

    def _inline(self, name: str, target: dict[str, Any], numbers: Message) -> None:
        """Note the structs that JSON shows inline, and the numbers of their fields."""
        inline = {}
        for field, (number, kind) in numbers.items():
            inner = self._message(name, kind) if field not in target["f"] else None
            if inner is not None:
                inline[str(number)] = {str(n): f for f, (n, _) in inner.items() if f in target["f"]}
        if inline:
            target["i"] = inline
        for within in inline.values():
            for inner_number, field in within.items():
                target["f"][field][1] = -int(inner_number)

    def result(self) -> dict[str, Any]:
        """Return everything that was added."""
        return self._done

    def _message(self, owner: str, kind: str) -> Message | None:
        package = message_name(owner).rpartition(".")[0]
        return self._messages.get(f"{package}.{kind}") or self._messages.get(kind.removeprefix("."))

    def _field(self, given: dict[str, Any], number: int, tag: str) -> list[Any]:
        options = {}
        for key, short in (
            ("x-kubernetes-list-type", "lt"),
            ("x-kubernetes-list-map-keys", "lk"),
            ("x-kubernetes-patch-strategy", "ps"),
            ("x-kubernetes-patch-merge-key", "pk"),
            ("x-kubernetes-map-type", "mt"),
            ("enum", "e"),
        ):
            if given.get(key):
                options[short] = given[key]
        kind = self._type(given)
        if tag == "o" and kind[0] in _STRUCTS:
            tag = "k"  # an empty struct is written as such, whatever its tag says
        spelled = [kind, number, "o" if tag == "z" else tag]
        return [*spelled, options] if options else spelled

    def _type(self, given: dict[str, Any]) -> str:
        reference = given.get("$ref", "").removeprefix("#/definitions/")
        if reference:
            if reference in _SCALARS:
                return _SCALARS[reference]
            self.add(reference)
            return f"#{reference}"
        if given.get("type") == "array":
            return f"[{self._type(given['items'])}"
        if "additionalProperties" in given:
            return f"{{{self._type(given['additionalProperties'])}"
        if not given.get("type"):
            return "j"
        return _PRIMITIVES[given["type"], given.get("format")]


def main(arguments: list[str]) -> None:
    """Read, select and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--openapi", type=Path, required=True)
    parser.add_argument("--protos", type=Path, action="append", required=True)
    options = parser.parse_args(arguments)
    document = msgspec.json.decode(options.openapi.read_bytes())
    definitions = document["definitions"]
    writer = Writer(definitions, read_protos(options.protos), read_tags(options.protos))
    wanted = {(item.group, item.version, item.kind) for item in BUILT_IN}
    for name, definition in definitions.items():
        gvks = definition.get("x-kubernetes-group-version-kind", [])
        if any((k["group"], k["version"], k["kind"]) in wanted for k in gvks):
            writer.add(name)
    for name in _EXTRA_KINDS:
        writer.add(name)
    facts = {"version": document["info"]["version"], "definitions": writer.result()}
    raw = msgspec.json.encode(facts, order="deterministic")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(zlib.compress(raw, 9))
    sys.stdout.write(
        f"{len(facts['definitions'])} definitions, {len(raw)} bytes, {TARGET.stat().st_size} compressed\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
