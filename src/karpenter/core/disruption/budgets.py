"""
How many nodes of a pool may be disrupted at this moment.

A budget is a ceiling, optionally open only during a schedule window and only
for some reasons. Every open budget applies at once; the tightest one wins, and
where none is open nothing is held back. A budget that cannot be understood
allows nothing, for any reason and at any time, and says why.

Pure: ``now`` is an argument, nodes are counted by the caller, and nothing here
knows what is being disrupted. Windows are in :mod:`.windows`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.base.excerpt import excerpt
from karpenter.core.disruption.windows import Window, WindowError, parse_window

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from karpenter.api import nodepool as wire

_NODES: Final = re.compile(r"(?P<percent>100|[0-9]{1,2})%|(?P<count>[0-9]{1,18})")


class BudgetError(ValueError):
    """The budget cannot be understood; the message is one sentence that says why."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling on simultaneous disruption: a node count, or a share of the pool."""

    nodes: int | None = None
    percent: int | None = None
    reasons: frozenset[str] = frozenset()
    """Empty means every reason."""

    window: Window | None = None
    """None means always."""

    problem: str = ""
    """Why the budget was not understood, and therefore allows nothing."""

    def ceiling(self, pool_size: int) -> int:
        """Return how many of `pool_size` nodes may be disrupted at once; shares round up."""
        if self.nodes is not None:
            return self.nodes
        return -(-pool_size * (self.percent or 0) // 100)

    def covers(self, reason: str, now: datetime) -> bool:
        """Say whether the budget limits disruption for `reason` at this moment."""
        if self.reasons and reason not in self.reasons:
            return False
        return self.window is None or self.window.is_open(now)

    def __str__(self) -> str:
        """Return the budget as an operator would say it."""
        if self.problem:
            return f"0 nodes ({self.problem})"
        limit = f"{self.percent}%" if self.nodes is None else f"{self.nodes} nodes"
        reasons = f" for {', '.join(sorted(self.reasons))}" if self.reasons else ""
        window = f" during {self.window}" if self.window else ""
        return f"{limit}{reasons}{window}"


def headroom(
    budgets: Iterable[Budget], *, reason: str, pool_size: int, disrupting: int, now: datetime
) -> int:
    """Return how many more nodes may start disrupting for `reason`."""
    tightest = binding(budgets, reason=reason, pool_size=pool_size, now=now)
    allowed = pool_size if tightest is None else tightest.ceiling(pool_size)
    return max(0, allowed - disrupting)


def binding(budgets: Iterable[Budget], *, reason: str, pool_size: int, now: datetime) -> Budget | None:
    """Return the budget that decides, which is the tightest of the open ones; None if none is open."""
    open_now = [budget for budget in budgets if budget.covers(reason, now)]
    return min(open_now, key=lambda budget: budget.ceiling(pool_size), default=None)


def read_budgets(budgets: Iterable[wire.Budget]) -> tuple[Budget, ...]:
    """Return the budgets of a pool; one that cannot be understood allows nothing and says why."""
    return tuple(_read_budget(position, budget) for position, budget in enumerate(budgets))


def _read_budget(position: int, budget: wire.Budget) -> Budget:
    try:
        return parse_budget(budget)
    except BudgetError as error:
        return Budget(nodes=0, problem=f"budgets[{position}]: {error}")


def parse_budget(budget: wire.Budget) -> Budget:
    """
    Return the budget that its wire form stands for.

    Raises:
        BudgetError: naming the field, the value and what is allowed.
    """
    match = _NODES.fullmatch(budget.nodes)
    if match is None:
        raise BudgetError(
            f"nodes {excerpt(budget.nodes)}: expected a count such as 5, or a share from 0% to 100%"
        )
    return Budget(
        nodes=int(match["count"]) if match["count"] else None,
        percent=int(match["percent"]) if match["percent"] else None,
        reasons=frozenset(budget.reasons),
        window=_parse_window(budget),
    )


def _parse_window(budget: wire.Budget) -> Window | None:
    if budget.schedule is None and budget.duration is None:
        return None
    try:
        return parse_window(budget.schedule, budget.duration)
    except WindowError as error:
        raise BudgetError(str(error)) from None
