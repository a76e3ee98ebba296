"""
Draw the pictures of the concepts: ``python -m tools.concept_pictures``.

Two are chains of steps, as the pages tell them. The third is what the solver decides about examples/inflate,
packed greedily and by price.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.cli.planning.decision import decide
from karpenter.cli.planning.input import read_input
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.operator.options import parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.core.scheduling.problem import NewNode, Plan

ROOT: Final = Path(__file__).parents[1]
NOW: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
INK, QUIET, LINE, PAPER = "#1c1e26", "#5b6070", "#8a90a2", "#ffffff"
BLUE, GREEN, ORANGE, GREY = "#0072b2", "#009e73", "#e69f00", "#eef0f5"
"""Colours that colour-blind people can tell apart: https://jfly.uni-koeln.de/color/."""

_WIDTH: Final = 860
_HIGH: Final = 58


class Step(msgspec.Struct, frozen=True):
    """A box of a chain."""

    title: str
    text: str = ""
    colour: str = GREY


SCHEDULING: Final = (
    (
        Step("Pods wait", "no node, no gate"),
        Step("Batch", "idle 1 s, at most 10 s"),
        Step("Existing nodes", "the first that takes it", GREEN),
        Step("Planned claims", "of this decision", GREEN),
        Step("New NodeClaim", "NodePools by weight", BLUE),
    ),
    (
        Step("Relax", "one preference less"),
        Step("Once more", "from existing nodes on"),
        Step("No place", "Event FailedScheduling", ORANGE),
    ),
)
DISRUPTION: Final = (
    (
        Step("Candidates", "what nothing holds"),
        Step("Simulate", "every pod has a place", GREEN),
        Step("Budgets", "of each NodePool"),
        Step("Validate", "15 s later", GREEN),
        Step("Taint", "disrupted:NoSchedule"),
    ),
    (
        Step("Launch", "replacements", BLUE),
        Step("Initialized", "replacements are ready", BLUE),
        Step("Drain", "evictions, within PDBs", ORANGE),
        Step("Terminate", "instance, node, claim", ORANGE),
    ),
)


def svg(width: int, height: int, parts: Sequence[str], about: str) -> str:
    """Return a picture on its own paper, so that it can be read in the dark too."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
            f' aria-label="{escape(about)}" font-family="system-ui, sans-serif">',
            f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"',
            f' orient="auto"><path d="M0 0L8 4L0 8Z" fill="{LINE}"/></marker></defs>',
            *parts,
            "</svg>\n",
        ]
    )


def words(x: float, y: float, text: str, *, size: int = 13, colour: str = INK, bold: bool = False) -> str:
    """Return a line of text around a place."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="middle"{weight}>'
        f"{escape(text)}</text>"
    )


def chain(rows: Sequence[Sequence[Step]], about: str) -> str:
    """Return steps one after the other, row by row; an arrow leads from each to the next."""
    most = max(map(len, rows))
    gap = 26
    wide = (_WIDTH - 40 - gap * (most - 1)) / most
    parts: list[str] = []
    before: tuple[float, float] | None = None
    for number, row in enumerate(rows):
        y = 24 + number * (_HIGH + 44)
        for place, step in enumerate(row):
            x = 20 + place * (wide + gap)
            parts += _box(x, y, wide, step)
            if before is not None:
                parts.append(_arrow(before, (x, y + _HIGH / 2), is_new_row=place == 0))
            before = (x + wide, y + _HIGH / 2)
    return svg(_WIDTH, 24 * 2 + len(rows) * _HIGH + (len(rows) - 1) * 44, parts, about)


def _box(x: float, y: float, wide: float, step: Step) -> Iterator[str]:
    yield (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{_HIGH}" rx="8" fill="{GREY}" '
        f'stroke="{step.colour if step.colour != GREY else LINE}" stroke-width="2"/>'
    )
    yield words(x + wide / 2, y + 25, step.title, bold=True)
    yield words(x + wide / 2, y + 43, step.text, size=11, colour=QUIET)


def _arrow(start: tuple[float, float], end: tuple[float, float], *, is_new_row: bool) -> str:
    (x, y), (to, down) = start, end
    if is_new_row:
        middle = (y + down) / 2
        path = f"M{x + 2:g} {y:g}h10V{middle:g}H10V{down:g}H{to - 2:g}"
    else:
        path = f"M{x + 2:g} {y:g}H{to - 2:g}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#arrow)"/>'


def planned(policy: str) -> Plan:
    """Return what the solver decides about the example."""
    found = read_input([str(ROOT / "examples" / "inflate")])
    return decide(found.view, load_catalog("aws"), parse_settings({"packing-policy": policy}), NOW).plan


def packing() -> str:
    """Return the machines of two plans for the same pods, as wide as their cores and filled with pods."""
    parts: list[str] = []
    for row, (policy, about) in enumerate((("greedy", "packed greedily"), ("price", "packed by price"))):
        plan, y = planned(policy), 34 + row * 128
        bill = sum(node.purchase.price for node in plan.new_nodes)
        title = f"{about}: {len(plan.new_nodes)} machines, ${bill:.4f} an hour"
        parts.append(words(_WIDTH / 2, y - 10, title, bold=True))
        parts += _machines(plan.new_nodes, y)
    return svg(_WIDTH, 34 + 2 * 128, parts, "The same ten pods on the machines of two plans")


def _machines(nodes: Sequence[NewNode], y: float) -> Iterator[str]:
    core = (_WIDTH - 40 - 14 * (len(nodes) - 1)) / max(sum(_cores(node) for node in nodes), 17)
    x = 20.0
    for node in nodes:
        wide = _cores(node) * core
        yield (
            f'<rect x="{x:g}" y="{y:g}" width="{wide:.1f}" height="64" rx="6" fill="{GREY}" stroke="{LINE}"/>'
        )
        for number in range(len(node.pods)):
            yield (
                f'<rect x="{x + 4 + number * core:.1f}" y="{y + 24:g}" width="{core - 3:.1f}" height="36" '
                f'rx="3" fill="{BLUE}"/>'
            )
        yield words(x + wide / 2, y + 16, node.purchase.instance_type, size=11)
        yield words(x + wide / 2, y + 80, f"${node.purchase.price:.4f}", size=11, colour=QUIET)
        x += wide + 14


def _cores(node: NewNode) -> int:
    return -(-node.allocatable["cpu"] // 1000)


def draw() -> dict[str, str]:
    """Return every picture, by the name of its file."""
    return {
        "concept-scheduling.svg": chain(SCHEDULING, "How a pending pod finds its node"),
        "concept-disruption.svg": chain(DISRUPTION, "How a node is removed or replaced"),
        "concept-packing.svg": packing(),
    }


if __name__ == "__main__":
    for name, picture in draw().items():
        (ROOT / "docs" / "images" / name).write_text(picture, "utf-8")
