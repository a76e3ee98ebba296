"""
The same object in two versions.

Only Events differ by more than the version's name: the events group renames what the core group calls them.
Versions of a custom kind differ in nothing else, because CRDs here convert with strategy None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def to_stored(resource: APIResource, value: Object) -> Object:
    """Return an object in the version of `resource` as it is stored."""
    if resource.custom:
        return value
    renamed = {_OLD_NAMES.get(key, key): part for key, part in value.items()}
    renamed["apiVersion"] = "v1"
    renamed.setdefault("source", {})
    for key in ("firstTimestamp", "lastTimestamp"):
        renamed.setdefault(key, None)
    return renamed


def from_stored(resource: APIResource, value: Object) -> Object:
    """Return a stored object in the version of `resource`."""
    if resource.stored:
        return value
    value = {**value, "apiVersion": resource.api_version}
    if resource.custom:
        return value
    return {_NEW_NAMES.get(key, key): part for key, part in value.items()}
