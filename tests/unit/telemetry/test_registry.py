from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from karpenter import __version__
from karpenter.api.labels import WELL_KNOWN_LABELS, node_class_label
from karpenter.telemetry.metrics import (
    METRICS,
    Metrics,
    ProviderLabels,
    claims,
    disruption,
    nodes,
    pods,
    runtime,
    scheduler,
)
from karpenter.telemetry.metrics.instruments import counter, gauge
from karpenter.telemetry.metrics.registry import UndeclaredMetric
from tests.unit.telemetry.clocks import HandClock
from tests.unit.telemetry.samples import exercise

LABELS = ProviderLabels(
    well_known=WELL_KNOWN_LABELS | {"karpenter.kwok.sh/instance-cpu", "karpenter.k8s.aws/instance-cpu"},
    node_classes=(node_class_label("karpenter.kwok.sh", "KWOKNodeClass"),),
)


def text(metrics: Metrics) -> str:
    return metrics.exposition().decode()


def test_counting_shows() -> None:
    """What was counted is in the exposition, with help and type, and without extra series."""
    metrics = Metrics(clock=HandClock())
    metrics[nodes.CREATED].add(nodepool="default", zone="zone-1")
    found = [line for line in text(metrics).splitlines() if "nodes_created" in line]

    assert found == [
        "# HELP karpenter_nodes_created_total Nodes registered for a NodeClaim.",
        "# TYPE karpenter_nodes_created_total counter",
        'karpenter_nodes_created_total{nodepool="default",zone="zone-1"} 1.0',
    ]


def test_quantiles_show() -> None:
    """A summary shows its quantiles as Karpenter does."""
    metrics = Metrics(clock=HandClock())
    metrics[pods.STARTUP_DURATION].observe(3.0)
    found = [
        line.split()[0] for line in text(metrics).splitlines() if line.startswith("karpenter_pods_startup")
    ]

    assert found == [
        *(
            f'karpenter_pods_startup_duration_seconds{{quantile="{q}"}}'
            for q in ("0", "0.5", "0.9", "0.99", "1")
        ),
        "karpenter_pods_startup_duration_seconds_sum",
        "karpenter_pods_startup_duration_seconds_count",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(3, "3.0", id="whole"),
        pytest.param(1e21, "1e+21", id="large"),
        pytest.param(float("inf"), "+Inf", id="endless"),
        pytest.param(float("-inf"), "-Inf", id="endlessly small"),
        pytest.param(float("nan"), "NaN", id="no number"),
    ],
)
def test_numbers(value: float, expected: str) -> None:
    """Numbers are written as Prometheus spells them."""
    metrics = Metrics(clock=HandClock())
    metrics[scheduler.IGNORED_PODS].set(value)

    assert f"\nkarpenter_scheduler_ignored_pods_count {expected}\n" in text(metrics)


def test_a_flood_of_series_comes_in_pieces() -> None:
    """Nobody has to wait for twenty thousand series at once, and none is lost between two pieces."""
    metrics = Metrics(clock=HandClock())
    for number in range(2500):
        metrics[pods.UNBOUND_TIME].set(1.0, name=f"web-{number}", namespace="default")
    parts = list(metrics.parts())

    assert max(part.count("\n") for part in parts) <= 1000
    assert "".join(parts).count("karpenter_pods_unbound_time_seconds{") == 2500


def test_at_the_start() -> None:
    """Before anything happens, the build is shown, and the counters that alerts look for are zero."""
    metrics = Metrics(clock=HandClock())
    names = {family.name for family in text_string_to_metric_families(text(metrics))}

    assert names == {
        "karpenter_build_info",
        "karpenter_consolidation_savings_planned",
        "karpenter_consolidation_savings_realized",
        "karpenter_pods_nominated",
        "karpenter_voluntary_disruption_consolidation_timeouts",
        "karpenter_voluntary_disruption_evictions",
    }
    assert metrics[disruption.CONSOLIDATION_TIMEOUTS].value(consolidation_type="multi") == 0.0
    assert f'karpenter_build_info{{version="{__version__}",' in text(metrics)


def test_everything_can_be_read_back() -> None:
    """Every metric of the table comes through the text format with its type and its labels."""
    metrics = Metrics(clock=HandClock(), labels=LABELS)
    exercise(metrics)
    read = {family.name: family for family in text_string_to_metric_families(text(metrics))}

    for declared in METRICS:
        name = declared.name.removesuffix("_total") if declared.kind == "counter" else declared.name
        assert read[name].type == declared.kind
        assert set(LABELS.expand(declared.labels)) <= read[name].samples[0].labels.keys()


def test_labels_of_the_provider() -> None:
    """Node metrics carry the provider's well-known labels once each, claims one label per kind of class."""
    metrics = Metrics(clock=HandClock(), labels=LABELS)

    assert metrics[nodes.CURRENT_LIFETIME].labels == (
        *("arch", "capacity_type", "instance_cpu", "instance_type", "nodepool", "os", "region"),
        *("windows_build", "zone", "node_name", "phase", "managed"),
    )
    assert LABELS.expand(("<node class labels>", "x")) == ("karpenter_kwok_sh_kwoknodeclass", "x")


def test_values_of_a_node() -> None:
    """A node's labels are told under their short names; those that it lacks are empty."""
    found = LABELS.of_node(
        {"karpenter.kwok.sh/instance-cpu": "4", "kubernetes.io/arch": "arm64", "team": "web"}
    )

    assert {key: value for key, value in found.items() if value} == {"instance_cpu": "4", "arch": "arm64"}
    assert found["zone"] == ""


def test_a_provider_brings_metrics_of_its_own() -> None:
    """What a provider declares is counted beside the rest."""
    own = gauge("karpenter_cloudprovider_instance_type_cpu_cores", "Cores of a type.", "instance_type")
    metrics = Metrics(clock=HandClock(), also=[own])
    metrics[own].set(4.0, instance_type="c-4x")

    assert 'karpenter_cloudprovider_instance_type_cpu_cores{instance_type="c-4x"} 4.0' in text(metrics)


def test_what_was_not_declared_is_refused() -> None:
    """A metric that the registry was not told of has no instrument, and neither has one of another type."""
    metrics = Metrics(clock=HandClock())

    for stray in (counter("karpenter_stray_total", "Stray."), gauge(claims.CREATED.name, "Not a gauge.")):
        with pytest.raises(UndeclaredMetric, match=f"there is no metric {stray.name} here"):
            metrics[stray]


def test_no_name_twice() -> None:
    """A provider cannot take the name of another metric."""
    with pytest.raises(ValueError, match="karpenter_build_info is declared twice"):
        Metrics(clock=HandClock(), also=[runtime.BUILD_INFO])


def test_two_operators_in_one_process() -> None:
    """Metrics belong to one operator; another one's are its own."""
    one, other = Metrics(clock=HandClock()), Metrics(clock=HandClock(), process=True)
    one[nodes.CREATED].add(nodepool="default", zone="zone-1")

    assert other[nodes.CREATED].value(nodepool="default", zone="zone-1") == 0.0
    assert "process_cpu_seconds_total" in text(other)
    assert "process_cpu_seconds_total" not in text(one)


def test_what_is_worked_out_when_somebody_reads() -> None:
    """Whoever asks for it is called before each reading, and what it sets is read."""
    metrics = Metrics(clock=HandClock())
    readings: list[int] = []

    def refresh() -> None:
        readings.append(len(readings))
        metrics[nodes.CURRENT_LIFETIME].publish("n", [])
        metrics[runtime.LEADER].set(float(len(readings)), name="lease")

    metrics.before_reading(refresh)

    assert 'leader_election_master_status{name="lease"} 1.0' in text(metrics)
    assert 'leader_election_master_status{name="lease"} 2.0' in text(metrics)


def test_whoever_has_much_to_do_lets_others_have_a_turn() -> None:
    """What is worked out step by step before a reading gives a turn after each step."""
    metrics = Metrics(clock=HandClock())

    def refresh() -> Iterator[None]:
        yield
        yield
        metrics[runtime.LEADER].set(1.0, name="lease")

    metrics.before_reading(refresh)
    pieces = list(metrics.parts())

    assert pieces[:2] == ["", ""]
    assert "leader_election_master_status" in "".join(pieces)
