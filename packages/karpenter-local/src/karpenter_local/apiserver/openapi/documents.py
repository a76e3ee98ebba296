"""The OpenAPI documents: version 3, one for each group and version, and version 2, everything at once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.kube.transport import Request, Response
from karpenter_local.apiserver import errors
from karpenter_local.apiserver.negotiation import clauses
from karpenter_local.apiserver.openapi.paths import paths_of
from karpenter_local.apiserver.openapi.schemas import LIST_META, META, Schemas, of_custom, of_list
from karpenter_local.apiserver.presenting import reply, reply_raw
from karpenter_local.apiserver.schema.types import built_in_types

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.resources import APIResource

_V3 = "#/components/schemas/"
_V2 = "#/definitions/"
_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2"
_PROTOBUF_ANSWER = f"{_PROTOBUF}.v1.0+protobuf"
"""As API servers spell it in an answer: what clients ask for has an @ in it, which is no media type."""
_STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"


def answer(backend: Backend, request: Request) -> Response | None:
    """Answer a request for a document, or return None when the path is not one."""
    match [part for part in request.path.split("/") if part]:
        case ["openapi", "v3"]:
            return reply({"paths": _index(backend)})
        case ["openapi", "v3", "api", version]:
            return _version_three(backend, "", version)
        case ["openapi", "v3", "apis", group, version]:
            return _version_three(backend, group, version)
        case ["openapi", "v2"]:
            return _version_two(backend, request)
        case _:
            return None


def definition_name(resource: APIResource) -> str:
    if not resource.custom:
        definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
        assert definition is not None, resource.kind
        return definition.name
    domain = ".".join(reversed(resource.group.split(".")))
    return f"{domain}.{resource.version}.{resource.kind}"


def _index(backend: Backend) -> dict[str, Any]:
    found = {}
    for group, version in dict.fromkeys((item.group, item.version) for item in backend.registry):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hashlib.sha256(_document(backend, group, version)).hexdigest().upper()
        found[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return found


def _version_three(backend: Backend, group: str, version: str) -> Response:
    if not _resources(backend, group, version):
        raise errors.no_route()
    return reply_raw(_document(backend, group, version))


def _resources(backend: Backend, group: str, version: str) -> list[APIResource]:
    return [item for item in backend.registry if (item.group, item.version) == (group, version)]


def _document(backend: Backend, group: str, version: str) -> bytes:
    resources = _resources(backend, group, version)
    key = (group, version, tuple(backend.version(item) if item.custom else item.plural for item in resources))
    cached = backend.documents.get((group, version))
    if cached is not None and cached[0] == key:
        return cached[1]
    schemas = Schemas(_V3)
    _collect(backend, schemas, resources, _V3)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": built_in_types().version},
        "paths": {
            path: item
            for resource in resources
            for path, item in paths_of(resource, definition_name(resource), _V3)
        },
        "components": {"schemas": schemas.found},
    }
    raw = msgspec.json.encode(document)
    backend.documents[group, version] = (key, raw)
    return raw


def _collect(backend: Backend, schemas: Schemas, resources: list[APIResource], prefix: str) -> None:
    for name in (META, LIST_META, _OPTIONS, _STATUS):
        schemas.add(name)
    for resource in resources:
        name = definition_name(resource)
        gvk = (resource.group, resource.version, resource.kind)
        if resource.custom:
            schemas.found[name] = of_custom(backend.version(resource).plain, gvk, prefix)
        else:
            schemas.add(name)
        if "list" in resource.verbs:
            listed = f"{name.rpartition('.')[0]}.{resource.list_kind}"
            schemas.found[listed] = of_list(name, gvk, resource.list_kind, prefix)


def _version_two(backend: Backend, request: Request) -> Response:
    for clause in clauses(request.header("accept")):
        if clause.media_type.startswith(_PROTOBUF):
            headers = (("content-type", _PROTOBUF_ANSWER),)
            return Response(status=200, headers=headers, body=_binary_head())
        if clause.media_type in {"application/json", "*/*", "application/*"}:
            return reply(_old_document(backend))
    raise errors.not_acceptable()


def _binary_head() -> bytes:
    """
    Return the version 2 document in protobuf, without paths and definitions.

    Clients ask for it where a kind is not in version 3, to validate an object before they send it. What is
    not described they leave to the server, so nothing need be; kubectl then says that there is no such kind.
    The numbers are those of https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto
    """
    version = built_in_types().version.encode()
    info = _field(1, b"Kubernetes") + _field(2, version)
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a message that is shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


def _old_document(backend: Backend) -> dict[str, Any]:
    schemas = Schemas(_V2, old=True)
    resources = list(backend.registry)
    _collect(backend, schemas, resources, _V2)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": built_in_types().version},
        "paths": {
            path: item
            for resource in resources
            for path, item in paths_of(resource, definition_name(resource), _V2)
        },
        "definitions": schemas.found,
    }
