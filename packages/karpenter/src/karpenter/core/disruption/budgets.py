"""
How many nodes of a NodePool may be disrupted at this moment.

A budget is a ceiling, optionally open only during a schedule window and only for some reasons. Every open
budget applies at once; the tightest one wins, and where none is open nothing is held back. A budget that
cannot be read allows nothing, for any reason and at any time, and says why. A window is open from each
moment of its schedule, that moment included, until its duration has passed, that moment excluded. Schedules
are in UTC: https://karpenter.sh/docs/concepts/disruption/

:class:`Headroom` is what the budgets of every NodePool allow beyond the nodes that are disrupted already.
``now`` is an argument; the grammar of schedules is in :mod:`karpenter.base.cron`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import is_status_condition_true
from karpenter.base.cron import Schedule, parse_cron
from karpenter.base.duration import parse_duration, render_duration
from karpenter.base.pretty import excerpt
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api import nodepool as wire
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.cluster import ClusterView


# A count, or a percentage of the nodes of the pool, rounded up:
# https://karpenter.sh/docs/concepts/disruption/#nodes
_NODES: Final = re.compile(r"(?P<percent>100|[0-9]{1,2})%|(?P<count>[0-9]{1,18})")


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """How many more nodes of each NodePool may be disrupted for one reason, at one moment."""

    reason: str
    left: Mapping[str, int]
    tightest: Mapping[str, DisruptionBudget]

    @classmethod
    def at(cls, view: ClusterView, reason: str, now: datetime) -> Headroom:
        """Return what the budgets of every NodePool leave."""
        size, disrupting = budget_usage(state_nodes(view))
        tightest = {
            name: tightest_budget(
                read_budgets(pool.spec.disruption.budgets), reason=reason, pool_size=size[name], now=now
            )
            for name, pool in view.pools.items()
        }
        left = {name: each.left(size[name], disrupting[name]) for name, each in tightest.items()}
        return cls(reason=reason, left=left, tightest=tightest)

    def allows(self, candidate: Candidate) -> bool:
        """Return whether one more node of the candidate's NodePool may go."""
        return self.left[candidate.pool.name] > 0

    def after(self, going: Iterable[Candidate]) -> Headroom:
        """Return what is left once some candidates go."""
        gone = Counter(each.pool.name for each in going)
        return msgspec.structs.replace(
            self, left={name: count - gone[name] for name, count in self.left.items()}
        )

    def within(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return as many of the candidates as may go together, the first ones first."""
        left = dict(self.left)
        found = []
        for candidate in candidates:
            if left[candidate.pool.name] > 0:
                left[candidate.pool.name] -= 1
                found.append(candidate)
        return found

    def obstacle(self, candidate: Candidate) -> str:
        """Return what a budget says about a candidate that it holds."""
        pool = candidate.pool.name
        budget = self.tightest[pool]
        return f"the disruption budget of NodePool {pool} ({budget}) allows no more for {self.reason}"


def budget_usage(nodes: Iterable[StateNode]) -> tuple[Counter[str], Counter[str]]:
    """Return how many machines each pool has, and how many of them use up its budgets already."""
    size, leaving = Counter[str](), Counter[str]()
    for node in nodes:
        # Nodes that start, or whose machine is gone, are neither in the total nor among the disrupted:
        # https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets
        if not node.pool or not node.is_initialized or _is_gone(node):
            continue
        size[node.pool] += 1
        # Nodes that are not ready use up budgets too, so that disruption does not add to an outage.
        if node.is_deleting or not node.is_ready:
            leaving[node.pool] += 1
    return size, leaving


def _is_gone(node: StateNode) -> bool:
    return node.claim is not None and is_status_condition_true(
        node.claim.status.conditions, "InstanceTerminating"
    )


def headroom(
    budgets: Iterable[DisruptionBudget], *, reason: str, pool_size: int, disrupting: int, now: datetime
) -> int:
    """Return how many more nodes may start disrupting for `reason`."""
    tightest = tightest_budget(budgets, reason=reason, pool_size=pool_size, now=now)
    return tightest.left(pool_size, disrupting)


def tightest_budget(
    budgets: Iterable[DisruptionBudget], *, reason: str, pool_size: int, now: datetime
) -> DisruptionBudget:
    """Return the tightest of the open budgets, which decides; 100 % where none is open."""
    # Of all budgets that are active the smallest holds:
    # https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets
    open_now = [budget for budget in budgets if budget.covers(reason, now)]
    return min(open_now, key=lambda budget: budget.ceiling(pool_size), default=_EVERYTHING)


def read_budgets(budgets: Iterable[wire.Budget]) -> tuple[DisruptionBudget, ...]:
    """Return the budgets of a pool; one that cannot be understood allows nothing and says why."""
    return tuple(_read_budget(position, budget) for position, budget in enumerate(budgets))


def _read_budget(position: int, budget: wire.Budget) -> DisruptionBudget:
    try:
        return parse_budget(budget)
    except BudgetError as error:
        # A budget that cannot be read must not open the gate: it allows nothing, as upstream has it:
        # https://github.com/kubernetes-sigs/karpenter
        return DisruptionBudget(nodes=0, problem=f"budgets[{position}]: {error}")


def parse_budget(budget: wire.Budget) -> DisruptionBudget:
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
    return DisruptionBudget(
        nodes=int(match["count"]) if match["count"] else None,
        percent=int(match["percent"]) if match["percent"] else None,
        reasons=frozenset(budget.reasons),
        window=_parse_window(budget),
    )


def _parse_window(budget: wire.Budget) -> BudgetWindow | None:
    if budget.schedule is None and budget.duration is None:
        return None
    try:
        return parse_window(budget.schedule, budget.duration)
    except WindowError as error:
        raise BudgetError(str(error)) from None


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A ceiling on simultaneous disruption: a node count, or a share of the pool."""

    nodes: int | None = None
    percent: int | None = None
    reasons: frozenset[str] = frozenset()
    """Empty means every reason."""

    window: BudgetWindow | None = None
    """None means always."""

    problem: str = ""
    """Why the budget was not understood, and therefore allows nothing."""

    def ceiling(self, pool_size: int) -> int:
        """Return how many of `pool_size` nodes may be disrupted at once; shares round up."""
        if self.nodes is not None:
            return self.nodes
        # Shares round up, so that 10% of 5 nodes lets one go:
        # https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets
        return -(-pool_size * (self.percent or 0) // 100)

    def left(self, pool_size: int, disrupting: int) -> int:
        """Return how many more nodes may start disrupting while `disrupting` of them are."""
        return max(0, self.ceiling(pool_size) - disrupting)

    def covers(self, reason: str, now: datetime) -> bool:
        """Say whether the budget limits disruption for `reason` at this moment."""
        if self.reasons and reason not in self.reasons:
            return False
        return self.window is None or self.window.is_open(now)

    def __str__(self) -> str:
        if self.problem:
            return f"0 nodes ({self.problem})"
        limit = f"{self.percent}%" if self.nodes is None else f"{self.nodes} nodes"
        reasons = f" for {', '.join(sorted(self.reasons))}" if self.reasons else ""
        window = f" during {self.window}" if self.window else ""
        return f"{limit}{reasons}{window}"


_EVERYTHING: Final = DisruptionBudget(percent=100)


class BudgetError(ValueError):
    """The budget cannot be understood; the message is one sentence that says why."""


def parse_window(schedule: object, duration: object) -> BudgetWindow:
    """
    Return the window of a schedule and a duration.

    Raises:
        WindowError: if one is missing, is not understood, or the duration is negative.
    """
    if schedule is None:
        raise WindowError("a duration without a schedule: expected both or neither")
    if duration is None:
        raise WindowError("a schedule without a duration: expected both or neither")
    try:
        opens, lasts = parse_cron(schedule), parse_duration(duration)
    except ValueError as error:
        raise WindowError(str(error)) from None
    if lasts < timedelta():
        raise WindowError(f"duration {render_duration(lasts)} is negative: expected zero or more")
    return BudgetWindow(opens, lasts)


class BudgetWindow(msgspec.Struct, frozen=True):
    """Times that come again and again, and how long each lasts."""

    schedule: Schedule
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Say whether an opening has begun and not yet ended."""
        try:
            # Schedules are in UTC: https://karpenter.sh/docs/concepts/disruption/
            since = now.astimezone(UTC) - self.duration
        except OverflowError:
            since = datetime.min.replace(tzinfo=UTC)
        hit = self.schedule.next_after(since)
        return hit is not None and hit <= now

    def __str__(self) -> str:
        return f"{render_duration(self.duration)} from {self.schedule}"


class WindowError(ValueError):
    """The window cannot be meant; the message is one sentence that says why."""
