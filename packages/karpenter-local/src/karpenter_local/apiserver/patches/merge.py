"""JSON merge patch (RFC 7396): maps are merged, null removes, everything else replaces."""

from __future__ import annotations

from typing import Any


def apply(value: Any, patch: Any) -> Any:
    """Return `value` changed by `patch`; neither is kept."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(value, dict):
        value = {}
    for key, part in patch.items():
        if part is None:
            value.pop(key, None)
        else:
            value[key] = apply(value.get(key), part)
    return value
