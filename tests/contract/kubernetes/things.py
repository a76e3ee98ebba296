"""Custom resources for tests: definitions as a user would write them, and when they are served."""

from typing import Any

from tests.contract.kubernetes.api import Api, Object, eventually

GROUP = "contract.example.com"
THINGS = "things"


def definition(
    group: str,
    schema: Object,
    *,
    plural: str = THINGS,
    kind: str = "Thing",
    scope: str = "Namespaced",
    **version: Any,
) -> Object:
    """Return a CustomResourceDefinition with one version, ``v1``."""
    only = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [only],
        },
    }


def place(api: Api, group: str = GROUP, plural: str = THINGS) -> str:
    """Return where objects of a definition are, in the test's namespace."""
    return f"/apis/{group}/v1/namespaces/{api.namespace}/{plural}"


def thing(name: str, spec: Object | None = None, *, group: str = GROUP, **fields: Any) -> Object:
    found: Object = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}, **fields}
    return found if spec is None else {**found, "spec": spec}


def served(api: Api, path: str) -> bool:
    """Wait until the server knows the resource at `path`."""
    return eventually(lambda: api.find(path).status == 200)


RULES = [
    {"rule": "!has(self.map) || self.map.size() < 3", "message": "too many"},
    {"rule": "self.size < 9 || self.color == 'blue'", "messageExpression": "'nine is not for ' + self.color"},
    {"rule": "self.size != 8", "fieldPath": ".size", "reason": "FieldValueForbidden"},
    {"rule": "self.size != 7"},
]
SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red", "maxLength": 8},
        "word": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
        "cidr": {"type": "string", "format": "cidr"},
        "when": {"type": "string", "format": "date-time"},
        "list": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
            },
        },
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is forever"}],
        },
        "one": {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
        },
        "deep": {
            "type": "object",
            "default": {},
            "properties": {
                "inner": {"type": "object", "default": {"n": 3}, "properties": {"n": {"type": "integer"}}}
            },
        },
    },
    "x-kubernetes-validations": RULES,
}
STATUS: Object = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "ready": {"type": "boolean"},
    },
}
DEFINITION = definition(
    GROUP,
    {"type": "object", "properties": {"spec": SPEC, "status": STATUS}},
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Ready", "type": "boolean", "jsonPath": ".status.ready", "description": "Whether it is."},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
    selectableFields=[{"jsonPath": ".spec.color"}],
)
"""One definition with something of everything; it is installed once per server and stays."""
