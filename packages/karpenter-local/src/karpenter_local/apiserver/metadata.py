"""
``metadata`` on its way in: what the server sets, what it keeps from before, what it ignores.

Names, labels and the like are judged in :mod:`.validation.meta`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from karpenter_local.apiserver import errors

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

# Clients may send them and the server replaces them:
# https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/registry/rest/meta.go
_SERVER_OWNED = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
# SimpleNameGenerator of k8s.io/apiserver: five letters behind at most 58 of the prefix.
SUFFIX_LENGTH: Final = 5
_LONGEST_GENERATED: Final = 63
_DROPPED_WHEN_EMPTY = ("labels", "annotations", "ownerReferences", "finalizers", "managedFields")


class Stamps(Protocol):
    """Source of the times, uids and names that a server gives to new objects."""

    def now(self) -> str:
        """Return the time as objects carry it, to the second."""
        ...

    def new_uid(self) -> str: ...

    def generate(self, prefix: str) -> str:
        """Return a fresh name that begins with `prefix`."""
        ...


def generated(prefix: str, suffix: str) -> str:
    """Return the name that a prefix and a random suffix make."""
    return prefix[: _LONGEST_GENERATED - SUFFIX_LENGTH] + suffix


def of(value: Object) -> dict[str, Any]:
    """Return the object's metadata, which is there from here on."""
    meta = value.get("metadata")
    if not isinstance(meta, dict):
        meta = value["metadata"] = {}
    return meta


def check_namespace(resource: APIResource, meta: dict[str, Any], namespace: str) -> None:
    """Put the object where the path says; a body that says otherwise is refused."""
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    given = meta.get("namespace") or namespace
    if given != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace


def for_create(stamps: Stamps, resource: APIResource, meta: dict[str, Any], *, managed: bool = True) -> None:
    """Stamp a new object; what only the server may say is taken out first."""
    for key in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ):
        meta.pop(key, None)
    if not managed:
        meta.pop("managedFields", None)
    if meta.get("generateName") and not meta.get("name"):
        meta["name"] = stamps.generate(meta["generateName"])
    meta["uid"] = stamps.new_uid()
    meta["creationTimestamp"] = stamps.now()
    if resource.generation:
        meta["generation"] = 1
    tidy(meta)


def for_update(meta: dict[str, Any], old: dict[str, Any]) -> None:
    """
    Carry over what an update cannot change. What it must not even try to change is left for validation to
    see.
    """
    meta["name"] = meta.get("name") or old["name"]
    meta["creationTimestamp"] = old["creationTimestamp"]
    for key in _SERVER_OWNED:
        if not meta.get(key) and key in old:
            meta[key] = old[key]
        elif key not in old and not meta.get(key):
            meta.pop(key, None)
    if "generateName" in old:
        meta.setdefault("generateName", old["generateName"])
    if "generation" in old:
        meta["generation"] = old["generation"]
    else:
        meta.pop("generation", None)
    meta.pop("selfLink", None)
    tidy(meta)


def tidy(meta: dict[str, Any]) -> None:
    """Drop what is empty, as the API never shows it."""
    for key in _DROPPED_WHEN_EMPTY:
        if key in meta and not meta[key]:
            del meta[key]


def stamp(moment: datetime) -> str:
    """Return `moment` as the API writes times: RFC 3339 in UTC, whole seconds."""
    return _stamp(moment.replace(microsecond=0))


@lru_cache(maxsize=64)
def _stamp(second: datetime) -> str:
    return second.strftime("%Y-%m-%dT%H:%M:%SZ")
