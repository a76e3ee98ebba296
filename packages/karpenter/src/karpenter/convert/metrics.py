"""
Metric names in alerts and dashboards: PrometheusRule objects, and Grafana dashboards in ConfigMaps.

A name is replaced as a whole word. Metrics that are gone are named and left, since only a person can say
what is to be shown instead. Source: https://karpenter.sh/docs/upgrading/upgrade-guide/ (0.32, 0.37 and
1.0).
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from karpenter.convert.findings import ConversionOutcome, Findings, NewDocument, Plain, at, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping


RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "karpenter_machines_created": "karpenter_nodeclaims_created_total",
        "karpenter_machines_terminated": "karpenter_nodeclaims_terminated_total",
        "karpenter_machines_disrupted": "karpenter_nodeclaims_disrupted_total",
        "karpenter_nodeclaims_created": "karpenter_nodeclaims_created_total",
        "karpenter_nodeclaims_terminated": "karpenter_nodeclaims_terminated_total",
        "karpenter_nodeclaims_disrupted": "karpenter_nodeclaims_disrupted_total",
        "karpenter_provisioners_usage": "karpenter_nodepools_usage",
        "karpenter_provisioner_usage": "karpenter_nodepools_usage",
        "karpenter_nodepool_usage": "karpenter_nodepools_usage",
        "karpenter_provisioners_limit": "karpenter_nodepools_limit",
        "karpenter_provisioner_limit": "karpenter_nodepools_limit",
        "karpenter_nodepool_limit": "karpenter_nodepools_limit",
        "karpenter_deprovisioning_actions_performed": "karpenter_voluntary_disruption_decisions_total",
        "karpenter_disruption_actions_performed_total": "karpenter_voluntary_disruption_decisions_total",
        "karpenter_deprovisioning_eligible_machines": "karpenter_voluntary_disruption_eligible_nodes",
        "karpenter_disruption_eligible_nodes": "karpenter_voluntary_disruption_eligible_nodes",
        "karpenter_deprovisioning_evaluation_duration_seconds": (
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
        ),
        "karpenter_disruption_evaluation_duration_seconds": (
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
        ),
        "karpenter_nodes_created": "karpenter_nodes_created_total",
        "karpenter_nodes_terminated": "karpenter_nodes_terminated_total",
        "karpenter_nodes_termination_time_seconds": "karpenter_nodes_termination_duration_seconds",
        "karpenter_pods_startup_time_seconds": "karpenter_pods_startup_duration_seconds",
        "karpenter_interruption_received_messages": "karpenter_interruption_received_messages_total",
        "karpenter_interruption_deleted_messages": "karpenter_interruption_deleted_messages_total",
        "karpenter_provisioner_scheduling_queue_depth": "karpenter_scheduler_queue_depth",
        "karpenter_provisioner_scheduling_duration_seconds": (
            "karpenter_scheduler_scheduling_duration_seconds"
        ),
    }
)
_GONE: Final = ("karpenter_provisioners_usage_pct", "karpenter_provisioner_usage_pct")
_SUFFIX: Final = r"(?P<suffix>_bucket|_sum|_count)?"
_WORD: Final = re.compile(rf"(?<![\w:])(?P<name>{'|'.join(map(re.escape, RENAMED))}){_SUFFIX}(?!\w)")
_GONE_WORD: Final = re.compile(rf"(?<![\w:])({'|'.join(_GONE)})(?!\w)")
_LABEL: Final = re.compile(r"(?<=[{,(\s])provisioner(?=\s*(?:=~|!~|!=|=|\)|,))")
_KARPENTER: Final = re.compile(r"(?<![\w:])karpenter_\w+")


def convert_metrics(plain: Plain) -> ConversionOutcome | None:
    """Return what becomes of alerts or dashboards; None when they use no old name."""
    is_rule = plain.get("kind") == "PrometheusRule"
    is_dashboard = plain.get("kind") == "ConfigMap" and "grafana_dashboard" in mapping(
        at(plain, ("metadata", "labels"))
    )
    if not is_rule and not is_dashboard:
        return None
    findings = Findings()
    part = "spec" if is_rule else "data"
    document = {**plain, part: _renamed(plain.get(part), findings)}
    if not findings.found:
        return None
    documents = (NewDocument(plain=document),) if document != plain else ()
    return ConversionOutcome(documents=documents, findings=tuple(findings.found))


def _renamed(value: Any, findings: Findings) -> Any:
    match value:
        case dict():
            return {key: _renamed(each, findings) for key, each in value.items()}
        case list():
            return [_renamed(each, findings) for each in value]
        case str():
            return renamed(value, findings)
        case _:
            return value


def renamed(text: str, findings: Findings) -> str:
    for found in _GONE_WORD.finditer(text):
        findings.warn(
            "MetricGone", f"metric {found[1]} is gone: divide karpenter_nodepools_usage by its limit"
        )
    if not _KARPENTER.search(text):
        return text

    def replace(found: re.Match[str]) -> str:
        new = RENAMED[found["name"]]
        findings.info("Renamed", f"metric {found['name']} is {new} now")
        return new + (found["suffix"] or "")

    changed = _WORD.sub(replace, text)
    if changed != text or "karpenter_" in text:
        labelled = _LABEL.sub("nodepool", changed)
        if labelled != changed:
            findings.info("Renamed", "metric label provisioner is nodepool now")
        return labelled
    return changed
