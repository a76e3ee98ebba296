"""
The objects that bring dashboards and alerts to a cluster, and the files for where there is no operator.

Grafana's sidecar loads every ConfigMap with the label ``grafana_dashboard``; the Prometheus operator reads
ServiceMonitors and PrometheusRules. The chart makes the same objects from values (:mod:`karpenter.chart`).

Alert rules say what wants a person, each with the section of the runbook that says what to do. A rule is a
value and a limit, so that a test can evaluate the value while nothing fires. The runbooks are in
docs/guides/runbooks.md; every anchor is a heading there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from karpenter.dashboards.boards import DASHBOARDS

if TYPE_CHECKING:
    from karpenter.dashboards.grafana import Dashboard

# A queue that SQS answered for has a time of its last answer; before the first message this stands for it.
_LAST_MESSAGE: Final = (
    "max(karpenter_interruption_last_message_timestamp_seconds"
    " or 0 * karpenter_interruption_last_receive_timestamp_seconds)"
)


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """One alert: it fires when `value` is beyond `limit` for a while."""

    name: str
    value: str
    limit: str
    """The comparison, such as ``> 5``."""

    lasting: str
    """For how long, as Prometheus spells durations."""

    severity: Literal["critical", "warning"]
    summary: str
    description: str
    anchor: str
    """The heading of the runbook."""

    only_if: str = ""
    """A second expression that must give something, too."""

    @property
    def expr(self) -> str:
        both = f" and on () ({self.only_if})" if self.only_if else ""
        return f"{self.value} {self.limit}{both}"

    def rule(self, runbooks: str = "") -> dict[str, Any]:
        """Return the rule as Prometheus reads it; `runbooks` is the page that anchors are added to."""
        annotations = {"summary": self.summary, "description": self.description}
        if runbooks:
            annotations["runbook_url"] = f"{runbooks}#{self.anchor}"
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": annotations,
        }


ALERTS: Final = (
    AlertRule(
        name="KarpenterCloudErrors",
        # What a cloud has not got, and machines that are gone, are part of normal life.
        value="sum by (provider, method, error) (increase(karpenter_cloudprovider_errors_total"
        '{error!~"InsufficientCapacityError|NodeClaimNotFoundError"}[15m]))',
        limit="> 5",
        lasting="15m",
        severity="warning",
        summary="Calls to the cloud fail.",
        description="{{ $labels.method }} of {{ $labels.provider }} failed {{ $value | humanize }} times"
        " in 15"
        " minutes ({{ $labels.error }}).",
        anchor="cloud-errors",
    ),
    AlertRule(
        name="KarpenterInterruptionQueueUnreadable",
        value="time() - max(karpenter_interruption_last_receive_timestamp_seconds)",
        limit="> 300",
        lasting="5m",
        severity="critical",
        summary="The interruption queue cannot be read.",
        description="SQS has not answered for {{ $value | humanizeDuration }}: spot interruptions come"
        " without"
        " a warning.",
        anchor="queue-silent",
    ),
    AlertRule(
        name="KarpenterInterruptionQueueSilent",
        value=f"time() - {_LAST_MESSAGE}",
        limit="> 7200",
        # Every instance that ends sends a state change, so EventBridge does not feed a queue that is silent.
        only_if="sum(increase(karpenter_nodeclaims_terminated_total[2h])) > 0",
        lasting="15m",
        severity="warning",
        summary="No message comes through the interruption queue though machines end.",
        description="Machines ended in the last two hours, and their state changes did not arrive.",
        anchor="queue-silent",
    ),
    AlertRule(
        name="KarpenterPodsWaiting",
        value="count by (namespace) (karpenter_pods_provisioning_unbound_time_seconds > 900)",
        limit="> 0",
        lasting="5m",
        severity="warning",
        summary="Pods that Karpenter has a place for do not start.",
        description="{{ $value }} pods of namespace {{ $labels.namespace }} wait for more than 15 minutes.",
        anchor="pods-waiting",
    ),
    AlertRule(
        name="KarpenterPodsWithoutPlace",
        value='sum(karpenter_scheduler_unschedulable_pods_count{controller="provisioner"})',
        limit="> 0",
        lasting="30m",
        severity="warning",
        summary="No NodePool can serve some pods.",
        description="{{ $value }} pods have no place in any NodePool for 30 minutes.",
        anchor="pods-waiting",
    ),
    AlertRule(
        name="KarpenterBudgetBlocked",
        value='sum by (nodepool) (karpenter_voluntary_disruption_kept_nodes{code="Budget"})',
        limit="> 0",
        lasting="1d",
        severity="warning",
        summary="A disruption budget has kept nodes for a day.",
        description="{{ $value }} nodes of NodePool {{ $labels.nodepool }} would go but for its budgets.",
        anchor="budget-blocked",
    ),
    AlertRule(
        name="KarpenterLeaseFlapping",
        value="sum by (name) (changes(leader_election_master_status[1h]))",
        limit="> 6",
        lasting="5m",
        severity="warning",
        summary="The replicas keep taking the lease from each other.",
        description="Lease {{ $labels.name }} changed hands {{ $value }} times in an hour.",
        anchor="lease-flapping",
    ),
    AlertRule(
        name="KarpenterMachineLeak",
        value="max by (provider) (karpenter_cloudprovider_orphaned_machines)",
        limit="> 0",
        lasting="15m",
        severity="critical",
        summary="Machines without a NodeClaim are not terminated.",
        description="{{ $value }} machines of {{ $labels.provider }} are paid for and belong to no"
        " NodeClaim.",
        anchor="machine-leak",
    ),
    AlertRule(
        name="KarpenterPriceDataOld",
        value="max by (capacity_type) (karpenter_cloudprovider_price_data_age_seconds)",
        limit="> 172800",
        lasting="1h",
        severity="warning",
        summary="Prices are not updated.",
        description="{{ $labels.capacity_type }} prices are {{ $value | humanizeDuration }} old, and every"
        " decision is made with them.",
        anchor="price-data-old",
    ),
    AlertRule(
        name="KarpenterStateNotSynced",
        value="max(karpenter_cluster_state_unsynced_time_seconds)",
        limit="> 900",
        lasting="5m",
        severity="warning",
        summary="Nothing is disrupted, because the cluster state is not synced.",
        description="The cluster state has not been synced for {{ $value | humanizeDuration }}.",
        anchor="state-not-synced",
    ),
    AlertRule(
        name="KarpenterCommandsUndone",
        value="sum by (reason, cause) (increase(karpenter_voluntary_disruption_commands_undone_total[6h]))",
        limit="> 5",
        lasting="5m",
        severity="warning",
        summary="Disruption commands begin and are undone.",
        description="{{ $value | humanize }} commands ({{ $labels.reason }}) were undone in six hours:"
        " {{ $labels.cause }}.",
        anchor="commands-undone",
    ),
)


def groups(runbooks: str = "") -> dict[str, Any]:
    """Return the rules as a file that Prometheus reads."""
    return {"groups": [{"name": "karpenter", "rules": [each.rule(runbooks) for each in ALERTS]}]}


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

    runbooks: str = ""
    """The page of runbooks that alerts name; empty where none is published."""


def dashboard_text(dashboard: Dashboard) -> str:
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
