"""
Grafana dashboards as plain data: panels with their queries, variables, and a layout that never overlaps.

The JSON model is that of Grafana 12 (schemaVersion 41); every field that is used here is read by Grafana 10
and 11 as well. See https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/.
What the panels show is in :mod:`.boards`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

SCHEMA_VERSION: Final = 41
WIDTH: Final = 24
"""Columns of Grafana's grid."""

PanelType: TypeAlias = Literal["timeseries", "stat", "table", "bargauge"]

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class PanelQuery(msgspec.Struct, frozen=True):
    """One expression of a panel, and what its series are called in the legend."""

    expr: str
    legend: str = "__auto"
    column: str = ""
    """The heading of the value in a table."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel."""

    title: str
    about: str
    """What it shows and how to read it; Grafana shows it at the title."""

    queries: tuple[PanelQuery, ...]
    type: PanelType = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    stacked: bool = False
    most: float | None = None
    """The upper end of the axis."""

    hidden: tuple[str, ...] = ()
    """Columns of a table that are left out."""


class DashboardVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A choice at the top of a dashboard."""

    name: str
    query: str = ""
    """Where the values come from, such as ``label_values(metric, label)``."""

    choices: tuple[str, ...] = ()
    """The values, where they are fixed."""

    label: str = ""


class PanelRow(msgspec.Struct, frozen=True):
    """A heading, and the panels under it."""

    title: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """One dashboard."""

    name: str
    """The name of its ConfigMap and its uid."""

    title: str
    about: str
    variables: tuple[DashboardVariable, ...]
    rows: tuple[PanelRow, ...]
    refresh: str = "30s"
    since: str = "now-3h"

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)

    def model(self) -> dict[str, Any]:
        """Return the dashboard as Grafana reads it."""
        return {
            "uid": self.name,
            "title": self.title,
            "description": self.about,
            "tags": ["karpenter"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": self.refresh,
            "time": {"from": self.since, "to": "now"},
            "timezone": "browser",
            "annotations": {"list": []},
            "links": [
                {
                    "type": "dashboards",
                    "title": "Karpenter",
                    "tags": ["karpenter"],
                    "asDropdown": True,
                    "includeVars": False,
                    "keepTime": True,
                }
            ],
            "templating": {"list": [_DATASOURCE, *(_variable(each) for each in self.variables)]},
            "panels": _laid_out(self.rows),
        }


_DATASOURCE: Final = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "current": {},
    "options": [],
    "refresh": 1,
}


def _variable(variable: DashboardVariable) -> dict[str, Any]:
    common = {"name": variable.name, "label": variable.label or variable.name.replace("_", " ")}
    if variable.choices:
        first = variable.choices[0]
        return {
            **common,
            "type": "custom",
            "query": ",".join(variable.choices),
            "current": {"text": first, "value": first},
            "options": [
                {"text": each, "value": each, "selected": each == first} for each in variable.choices
            ],
            "multi": False,
            "includeAll": False,
        }
    return {
        **common,
        "type": "query",
        "datasource": _SOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
    }


def _laid_out(rows: tuple[PanelRow, ...]) -> list[dict[str, Any]]:
    """Place panels from left to right, row under row; every panel gets an id."""
    placed: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        placed.append(
            {
                "id": len(placed) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            placed.append({"id": len(placed) + 1, "gridPos": place, **_panel(panel)})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.type == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 20 if panel.stacked else 8,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return {
        "type": panel.type,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "targets": [_target(panel, query, number) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        **({"transformations": _table(panel)} if panel.type == "table" else {}),
    }


def _target(panel: Panel, query: PanelQuery, number: int) -> dict[str, Any]:
    instant = panel.type != "timeseries"
    return {
        "refId": _ref(number),
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": instant,
        "range": not instant,
        "format": "table" if panel.type == "table" else "time_series",
    }


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _options(panel: Panel) -> dict[str, Any]:
    if panel.type == "timeseries":
        return {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.type == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    reduced = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
    if panel.type == "bargauge":
        return {"reduceOptions": reduced, "orientation": "horizontal", "displayMode": "basic"}
    return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area", "textMode": "auto"}


def _table(panel: Panel) -> list[dict[str, Any]]:
    """Return what makes one table of the answers: a row for each set of labels, a column for each query."""
    named = {f"Value #{_ref(number)}": query.column for number, query in enumerate(panel.queries)}
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(("Time", *panel.hidden), True),
                "renameByName": {key: column for key, column in named.items() if column},
            },
        },
    ]
