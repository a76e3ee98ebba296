"""
The definitions as JSON Schema, for editors and for checks without a cluster (draft 7, https://json-schema.org).

What a definition says in terms of Kubernetes is said in those of JSON Schema; rules in CEL have no
counterpart and are left out, so an editor accepts what ``karpenter validate`` may still refuse. Fields that a
definition does not know are refused, as ``karpenter validate`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.crd.definitions import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.crd.definitions import CustomResourceDefinition

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_OF_KUBERNETES: Final = "x-kubernetes-"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 253},
        "namespace": {"type": "string"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
    },
}


def kind_schema(definition: CustomResourceDefinition) -> dict[str, Any]:
    (version,) = render(definition)["spec"]["versions"]
    found = _plain(version["schema"]["openAPIV3Schema"])
    known = _identity(definition)
    required = ["apiVersion", "kind", "metadata", *found.get("required", ())]
    properties = {**found["properties"], "metadata": _METADATA}
    properties |= {name: {**properties[name], "const": value} for name, value in known.items()}
    return {
        "$schema": DRAFT,
        "title": definition.kind.name,
        **found,
        "required": required,
        "properties": properties,
    }


def file_schema(definitions: Iterable[CustomResourceDefinition]) -> dict[str, Any]:
    """Return the schema of a document of any kind; kinds of others may hold anything."""
    cases = [
        {
            "if": {
                "required": ["apiVersion", "kind"],
                "properties": {name: {"const": value} for name, value in _identity(each).items()},
            },
            "then": {name: value for name, value in kind_schema(each).items() if name != "$schema"},
        }
        for each in definitions
    ]
    return {"$schema": DRAFT, "title": "Objects of Karpenter", "allOf": cases}


def schema_path(definition: CustomResourceDefinition) -> str:
    """Return where kubeconform and the catalogue of CRDs look for a schema: group/kind_version.json."""
    group, _, version = _identity(definition)["apiVersion"].partition("/")
    return f"{group}/{definition.kind.name.lower()}_{version}.json"


def _identity(definition: CustomResourceDefinition) -> dict[str, str]:
    spec = render(definition)["spec"]
    return {
        "apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}",
        "kind": spec["names"]["kind"],
    }


def _plain(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node of a structural schema in terms of JSON Schema."""
    found = {name: value for name, value in node.items() if not name.startswith(_OF_KUBERNETES)}
    if "properties" in node:
        found["properties"] = {name: _plain(each) for name, each in node["properties"].items()}
        if not node.get(_OPEN) and "additionalProperties" not in node:
            found["additionalProperties"] = False
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            found[name] = _plain(node[name])
    return found
