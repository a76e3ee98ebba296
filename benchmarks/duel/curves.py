"""
The curves of a duel as SVG: the bill per hour, the nodes and the waiting pods of each contender over time.

The floor is a line in the first panel. The picture has a background of its own, so that it reads in light and
dark pages alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.duel.observation import Sample

Point = tuple[float, float]

WIDTH: Final = 760
HEIGHT: Final = 170
"""Of each panel."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 22
_COLORS: Final = ("#4c6fbf", "#d9822b", "#3a8f5c", "#a8479b", "#8a6d3b", "#b23b3b")
_FLOOR: Final = "#888888"
_POINTS: Final = 400
"""The most points of a curve; more cannot be told apart."""


def svg(
    title: str, samples: Mapping[str, Sequence[Sample]], floor: Sequence[float] = (), pace: float = 60.0
) -> str:
    """Return the picture; `floor` has the bill per hour of every step, which begin `pace` seconds apart."""
    last = max((each.at for curve in samples.values() for each in curve), default=0.0) or 1.0
    steps = [
        (min(moment * pace, last), price)
        for number, price in enumerate(floor)
        for moment in (number, number + 1)
    ]
    panels: list[tuple[str, dict[str, list[Point]]]] = [
        ("dollars per hour", {name: [(s.at, s.hourly) for s in curve] for name, curve in samples.items()}),
        ("nodes", {name: [(s.at, s.nodes) for s in curve] for name, curve in samples.items()}),
        ("pods that wait", {name: [(s.at, s.waiting) for s in curve] for name, curve in samples.items()}),
    ]
    colors = {name: _COLORS[place % len(_COLORS)] for place, name in enumerate(samples)}
    if floor:
        panels[0][1]["floor"] = steps
        colors["floor"] = _FLOOR
    height = len(panels) * HEIGHT + _TOP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<g font-family="sans-serif">',
        f'<text x="{_LEFT}" y="16" font-weight="bold" fill="#222222">{escape(title)}</text>',
        *_legend(colors),
    ]
    for place, (label, curves) in enumerate(panels):
        lines += _panel(label, curves, colors, top=_TOP + place * HEIGHT, last=last)
    return "\n".join([*lines, "</g>", "</svg>", ""])


def _legend(colors: Mapping[str, str]) -> list[str]:
    at, lines = float(_LEFT), []
    for name, color in colors.items():
        lines.append(f'<rect x="{at:.0f}" y="23" width="12" height="3" fill="{color}"/>')
        lines.append(f'<text x="{at + 16:.0f}" y="29" fill="#222222">{escape(name)}</text>')
        at += 34 + 7 * len(name)
    return lines


def _panel(
    label: str, curves: Mapping[str, Sequence[Point]], colors: Mapping[str, str], *, top: float, last: float
) -> list[str]:
    most = max((value for curve in curves.values() for _, value in curve), default=0.0) or 1.0
    low, high = top + HEIGHT - _BOTTOM, top + 20
    right = WIDTH - _RIGHT
    lines = [
        f'<text x="{_LEFT}" y="{top + 14:.0f}" fill="#222222">{escape(label)}</text>',
        f'<path d="M{_LEFT} {high}V{low}H{right}" fill="none" stroke="#bbbbbb"/>',
        f'<text x="{_LEFT - 6}" y="{high + 4:.0f}" text-anchor="end" fill="#555555">{most:.4g}</text>',
        f'<text x="{_LEFT - 6}" y="{low + 4:.0f}" text-anchor="end" fill="#555555">0</text>',
        f'<text x="{right}" y="{low + 15:.0f}" text-anchor="end" fill="#555555">{last / 60:.1f} min</text>',
    ]
    for name, curve in curves.items():
        every = -(-len(curve) // _POINTS) or 1
        points = " ".join(
            f"{_LEFT + (right - _LEFT) * at / last:.1f},{low - (low - high) * value / most:.1f}"
            for at, value in curve[::every]
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colors[name]}" stroke-width="1.5"/>')
    return lines
