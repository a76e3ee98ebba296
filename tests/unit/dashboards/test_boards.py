"""Dashboards as Grafana reads them, the objects that carry them, and the alerts."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import ALERTS, MonitoringPlace, monitoring_objects, scrape_config

RUNBOOKS = Path(__file__).parents[3] / "docs" / "guides" / "runbooks.md"
MODELS: dict[str, dict[str, Any]] = {each.name: each.model() for each in DASHBOARDS}
SEED = {
    "karpenter-capacity": [
        "Nodes Created by nodepool",
        "Nodes Terminated by nodepool",
        "Nodes Eligible for Disruptions by reason",
        "Node Disruptions by nodepool and reason",
        "Disruption Actions performed by type and decision",
        "Pod Distribution by $distribution_filter",
        "Pod Phase",
        "Nodepool Summary",
        "Spot Node Percentage",
        "Node Summary",
    ],
    "karpenter-performance": [
        "Node Termination Latency",
        "Pod Startup Latency",
        "Controller Reconciliation Latency: $controller",
        "Controller Reconciliation Rate",
    ],
}
"""The panels of Karpenter's own dashboards."""


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """Return the cells of the grid that a panel covers."""
    place = panel["gridPos"]
    columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
    return set(itertools.product(columns, lines))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_panels_have_ids_and_places_of_their_own(model: dict[str, Any]) -> None:
    """Ids are unique, nothing overlaps or leaves the grid, and every panel says what it shows."""
    panels = model["panels"]
    covered = [cell for panel in panels for cell in cells(panel)]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24
    assert model["schemaVersion"] == 41
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["datasource"]["uid"] == "${datasource}"
            refs = [target["refId"] for target in panel["targets"]]
            assert refs
            assert len(set(refs)) == len(refs)


@pytest.mark.parametrize("name", SEED)
def test_what_karpenters_dashboards_show(name: str) -> None:
    """The dashboards of the tutorial are there, panel by panel."""
    titles = {panel["title"] for panel in MODELS[name]["panels"]}

    assert [title for title in SEED[name] if title not in titles] == []


def test_objects() -> None:
    """A ServiceMonitor, a PrometheusRule, and a ConfigMap with the sidecar's label for every dashboard."""
    place = MonitoringPlace(karpenter_namespace="karpenter", labels={"release": "kube-prometheus"})
    monitor, rule, *maps = monitoring_objects(place)

    assert {each["metadata"]["namespace"] for each in (monitor, rule, *maps)} == {"monitoring"}
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["karpenter"]}
    assert monitor["spec"]["endpoints"] == [{"port": "http-metrics", "path": "/metrics"}]
    assert [each["metadata"]["labels"].get("release") for each in (monitor, rule)] == ["kube-prometheus"] * 2
    assert len(rule["spec"]["groups"][0]["rules"]) == len(ALERTS)
    assert [each["metadata"]["name"] for each in maps] == list(MODELS)
    for each in maps:
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        ((file, text),) = each["data"].items()
        assert json.loads(text) == MODELS[file.removesuffix(".json")]


def test_prometheus_without_an_operator() -> None:
    """The scrape config keeps the port of the metrics of the operator's Service, and nothing else."""
    (job,) = scrape_config(MonitoringPlace(release="blue"))["scrape_configs"]

    assert job["job_name"] == "karpenter"
    assert job["relabel_configs"][0]["regex"] == "blue;http-metrics"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_every_alert_has_a_runbook(alert: Any) -> None:
    """The anchor is a heading of the page, and the page names the alert."""
    text = RUNBOOKS.read_text("utf-8")
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)}

    assert alert.anchor in anchors
    assert f"`{alert.name}`" in text
    assert alert.rule("https://x")["annotations"]["runbook_url"] == f"https://x#{alert.anchor}"
    assert "runbook_url" not in alert.rule()["annotations"]
