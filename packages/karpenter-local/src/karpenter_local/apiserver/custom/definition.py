"""What a CustomResourceDefinition says, version by version, in the terms of this server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.schema import Schema, load
from karpenter_local.apiserver.managed.shapes import Shape, of_custom_kind
from karpenter_local.apiserver.resources import SCALE, STATUS, APIResource
from karpenter_local.apiserver.tables.columns import AGE, NAME, TableColumn
from karpenter_local.apiserver.tables.custom import columns

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object

TABLE = "customresourcedefinitions.apiextensions.k8s.io"


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a custom kind keeps what its scale shows."""

    spec: str
    status: str
    selector: str = ""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a custom kind."""

    resource: APIResource
    schema: Schema
    served: bool = True
    plain: dict[str, Any]
    shape: Shape
    columns: tuple[TableColumn, ...]
    selectable: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    warning: str = ""
    """What clients of a deprecated version are told."""


def read(definition: Object) -> list[Version]:
    """Return the versions of a definition, served or only stored."""
    return [_version(definition, given) for given in definition["spec"]["versions"]]


def schema_of(given: Object) -> dict[str, Any]:
    schema: dict[str, Any] = (given.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _version(definition: Object, given: Object) -> Version:
    spec = definition["spec"]
    names = spec["names"]
    subresources = given.get("subresources") or {}
    scale = subresources.get("scale")
    served = []
    if scale:
        served.append(SCALE)
    if subresources.get("status") is not None:
        served.append(STATUS)
    plain = schema_of(given)
    resource = APIResource(
        group=spec["group"],
        version=given["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=tuple(served),
        table=f"{names['plural']}.{spec['group']}",
        custom=True,
        stored=bool(given.get("storage")),
        generation=True,
        list_name=names.get("listKind", ""),
    )
    extra = given.get("additionalPrinterColumns")
    return Version(
        resource=resource,
        served=bool(given.get("served")),
        schema=load(plain),
        plain=plain,
        shape=of_custom_kind(plain),
        columns=(NAME, *columns(extra)) if extra else (NAME, AGE),
        selectable=tuple(item["jsonPath"].lstrip(".") for item in given.get("selectableFields") or ()),
        scale=_scale(scale) if scale else None,
        warning=_warning(resource, given),
    )


def _scale(given: Object) -> ScalePaths:
    return ScalePaths(
        spec=given["specReplicasPath"].lstrip("."),
        status=given["statusReplicasPath"].lstrip("."),
        selector=(given.get("labelSelectorPath") or "").lstrip("."),
    )


def _warning(resource: APIResource, given: Object) -> str:
    if not given.get("deprecated"):
        return ""
    return given.get("deprecationWarning") or f"{resource.api_version} {resource.kind} is deprecated"
