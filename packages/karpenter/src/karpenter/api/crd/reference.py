"""
The reference page of a kind, generated from its CustomResourceDefinition.

One table of fields with types, defaults and descriptions, then the constraints of each field, then the CEL
rules. The page says nothing that the definition does not say.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from karpenter.api.crd.definitions import CustomResourceDefinition, render

_HEAD = (
    "This page is written by `karpenter crds --write docs/reference --output markdown`; "
    "a test fails when it is out of date."
)
_COMMON = frozenset({"apiVersion", "kind", "metadata"})


class FieldRow(msgspec.Struct, frozen=True):
    """One field of a kind: where it is, its schema, and whether it must be there."""

    path: str
    schema: dict[str, Any]
    required: bool


def render_page(definition: CustomResourceDefinition) -> str:
    plain = render(definition)
    schema = plain["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = list(_fields(schema))
    kind = definition.kind
    lines = [
        f"# {kind.name}",
        "",
        _HEAD,
        "",
        *schema["description"].replace(". ", ".\n").splitlines(),
        "",
        f"- apiVersion: `{kind.api_version}`",
        f"- scope: {'one namespace' if kind.namespaced else 'the whole cluster'}",
        f"- `kubectl get {kind.plural}`{_other_names(definition)}",
        "",
        "## Fields",
        "",
        "| field | type | default | meaning |",
        "|---|---|---|---|",
        *(_row(field) for field in fields),
        "",
        "A field marked * must be set.",
        "",
        "## What is allowed",
        "",
        *_allowed(fields),
        "",
        "## Rules",
        "",
        *_rules(fields),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _other_names(definition: CustomResourceDefinition) -> str:
    others = [f"`{name}`" for name in (*definition.short_names, *definition.categories)]
    return f", also as {', '.join(others)}"


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[FieldRow]:
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        if not path and name in _COMMON:
            continue
        if "type" not in each and each.get("x-kubernetes-preserve-unknown-fields"):
            continue  # one of many that are passed on; what holds them says so
        place = f"{path}.{name}" if path else name
        yield FieldRow(place, each, name in required)
        yield from _fields(each, place)
        if "items" in each:
            yield from _fields(each["items"], f"{place}[]")


def _row(field: FieldRow) -> str:
    mark = " *" if field.required else ""
    default = f"`{_inline(field.schema['default'])}`" if "default" in field.schema else ""
    meaning = " ".join(field.schema.get("description", "").split())
    return f"| `{field.path}`{mark} | {_type(field.schema)} | {default} | {_escape(meaning)} |"


def _type(schema: dict[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in schema else "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _allowed(fields: Iterable[FieldRow]) -> Iterator[str]:
    for field in fields:
        facts = [*_facts(field.schema), *_facts_below(field.schema)]
        if facts:
            yield f"- `{field.path}`: {'; '.join(facts)}."


def _facts_below(schema: dict[str, Any]) -> Iterator[str]:
    for key, what in (("items", "each"), ("additionalProperties", "each value")):
        below = schema.get(key, {})
        if "properties" not in below and not below.get("x-kubernetes-int-or-string"):
            for fact in _facts(below):
                yield f"{what} {fact}"


def _facts(schema: dict[str, Any]) -> Iterator[str]:
    if "enum" in schema:
        yield f"one of {', '.join(f'`{value}`' for value in schema['enum'])}"
    if "minimum" in schema:
        yield f"at least {schema['minimum']}"
    if "maximum" in schema:
        yield f"at most {schema['maximum']}"
    if "minLength" in schema:
        yield "not empty" if schema["minLength"] == 1 else f"at least {schema['minLength']} characters"
    if "maxLength" in schema:
        yield f"at most {schema['maxLength']} characters"
    if "pattern" in schema:
        yield f"matches `{schema['pattern']}`"
    yield from _counts(schema)
    if schema.get("x-kubernetes-list-type") == "set":
        yield "no item twice"


def _counts(schema: dict[str, Any]) -> Iterator[str]:
    if "minItems" in schema:
        yield "at least 1 item" if schema["minItems"] == 1 else f"at least {schema['minItems']} items"
    if "maxItems" in schema:
        yield f"at most {schema['maxItems']} items"
    if "maxProperties" in schema:
        yield f"at most {schema['maxProperties']} entries"


def _rules(fields: Iterable[FieldRow]) -> Iterator[str]:
    found = False
    for field in fields:
        for rule in field.schema.get("x-kubernetes-validations", ()):
            found = True
            yield f"- `{field.path}`: {rule['message']}."
    if not found:
        yield "This kind has no rules beyond those above."


def _inline(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
