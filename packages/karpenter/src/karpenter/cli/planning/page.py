"""
A plan as a page of text: machines with bars, prices, pods and reasons.

Machines that are alike share a row. Works without colour, and in a pipe.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from karpenter.core.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.cli.planning.decision import PlanDecision
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.scheduling.problem import NewNode, Plan

HOURS_A_MONTH: Final = 730
_BAR: Final = 8
_NARROW: Final = 105
"""Columns below which bars are short and closer together, so that names stay whole."""

_WIDE: Final = 110
"""Columns from which on there is room for the price per month as well."""

_PIPE: Final = 120
"""Columns of a page that no terminal shows, such as in a file."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_SHOWN: Final = 4


def show(
    decision: PlanDecision,
    console: Console | None = None,
    *,
    why: bool = False,
    remarks: Iterable[str] = (),
) -> None:
    """Print a plan as text, with a reason for the place of every pod if `why`, and remarks before the sum."""
    console = console or _console()
    plan = decision.plan
    if plan.new_nodes:
        several = len(decision.provisioning.pools) > 1
        console.print(_machines(plan, decision.names, console.width, pools=several))
    if plan.placed:
        console.print(_existing(plan, decision.names))
    for state in decision.provisioning.pools:
        if state.obstacle and plan.refusals:
            console.print(Text(f"NodePool {state.pool.name} is not used: {state.obstacle}", style="yellow"))
    if why and plan.because:
        console.print(_reasons("Why there", "green", plan.because.items(), decision.names))
    if plan.refusals:
        reasons = ((refusal.pod, refusal.message) for refusal in plan.refusals)
        console.print(_reasons("Without a place", "red", reasons, decision.names))
    if decision.skipped:
        skipped = ((refusal.pod, refusal.message) for refusal in decision.skipped)
        console.print(_reasons("Skipped", "yellow", skipped, decision.names))
    for remark in remarks:
        console.print(Text(remark, style="yellow"))
    console.print(_summary(plan))
    if decision.disruption is not None:
        console.print()
        show_disruption(decision.disruption, console)


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE
    return console


def money(amount: float) -> str:
    """Return a price per hour."""
    return f"${amount:,.4f}" if amount < 1 else f"${amount:,.2f}"


def counted(number: int, noun: str) -> str:
    """Return how many there are of something."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bar(share: float, width: int = _BAR) -> Text:
    """Return a bar that is filled to a share."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    filled = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    style = "green" if share >= 0.7 else "yellow" if share >= 0.4 else "red"  # noqa: PLR2004  how full is well used
    return Text.assemble((filled.ljust(width, "·"), style), f" {share:4.0%}")


def _machines(plan: Plan, names: dict[str, str], width: int, *, pools: bool) -> Table:
    """Return the table of new machines, with their NodePools if there are several and there is room."""
    wide, narrow = width >= _WIDE, width < _NARROW
    pools = pools and wide
    table = Table(title="New machines", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    if narrow:
        table.padding = (0, 1, 0, 0)
    for name, justify in (("", "right"), ("instance type", "left"), ("zone", "left"), ("buy", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    if pools:
        table.add_column("pool", no_wrap=True)
    for name in ("cpu", "memory"):
        table.add_column(name, no_wrap=True)
    for name in ("pods", "$/hour", "$/month") if wide else ("pods", "$/hour"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("for", overflow="fold")
    for alike in _alike(plan.new_nodes):
        first, count = alike[0], len(alike)
        bought = first.purchase
        price = bought.price * count
        table.add_row(
            f"{count} x" if count > 1 else "1",
            bought.instance_type,
            bought.zone,
            bought.capacity_type,
            *([first.pool] if pools else []),
            bar(_share(alike, CPU), _BAR // 2 if narrow else _BAR),
            bar(_share(alike, MEMORY), _BAR // 2 if narrow else _BAR),
            str(sum(len(node.pods) for node in alike)),
            money(price),
            *([f"${price * HOURS_A_MONTH:,.2f}"] if wide else []),
            _pods([pod for node in alike for pod in node.pods], names),
        )
    return table


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


def _existing(plan: Plan, names: dict[str, str]) -> Table:
    table = Table(title="On existing nodes", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("node", no_wrap=True)
    table.add_column("pods", justify="right")
    table.add_column("")
    for node, pods in plan.placed.items():
        table.add_row(node, str(len(pods)), _pods(list(pods), names))
    return table


def _reasons(title: str, style: str, reasons: Iterable[tuple[str, str]], names: dict[str, str]) -> Table:
    """Return a table of pods and sentences, pods of one sentence together."""
    groups: dict[str, list[str]] = defaultdict(list)
    for pod, reason in reasons:
        groups[reason].append(pod)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("pods", justify="right", style=style)
    table.add_column("")
    table.add_column("why", overflow="fold")
    for reason, pods in groups.items():
        table.add_row(str(len(pods)), _pods(pods, names), reason)
    return table


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
    return text


def show_disruption(decision: DisruptionDecision, console: Console) -> None:
    """Print what would go, what takes its place, and what holds the rest."""
    if decision.commands:
        console.print(_commands(decision))
    if decision.kept:
        console.print(_kept(decision))
    before = sum(command.hourly_before for command in decision.commands)
    after = sum(command.hourly_after for command in decision.commands)
    gone = sum(len(command.candidates) for command in decision.commands)
    new = sum(len(command.replacements) for command in decision.commands)
    moved = sum(command.pods_moved for command in decision.commands)
    if decision.commands:
        console.print(
            f"{counted(gone, 'machine')} → {new}, {money(before)} → {money(after)} an hour, "
            f"${before * HOURS_A_MONTH:,.2f} → ${after * HOURS_A_MONTH:,.2f} a month "
            f"(${(before - after) * HOURS_A_MONTH:,.2f} saved), {counted(moved, 'pod')} moved."
        )
    else:
        console.print("No machine would go now.")
    if decision.bound is not None and decision.bound.nodes:
        bound = decision.bound
        console.print(
            f"What savings may touch ({counted(bound.nodes, 'machine')}) costs {money(bound.hourly)} an "
            f"hour; no plan for its pods can cost less than {money(min(bound.least, bound.hourly))}."
        )


def _commands(decision: DisruptionDecision) -> Table:
    table = Table(title="Machines that would go", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("why", no_wrap=True)
    table.add_column("nodes", overflow="fold")
    table.add_column("in their place", overflow="fold")
    for name in ("pods moved", "$/hour before", "after"):
        table.add_column(name, justify="right", no_wrap=True)
    for command in decision.commands:
        bought = Counter(
            f"{n.purchase.instance_type} {n.purchase.zone} {n.purchase.capacity_type}"
            for n in command.replacements
        )
        table.add_row(
            command.reason,
            _pods(list(command.candidates), {}),
            ", ".join(f"{count} x {name}" for name, count in bought.items()) or "nothing",
            str(command.pods_moved),
            money(command.hourly_before),
            money(command.hourly_after),
        )
    return table


def _kept(decision: DisruptionDecision) -> Table:
    table = Table(title="Machines that stay", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("node", no_wrap=True)
    table.add_column("$/month", justify="right", no_wrap=True)
    table.add_column("held by", no_wrap=True)
    table.add_column("", overflow="fold")
    for kept in sorted(decision.kept, key=lambda each: (-each.hourly, each.node)):
        price = f"${kept.hourly * HOURS_A_MONTH:,.2f}" if kept.hourly else "?"
        table.add_row(kept.node, price, kept.code, kept.message)
    return table
