"""
Constraints on fields, written in the annotation of the field.

``Annotated[int, constraint(minimum=1, maximum=100)]`` puts the bounds into the generated
CustomResourceDefinition. Decoding ignores them, because the API server has checked them before.
The keywords are those of OpenAPI; the few names of our own are arguments of :func:`constraint`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

REQUIRED = "x-karpenter-required"
"""Marks a field that the definition requires although decoding can do without; never written out."""

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?"
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
"""A label key: a name of letters, digits, ``-_.``, with a DNS prefix or without."""

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# Go durations of whole seconds, minutes and hours, as Karpenter's definitions allow them.
DURATION = r"^([0-9]+(s|m|h))+$"
# Karpenter's own pattern: fewer units than Go has, and no sign or fraction.
# https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/apis/crds/karpenter.sh_nodepools.yaml
DURATION_OR_NEVER = r"^(([0-9]+(s|m|h))+|Never)$"

MAX_KEY = 316
"""The longest label key: a DNS name of 253, a slash, and a name of 62."""

MAX_VALUE = 63

QUANTITY_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
)
"""An amount on the wire."""


def rule(expression: str, message: str) -> dict[str, Any]:
    """Return one CEL rule, and what to say when it is broken."""
    return {"rule": expression, "message": message}


def constraint(
    *,
    rules: tuple[dict[str, Any], ...] = (),
    list_type: str = "",
    list_keys: tuple[str, ...] = (),
    map_type: str = "",
    items: Mapping[str, Any] | None = None,
    required: bool = False,
    **keywords: Any,
) -> msgspec.Meta:
    """Return what the definition says about a field, its items or values included."""
    schema: dict[str, Any] = {_CAMEL.get(name, name): value for name, value in keywords.items()}
    if items is not None:
        schema["items"] = dict(items)
    if list_type:
        schema["x-kubernetes-list-type"] = list_type
    if list_keys:
        schema["x-kubernetes-list-map-keys"] = list(list_keys)
    if map_type:
        schema["x-kubernetes-map-type"] = map_type
    if rules:
        schema["x-kubernetes-validations"] = list(rules)
    if required:
        schema[REQUIRED] = True
    return msgspec.Meta(extra_json_schema=schema)


_CAMEL: Mapping[str, str] = MappingProxyType(
    {
        "min_length": "minLength",
        "max_length": "maxLength",
        "min_items": "minItems",
        "max_items": "maxItems",
        "max_properties": "maxProperties",
    }
)
