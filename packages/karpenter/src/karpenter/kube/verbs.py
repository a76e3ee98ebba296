"""
What can be asked of an API server, as request values.

Pure: each function turns nouns into a :class:`Request` and sends nothing. Names of query parameters and
subresources are spelled here and nowhere else.

The four ways to change part of an object, as values.

    MergePatch       fields as they shall be; null removes one; lists are replaced whole (RFC 7386) JsonPatch
    operations in order, with tests; all or nothing (RFC 6902) StrategicPatch   like merge, but lists of
    built-in kinds are merged by their keys; not for custom resources Apply            everything that we own
    of an object; the server keeps what others own, and names conflicts

``version`` makes a merge or strategic patch conditional: if the object is no longer at that resourceVersion,
the server answers Conflict. Use it whenever a list (conditions, taints, finalizers) is written whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote

import msgspec

from karpenter.kube.target import Body, Target
from karpenter.kube.transport import Pairs, Request


class MergePatch(msgspec.Struct, frozen=True):
    """Fields as they shall be."""

    content_type: ClassVar[str] = "application/merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(_conditional(self.changes, self.version))


class StrategicPatch(msgspec.Struct, frozen=True):
    """Fields as they shall be; lists are merged by key."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(_conditional(self.changes, self.version))


class JsonPatch(msgspec.Struct, frozen=True):
    """Operations in order; a test among them that fails undoes all."""

    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[Mapping[str, Any]]

    def body(self) -> bytes:
        """Write the patch."""
        return msgspec.json.encode(self.operations)


class Apply(msgspec.Struct, frozen=True):
    """Everything that we own of an object."""

    content_type: ClassVar[str] = "application/apply-patch+yaml"

    object: Mapping[str, Any]
    force: bool = True
    """Take over fields that others own, instead of answering Conflict."""

    def body(self) -> bytes:
        """Write the object; JSON is YAML."""
        return msgspec.json.encode(self.object)


Patch: TypeAlias = MergePatch | StrategicPatch | JsonPatch | Apply


def pointer(*parts: str) -> str:
    """Return the JSON pointer to a field, such as ``/metadata/annotations/karpenter.sh~1nodepool-hash``."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _conditional(changes: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    if not version:
        return changes
    return {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": version}}


_JSON = "application/json"
_ACCEPT: Pairs = (("accept", _JSON),)
_SENDS_JSON: Pairs = (("accept", _JSON), ("content-type", _JSON))


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind: those of a namespace, by labels, by fields. Empty means all."""

    namespace: str = ""
    labels: str = ""
    """Such as ``app=web,tier!=test``."""

    fields: str = ""
    """Such as ``spec.nodeName=node-1``."""

    def query(self) -> Pairs:
        """Return the query parameters."""
        return _given(("labelSelector", self.labels), ("fieldSelector", self.fields))


EVERYTHING = Selection()


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """What must be true of an object for a delete or an eviction to happen; else Conflict."""

    uid: str = ""
    version: str = ""

    def plain(self) -> dict[str, str]:
        """Return them as the API spells them."""
        return dict(_given(("uid", self.uid), ("resourceVersion", self.version)))


ANY_STATE = Preconditions()


def get(target: Target[Any], name: str, *, namespace: str = "", subresource: str = "") -> Request:
    """Read one object."""
    path = target.path(namespace=namespace, name=name, subresource=subresource)
    return Request(method="GET", path=path, headers=_ACCEPT)


def list_page(
    target: Target[Any], selection: Selection = EVERYTHING, *, limit: int = 0, after: str = ""
) -> Request:
    """Read a list, or the page of it that `after` points to."""
    paging = _given(("limit", str(limit) if limit else ""), ("continue", after))
    return Request(
        method="GET",
        path=target.path(namespace=selection.namespace),
        query=selection.query() + paging,
        headers=_ACCEPT,
    )


def watch(
    target: Target[Any],
    selection: Selection = EVERYTHING,
    *,
    since: str,
    seconds: int,
    bookmarks: bool = True,
) -> Request:
    """Follow changes after the resourceVersion `since`; the server ends the watch after `seconds`."""
    return Request(
        method="GET",
        path=target.path(namespace=selection.namespace),
        query=(
            *selection.query(),
            ("watch", "true"),
            *((("allowWatchBookmarks", "true"),) if bookmarks else ()),
            ("resourceVersion", since),
            ("timeoutSeconds", str(seconds)),
        ),
        headers=_ACCEPT,
    )


def create(
    target: Target[Any], body: Body, *, namespace: str = "", manager: str, dry_run: bool = False
) -> Request:
    """Make a new object."""
    return Request(
        method="POST",
        path=target.path(namespace=namespace),
        query=_writing(manager, dry_run),
        headers=_SENDS_JSON,
        body=target.write(body),
    )


def replace(
    target: Target[Any],
    body: Body,
    *,
    name: str,
    namespace: str = "",
    subresource: str = "",
    manager: str,
    dry_run: bool = False,
) -> Request:
    """Write a whole object over another: what is missing in `body` is removed, so never send a struct."""
    return Request(
        method="PUT",
        path=target.path(namespace=namespace, name=name, subresource=subresource),
        query=_writing(manager, dry_run),
        headers=_SENDS_JSON,
        body=target.write(body),
    )


def patch(
    target: Target[Any],
    name: str,
    change: Patch,
    *,
    namespace: str = "",
    subresource: str = "",
    manager: str,
    dry_run: bool = False,
) -> Request:
    """Change part of an object, or apply ours."""
    query = _writing(manager, dry_run)
    if isinstance(change, Apply):
        query += (("force", "true" if change.force else "false"),)
    return Request(
        method="PATCH",
        path=target.path(namespace=namespace, name=name, subresource=subresource),
        query=query,
        headers=(("accept", _JSON), ("content-type", change.content_type)),
        body=change.body(),
    )


def delete(
    target: Target[Any],
    name: str,
    *,
    namespace: str = "",
    only_if: Preconditions = ANY_STATE,
    propagation: str = "",
    grace: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Ask for an object to go away."""
    options = _delete_options(only_if=only_if, propagation=propagation, grace=grace)
    return Request(
        method="DELETE",
        path=target.path(namespace=namespace, name=name),
        query=_given(("dryRun", "All" if dry_run else "")),
        headers=_SENDS_JSON,
        body=msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}),
    )


def evict(
    name: str,
    *,
    namespace: str,
    only_if: Preconditions = ANY_STATE,
    grace: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Ask for a pod to go away, if its disruption budget allows."""
    options = _delete_options(only_if=only_if, propagation="", grace=grace)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        **({"deleteOptions": options} if options else {}),
    }
    return _on_pod(name, namespace, "eviction", body, dry_run=dry_run)


def bind(name: str, *, namespace: str, node: str, uid: str = "") -> Request:
    """Put a pod on a node, as a scheduler does."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return _on_pod(name, namespace, "binding", body)


def _on_pod(
    name: str, namespace: str, subresource: str, body: dict[str, Any], *, dry_run: bool = False
) -> Request:
    return Request(
        method="POST",
        path=f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/{subresource}",
        query=_given(("dryRun", "All" if dry_run else "")),
        headers=_SENDS_JSON,
        body=msgspec.json.encode(body),
    )


def _delete_options(*, only_if: Preconditions, propagation: str, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if preconditions := only_if.plain():
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _writing(manager: str, dry_run: bool) -> Pairs:
    return _given(("fieldManager", manager), ("dryRun", "All" if dry_run else ""))


def _given(*pairs: tuple[str, str]) -> Pairs:
    """Leave out what has no value."""
    return tuple(pair for pair in pairs if pair[1])
