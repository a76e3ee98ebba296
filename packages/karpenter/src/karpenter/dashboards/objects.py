"""
The objects that bring dashboards and alerts to a cluster, and the files for where there is no operator.

Grafana's sidecar loads every ConfigMap with the label ``grafana_dashboard``; the Prometheus operator reads
ServiceMonitors and PrometheusRules. The chart makes the same objects from values (:mod:`karpenter.chart`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.rules import RUNBOOKS, groups

if TYPE_CHECKING:
    from karpenter.dashboards.grafana import Dashboard

# https://github.com/grafana/helm-charts/tree/main/charts/grafana#sidecar-for-dashboards
SIDECAR_LABELS: Final = {"grafana_dashboard": "1"}
MONITORING: Final = "monitoring.coreos.com/v1"
_NAME: Final = "karpenter"


class MonitoringPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where monitoring is, where the operator is, and what both are called."""

    namespace: str = "monitoring"
    karpenter_namespace: str = "kube-system"
    release: str = _NAME
    labels: Mapping[str, str] = {}
    """More labels for the ServiceMonitor and the PrometheusRule, by which a Prometheus selects them."""

    runbooks: str = RUNBOOKS


def dashboard_text(dashboard: Dashboard) -> str:
    """Return the JSON of a dashboard."""
    return msgspec.json.format(msgspec.json.encode(dashboard.model()), indent=2).decode() + "\n"


def monitoring_objects(place: MonitoringPlace) -> list[dict[str, Any]]:
    """Return every object, in the order in which to create them."""
    return [
        _service_monitor(place),
        _prometheus_rule(place),
        *(_config_map(each, place) for each in DASHBOARDS),
    ]


def _config_map(dashboard: Dashboard, place: MonitoringPlace) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(dashboard.name, place, SIDECAR_LABELS),
        "data": {f"{dashboard.name}.json": dashboard_text(dashboard)},
    }


def _prometheus_rule(place: MonitoringPlace) -> dict[str, Any]:
    return {
        "apiVersion": MONITORING,
        "kind": "PrometheusRule",
        "metadata": _metadata(_NAME, place, place.labels),
        "spec": groups(place.runbooks),
    }


def _service_monitor(place: MonitoringPlace) -> dict[str, Any]:
    return {
        "apiVersion": MONITORING,
        "kind": "ServiceMonitor",
        "metadata": _metadata(_NAME, place, place.labels),
        "spec": {
            "namespaceSelector": {"matchNames": [place.karpenter_namespace]},
            "selector": {
                "matchLabels": {
                    "app.kubernetes.io/name": _NAME,
                    "app.kubernetes.io/instance": place.release,
                }
            },
            "endpoints": [{"port": "http-metrics", "path": "/metrics"}],
        },
    }


def _metadata(name: str, place: MonitoringPlace, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": place.namespace,
        "labels": {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/part-of": _NAME, **labels},
    }


def scrape_config(place: MonitoringPlace) -> dict[str, Any]:
    """Return what a Prometheus without its operator needs to find the metrics."""
    return {
        "scrape_configs": [
            {
                "job_name": _NAME,
                "kubernetes_sd_configs": [
                    {"role": "endpoints", "namespaces": {"names": [place.karpenter_namespace]}}
                ],
                "relabel_configs": [
                    {
                        "source_labels": [
                            "__meta_kubernetes_endpoints_name",
                            "__meta_kubernetes_endpoint_port_name",
                        ],
                        "action": "keep",
                        "regex": f"{place.release};http-metrics",
                    }
                ],
            }
        ]
    }
