"""
How ``karpenter top`` looks: the summary, the rows of nodes, and the lists below them, as renderables of rich.

The screen, ``--once`` and the demo show the same ones. Every function takes the width it has to fit into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from karpenter.base.text import printable
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.model.resources import CPU, MEMORY, PODS, human_amount
from karpenter.top.model import GPU, NodeRow, age, amount_of, label_text
from karpenter.top.pending import NO_PLACE
from karpenter.top.table import Cell, FittedColumn, TableData, UsageBar, fit, fitted, share_style

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from karpenter.top.advice import Advice
    from karpenter.top.pending import PendingPod
    from karpenter.top.snapshot import TopOptions, TopSnapshot
    from karpenter.why.costs import CostAllocation

_IDLE: Final = "idle"
_OVERHEAD: Final = "overhead"
_BILL: Final = "the bill"
NO_NODES: Final = "Waiting for update or no nodes found..."
NO_DECISIONS: Final = "no decisions of Karpenter in the Events of this cluster"
GREY: Final = "#626262"
_SHOWN_DECISIONS: Final = 5
_USED: Final = 10
"""Columns of the amount that is used, in the summary."""

_CAPACITY: Final = {
    "on-demand": "On-Demand",
    "spot": "Spot",
    "reserved": "Reserved",
    "fargate": "Fargate",
}
_NAME: Final = FittedColumn(title="node", least=20, cut=True)
_ENDLESS: Final = 10_000
_BAR: Final = FittedColumn(title="requested", least=18)
_NARROW_BAR: Final = FittedColumn(title="requested", least=12)
_NARROW: Final = 100
"""Columns below which bars give way to text."""

_COLUMNS: Final = (
    FittedColumn(title="type/price", drop=1),
    FittedColumn(title="capacity", drop=2),
    FittedColumn(title="state", drop=3),
    FittedColumn(title="ready", drop=4),
)
_OURS: Final = (
    FittedColumn(title="next", drop=6),
    FittedColumn(title="pool", drop=7),
    FittedColumn(title="zone", drop=8),
    FittedColumn(title="age", drop=9, right=True),
    FittedColumn(title="memory", drop=10, right=True),
    FittedColumn(title="gpu", drop=8, right=True),
)


def summary(snapshot: TopSnapshot, options: TopOptions, width: int) -> RenderableType:
    """Return the sums: a line per resource, the bill, and how many pods there are."""
    sums = snapshot.totals
    rows: list[list[Cell]] = []
    for place, resource in enumerate(options.resources):
        used, room = amount_of(sums.requests, resource), amount_of(sums.allocatable, resource)
        share = used / room if room else 0.0
        amounts = f"{_amount(resource, used):>{_USED}}/{_amount(resource, room)}"
        first = place == 0
        sign = snapshot.currency
        bill = f"{sign}{sums.hourly:,.3f}/hour | {sign}{sums.monthly:,.3f}/month"
        rows.append(
            [
                f"{sums.nodes:,} nodes" if first else "",
                f"({amounts})" if first else f" {amounts}",
                Text(f"{share:.1%}", share_style(share, options.style)),
                resource,
                UsageBar(share, options.style, percent=False),
                bill if first and options.pricing else "",
            ]
        )
    columns = (
        FittedColumn(),
        FittedColumn(),
        FittedColumn(right=True),
        FittedColumn(),
        FittedColumn(least=6, drop=1),
        FittedColumn(),
    )
    pods = Text(
        f"{sums.pods:,} pods ({sums.pending:,} pending {sums.running:,} running {sums.bound:,} bound)",
        no_wrap=True,
        overflow="ellipsis",
    )
    if options.pricing and sums.unpriced:
        pods.append(f" • {sums.unpriced:,} nodes without a known price", "yellow")
    if snapshot.advice is not None:
        pods.append(_outlook(snapshot.advice, snapshot.currency), "bold" if snapshot.advice.going else "")
    return Group(fitted(columns, rows, width, heading=False), pods)


def _outlook(advice: Advice, sign: str) -> str:
    if not advice.going:
        return " • no node would go now"
    noun = "node" if advice.going == 1 else "nodes"
    return f" • {advice.going:,} {noun} would go: {sign}{advice.saving * HOURS_A_MONTH:,.2f}/month less"


def _amount(resource: str, amount: int) -> str:
    return human_amount(resource, amount)


def node_table(
    rows: Sequence[NodeRow], options: TopOptions, width: int, *, now: datetime, advice: Advice | None = None
) -> RenderableType:
    columns = (
        _NAME,
        FittedColumn(),
        _BAR if width >= _NARROW else _NARROW_BAR,
        FittedColumn(title="pods", drop=5),
        *_COLUMNS,
        *(FittedColumn(title=_short(each), drop=4) for each in options.extra_labels),
        *_OURS,
        FittedColumn(title=f"{_sign(rows)}/month", drop=11, right=True),
    )
    cells = [line for row in rows for line in _lines(row, options, now, advice)]
    if sum(map(bool, fit(columns, cells, width))) < sum(map(bool, fit(columns, cells, _ENDLESS))):
        cells = [[_host(line[0]), *line[1:]] for line in cells]  # rather than another column
    return fitted(columns, cells, width)


def _sign(rows: Sequence[NodeRow]) -> str:
    return rows[0].currency if rows else "$"


def _host(cell: Cell) -> Cell:
    """Return the name of a node without its domain, which all nodes of a cluster share."""
    return cell.split(".")[0] if isinstance(cell, Text) and "." in cell.plain else cell


def _lines(row: NodeRow, options: TopOptions, now: datetime, advice: Advice | None) -> list[list[Cell]]:
    # A narrow screen has no column for readiness, so the name shows it too.
    name = Text(row.name, "red" if row.deleting else "" if row.ready else "yellow")
    rest = _rest(row, options, now, advice)
    lines: list[list[Cell]] = []
    for resource in options.resources:
        bar = UsageBar(row.share(resource) or 0.0, options.style)
        lines.append(["", resource, bar, *([""] * len(rest))] if lines else [name, resource, bar, *rest])
    return lines


def _rest(row: NodeRow, options: TopOptions, now: datetime, advice: Advice | None) -> list[Cell]:
    price = row.price if options.pricing else None
    kind = row.instance_type or "-"
    way = _CAPACITY.get(row.capacity_type, row.capacity_type) or "-"
    if row.ready:
        ready = Text("Ready")
    else:
        since = f"/{age(now - row.waiting_since)}" if row.waiting_since is not None else ""
        ready = Text(f"NotReady{since}", "yellow")
    state = Text(row.state or "-", "red" if row.deleting else "yellow" if row.cordoned else "")
    memory, gpus = row.share(MEMORY), row.amounts(GPU)
    return [
        f"({row.pods}/{amount_of(row.allocatable, PODS)} pods)",
        f"{kind}/{row.currency}{price:.4f}" if price is not None else kind,
        f"{way}/Auto" if row.auto else way,
        state,
        ready,
        *(label_text(row, label, now) for label in options.extra_labels),
        _next(row, advice),
        row.pool,
        row.zone,
        age(now - row.created) if row.created is not None else "",
        f"{memory:.0%}" if memory is not None and MEMORY not in options.resources else "",
        f"{gpus[0]}/{gpus[1]}" if gpus[1] and GPU not in options.resources else "",
        f"{price * HOURS_A_MONTH:,.2f}" if price is not None else "",
    ]


def _next(row: NodeRow, advice: Advice | None) -> Text:
    """Return what becomes of a node next, in two words."""
    found = advice.nodes.get(row.key) if advice is not None else None
    if found is None or not found.code:
        return Text("")
    if found.goes:
        return Text(f"goes: {found.code}", "bold magenta")
    return Text(f"stays: {found.code}", "bright_black")


def _short(label: str) -> str:
    return label.rpartition("/")[2]


def stay_table(snapshot: TopSnapshot) -> TableData:
    """Return whether each node goes or stays and why, as ``karpenter why`` says it; the dearest first."""
    lines: list[tuple[Cell, ...]] = []
    for row in sorted(snapshot.rows, key=lambda each: -(each.price or 0.0)):
        found = snapshot.advice.nodes.get(row.key) if snapshot.advice is not None else None
        price = f"{row.price * HOURS_A_MONTH:,.2f}" if row.price is not None else "?"
        sentence = found.sentence if found is not None else "No decision has been made about it."
        lines.append(
            (_host(Text(row.name)), price, Text(sentence, "bold magenta" if found and found.goes else ""))
        )
    columns = (
        FittedColumn(title="node", least=14, cut=True),
        FittedColumn(title=f"{snapshot.currency}/month", drop=1, right=True),
        FittedColumn(title="why", least=20),
    )
    return TableData(columns, tuple(lines))


def pending_table(pods: Sequence[PendingPod], *, detail: str = "sentence", heading: bool = True) -> TableData:
    """Return the pods that wait, and why; `detail` is the sentence, the cause, or one line of the cause."""
    columns = (
        FittedColumn(title="waits" if heading else "", least=12, cut=True),
        FittedColumn(title="why" if heading else "", least=20, cut=detail == "line"),
    )
    rows = (
        (
            Text(each.name, "yellow" if each.placed else "bold red"),
            each.sentence.removeprefix(NO_PLACE) if detail == "sentence" else each.cause or each.sentence,
        )
        for each in pods
    )
    return TableData(columns, tuple(rows))


def cost_table(costs: CostAllocation, sign: str) -> TableData:
    """Return what each workload costs, and what is idle or overhead; together they are the bill."""
    columns = (
        FittedColumn(title="workload", least=14, cut=True),
        FittedColumn(title=f"{sign}/month", right=True),
        FittedColumn(title="of the bill", right=True),
        FittedColumn(least=6, drop=4),
        FittedColumn(title="pods", right=True, drop=1),
        FittedColumn(title="cpu", right=True, drop=2),
        FittedColumn(title="memory", right=True, drop=3),
    )
    all_of_it = costs.total.monthly
    amounts = [(each.monthly, each.name) for each in costs.workloads]
    requests = {
        each.name: (f"{each.pods:,}", _amount(CPU, each.cpu), _amount(MEMORY, each.memory * 1024**2))
        for each in costs.workloads
    }
    amounts += [(costs.idle.monthly, _IDLE), (costs.overhead.monthly, _OVERHEAD), (all_of_it, _BILL)]
    rows: list[tuple[Cell, ...]] = []
    for monthly, name in amounts:
        share = monthly / all_of_it if all_of_it else 0.0
        style = "" if name in requests else "bold" if name == _BILL else "bright_black"
        bar = UsageBar(share, ("#04B575", "#04B575", "#04B575"), percent=False) if name != _BILL else Text("")
        rows.append(
            (Text(name, style), f"{monthly:,.2f}", f"{share:.1%}", bar, *requests.get(name, ("", "", "")))
        )
    return TableData(columns, tuple(rows))


def decision_table(snapshot: TopSnapshot) -> TableData:
    columns = (
        FittedColumn(title="ago", right=True),
        FittedColumn(title="decision"),
        FittedColumn(title="about", drop=1),
        FittedColumn(title="what", least=30),
    )
    lines = [
        (
            age(snapshot.now - each.at) if each.at is not None else "",
            Text(each.reason, "yellow" if each.warning else ""),
            each.object,
            each.message,
        )
        for each in snapshot.decisions
    ]
    return TableData(columns, tuple(lines))


def last_line(snapshot: TopSnapshot) -> Text:
    if not snapshot.decisions:
        return Text(NO_DECISIONS, "bright_black")
    last = snapshot.decisions[0]
    when = f"{age(snapshot.now - last.at)} ago " if last.at is not None else ""
    text = f"{when}{last.reason} {last.object}: {last.message}"
    return Text(printable(text), "yellow" if last.warning else "cyan", no_wrap=True, overflow="ellipsis")


def whole_page(snapshot: TopSnapshot, options: TopOptions, width: int) -> Group:
    """Return everything at once, as ``--once`` prints it."""
    parts: list[RenderableType] = [summary(snapshot, options, width), Text("")]
    if snapshot.rows:
        parts.append(node_table(snapshot.rows, options, width, now=snapshot.now, advice=snapshot.advice))
    else:
        parts.append(Text("no nodes"))
    if snapshot.pending:
        parts += [Text(""), pending_table(snapshot.pending).table(width)]
    if snapshot.decisions:
        last = decision_table(snapshot)
        parts += [Text(""), TableData(last.columns, last.rows[:_SHOWN_DECISIONS]).table(width)]
    return Group(*parts)
