"""Every metric and every label that dashboards and alerts use is one that the operator has."""

from __future__ import annotations

import re

import pytest

from karpenter.api.labels import well_known_to
from karpenter.cloud.aws import metrics as aws
from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import ALERTS
from karpenter.telemetry.metrics import METRICS, Metrics, ProviderLabels
from tests.unit.dashboards.promql import Use, expressions, grouped_by, substituted, uses
from tests.unit.telemetry.clocks import HandClock

OF_PROMETHEUS = {"job", "instance", "cluster", "le", "quantile"}
"""Labels that Prometheus or its configuration adds, and those of buckets and quantiles."""

SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


def registry() -> dict[str, set[str]]:
    """Return the labels of every series that an operator on AWS can show, by its name."""
    labels = ProviderLabels(well_known=well_known_to(["karpenter.k8s.aws"]))
    shown = {
        f"{each.name}{suffix}": set(labels.expand(each.labels))
        for each in (*METRICS, *aws.METRICS)
        for suffix in SUFFIXES.get(each.kind, ("",))
    }
    process = Metrics(clock=HandClock(), process=True).exposition().decode()
    return shown | {name: set() for name in re.findall(r"^(process_\w+) ", process, re.MULTILINE)}


REGISTRY = registry()
EVERY = {
    **expressions(DASHBOARDS),
    **{f"alert {each.name}": each.expr for each in ALERTS},
    **{
        f"{board.name}: variable {variable.name}": variable.query.replace("label_values(", "").rpartition(
            ","
        )[0]
        for board in DASHBOARDS
        for variable in board.variables
        if variable.query
    },
}


@pytest.mark.parametrize("expr", EVERY.values(), ids=EVERY)
def test_metrics_and_labels_exist(expr: str) -> None:
    """An expression uses nothing that the registry does not have."""
    found = uses(substituted(expr))

    assert found
    assert [each.metric for each in found if each.metric not in REGISTRY] == []
    missing = {each.metric: each.labels - OF_PROMETHEUS - REGISTRY[each.metric] for each in found}
    assert {name: labels for name, labels in missing.items() if labels} == {}


@pytest.mark.parametrize("choice", DASHBOARDS[0].variables[-1].choices)
def test_pods_have_every_label_that_can_be_chosen(choice: str) -> None:
    """A distribution that the variable offers is one that the panel can group by."""
    assert DASHBOARDS[0].variables[-1].name == "distribution_filter"
    assert choice in REGISTRY["karpenter_pods_state"]


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda each: each.name)
def test_legends_name_labels_that_are_left(board: object) -> None:
    """A legend names labels that the expression groups by."""
    for panel in board.panels:  # type: ignore[attr-defined]
        for query in panel.queries:
            named = set(re.findall(r"\{\{([^}]+)\}\}", query.legend))
            assert named <= grouped_by(query.expr), (panel.title, query.expr)


def test_variables_are_declared() -> None:
    """A dashboard uses the variables that it has, and has those that it uses."""
    for board in DASHBOARDS:
        declared = {each.name for each in board.variables}
        written = " ".join(
            [*(query.expr for panel in board.panels for query in panel.queries)]
            + [panel.title for panel in board.panels]
            + [each.query for each in board.variables]
        )
        used = set(re.findall(r"\$(\w+)", written)) - {"__rate_interval", "__range"}
        assert used == declared, board.name


def test_requests_of_daemon_sets_are_counted_once() -> None:
    """No expression adds the requests of DaemonSets to those of all pods, which include them."""
    assert [where for where, expr in EVERY.items() if "total_daemon" in expr] == []


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        pytest.param("a", [Use("a", frozenset())], id="a name"),
        pytest.param('sum(rate(a{b="c",d=~"e|f"}[5m]))', [Use("a", frozenset("bd"))], id="matchers"),
        pytest.param(
            "sum by (x) (a) / (730 * sum(b) > 0)",
            [Use("a", frozenset("x")), Use("b", frozenset())],
            id="a grouping is for its own operand",
        ),
        pytest.param(
            "histogram_quantile(0.5, sum by (le, p) (rate(a_bucket[1d])))",
            [Use("a_bucket", frozenset({"le", "p"}))],
            id="a grouping inside a function",
        ),
        pytest.param(
            "time() - max(a or 0 * b) > 1 and on () (c > 0)",
            [Use("a", frozenset()), Use("b", frozenset()), Use("c", frozenset())],
            id="keywords are no metrics",
        ),
    ],
)
def test_the_tokenizer(expr: str, found: list[Use]) -> None:
    """It finds every metric and the labels that are asked of it."""
    assert uses(expr) == found
