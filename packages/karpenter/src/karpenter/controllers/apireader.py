"""
Reads from the API server and not from the cluster state.

What cannot be undone is decided again with what it returns, because an informer may be behind, or may have
been told of an older history by a server that was restored from a backup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from karpenter.kube.rest import Selection
    from karpenter.kube.targets import Page


T = TypeVar("T")


class APIReader(Protocol):
    """
    Reads from the API server, as controller-runtime's APIReader does: a read of the newest version.

    One object is listed by its name, because the operator may list what it watches, and may not get it.
    See https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list.
    """

    async def list(self, kind: type[T], selection: Selection = ...) -> Page[T]:
        """Return the selected objects of a kind, and those that cannot be decoded."""
        ...
