"""
Which shape of answer a client accepts: as stored, as a table, as metadata only.

Reads the ``accept`` header the way API servers do: the first clause that we can serve wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.views import Converted, ResponseView, Stored, metadata_only

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.request import RequestInfo

_ENCODINGS = frozenset({"application/json", "application/*", "*/*", "application/yaml"})


class AcceptClause(msgspec.Struct, frozen=True):
    """One alternative of an accept header."""

    media_type: str
    as_: str = ""
    group: str = ""
    version: str = ""
    stream: str = ""


def clauses(header: str) -> list[AcceptClause]:
    """Return the alternatives of an accept header in the client's order."""
    found = []
    for text in header.split(","):
        media, *parameters = (part.strip() for part in text.split(";"))
        if not media:
            continue
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        found.append(
            AcceptClause(
                media.lower(),
                values.get("as", ""),
                values.get("g", ""),
                values.get("v", ""),
                values.get("stream", ""),
            )
        )
    return found or [AcceptClause("*/*")]


def wants_yaml(header: str) -> bool:
    """Return whether YAML is what a client would rather have."""
    if "yaml" not in header:
        return False
    first = next((clause for clause in clauses(header) if clause.media_type in _ENCODINGS), None)
    return first is not None and first.media_type == "application/yaml"


def view_for(backend: Backend, call: RequestInfo) -> ResponseView:
    header = call.request.header("accept")
    if header in {"", "application/json", "*/*"}:
        return plain(backend, call)
    for clause in clauses(header):
        if clause.media_type not in _ENCODINGS:
            continue
        if not clause.as_:
            return plain(backend, call)
        if clause.group != "meta.k8s.io" or clause.version != "v1" or call.subresource:
            continue
        if clause.as_.startswith("PartialObjectMetadata"):
            return Converted(metadata_only, "PartialObjectMetadataList", "meta.k8s.io/v1")
        if clause.as_ == "Table":
            return backend.table_view(call)
    raise errors.not_acceptable()


def plain(backend: Backend, call: RequestInfo) -> ResponseView:
    """Return objects as they are stored, or in the version that was asked for."""
    resource = call.resource
    if resource.stored:
        return Stored(resource)

    def convert(value: Object) -> Object:
        return backend.outgoing(resource, value)

    return Converted(convert, resource.list_kind, resource.api_version)
