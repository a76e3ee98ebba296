"""
Amounts that fit the arrays of the solver.

Quantities are exact and unbounded (``1e30`` is one); arrays hold 64 bits. An amount near the end of that
range is refused here, in one sentence, before the solver sees it. Where a larger amount means no more than
"without limit", the amount is cut instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.core.model.resources import render_amount

if TYPE_CHECKING:
    from karpenter.core.model.resources import Resources

LARGEST: Final = 2**62 - 1
"""The largest amount of a resource; two of them add up within 64 bits."""


def uncountable(resources: Resources) -> str:
    """Return which amount is too large for the arrays; nothing when none is."""
    for name, amount in sorted(resources.items()):
        if not -LARGEST <= amount <= LARGEST:
            return f"{_written(name, amount)} is beyond what can be counted: expected at most {LARGEST}"
    return ""


def impossible(requests: Resources) -> str:
    """Return which request is negative or too large; nothing when none is."""
    for name, amount in sorted(requests.items()):
        if amount < 0:
            return f"{_written(name, amount)} is less than nothing: expected 0 or more"
    return uncountable(requests)


def cut(resources: Resources) -> dict[str, int]:
    """Return the amounts, those that are too large cut to the largest amount."""
    return {name: max(-LARGEST, min(LARGEST, amount)) for name, amount in resources.items()}


def _written(name: str, amount: int) -> str:
    return f"resource {name}: {render_amount(name, amount)}"
