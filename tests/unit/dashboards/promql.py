"""
A tokenizer for PromQL, just large enough to say which metrics and labels an expression uses.

It knows selectors, aggregations and the variables of Grafana; whether an expression makes sense is for
promtool to say (``test_prometheus.py``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.dashboards.grafana import Dashboard

TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<number>\d[\w.]*)|(?P<name>[A-Za-z_:][\w:]*)|(?P<sign>\S)'
)
KEYWORDS = {"and", "or", "unless", "bool", "offset"}
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}

CHOSEN = {
    "$__rate_interval": "5m",
    "$__range": "1h",
    "$distribution_filter": "nodepool",
    "$nodepool": ".*",
    "$zone": ".*",
    "$arch": ".*",
    "$capacity_type": ".*",
    "$instance_type": ".*",
    "$controller": ".*",
    "$job": ".*",
}
"""What Grafana would put in place of its variables."""


class Use(NamedTuple):
    """A metric that an expression uses, and the labels that it asks of it."""

    metric: str
    labels: frozenset[str]


def substituted(expr: str, chosen: Mapping[str, str] = CHOSEN) -> str:
    """Return an expression with every variable replaced."""
    for name in sorted(chosen, key=len, reverse=True):
        expr = expr.replace(name, chosen[name])
    return expr


def uses(expr: str) -> list[Use]:
    """Return the metrics of an expression, each with the labels of its matchers and of its groupings."""
    tokens = [(match.lastgroup or "", match[0]) for match in TOKEN.finditer(expr)]
    found: list[Use] = []
    around: list[set[str]] = [set()]
    pending: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind == "name" and text in LISTS and after == "(":
            end = next(i for i in range(at, len(tokens)) if tokens[i][1] == ")")
            if text == "by":
                pending = {word for sort, word in tokens[at + 2 : end] if sort == "name"}
            at = end
        elif kind == "name" and after == "{":
            end = next(i for i in range(at, len(tokens)) if tokens[i][1] == "}")
            inner = tokens[at + 2 : end]
            matched = {
                word for i, (sort, word) in enumerate(inner) if sort == "name" and inner[i + 1][1] in "=!"
            }
            found.append(Use(text, frozenset(matched.union(*around))))
            at = end
        elif kind == "name" and text not in KEYWORDS | LISTS and after not in {"(", *LISTS}:
            found.append(Use(text, frozenset(set().union(*around))))
        elif text == "(":
            around.append(pending)
            pending = set()
        elif text == ")":
            around.pop()
        at += 1
    return found


def grouped_by(expr: str) -> set[str]:
    """Return every label that an expression groups by."""
    lists = re.findall(r"\bby \(([^)]*)\)", expr)
    return {word.strip() for each in lists for word in each.split(",")}


def expressions(dashboards: tuple[Dashboard, ...]) -> dict[str, str]:
    return {
        f"{board.name}: {panel.title} [{number}]": query.expr
        for board in dashboards
        for panel in board.panels
        for number, query in enumerate(panel.queries, start=1)
    }
