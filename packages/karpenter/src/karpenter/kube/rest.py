"""
The API verbs: each function returns a :class:`~karpenter.kube.transport.Request` and sends nothing.

Query parameters and subresources are spelled here and nowhere else. A :class:`~karpenter.kube.targets.Target`
says what a request is about; the ways to change part of an object are in :mod:`.patches`.
See https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from karpenter.kube.patches import Apply, Patch
from karpenter.kube.targets import Body, Target
from karpenter.kube.transport import Pairs, Request

_JSON = "application/json"
_ACCEPT: Pairs = (("accept", _JSON),)
_ANY: Pairs = (("accept", "*/*"),)  # a log is text, and a refusal of it is JSON
_SENDS_JSON: Pairs = (("accept", _JSON), ("content-type", _JSON))


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind: those of a namespace, by labels, by fields. Empty means all."""

    namespace: str = ""
    labels: str = ""
    """Such as ``app=web,tier!=test``."""

    fields: str = ""
    """Such as ``spec.nodeName=node-1``."""

    def query(self) -> Pairs:
        return _given(("labelSelector", self.labels), ("fieldSelector", self.fields))


EVERYTHING = Selection()


def named(name: str, *, namespace: str = "") -> Selection:
    """Select one object; the server finds it by its key: every kind has this field."""
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
    return Selection(namespace=namespace, fields=f"metadata.name={name}")


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """What must be true of an object for a delete or an eviction to happen; else Conflict."""

    uid: str = ""
    version: str = ""

    def plain(self) -> dict[str, str]:
        """Return them as the API spells them."""
        return dict(_given(("uid", self.uid), ("resourceVersion", self.version)))


ANY_STATE = Preconditions()


def get(target: Target[Any], name: str, *, namespace: str = "", subresource: str = "") -> Request:
    path = target.path(namespace=namespace, name=name, subresource=subresource)
    return Request(method="GET", path=path, headers=_ACCEPT)


def log(name: str, *, namespace: str, lines: int, container: str = "", previous: bool = False) -> Request:
    """Read the last lines that a container of a pod has written, or that its last run wrote."""
    query = _given(("container", container), ("previous", "true" if previous else ""))
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/log"
    return Request(method="GET", path=path, query=(*query, ("tailLines", str(lines))), headers=_ANY)


def list_page(
    target: Target[Any], selection: Selection = EVERYTHING, *, limit: int = 0, after: str = ""
) -> Request:
    """Read a list, or the page of it that `after` points to."""
    # https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
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
            # Bookmarks move the version of a quiet watch on, so that it can be resumed after hours:
            # https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
            *((("allowWatchBookmarks", "true"),) if bookmarks else ()),
            ("resourceVersion", since),
            ("timeoutSeconds", str(seconds)),
        ),
        headers=_ACCEPT,
    )


def create(
    target: Target[Any], body: Body, *, namespace: str = "", manager: str, dry_run: bool = False
) -> Request:
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
    """Evict a pod, if its PodDisruptionBudget allows."""
    options = _delete_options(only_if=only_if, propagation="", grace=grace)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        **({"deleteOptions": options} if options else {}),
    }
    return _on_pod(name, namespace, "eviction", body, dry_run=dry_run)


def bind(name: str, *, namespace: str, node: str, uid: str = "") -> Request:
    """Bind a pod to a node, as a scheduler does."""
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
    # https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    return _given(("fieldManager", manager), ("dryRun", "All" if dry_run else ""))


def _given(*pairs: tuple[str, str]) -> Pairs:
    return tuple(pair for pair in pairs if pair[1])
