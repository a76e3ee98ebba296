"""
Alerts and dashboards: which metrics, labels and log lines of theirs this operator does not have.

PrometheusRules, Grafana dashboards in ConfigMaps and rules of Loki are searched for the names of metrics, the
labels that are selected by, and the texts that log lines are filtered for. An expression is not parsed: names
are found as words, so one in a comment counts too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from karpenter.changeover.facts import of_kind
from karpenter.changeover.settings import ChangeoverDifference
from karpenter.cloud.aws import metrics as aws
from karpenter.convert.metrics import RENAMED
from karpenter.telemetry.metrics.instruments import NODE_CLASSES, WELL_KNOWN, ProviderLabels
from karpenter.telemetry.metrics.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LOGGED: Final = (
    "computed new nodeclaim(s) to fit pod(s)",
    "created nodeclaim",
    "deleted node",
    "deleted nodeclaim",
    "deleted pod",
    "disrupting node(s)",
    "evicted pod",
    "failed to launch nodeclaim",
    "found provisionable pod(s)",
    "initialized nodeclaim",
    "launched nodeclaim",
    "registered nodeclaim",
    "removed disrupted taint from node",
)
"""Messages that this operator logs in the words of Karpenter."""

_OWN: Final = r"karpenter_\w+"
_SHARED: Final = r"(?:controller_runtime|client_go|leader_election|workqueue|operator|go|aws_sdk_go)_\w+"
_METRIC: Final = re.compile(rf"(?<![\w:.$-])({_OWN}|{_SHARED})(?!\w)\s*(\{{[^}}]*\}})?")
_LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_SUFFIXES: Final = ("_bucket", "_sum", "_count")
# https://grafana.com/docs/loki/latest/query/log_queries/#line-filter-expression
_LINE_FILTER: Final = re.compile(r'\|[=~]\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`)')
_SCRAPED: Final = frozenset({
    "cluster", "container", "endpoint", "environment", "instance", "job", "le", "namespace", "node", "pod",
    "prometheus", "quantile", "region", "service", "__name__",
})  # fmt: skip
"""Labels that the scrape adds, or that every histogram and summary has."""

_LABELS: Final = ProviderLabels(node_classes=("karpenter.k8s.aws/ec2nodeclass",))
_OURS: Final = {each.name: frozenset(_LABELS.expand(each.labels)) for each in (*METRICS, *aws.METRICS)}
_OPEN: Final = frozenset(
    each.name for each in (*METRICS, *aws.METRICS) if {WELL_KNOWN, NODE_CLASSES} & {*each.labels}
)
"""Metrics with labels that depend on the provider."""


def alert_differences(objects: Iterable[Mapping[str, Any]]) -> Iterator[ChangeoverDifference]:
    """Yield what alerts and dashboards use and this operator does not have; each once per object."""
    for each in of_kind(objects, "PrometheusRule", "AlertingRule", "ConfigMap"):
        meta = each.get("metadata") or {}
        name = f"{each['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
        seen: set[tuple[str, str]] = set()
        for text in _texts(each.get("spec") or each.get("data")):
            for area, subject, message, hint in (*_metrics(text), *_logs(text)):
                if (area, subject) not in seen:
                    seen.add((area, subject))
                    yield ChangeoverDifference(
                        area="metric" if area == "metric" else "log",
                        subject=subject,
                        message=f"{message}; used by {name}",
                        help=hint,
                    )


def _metrics(text: str) -> Iterator[tuple[str, str, str, str]]:
    is_ours = "karpenter" in text
    for found in _METRIC.finditer(text):
        name, selected = _base(found[1]), found[2] or ""
        if not name.startswith("karpenter_") and not is_ours:
            continue  # every controller has metrics of these names
        if name not in _OURS:
            new = RENAMED.get(name, "")
            hint = f"it is {new} since Karpenter 1.0; karpenter convert rewrites it" if new else ""
            yield "metric", name, "there is no such metric", hint
            continue
        if name in _OPEN:
            continue
        for label in _LABEL.findall(re.sub(r'"[^"]*"', '""', selected)):
            if label not in _OURS[name] | _SCRAPED:
                has = ", ".join(sorted(_OURS[name])) or "none"
                yield "metric", f"{name}{{{label}}}", f"the metric has no label {label}", f"its labels: {has}"


def _base(name: str) -> str:
    """Return the metric that a series of a histogram or summary belongs to."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name not in _OURS and name.removesuffix(suffix) in _OURS:
            return name.removesuffix(suffix)
    return name


def _logs(text: str) -> Iterator[tuple[str, str, str, str]]:
    if "karpenter" not in text:
        return
    for quoted, ticked in _LINE_FILTER.findall(text):
        wanted = quoted or ticked
        if wanted and not any(_matches(wanted, each) for each in LOGGED) and not _is_field(wanted):
            yield "log", wanted, "no log line of this operator has this text", "see the log of karpenter run"


def _matches(wanted: str, line: str) -> bool:
    try:
        return wanted in line or re.search(wanted, line) is not None
    except re.error:
        return False


def _is_field(wanted: str) -> bool:
    """Whether a filter is about the form of a line, such as its level, and not about a message."""
    return re.fullmatch(r"[\W_]*(level|ERROR|WARN|INFO|DEBUG|error|panic|karpenter)\b.*", wanted) is not None


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
