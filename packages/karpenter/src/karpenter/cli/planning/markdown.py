"""Plans as Markdown: for the description of a pull request, or a comment of CI."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from karpenter.cli.planning.data import counted, money
from karpenter.cli.planning.rows import comparison_rows, machine_rows, monthly, rollout_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.cli.planning.comparison import PlanComparison
    from karpenter.cli.planning.decision import PlanDecision
    from karpenter.cli.planning.rollout import DriftRollout
    from karpenter.core.scheduling.problem import Refusal

_MOST = 20
"""Rows of pods without a place; the others are counted."""


def plan_markdown(decision: PlanDecision, remarks: Iterable[str], change: DriftRollout | None) -> str:
    """Return a plan: new machines by type, what would go, and pods without a place."""
    plan = decision.plan
    bill = f"{money(plan.cost.hourly)} an hour, {monthly(plan.cost.hourly)} a month"
    refused = counted(len(plan.refusals), "pod")
    lines = [
        f"**{counted(len(plan.new_nodes), 'new machine')}**, {bill}; {refused} without a place.",
        "",
        *_table(("instance type", "buy", "machines", "pods", "$/hour"), machine_rows(plan.new_nodes)),
    ]
    if decision.disruption is not None and decision.disruption.commands:
        rows = [
            (each.reason, ", ".join(each.candidates), str(len(each.replacements)), str(each.pods_moved))
            for each in decision.disruption.commands
        ]
        lines += ["Machines that would go", "", *_table(("why", "nodes", "replacements", "pods moved"), rows)]
    lines += [f"- {each}" for each in (*(rollout_sentences(change) if change is not None else ()), *remarks)]
    lines += _refused(plan.refusals, decision.names)
    return "\n".join(lines).rstrip() + "\n"


def comparison_markdown(comparison: PlanComparison) -> str:
    """Return two plans side by side: the figures, the machines that differ, and the pods that do."""
    before, after = comparison.before, comparison.after
    head = ("", f"`{before.name}`", f"`{after.name}`", "change")
    lines = [*_table(head, comparison_rows(comparison))]
    types = [
        (name, str(one), str(other), f"{other - one:+}")
        for name, (one, other) in comparison.machines.items()
        if one != other
    ]
    if types:
        lines += _table(("machines", "before", "after", "change"), types)
    for title, pods in (("No place any more", comparison.stranded), ("A place now", comparison.rescued)):
        if pods:
            lines += [f"{title}: {', '.join(f'`{each}`' for each in pods[:_MOST])}{_more(pods)}", ""]
    if after.change is not None:
        lines += [f"- {each}" for each in rollout_sentences(after.change)]
    return "\n".join(lines).rstrip() + "\n"


def _refused(refusals: Sequence[Refusal], names: dict[str, str]) -> list[str]:
    if not refusals:
        return []
    reasons = Counter(each.message for each in refusals)
    first = {each.message: names.get(each.pod, each.pod) for each in reversed(refusals)}
    rows = [(str(count), f"`{first[why]}`", why) for why, count in reasons.most_common(_MOST)]
    return ["", "Without a place", "", *_table(("pods", "such as", "why"), rows)]


def _more(pods: Sequence[str]) -> str:
    return f" and {len(pods) - _MOST} more" if len(pods) > _MOST else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table and the empty line after it; nothing where it has no rows."""
    if not rows:
        return []
    cells = [[each.replace("|", "\\|") for each in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)] + [""]
