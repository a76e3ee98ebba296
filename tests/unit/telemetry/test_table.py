"""The metrics that Karpenter's users know, written down a second time."""

import re
import shutil
import subprocess

import pytest

from karpenter.telemetry.metrics import METRICS, Metrics, pods, runtime, savings, scheduler
from karpenter.telemetry.metrics.instruments import (
    DURATIONS,
    NODE_CLASSES,
    WELL_KNOWN,
    Instrument,
    MetricSpec,
    render_bound,
)
from tests.unit.telemetry.clocks import HandClock
from tests.unit.telemetry.samples import exercise

DISRUPTED = "reason nodepool capacity_type consolidation_policy termination_mode"
NODE = f"{WELL_KNOWN} node_name phase managed"
POD = "name namespace owner node scheduled nodepool zone arch capacity_type instance_type phase ready managed"
CONDITION = "namespace name type status reason"

KARPENTER = f"""
build_info gauge version goversion goarch commit
nodeclaims_created_total counter reason nodepool min_values_relaxed
nodeclaims_terminated_total counter nodepool capacity_type zone
nodeclaims_disrupted_total counter reason nodepool capacity_type
nodeclaims_unhealthy_disrupted_total counter condition nodepool capacity_type image_id
nodeclaims_instance_termination_duration_seconds histogram nodepool
nodeclaims_termination_duration_seconds histogram nodepool
pods_disruption_initiated_total counter {DISRUPTED}
nodes_created_total counter nodepool zone
nodes_terminated_total counter nodepool zone
nodes_termination_duration_seconds summary nodepool
nodes_drained_total counter nodepool
nodes_lifetime_duration_seconds histogram nodepool
nodes_allocatable gauge {NODE} resource_type
nodes_total_pod_requests gauge {NODE} resource_type
nodes_total_pod_limits gauge {NODE} resource_type
nodes_total_daemon_requests gauge {NODE} resource_type
nodes_total_daemon_limits gauge {NODE} resource_type
nodes_system_overhead gauge {NODE} resource_type
nodes_current_lifetime_seconds gauge {NODE}
cluster_utilization_percent gauge resource_type
nodepools_limit gauge resource_type nodepool
nodepools_usage gauge resource_type nodepool
nodepools_cost_total gauge nodepool
nodepools_cost_tracker_errors_total counter nodepool
nodepools_allowed_disruptions gauge nodepool reason
nodepools_nodes_consuming_budgets gauge nodepool reason
pods_state gauge {POD}
pods_startup_duration_seconds summary
pods_bound_duration_seconds histogram
pods_provisioning_bound_duration_seconds histogram
pods_provisioning_startup_duration_seconds histogram
pods_unstarted_time_seconds gauge name namespace
pods_unbound_time_seconds gauge name namespace
pods_provisioning_unbound_time_seconds gauge name namespace
pods_provisioning_unstarted_time_seconds gauge name namespace
pods_provisioning_scheduling_undecided_time_seconds gauge name namespace
pods_scheduling_decision_duration_seconds histogram
pods_eviction_requests_total counter code
pods_drained_total counter reason
scheduler_scheduling_duration_seconds histogram controller
scheduler_queue_depth gauge controller scheduling_id
scheduler_unfinished_work_seconds gauge controller scheduling_id
scheduler_ignored_pods_count gauge
scheduler_unschedulable_pods_count gauge controller
scheduler_pending_pods_by_effective_zone_count gauge controller zone
cluster_state_node_count gauge
cluster_state_synced gauge
cluster_state_unsynced_time_seconds gauge
voluntary_disruption_decision_evaluation_duration_seconds histogram reason consolidation_type
voluntary_disruption_decisions_total counter decision reason consolidation_type
voluntary_disruption_decisions_by_nodepool_total counter nodepool decision reason consolidation_type
voluntary_disruption_eligible_nodes gauge reason
voluntary_disruption_consolidation_timeouts_total counter consolidation_type
voluntary_disruption_failed_validations_total counter consolidation_type
voluntary_disruption_queue_failures_total counter decision reason consolidation_type
consolidation_score histogram decision nodepool policy
consolidation_moves_total counter decision nodepool policy
cloudprovider_duration_seconds histogram controller method provider
cloudprovider_errors_total counter controller method provider error
"""

EXTRA = {
    "operator_nodeclaim": f"{NODE_CLASSES} karpenter_sh_nodepool",
    "operator_nodepool": "",
    "operator_node": f"{NODE_CLASSES} karpenter_sh_nodepool karpenter_sh_initialized",
    "operator_capacitybuffer": "",
    "operator": "kind group",
}
CONDITIONS = f"""
status_condition_count gauge {CONDITION}
status_condition_current_status_seconds gauge {CONDITION}
status_condition_transition_seconds histogram type status
status_condition_transitions_total counter type status reason
termination_current_time_seconds gauge namespace name
termination_duration_seconds histogram
"""
BY_NAME = {metric.name: metric for metric in METRICS}


def expected() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, type and labels of every metric of Karpenter."""
    found = [f"karpenter_{line}" for line in KARPENTER.strip().splitlines()]
    found += [
        f"{prefix}_{line} {labels}"
        for prefix, labels in EXTRA.items()
        for line in CONDITIONS.strip().splitlines()
    ]
    groups = {WELL_KNOWN: "WELL_KNOWN", NODE_CLASSES: "NODE_CLASSES"}
    back = {short: group for group, short in groups.items()}
    rows = []
    for line in found:
        for group, short in groups.items():
            line = line.replace(group, short)  # noqa: PLW2901  a group is one word
        name, kind, *labels = line.split()
        rows.append((name, kind, tuple(back.get(label, label) for label in labels)))
    return rows


@pytest.mark.parametrize(("name", "kind", "labels"), [pytest.param(*row, id=row[0]) for row in expected()])
def test_names_types_and_labels(name: str, kind: str, labels: tuple[str, ...]) -> None:
    """A metric is called, typed and labelled as dashboards expect it."""
    metric = BY_NAME[name]

    assert (metric.kind, sorted(metric.labels)) == (kind, sorted(labels))


OURS = {metric.name for metric in (*savings.METRICS, *savings.SHADOW)}
OURS |= {runtime.ORPHANED.name, scheduler.STATE_AGE.name, pods.NOMINATED.name}
"""What Karpenter does not have."""


def test_nothing_of_karpenter_but_this() -> None:
    """Every metric under Karpenter's prefixes is one that it has, or one that is said to be ours."""
    ours = {name for name in BY_NAME if name.startswith(("karpenter_", "operator_"))}

    assert ours - OURS == {name for name, _, _ in expected()}
    assert OURS.isdisjoint(name for name, _, _ in expected())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("karpenter_pods_bound_duration_seconds", DURATIONS, id="durations"),
        pytest.param(
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            tuple(2.0**power for power in range(11)),
            id="machines end within seventeen minutes",
        ),
        pytest.param(
            "karpenter_nodeclaims_termination_duration_seconds",
            tuple(2.0**power for power in range(12)),
            id="claims end within half an hour",
        ),
        pytest.param(
            "operator_node_status_condition_transition_seconds",
            tuple(0.5 * 2.0**power for power in range(15)),
            id="conditions",
        ),
        pytest.param(
            "karpenter_consolidation_score", (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0), id="scores"
        ),
    ],
)
def test_buckets(name: str, expected: tuple[float, ...]) -> None:
    """Histograms have the buckets that queries expect."""
    assert BY_NAME[name].buckets == pytest.approx(expected)


def test_the_durations() -> None:
    """The buckets of durations go from 5 ms to 10 min, 45 of them; those of lifetimes from 15 min to 30 d."""
    lifetimes = BY_NAME["karpenter_nodes_lifetime_duration_seconds"].buckets

    assert (len(DURATIONS), DURATIONS[0], DURATIONS[-1]) == (45, 0.005, 600.0)
    assert (len(lifetimes), lifetimes[0], lifetimes[-1]) == (21, 900.0, 30 * 86400.0)


@pytest.mark.parametrize("metric", [pytest.param(metric, id=metric.name) for metric in METRICS])
def test_a_declaration_is_in_order(metric: MetricSpec[Instrument]) -> None:
    """Names and labels are words, counters end in _total, help is a sentence, buckets can be written."""
    names = (metric.name, *(label for label in metric.labels if label not in {WELL_KNOWN, NODE_CLASSES}))

    assert all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name) for name in names)
    assert len(set(metric.labels)) == len(metric.labels)
    assert not {"le", "quantile"} & set(metric.labels)
    assert (metric.kind == "counter") <= metric.name.endswith("_total")
    assert re.fullmatch(r"[A-Z][^\n]*\.", metric.help)
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert (metric.kind == "summary") == bool(metric.quantiles)
    assert [float(render_bound(bound)) for bound in metric.buckets] == list(metric.buckets)


def test_names_that_no_linter_likes_are_counted() -> None:
    """The names that are kept for compatibility alone are these, and no new ones come in."""
    assert {metric.name for metric in METRICS if metric.unlike_its_type} == {
        "karpenter_nodepools_cost_total",
        "karpenter_scheduler_ignored_pods_count",
        "karpenter_scheduler_unschedulable_pods_count",
        "karpenter_scheduler_pending_pods_by_effective_zone_count",
        "karpenter_cluster_state_node_count",
        *(f"{prefix}_status_condition_count" for prefix in EXTRA),
    }


def test_promtool_reads_everything() -> None:
    """Promtool reads the exposition, and complains only of the names that are kept for compatibility."""
    metrics = Metrics(clock=HandClock(), process=True)
    exercise(metrics)
    promtool = shutil.which("promtool")
    assert promtool is not None
    checked = subprocess.run(  # noqa: S603  the program that was asked for
        [promtool, "check", "metrics"], input=metrics.exposition(), capture_output=True, check=False
    )
    complaints = checked.stderr.decode().splitlines()

    assert checked.returncode in {0, 3}, complaints  # 3: read, with complaints
    assert {line.split()[0] for line in complaints} <= {
        metric.name for metric in METRICS if metric.unlike_its_type
    }
