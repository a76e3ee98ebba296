"""
Pictures of the dashboards for the documentation, of real series.

    python -m tools.dashboard_pictures docs/images

A cluster lives through a day in virtual time, with load that follows the sun. What the operator shows every
minute goes into a real Prometheus (``promtool tsdb``), which answers the expressions of the panels; the
answers are drawn here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from tests.prometheus import Prometheus, Series, program, running
from tests.unit.dashboards.promql import CHOSEN, substituted, uses

from karpenter.cloud.kwok import Behaviour
from karpenter.dashboards.boards import DASHBOARDS
from karpenter_local.sandbox.options import KwokOptions
from karpenter_local.sandbox.sandbox import Sandbox
from karpenter_local.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.dashboards.grafana import Panel

PICTURES: Final = {
    "karpenter-costs": (
        "Bill by nodepool",
        "Bill and its bound",
        "Savings planned and realised",
        "Paid without pods by state",
    ),
    "karpenter-decisions": (
        "Nodes that stay, by what keeps them",
        "Pods moved by reason",
        "Churn",
        "Commands begun",
    ),
}
HOURS: Final = 24
STEP: Final = 60.0
COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
"""Okabe and Ito's, which people with any kind of colour vision can tell apart."""

WIDE, HIGH, LEFT, TOP, BELOW = 520, 260, 58, 40, 62


def chosen_panels() -> dict[str, list[Panel]]:
    by_title = {(board.name, panel.title): panel for board in DASHBOARDS for panel in board.panels}
    return {name: [by_title[name, title] for title in titles] for name, titles in PICTURES.items()}


async def a_day(metrics: frozenset[str]) -> tuple[str, float, float]:
    """Let a day pass, and return what was shown every minute, and the first and the last moment."""
    lines: list[str] = []
    settings = {"batch-idle-duration": "1s"}
    cloud = KwokOptions(behaviour=Behaviour())
    async with Sandbox(name="day", cloud=cloud, settings=settings) as sandbox:
        both = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}]
        freely = {"consolidateAfter": "2m", "budgets": [{"nodes": "20%"}]}
        await sandbox.create_node_pool("spot", disruption=freely, template={"spec": {"requirements": both}})
        await sandbox.create_node_pool("steady", disruption={"consolidateAfter": "10m"})
        await sandbox.deploy("web", replicas=20, nodeSelector={"karpenter.sh/nodepool": "spot"})
        await sandbox.deploy("base", replicas=12, cpu="2", nodeSelector={"karpenter.sh/nodepool": "steady"})
        first = sandbox.clock.now().timestamp()
        for minute in range(HOURS * 60):
            if minute % 20 == 0:
                day = 1 - math.cos(2 * math.pi * minute / (HOURS * 60))
                await sandbox.scale("web", round(20 + 70 * day + 12 * math.sin(minute / 17)))
            await asyncio.sleep(STEP)
            assert sandbox.leader is not None
            at = sandbox.clock.now().timestamp()
            text = sandbox.leader.operator.metrics.exposition().decode()
            lines += [
                f"{line} {at:.3f}\n"
                for line in text.splitlines()
                if line.partition("{")[0].partition(" ")[0] in metrics
            ]
        return "".join([*lines, "# EOF\n"]), first, sandbox.clock.now().timestamp()


async def draw(folder: Path, home: Path, first: float, last: float) -> None:
    """Ask Prometheus for the series of every picture, and write them."""
    async with running(home, {"scrape_configs": []}) as prometheus:
        for name, panels in chosen_panels().items():
            drawn = [await _panel(prometheus, panel, first, last) for panel in panels]
            wide, high = 2 * (WIDE + 20) + 20, -(-len(drawn) // 2) * (HIGH + 20) + 20
            parts = [
                f'<g transform="translate({20 + n % 2 * (WIDE + 20)},{20 + n // 2 * (HIGH + 20)})">{each}</g>'
                for n, each in enumerate(drawn)
            ]
            style = "text{font:12px sans-serif;fill:#333}"
            (folder / f"{name}.svg").write_text(
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}">'
                f'<style>{style}</style><rect width="{wide}" height="{high}" fill="#f4f5f7"/>'
                f"{''.join(parts)}</svg>\n",
                "utf-8",
            )


async def _panel(prometheus: Prometheus, panel: Panel, first: float, last: float) -> str:
    series: list[tuple[str, Series]] = []
    for query in panel.queries:
        expr = substituted(query.expr, {**CHOSEN, "$__rate_interval": "10m"})
        for each in await prometheus.query_range(expr, first + 600, last, 300):
            legend = query.legend
            for key, value in each.labels.items():
                legend = legend.replace(f"{{{{{key}}}}}", value)
            if any(value for _, value in each.points):
                series.append((legend, each))
    return chart(panel, series, first, last)


def chart(panel: Panel, series: list[tuple[str, Series]], first: float, last: float) -> str:
    """Return one panel: a heading, axes, lines or stacked areas, and a legend."""
    right, bottom = WIDE - 14, HIGH - BELOW
    moments = sorted({at for _, each in series for at, _ in each.points})
    tops = dict.fromkeys(moments, 0.0)
    lines = []
    for _, each in series:
        line = list(each.points)
        if panel.stacked:
            known = dict(each.points)
            tops = {at: top + known.get(at, 0.0) for at, top in tops.items()}
            line = list(tops.items())
        lines.append(line)
    most = max((value for line in lines for _, value in line), default=1.0) or 1.0

    def x(at: float) -> float:
        return LEFT + (at - first) / (last - first) * (right - LEFT)

    def y(value: float) -> float:
        return bottom - value / (most * 1.05) * (bottom - TOP)

    parts = [
        f'<rect width="{WIDE}" height="{HIGH}" rx="4" fill="#fff" stroke="#ddd"/>',
        f'<text x="12" y="22" style="font-weight:bold;font-size:13px">{escape(panel.title)}</text>',
    ]
    for part in range(5):
        value = most * part / 4
        label = f"${value:.2f}" if panel.unit == "currencyUSD" else f"{value:.3g}"
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="#eee"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>')
    for hour in range(0, HOURS, 6):
        place = f'x="{x(first + hour * 3600):.1f}" y="{bottom + 16}"'
        parts += [f'<text {place} text-anchor="middle">{hour:02}:00</text>']
    for number, line in reversed(list(enumerate(lines))):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in line)
        if panel.stacked:
            area = f"M{x(line[0][0]):.1f} {bottom}L{path}L{x(line[-1][0]):.1f} {bottom}Z"
            parts.append(f'<path d="{area}" fill="{colour}" fill-opacity="0.75"/>')
        else:
            dashes = ' stroke-dasharray="5 3"' if number % 2 == 0 else ""
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>')
    return "".join([*parts, *_legend([name for name, _ in series])])


def _legend(names: list[str]) -> Iterator[str]:
    at, line = 12.0, HIGH - 30
    for number, name in enumerate(names):
        if at + 14 + 6.2 * len(name) > WIDE:
            at, line = 12.0, line + 16
        colour = COLOURS[number % len(COLOURS)]
        yield f'<rect x="{at:.0f}" y="{line}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{at + 14:.0f}" y="{line + 9}">{escape(name)}</text>'
        at += 26 + 6.2 * len(name)


def main(folder: Path) -> None:
    wanted = frozenset(
        use.metric
        for panels in chosen_panels().values()
        for panel in panels
        for query in panel.queries
        for use in uses(substituted(query.expr))
    )
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    text, first, last = run_virtual(a_day(wanted))
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        (home / "day.om").write_text(text, "utf-8")
        subprocess.run(  # noqa: S603  our own words
            [
                program("promtool"),
                "tsdb",
                "create-blocks-from",
                "openmetrics",
                home / "day.om",
                home / "data",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(draw(folder, home, first, last))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
