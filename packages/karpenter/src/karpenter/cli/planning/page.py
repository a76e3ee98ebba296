"""
A plan as a page of text: machines with bars, prices, pods and reasons.

Machines that are alike share a row. Works without colour, and in a pipe.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from rich.text import Text

from karpenter.base.text import printable, printable_lines
from karpenter.cli.planning.data import bill, counted, money
from karpenter.cli.planning.rows import comparison_rows, machine_rows, rollout_sentences
from karpenter.core.model.pricing import (
    COMMITMENT,
    DISCOUNT,
    HOURS_A_MONTH,
    INTERRUPTIONS,
    LIST,
    NODE,
    OVERLAYS,
    PUBLIC_IPV4,
    VCPU,
    VOLUMES,
)
from karpenter.core.model.resources import CPU, MEMORY
from karpenter.top.table import Cell, FittedColumn, TextConsole, fitted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, RenderableType

    from karpenter.cli.planning.comparison import PlanComparison
    from karpenter.cli.planning.decision import PlanDecision
    from karpenter.cli.planning.rollout import DriftRollout
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.scheduling.problem import Cost, NewNode, Plan

_BAR: Final = 8
_LEAST_BAR: Final = 9
"""Columns down to which a bar may shrink, its figure included."""

_PIPE: Final = 120
"""Columns of a page that no terminal shows, such as in a file."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_SHOWN: Final = 4
_LONG: Final = 12
"""Rows of new machines from which on a summary by instance type comes first."""

_PARTS: Final = {
    OVERLAYS: "NodeOverlays",
    DISCOUNT: "price factors",
    VOLUMES: "volumes",
    PUBLIC_IPV4: "public addresses",
    NODE: "per node",
    VCPU: "per vCPU",
    INTERRUPTIONS: "expected interruptions, which no bill has",
    COMMITMENT: "paid by commitments",
}
"""What parts of a price are called."""


def show(
    decision: PlanDecision,
    console: Console | None = None,
    *,
    why: bool = False,
    remarks: Iterable[str] = (),
    change: DriftRollout | None = None,
) -> None:
    """
    Print a plan as text, with a reason for the place of every pod if `why`, and remarks before the sum.

    `change` is what becomes of everything that has drifted.
    """
    console = console or _console()
    plan = decision.plan
    if plan.new_nodes:
        several = len(decision.provisioning.pools) > 1
        by_type = machine_rows(plan.new_nodes)
        if len(_alike(plan.new_nodes)) > _LONG and len(by_type) > 1:
            console.print(_by_type(by_type, console.width))
        console.print(_machines(plan, decision.names, console.width, pools=several))
    if plan.placed:
        console.print(_existing(plan, decision.names, console.width))
    for state in decision.provisioning.pools:
        if state.obstacle and plan.refusals:
            text = f"NodePool {state.pool.name} is not used: {state.obstacle}"
            console.print(Text(printable(text), style="yellow"))
    if why and plan.because:
        console.print(_reasons("Why there", "green", plan.because.items(), decision.names, console.width))
    if plan.refusals:
        reasons = ((refusal.pod, refusal.message) for refusal in plan.refusals)
        console.print(_reasons("Without a place", "red", reasons, decision.names, console.width))
    if decision.skipped:
        skipped = ((refusal.pod, refusal.message) for refusal in decision.skipped)
        console.print(_reasons("Skipped", "yellow", skipped, decision.names, console.width))
    for remark in remarks:
        console.print(Text(printable(remark), style="yellow"))
    console.print(_summary(plan))
    if decision.disruption is not None:
        console.print()
        show_disruption(decision.disruption, console)
    if change is not None:
        console.print()
        console.print(Text(printable_lines("\n".join(rollout_sentences(change)))))


def _console() -> Console:
    console = TextConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE
    return console


def show_comparison(comparison: PlanComparison, console: Console | None = None) -> None:
    """Print two plans side by side."""
    console = console or _console()
    before, after = comparison.before, comparison.after
    columns = (
        FittedColumn(),
        FittedColumn(title="before", right=True),
        FittedColumn(title="after", right=True),
        FittedColumn(title="change", right=True),
    )
    console.print(printable_lines(f"before: {before.name}\nafter:  {after.name}\n"), soft_wrap=True)
    console.print(fitted(columns, [list(row) for row in comparison_rows(comparison)], console.width))
    types = [
        [name, f"{one:,}", f"{other:,}", f"{other - one:+,}"]
        for name, (one, other) in comparison.machines.items()
        if one != other
    ]
    if types:
        console.print(fitted(columns, types, console.width, title="Machines that differ"))
    for style, title, pods in (
        ("red", "No place any more", comparison.stranded),
        ("green", "A place now", comparison.rescued),
    ):
        if pods:
            console.print(Text(printable(f"{title}: {_pods(list(pods), {})}"), style=style))
    if after.change is not None:
        console.print(Text(printable_lines("\n".join(rollout_sentences(after.change)))))
    if comparison.is_same:
        console.print("Both come to the same.")


def bar(share: float, width: int = _BAR) -> Text:
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    filled = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    style = "green" if share >= 0.7 else "yellow" if share >= 0.4 else "red"  # noqa: PLR2004  how full is well used
    return Text.assemble((filled.ljust(width, "·"), style), f" {share:4.0%}")


class ShareBar(msgspec.Struct, frozen=True):
    """The cell of a bar, which is shorter where there is little room."""

    share: float
    natural: int = _BAR + 5

    def draw(self, width: int) -> Text:
        """Return the bar in so many columns, its figure included."""
        return bar(self.share, width - 5)


def _by_type(rows: list[tuple[str, ...]], width: int) -> RenderableType:
    columns = (
        FittedColumn(title="instance type"),
        FittedColumn(title="buy"),
        FittedColumn(title="machines", right=True),
        FittedColumn(title="pods", right=True),
        FittedColumn(title="$/hour", right=True),
    )
    return fitted(columns, [list(row) for row in rows], width, title="New machines by instance type")


def _machines(plan: Plan, names: dict[str, str], width: int, *, pools: bool) -> RenderableType:
    """Return the table of new machines, with their NodePools if there are several and there is room."""
    columns = (
        FittedColumn(right=True),
        FittedColumn(title="instance type"),
        FittedColumn(title="zone"),
        FittedColumn(title="buy"),
        FittedColumn(title="pool", drop=2),
        FittedColumn(title="cpu", least=_LEAST_BAR, drop=3),
        FittedColumn(title="memory", least=_LEAST_BAR, drop=4),
        FittedColumn(title="pods", right=True, drop=1),
        FittedColumn(title="$/hour", right=True),
        FittedColumn(title="$/month", right=True, drop=5),
        FittedColumn(title="for", least=16),
    )
    rows: list[list[Cell]] = []
    for alike in _alike(plan.new_nodes):
        first, count = alike[0], len(alike)
        bought = first.purchase
        price = bought.price * count
        rows.append(
            [
                f"{count} x" if count > 1 else "1",
                bought.instance_type,
                bought.zone,
                bought.capacity_type,
                first.pool if pools else "",
                ShareBar(_share(alike, CPU)),
                ShareBar(_share(alike, MEMORY)),
                str(sum(len(node.pods) for node in alike)),
                money(price),
                f"${price * HOURS_A_MONTH:,.2f}",
                _pods([pod for node in alike for pod in node.pods], names) or "replicas of its NodePool",
            ]
        )
    return fitted(columns, rows, width, title="New machines")


def _alike(nodes: Iterable[NewNode]) -> list[list[NewNode]]:
    groups: dict[tuple[object, ...], list[NewNode]] = defaultdict(list)
    for node in nodes:
        bought = node.purchase
        groups[node.pool, bought.instance_type, bought.zone, bought.capacity_type, _kinds(node)].append(node)
    return sorted(groups.values(), key=lambda alike: -sum(node.purchase.price for node in alike))


def _kinds(node: NewNode) -> frozenset[str]:
    return frozenset(pod.rpartition("-")[0] or pod for pod in node.pods)


def _share(nodes: list[NewNode], resource: str) -> float:
    room = sum(node.allocatable.get(resource, 0) for node in nodes)
    return sum(node.requests.get(resource, 0) for node in nodes) / room if room else 0.0


def _pods(pods: list[str], names: dict[str, str]) -> str:
    """Return the names of pods, replicas of one workload together."""
    groups: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        name = names.get(pod, pod).removeprefix("default/")
        stem, dash, number = name.rpartition("-")
        groups[stem if dash and number.isdigit() else name].append(name)
    told = [each[0] if len(each) == 1 else f"{stem} x {len(each)}" for stem, each in groups.items()]
    others = len(told) - _SHOWN
    shown = ", ".join(told[:_SHOWN])
    return f"{shown} and {others} more" if others > 0 else shown


def _existing(plan: Plan, names: dict[str, str], width: int) -> RenderableType:
    columns = (FittedColumn(title="node"), FittedColumn(title="pods", right=True), FittedColumn(least=16))
    rows = [[node, str(len(pods)), _pods(list(pods), names)] for node, pods in plan.placed.items()]
    return fitted(columns, rows, width, title="On existing nodes")


def _reasons(
    title: str, style: str, reasons: Iterable[tuple[str, str]], names: dict[str, str], width: int
) -> RenderableType:
    """Return a table of pods and sentences, pods of one sentence together."""
    groups: dict[str, list[str]] = defaultdict(list)
    for pod, reason in reasons:
        groups[reason].append(pod)
    columns = (
        FittedColumn(title="pods", right=True, style=style),
        FittedColumn(least=12),
        FittedColumn(title="why", least=30),
    )
    rows = [[str(len(pods)), _pods(pods, names), reason] for reason, pods in groups.items()]
    return fitted(columns, rows, width, title=title)


def _summary(plan: Plan) -> Text:
    cost, machines = plan.cost, len(plan.new_nodes)
    on_new = sum(len(node.pods) for node in plan.new_nodes)
    on_old = sum(len(pods) for pods in plan.placed.values())
    text = Text()
    if not machines and not on_old and not plan.refusals:
        return text.append("Nothing to do: no pod waits for a place.")
    text.append(f"{counted(on_new, 'pod')} on {counted(machines, 'new machine')}, ")
    text.append(f"{on_old} on existing nodes, ")
    text.append(f"{len(plan.refusals)} without a place", style="red" if plan.refusals else "")
    text.append(".")
    if machines:
        text.append(f"\n{money(cost.hourly)} an hour, ${cost.hourly * HOURS_A_MONTH:,.2f} a month")
        if cost.optimal:
            text.append("; ")
            text.append("no cheaper plan exists", style="bold")
        elif cost.lower_bound > 0:
            text.append(f"; no plan can cost less than {money(cost.lower_bound)}, so this one is ")
            text.append(f"{cost.gap:.1%} from the cheapest possible at most", style="bold")
            if "linear" not in cost.method:
                text.append(" (pip install highspy for a tighter proof)")
        text.append(".")
        text.append(gap_sentence(plan.cost))
        text.append(_parts(plan))
        if round(cost.added, 4) > 0:
            text.append(
                f"\nOn-demand floors and the spread of spot machines add {money(cost.added)} an hour."
            )
    return text


def gap_sentence(cost: Cost) -> str:
    """Return what makes the gap as a sentence of its own; nothing where that is not known."""
    if not cost.gap_parts:
        return ""
    first, *others = (f"{100 * part:.1f} {name}" for name, part in cost.gap_parts)
    # Each is what its kind makes on its own, and two kinds may make the same part of the gap.
    shared = ", some of it the same" if sum(part for _, part in cost.gap_parts) > cost.gap else ""
    return f"\nOf {100 * cost.gap:.1f} %, {', '.join([first.replace(' ', ' are ', 1), *others])}{shared}."


def _parts(plan: Plan) -> str:
    """Return what the bill is made of as a sentence of its own; nothing where it is list prices alone."""
    parts = bill(plan)
    if len(parts) < 2:  # noqa: PLR2004  one part is the whole
        return ""
    told = [f"{money(parts.pop(LIST))} list prices"]
    told += [f"{_signed(amount)} {_PARTS[name]}" for name, amount in parts.items()]
    return f"\nOf that {', '.join(told)}."


def _signed(amount: float) -> str:
    return f"-{money(-amount)}" if amount < 0 else money(amount)


def show_disruption(decision: DisruptionDecision, console: Console) -> None:
    """Print what would go, what takes its place, and what holds the rest."""
    if decision.commands:
        console.print(_commands(decision, console.width))
    if decision.kept:
        console.print(_kept(decision, console.width))
    before = sum(command.hourly_before for command in decision.commands)
    after = sum(command.hourly_after for command in decision.commands)
    gone = sum(len(command.candidates) for command in decision.commands)
    new = sum(len(command.replacements) for command in decision.commands)
    moved = sum(command.pods_moved for command in decision.commands)
    if decision.commands:
        console.print(
            f"{counted(gone, 'machine')} → {new}, {money(before)} → {money(after)} an hour, "
            f"${before * HOURS_A_MONTH:,.2f} → ${after * HOURS_A_MONTH:,.2f} a month "
            f"(${abs(before - after) * HOURS_A_MONTH:,.2f} {'saved' if after <= before else 'more'}), "
            f"{counted(moved, 'pod')} moved."
        )
        back = sorted({each.destinations for each in decision.commands if each.preferred})
        if back:
            text = f"Pods go back to NodePool {', '.join(back)}, which has a higher weight."
            console.print(printable(text))
    else:
        console.print("No machine would go now.")
    if decision.bound is not None and decision.bound.nodes:
        bound = decision.bound
        console.print(
            f"What savings may touch ({counted(bound.nodes, 'machine')}) costs {money(bound.hourly)} an "
            f"hour; no plan for its pods can cost less than {money(min(bound.least, bound.hourly))}."
        )


def _commands(decision: DisruptionDecision, width: int) -> RenderableType:
    columns = (
        FittedColumn(title="why"),
        FittedColumn(title="nodes", least=12),
        FittedColumn(title="in their place", least=12),
        FittedColumn(title="pods moved", right=True, drop=2),
        FittedColumn(title="$/hour before", right=True, drop=3),
        FittedColumn(title="after", right=True, drop=4),
        FittedColumn(title="saves $/month", right=True, drop=1),
    )
    rows = []
    for command in decision.commands:
        bought = Counter(
            f"{n.purchase.instance_type} {n.purchase.zone} {n.purchase.capacity_type}"
            for n in command.replacements
        )
        rows.append(
            [
                command.reason,
                _pods(list(command.candidates), {}),
                ", ".join(f"{count} x {name}" for name, count in bought.items()) or "nothing",
                str(command.pods_moved),
                money(command.hourly_before),
                money(command.hourly_after),
                f"{'-' if command.saving < 0 else ''}${abs(command.saving) * HOURS_A_MONTH:,.2f}",
            ]
        )
    return fitted(columns, rows, width, title="Machines that would go")


def _kept(decision: DisruptionDecision, width: int) -> RenderableType:
    columns = (
        FittedColumn(title="node"),
        FittedColumn(title="$/month", right=True, drop=1),
        FittedColumn(title="held by", drop=2),
        FittedColumn(least=30),
    )
    rows = []
    for kept in sorted(decision.kept, key=lambda each: (-each.hourly, each.node)):
        price = f"${kept.hourly * HOURS_A_MONTH:,.2f}" if kept.hourly else "?"
        rows.append([kept.node, price, kept.code, kept.message])
    return fitted(columns, rows, width, title="Machines that stay")
