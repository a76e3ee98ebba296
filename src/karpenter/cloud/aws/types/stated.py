"""
Prices that users state for instance types that AWS has none for, such as those of a preview.

A NodeOverlay of one shape says so: a price per hour, and a single requirement that names instance types.
Any other corrects prices that there are, which is somebody else's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import INSTANCE_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.overlay import NodeOverlay


def stated_prices(overlays: Iterable[NodeOverlay]) -> dict[str, float]:
    """Return the prices that overlays state, by instance type; of two the one of more weight."""
    found: dict[str, float] = {}
    for each in sorted(overlays, key=lambda one: (one.spec.weight or 0, one.name)):
        spec = each.spec
        if spec.price is None or len(spec.requirements) != 1:
            continue
        only = spec.requirements[0]
        if (only.key, only.operator) == (INSTANCE_TYPE, "In"):
            found.update(dict.fromkeys(only.values, float(spec.price)))
    return found
