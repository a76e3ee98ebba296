"""
The rules of the embedded API server, which the distribution ``karpenter-local`` brings.

They are found through the entry-point group ``karpenter.validation``: a function from a plain object to what
an API server would hold against it when it is created, or None for a kind that it does not know
(:data:`~karpenter.api.validation.documents.ServerRules`). Without that distribution there are none.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from karpenter.api.validation.documents import ServerRules

GROUP: Final = "karpenter.validation"


def server_rules() -> ServerRules | None:
    """Return the rules of the embedded API server; None where ``karpenter-local`` is not installed."""
    for point in metadata.entry_points(group=GROUP, name="kubernetes"):
        found: ServerRules = point.load()
        return found
    return None
