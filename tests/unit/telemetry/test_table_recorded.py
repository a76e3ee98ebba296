"""Every metric that is declared is fed by some code: a dashboard must not wait for what never comes."""

from __future__ import annotations

import ast
from pathlib import Path

import karpenter
from karpenter.telemetry.metrics import METRICS
from karpenter.telemetry.metrics import conditions as declared_conditions
from karpenter.telemetry.metrics.instruments import MetricSpec
from karpenter.telemetry.metrics.table import (
    claims,
    disruption,
    nodepools,
    nodes,
    pods,
    runtime,
    savings,
    scheduler,
)

SOURCE = Path(karpenter.__file__).parent
TABLES = {
    "claims": claims,
    "disruption": disruption,
    "nodepools": nodepools,
    "nodes": nodes,
    "pods": pods,
    "runtime": runtime,
    "savings": savings,
    "scheduler": scheduler,
}
ELSEWHERE = {"karpenter_build_info": "the registry sets it when it is made"}
"""Metrics that no code outside of telemetry feeds, and who does."""


def trees() -> list[ast.Module]:
    """Return the code that could feed metrics."""
    paths = [path for path in SOURCE.rglob("*.py") if (SOURCE / "telemetry") not in path.parents]
    texts = (path.read_text(encoding="utf-8") for path in sorted(paths))
    return [ast.parse(text) for text in texts if "metric" in text]


def named_in(tree: ast.Module) -> set[str]:
    """Return the metrics that a file names: as a constant of their table, or by their own name."""
    aliases: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("karpenter.telemetry.metrics"):
            aliases |= {each.asname or each.name: each.name for each in node.names if each.name in TABLES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            metric = getattr(TABLES[aliases[node.value.id]], node.attr, None)
            if isinstance(metric, MetricSpec):
                found.add(metric.name)
    return found


def test_every_metric_is_fed() -> None:
    """Each declared metric is named by code that is not telemetry's own, or it is said who feeds it."""
    fed = {name for tree in trees() for name in named_in(tree)} | ELSEWHERE.keys()
    of_conditions = {each.name for each in declared_conditions.METRICS}

    assert [each.name for each in METRICS if each.name not in fed | of_conditions] == []


def test_metrics_of_conditions_are_fed() -> None:
    """These are the same six for every kind: whoever feeds one kind names all six, and all kinds."""
    text = (SOURCE / "controllers/metrics/conditions.py").read_text(encoding="utf-8")
    kinds = ("NODECLAIM", "NODEPOOL", "NODE", "CAPACITYBUFFER", "EVERY_KIND")
    six = [name for name in declared_conditions.ConditionMetrics.__struct_fields__ if name not in text]

    assert six == []
    assert [kind for kind in kinds if f"declared.{kind}" not in text] == []


def test_nothing_is_excused_that_is_fed() -> None:
    """What is said to be fed elsewhere exists, and is not fed here."""
    fed = {name for tree in trees() for name in named_in(tree)}

    assert ELSEWHERE.keys() <= {each.name for each in METRICS}
    assert ELSEWHERE.keys() & fed == set()
