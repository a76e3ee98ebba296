"""The rules that a CustomResourceDefinition must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from karpenter.api.meta import InvalidObject
from karpenter.api.schema import Schema, check_value, find_bad_rules, load
from karpenter_local.apiserver.custom.definition import schema_of
from karpenter_local.apiserver.custom.mentions import undeclared
from karpenter_local.apiserver.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from karpenter_local.apiserver.validation import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter_local.apiserver.entry import Object

_ROOT = "spec.validation.openAPIV3Schema"
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
_EMBEDDED = "x-kubernetes-embedded-resource"


def validate_definition(value: Object, old: Object | None) -> Iterator[FieldError]:
    spec = value["spec"]
    given = spec.get("names") or {}
    if value["metadata"].get("name") != f"{given.get('plural', '')}.{spec.get('group', '')}":
        yield invalid(
            "metadata.name", value["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group'
        )
    yield from _group(spec.get("group", ""))
    yield from _names(given)
    if spec.get("scope") not in {"Cluster", "Namespaced"}:
        if spec.get("scope"):
            yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        else:
            yield required("spec.scope")
    yield from _versions(spec)
    if old is not None:
        yield from _immutable(spec, old["spec"])
    strategy = (spec.get("conversion") or {}).get("strategy")
    if strategy != "None":
        why = "this server converts by changing the version's name only"
        yield invalid("spec.conversion.strategy", strategy, why)


def _group(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
        return
    for sentence in names.subdomain(group):
        yield invalid("spec.group", group, sentence)
    if "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _names(given: Object) -> Iterator[FieldError]:
    for key in ("plural", "singular"):
        if not given.get(key):
            yield required(f"spec.names.{key}")
        else:
            for sentence in names.label_1035(given[key]):
                yield invalid(f"spec.names.{key}", given[key], sentence)
    for key in ("kind", "listKind"):
        if not given.get(key):
            yield required(f"spec.names.{key}")
        else:
            for sentence in names.label_1035(given[key].lower()):
                yield invalid(
                    f"spec.names.{key}",
                    given[key],
                    f"may have mixed case, but should otherwise match: {sentence}",
                )
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")


def _versions(spec: Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name", "")
        for sentence in names.label_1035(name):
            yield invalid(f"{path}.name", name, sentence)
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        schema = schema_of(version)
        if not schema:
            yield required(f"{path}.schema.openAPIV3Schema")
            continue
        root = _ROOT if len(versions) == 1 else f"{path}.schema.openAPIV3Schema"
        yield from _schema(schema, root)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [{"name": item.get("name"), "storage": bool(item.get("storage"))} for item in versions]
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")


def _schema(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object at the root")
    shape = list(_structure(schema, path, root=True))
    yield from shape
    if shape:
        return
    try:
        loaded = load(schema)
    except InvalidObject as error:
        yield invalid(path, schema.get("type", ""), str(error))
        return
    for problem in find_bad_rules(loaded, path):
        yield FieldError(problem.field, problem.reason, problem.message)
    yield from _contents(loaded, path)


def _contents(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield rules that mention what is not there, and defaults that the schema would not accept."""
    for index, rule in enumerate(schema.rules):
        place = f"{path}.x-kubernetes-validations[{index}].rule"
        for name in undeclared(rule.rule, schema):
            yield invalid(place, rule.rule, f"compilation failed: ERROR: undefined field '{name}'")
    if schema.default is not UNSET and schema.default is not None:
        for problem in check_value(schema, schema.default, f"{path}.default"):
            yield FieldError(problem.field, problem.reason, problem.message)
    for name, inner in schema.properties.items():
        yield from _contents(inner, f"{path}.properties[{name}]")
    if schema.items is not None:
        yield from _contents(schema.items, f"{path}.items")
    if schema.values is not None:
        yield from _contents(schema.values, f"{path}.additionalProperties")


def _structure(schema: Any, path: str, *, root: bool = False) -> Iterator[FieldError]:
    """Yield where a schema does not say what type its values have."""
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be a schema")
        return
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free and not root:
        yield required(f"{path}.type", "must not be empty for specified object fields")
    if root and schema.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must be false at the root")
    for name, inner in (schema.get("properties") or {}).items():
        if not (root and name == "metadata"):
            yield from _structure(inner, f"{path}.properties[{name}]")
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        yield from _structure(extra, f"{path}.additionalProperties")
    if schema.get("type") == "array":
        yield from _list(schema, path)


def _list(schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    else:
        yield from _structure(schema["items"], f"{path}.items")
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        why = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", why)


def _immutable(spec: Object, old: Object) -> Iterator[FieldError]:
    if spec.get("scope") != old.get("scope"):
        yield invalid("spec.scope", spec.get("scope"), "field is immutable")
    for key in ("plural", "kind"):
        if spec["names"].get(key) != old["names"].get(key):
            yield invalid(f"spec.names.{key}", spec["names"].get(key), "field is immutable")
    if spec.get("group") != old.get("group"):
        yield invalid("spec.group", spec.get("group"), "field is immutable")
