"""What pages and Markdown say of a plan in the same words: rows of tables and sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from karpenter.cli.planning.data import counted, money
from karpenter.core.model.pricing import HOURS_A_MONTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karpenter.cli.planning.comparison import PlanComparison
    from karpenter.cli.planning.rollout import DriftRollout
    from karpenter.core.scheduling.problem import NewNode

_SHOWN: Final = 4


def machine_rows(nodes: Iterable[NewNode]) -> list[tuple[str, ...]]:
    """Return new machines by instance type and how they are bought: their number, pods and price."""
    groups: dict[tuple[str, str], list[NewNode]] = defaultdict(list)
    for node in nodes:
        groups[node.purchase.instance_type, node.purchase.capacity_type].append(node)
    ordered = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    return [
        (
            kind,
            way,
            str(len(alike)),
            str(sum(len(node.pods) for node in alike)),
            money(sum(node.purchase.price for node in alike)),
        )
        for (kind, way), alike in ordered
    ]


def comparison_rows(comparison: PlanComparison) -> list[tuple[str, ...]]:
    """Return the figures of two plans: what, before, after, and the change."""
    one, other = comparison.before, comparison.after
    return [
        _priced("bill an hour", one.hourly, other.hourly, money),
        _priced("bill a month", one.hourly, other.hourly, monthly),
        _counted("machines", sum(one.machines.values()), sum(other.machines.values())),
        _counted("new machines for waiting pods", one.new, other.new),
        _counted("machines that go", one.removed, other.removed),
        _counted("pods evicted", one.evicted, other.evicted),
        _counted("pods without a place", len(one.unscheduled), len(other.unscheduled)),
    ]


def rollout_sentences(change: DriftRollout) -> Iterator[str]:
    """Yield what becomes of everything that has drifted."""
    going, drifted = change.going, change.drifted
    reasons = Counter(each.reason for each in drifted)
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    yield f"Drifted: {counted(len(drifted), 'machine')} ({why})."
    if going:
        at_once = ", ".join(f"{count} of NodePool {name}" for name, count in change.at_once.items())
        order = ", ".join(each.name for each in going[:_SHOWN])
        more = f" and {len(going) - _SHOWN} more" if len(going) > _SHOWN else ""
        yield (
            f"{counted(len(going), 'machine')} {'goes' if len(going) == 1 else 'go'}, in this order:"
            f" {order}{more}; at most {at_once} at the same time; {counted(change.evicted, 'pod')} evicted."
        )
    held = [each for each in drifted if each.held]
    for each in held[:_SHOWN]:
        yield f"{each.name} stays: {each.held}."
    if len(held) > _SHOWN:
        yield f"{len(held) - _SHOWN} more stay."
    yield f"Machines now: {kinds(change.before)}. At the end: {kinds(change.after)}."
    yield (
        f"The bill at the end: {money(change.hourly_before)} → {money(change.hourly_after)} an hour, "
        f"{monthly(change.hourly_before)} → {monthly(change.hourly_after)} a month."
    )
    if change.unscheduled:
        yield f"{counted(len(change.unscheduled), 'pod')} without a place at the end."


def kinds(machines: Mapping[str, int]) -> str:
    """Return machines by type as words, the most first."""
    told = [f"{count} x {name}" for name, count in machines.items()]
    others = sum(tuple(machines.values())[_SHOWN:])
    more = f" and {counted(others, 'other')}" if others else ""
    return f"{', '.join(told[:_SHOWN])}{more}" or "none"


def monthly(hourly: float) -> str:
    return f"${hourly * HOURS_A_MONTH:,.2f}"


def _priced(what: str, one: float, other: float, told: Callable[[float], str]) -> tuple[str, ...]:
    change = other - one
    if not round(change, 4):
        return what, told(one), told(other), ""
    share = f" ({change / one:+.1%})" if one > 0 else ""
    return what, told(one), told(other), f"{'-' if change < 0 else '+'}{told(abs(change))}{share}"


def _counted(what: str, one: int, other: int) -> tuple[str, ...]:
    return what, f"{one:,}", f"{other:,}", f"{other - one:+,}" if one != other else ""
