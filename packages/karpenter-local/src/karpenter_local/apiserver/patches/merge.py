"""JSON merge patch (RFC 7396): maps are merged, null removes, everything else replaces."""

from __future__ import annotations

from typing import Any


def apply(value: Any, patch: Any) -> Any:
    """Return `value` changed by `patch`; what it does not change, the two share."""
    if not isinstance(patch, dict):
        return patch
    changed = dict(value) if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            changed.pop(key, None)
        else:
            changed[key] = apply(changed.get(key), part)
    return changed
