"""
The CustomResourceDefinitions of Karpenter's kinds: names, printer columns, subresources and schemas.

A struct becomes a structural OpenAPI schema with everything inlined. Fields without a default are required.
What a type cannot state (bounds, patterns, rules, defaults) is in the annotation of the field, see
:mod:`karpenter.api.constraints`. Descriptions are the docstrings of structs and the strings below their
fields. Python keeps no docstrings of fields, so these are read from the source.
"""

import ast
import inspect
import re
import sys
import types
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.constraints import QUANTITY_SCHEMA, REQUIRED
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kinds import Kind, kind_of
from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter.api.meta import ObjectMeta, Quantity
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool

_CODE = re.compile(r"``([^`]*)``")


def describe_struct(struct: type[msgspec.Struct]) -> str:
    return _plain(inspect.cleandoc(struct.__doc__ or ""))


@lru_cache(maxsize=256)
def describe_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what is said below each field of a struct, its bases included, by the name in Python."""
    words: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if issubclass(each, msgspec.Struct) and each is not msgspec.Struct:
            words |= _own_fields(each)
    return words


@lru_cache(maxsize=64)
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by name; asking inspect for each would parse the module for each."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


def _own_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    definition = _classes(struct.__module__)[struct.__name__]
    words = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                words[name] = _plain(inspect.cleandoc(text))
    return words


def _plain(text: str) -> str:
    """Return a docstring as prose: paragraphs on one line each, code in single quotes of code."""
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return _CODE.sub(r"`\1`", "\n\n".join(paragraphs))


_OPEN = "x-kubernetes-preserve-unknown-fields"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    datetime: {"type": "string", "format": "date-time"},
}


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct, with the words of its docstrings."""
    words = describe_fields(struct)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(struct):
        schema = type_schema(field.type)
        if schema.pop(REQUIRED, False) or field.required:
            required.append(field.encode_name)
        said = words.get(field.name) or schema.get("description", "")
        properties[field.encode_name] = {"description": said, **schema} if said else schema
        if said:
            properties[field.encode_name]["description"] = said
    schema = {"description": describe_struct(struct), "type": "object"}
    if required:
        schema["required"] = sorted(required)
    return {**schema, "properties": dict(sorted(properties.items()))}


def type_schema(annotation: Any) -> dict[str, Any]:
    if get_origin(annotation) is Annotated:
        base, *metas = get_args(annotation)
        schema = type_schema(base)
        for meta in metas:
            schema = _merge(schema, meta.extra_json_schema or {})
        if "properties" in schema:  # said field by field, so that others are unknown
            schema.pop(_OPEN, None)
        return schema
    if annotation in _SCALARS:
        return dict(_SCALARS[annotation])
    if annotation == Quantity:
        return dict(QUANTITY_SCHEMA)
    if annotation is ObjectMeta:
        return {"type": "object"}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return struct_schema(annotation)
    return _generic_schema(annotation)


def _generic_schema(annotation: Any) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        (some,) = (each for each in arguments if each is not types.NoneType)
        return type_schema(some)
    if origin is tuple:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is dict and arguments[1] is Any:
        return {"type": "object", _OPEN: True}
    if origin is dict:
        return {"type": "object", "additionalProperties": type_schema(arguments[1])}
    raise TypeError(f"{annotation!r} has no schema: give it one in karpenter.api.crd.definitions")


def _merge(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with `more` said about it; about items and values as well."""
    merged = dict(schema)
    for key, value in more.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def object_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a kind: its struct, with the fields that every object has."""
    schema = struct_schema(struct)
    schema["properties"] = {
        "apiVersion": {"description": "The group and version of this kind.", "type": "string"},
        "kind": {"description": "This kind.", "type": "string"},
        "metadata": {"type": "object"},
        **{name: each for name, each in schema["properties"].items() if name != "metadata"},
    }
    return schema


class PrinterColumn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column that ``kubectl get`` prints; those of priority 1 only with ``-o wide``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int | UnsetType = UNSET
    """Left out unless it is 1, as a server does: for a 0, every ``kubectl apply`` would find a change."""


class CustomResourceDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a kind's definition besides its schema."""

    kind: Kind
    columns: tuple[PrinterColumn, ...]
    categories: tuple[str, ...] = ("karpenter",)
    short_names: tuple[str, ...] = ()
    scale: tuple[str, str] | None = None
    """Where the wanted and the actual count are, for ``kubectl scale``."""

    @property
    def name(self) -> str:
        """The name of the definition, such as ``nodepools.karpenter.sh``."""
        return f"{self.kind.plural}.{self.kind.group}"

    @property
    def file_name(self) -> str:
        return f"{self.kind.group}_{self.kind.plural}.yaml"


def _text(name: str, path: str, *, priority: int | UnsetType = UNSET) -> PrinterColumn:
    return PrinterColumn(name=name, json_path=path, priority=priority)


def _number(name: str, path: str, *, priority: int | UnsetType = UNSET) -> PrinterColumn:
    return PrinterColumn(name=name, json_path=path, type="integer", priority=priority)


def _condition(name: str, *, priority: int | UnsetType = UNSET) -> PrinterColumn:
    return _text(name, f'.status.conditions[?(@.type=="{name}")].status', priority=priority)


def _label(name: str, label: str, *, priority: int | UnsetType = UNSET) -> PrinterColumn:
    escaped = label.replace(".", "\\.")
    return _text(name, f".metadata.labels.{escaped}", priority=priority)


_AGE = PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date")

DEFINITIONS: tuple[CustomResourceDefinition, ...] = (
    CustomResourceDefinition(
        kind=kind_of(CapacityBuffer),
        categories=("autoscaling",),
        short_names=("cb",),
        columns=(
            _text("Strategy", ".spec.provisioningStrategy"),
            _text("PodTemplate", ".status.podTemplateRef.name"),
            _number("Replicas", ".status.replicas"),
            _text("ConditionsType", ".status.conditions[*].type"),
            _text("ConditionsStatus", ".status.conditions[*].status"),
            _text("ConditionsReason", ".status.conditions[*].reason"),
            _AGE,
        ),
    ),
    CustomResourceDefinition(
        kind=kind_of(EC2NodeClass),
        short_names=("ec2nc", "ec2ncs"),
        columns=(_condition("Ready"), _AGE, _text("Role", ".spec.role", priority=1)),
    ),
    CustomResourceDefinition(
        kind=kind_of(KWOKNodeClass),
        short_names=("kwoknc", "kwokncs"),
        columns=(_condition("Ready"), _AGE),
    ),
    CustomResourceDefinition(
        kind=kind_of(NodeClaim),
        columns=(
            _label("Type", "node.kubernetes.io/instance-type"),
            _label("Capacity", "karpenter.sh/capacity-type"),
            _label("Zone", "topology.kubernetes.io/zone"),
            _text("Node", ".status.nodeName"),
            _condition("Ready"),
            _AGE,
            _text("ImageID", ".status.imageID", priority=1),
            _text("ID", ".status.providerID", priority=1),
            _label("NodePool", "karpenter.sh/nodepool", priority=1),
            _text("NodeClass", ".spec.nodeClassRef.name", priority=1),
            _condition("Drifted", priority=1),
        ),
    ),
    CustomResourceDefinition(
        kind=kind_of(NodeOverlay),
        short_names=("overlays",),
        columns=(_condition("Ready"), _AGE, _number("Weight", ".spec.weight", priority=1)),
    ),
    CustomResourceDefinition(
        kind=kind_of(NodePool),
        scale=(".spec.replicas", ".status.nodes"),
        columns=(
            _text("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            _number("Nodes", ".status.nodes"),
            _condition("Ready"),
            _AGE,
            _number("Weight", ".spec.weight", priority=1),
            _text("CPU", ".status.resources.cpu", priority=1),
            _text("Memory", ".status.resources.memory", priority=1),
        ),
    ),
)


def render(definition: CustomResourceDefinition) -> dict[str, Any]:
    kind = definition.kind
    names = {
        "categories": list(definition.categories),
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def _version(definition: CustomResourceDefinition) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if definition.scale is not None:
        wanted, actual = definition.scale
        subresources["scale"] = {"specReplicasPath": wanted, "statusReplicasPath": actual}
    return {
        "name": definition.kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [msgspec.to_builtins(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": object_schema(definition.kind.struct)},
        "subresources": subresources,
    }


def definition_of(kind: Kind) -> CustomResourceDefinition | None:
    """Return the definition of a kind; none when the kind is not ours."""
    return next((each for each in DEFINITIONS if each.kind == kind), None)
