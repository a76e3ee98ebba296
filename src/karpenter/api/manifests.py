"""
Manifests: YAML or JSON text to objects, the way an API server would store them.

Several documents in one text and lists are opened; ``null`` counts as absent; objects
without a namespace are in ``default`` if their kind has namespaces. Text that cannot be
read is one problem each, with the document it is in; nothing else is raised.

Reads shapes only. Whether an object is allowed to say what it says is for validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.api.kinds import KINDS
from karpenter.api.wire import convert, name_of
from karpenter.api.yamltext import read_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.meta import Resource

DEFAULT_NAMESPACE: Final = "default"


class Document(msgspec.Struct, frozen=True):
    """One object of a text, as plain data."""

    source: str
    """The file, and which document of it when there are several."""

    plain: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        """The apiVersion and kind."""
        return str(self.plain.get("apiVersion", "")), str(self.plain.get("kind", ""))

    @property
    def subject(self) -> str:
        """How the object is called in messages."""
        return name_of(self.plain)


def documents(text: str, source: str) -> Iterator[Document]:
    """
    Yield every object of a text.

    Raises:
        InvalidObject: naming the place that cannot be read.
    """
    for found in documents_or_refusals(text, source):
        if isinstance(found, InvalidObject):
            raise found
        yield found


def documents_or_refusals(text: str, source: str) -> Iterator[Document | InvalidObject]:
    """Yield every object of a text, and in its place why something is none."""
    found: list[object] = []
    refusal: InvalidObject | None = None
    try:
        found.extend(read_documents(text, source=source))
    except InvalidObject as error:
        refusal = error
    alone = len(found) == 1 and refusal is None
    for number, plain in enumerate(found, start=1):
        yield from _opened(plain, source if alone else f"{source}#{number}")
    if refusal is not None:
        yield refusal


def _opened(plain: object, place: str) -> Iterator[Document | InvalidObject]:
    if not isinstance(plain, dict) or not all(
        isinstance(plain.get(name), str) and plain[name] for name in ("apiVersion", "kind")
    ):
        yield InvalidObject(subject=place, problem="is not a Kubernetes object: it needs apiVersion and kind")
        return
    kind, items = plain["kind"], plain.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _opened(item, f"{place}[{number}]")
        return
    yield Document(place, plain)


def read_object(document: Document) -> Resource | None:
    """
    Return a document as one of the kinds we know; None for any other kind.

    Raises:
        InvalidObject: naming the object, the field and what is allowed.
    """
    kind = KINDS.get(document.identity)
    if kind is None:
        return None
    found = convert(document.plain, kind.struct, subject=document.subject)
    if not found.metadata.name and not found.metadata.generate_name:
        raise InvalidObject(subject=document.subject, field="metadata.name", problem="is required")
    if kind.namespaced and not found.metadata.namespace:
        meta = msgspec.structs.replace(found.metadata, namespace=DEFAULT_NAMESPACE)
        return msgspec.structs.replace(found, metadata=meta)
    return found
