"""
All validation of one Karpenter object: unknown fields, schema, CEL rules, then runtime validation.

The order is that of an API server. Runtime validation runs only on objects that pass the schema.
"""

import difflib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from karpenter.api.crd.definitions import definition_of, render
from karpenter.api.kinds import Kind
from karpenter.api.labels import ALL_LABEL_RULES, LabelRules, label_rules_of
from karpenter.api.meta import InvalidObject, Resource, check_depth, convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.schema import (
    ABSENT,
    FieldProblem,
    Schema,
    apply_defaults,
    check,
    load,
    prune_unknown_fields,
)
from karpenter.api.schema.field import INVALID, invalid, required
from karpenter.api.validation.nodeclaim_validation import SUBDOMAIN_RULE, is_subdomain
from karpenter.api.validation.nodeoverlay_validation import validate_nodeoverlay
from karpenter.api.validation.nodepool_validation import check_amounts, validate_nodepool
from karpenter.api.validation.words import in_words

_MOST_NAMES = 40
"""How many fields are listed beside one that is unknown."""

UNKNOWN_FIELD = "UnknownField"
"""The reason of problems with fields that the schema does not have."""


@lru_cache(maxsize=32)
def schema_of(kind: Kind) -> Schema:
    """Return the schema of one of our kinds, as its definition states it."""
    definition = definition_of(kind)
    assert definition is not None
    return load(render(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def check_object(
    kind: Kind,
    plain: dict[str, Any],
    *,
    old: dict[str, Any] | None = None,
    rules: LabelRules | None = None,
) -> tuple[FieldProblem, ...]:
    """
    Return everything wrong with an object of `kind`; with `old`, also what may not change.

    Without `rules`, label keys are held to those of the provider that the object names.

    Raises:
        InvalidObject: if either object is nested beyond reason.
    """
    found, filled = check_admission(kind, plain, old=old)
    if found:
        return tuple(map(in_words, found))
    try:
        resource = convert(filled, kind.struct)
    except InvalidObject as error:  # metadata is not in the schema, and its shape may be wrong
        return (FieldProblem(error.field, INVALID, error.problem),)
    return (*runtime_validate(resource, rules=rules or _rules_of(resource)), *check_amounts(resource))


def check_admission(
    kind: Kind, plain: dict[str, Any], *, old: dict[str, Any] | None = None
) -> tuple[tuple[FieldProblem, ...], dict[str, Any]]:
    """
    Return what an API server would refuse in an object of `kind`, and the object with its defaults.

    Raises:
        InvalidObject: if either object is nested beyond reason.
    """
    schema = schema_of(kind)
    check_depth(plain)
    check_depth(old)
    known, unknown = prune_unknown_fields(schema, plain)
    filled = apply_defaults(schema, known)
    past = ABSENT if old is None else apply_defaults(schema, prune_unknown_fields(schema, old)[0])
    found = (
        *(unknown_field(path, _names_at(schema, path.rpartition(".")[0])) for path in unknown),
        *_check_name(filled),
        *check(schema, filled, old=past),
    )
    return found, filled


def _rules_of(resource: Resource) -> LabelRules:
    if isinstance(resource, NodePool):
        return label_rules_of(resource.spec.template.spec.node_class_ref.group)
    return ALL_LABEL_RULES


def runtime_validate(resource: Resource, *, rules: LabelRules) -> tuple[FieldProblem, ...]:
    """Return what sets ValidationSucceeded to False: problems that no schema can state."""
    match resource:
        case NodePool():
            return validate_nodepool(resource, rules=rules)
        case NodeOverlay():
            return validate_nodeoverlay(resource, rules=rules)
        case _:
            return ()


def _check_name(plain: dict[str, Any]) -> tuple[FieldProblem, ...]:
    metadata = plain.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        return (required("metadata.name", "name or generateName is required"),)
    name = metadata.get("name")
    if isinstance(name, str) and name and not is_subdomain(name):
        return (invalid("metadata.name", name, SUBDOMAIN_RULE),)
    return ()


def unknown_field(path: str, names: Sequence[str]) -> FieldProblem:
    """Name an unknown field, and the one of the known `names` that was probably meant."""
    close = difflib.get_close_matches(path.rpartition(".")[2], names, n=1)
    if close:
        return FieldProblem(path, UNKNOWN_FIELD, f"unknown field; did you mean {close[0]}?")
    hint = f"; allowed here are {', '.join(sorted(names))}" if 0 < len(names) <= _MOST_NAMES else ""
    return FieldProblem(path, UNKNOWN_FIELD, f"unknown field{hint}")


def _names_at(schema: Schema, path: str) -> list[str]:
    for step in path.split(".") if path else []:
        name, bracket, _ = step.partition("[")
        below = schema.member(name)
        if below is not None and bracket:
            below = below.items or below.values
        if below is None:
            return []
        schema = below
    return list(schema.properties)
