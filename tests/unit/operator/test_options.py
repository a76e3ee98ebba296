"""Settings: names, defaults, who wins, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.operator.options import GATES, SETTINGS, SettingError, parse_settings, scheduling_policy

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS: dict[str, Any] = {
    "karpenter_service": "",
    "metrics_port": 8080,
    "health_probe_port": 8081,
    "kube_client_qps": 200.0,
    "kube_client_burst": 300,
    "enable_profiling": False,
    "disable_controller_warmup": True,
    "disable_leader_election": False,
    "disable_cluster_state_observability": False,
    "leader_election_name": "karpenter-leader-election",
    "leader_election_namespace": "",
    "memory_limit": -1,
    "cpu_requests": 1000,
    "log_level": "info",
    "log_output_paths": ("stdout",),
    "log_error_output_paths": ("stderr",),
    "batch_max_duration": timedelta(seconds=10),
    "batch_idle_duration": timedelta(seconds=1),
    "preference_policy": "Respect",
    "min_values_policy": "Strict",
    "ignore_dra_requests": True,
    "scheduler_config": (),
}

SPREAD = """
podTopologySpread:
  defaultConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
"""


@pytest.mark.parametrize(("name", "expected"), DEFAULTS.items())
def test_defaults(name: str, expected: Any) -> None:
    """Whoever states nothing gets what users of Karpenter are used to."""
    assert getattr(parse_settings({}), name) == expected


def test_the_flag_wins() -> None:
    """A flag wins over the environment, and the environment over the default."""
    settings = parse_settings({"log-level": "debug"}, {"LOG_LEVEL": "error", "METRICS_PORT": "9"})

    assert (settings.log_level, settings.metrics_port) == ("debug", 9)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("metrics-port", "http", "'http' is not a whole number", id="no number"),
        pytest.param("metrics-port", "65536", "65536 is not between 0 and 65535", id="no port"),
        pytest.param("kube-client-qps", "fast", "'fast' is not a number", id="no rate"),
        pytest.param("kube-client-qps", "0", "0 is not a number of 0.001 or more", id="no requests at all"),
        pytest.param("kube-client-qps", "inf", "inf is not a number of 0.001 or more", id="no end"),
        pytest.param("enable-profiling", "yes", "'yes' is not true or false", id="no truth value"),
        pytest.param("log-level", "loud", "'loud' is not one of '', 'debug', 'info', 'error'", id="no level"),
        pytest.param("batch-idle-duration", "-1s", "'-1s' is negative", id="a time that is negative"),
        pytest.param("feature-gates", "NodeRepair", "'NodeRepair' is not Name=true or Name=false", id="gate"),
        pytest.param("scheduler-config", "podSpread: {}", "there is no field podSpread", id="unknown key"),
        pytest.param("price-factors", "m5", "'m5' is not NAME=FACTOR", id="no factor"),
        pytest.param("price-factors", "m5=many", "'m5=many' is not NAME=FACTOR", id="factor is no number"),
        pytest.param("price-factors", "=1", "'=1' is not NAME=FACTOR", id="factor of nothing"),
        pytest.param("commitments", "no-such-file", "no-such-file cannot be read: No such", id="no file"),
        pytest.param(
            "commitments",
            "{commitments: [{kind: Lease}]}",
            "the commitments: commitments[0].kind: 'Lease' is none of the values that are allowed: "
            "ReservedInstance and SavingsPlan",
            id="no kind",
        ),
        *(
            pytest.param(
                "commitments",
                f"{{commitments: [{{kind: SavingsPlan, hourly: 1, rate: {rate}}}]}}",
                f"the commitments: commitments[0].rate: {rate} is not greater than 0, such as 0.72",
                id=f"a Savings Plan at a rate of {rate}",
            )
            for rate in (0, -3)
        ),
        pytest.param(
            "commitments",
            "{commitments: [{kind: SavingsPlan}]}",
            "the commitments: commitments[0].hourly: is not greater than 0",
            id="no amount",
        ),
        pytest.param(
            "commitments",
            "{commitments: [{kind: ReservedInstance, count: 1}]}",
            "the commitments: commitments[0].instanceType: is required",
            id="no instance type",
        ),
        pytest.param("scheduler-config", "{", "the configuration: line 2: not YAML", id="no YAML"),
    ],
)
def test_what_is_refused(name: str, value: str, problem: str) -> None:
    """A value that cannot be read is refused with one line that names the setting."""
    with pytest.raises(SettingError) as refused:
        parse_settings({name: value})

    assert str(refused.value).startswith(f"setting {name}: {problem}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        pytest.param("METRICS_PORT", "", 8080, id="an empty number"),
        pytest.param("METRICS_PORT", "eighty", 8080, id="a word for a number"),
        pytest.param("METRICS_PORT", "8_080", 8080, id="a number as Python writes it"),
        pytest.param("METRICS_PORT", " 9", 8080, id="a number with a blank"),
        pytest.param("METRICS_PORT", "+9", 9, id="a number with a sign"),
        pytest.param("KUBE_CLIENT_QPS", "fast", 200.0, id="no rate"),
        pytest.param("BATCH_IDLE_DURATION", "", timedelta(seconds=1), id="an empty duration"),
        pytest.param("BATCH_IDLE_DURATION", "5", timedelta(seconds=1), id="a duration without a unit"),
        pytest.param("ENABLE_PROFILING", "1", True, id="one is true"),
        pytest.param("ENABLE_PROFILING", "T", True, id="T is true"),
        pytest.param("ENABLE_PROFILING", "yes", False, id="yes is nothing"),
        pytest.param("IGNORE_DRA_REQUESTS", "", True, id="an empty switch is as it is by default"),
        pytest.param("IGNORE_DRA_REQUESTS", "0", False, id="zero is false"),
        pytest.param("LOG_LEVEL", "", "", id="an empty text is a text"),
    ],
)
def test_odd_variables(variable: str, value: str, expected: Any) -> None:
    """What the environment says is read as Go reads it; what is no value at all counts as not set."""
    assert getattr(parse_settings({}, {variable: value}), variable.lower()) == expected


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(("maxSkew: 1", "maxSkew: 0"), "maxSkew: 0 is not greater than 0", id="no skew"),
        pytest.param(
            ("topologyKey: topology.kubernetes.io/zone", "topologyKey: ''"),
            "topologyKey: is required",
            id="no key",
        ),
        pytest.param(("ScheduleAnyway", "Never"), "whenUnsatisfiable: is not", id="no such action"),
    ],
)
def test_a_spread_that_is_refused(change: tuple[str, str], problem: str) -> None:
    """The first constraint that cannot be used is named with its place."""
    with pytest.raises(SettingError, match=problem) as refused:
        parse_settings({"scheduler-config": SPREAD.replace(*change)})

    assert "podTopologySpread.defaultConstraints[0]" in str(refused.value)


def test_a_spread_stated_twice() -> None:
    """The same key with the same action cannot be stated twice."""
    with pytest.raises(SettingError, match="a second time"):
        parse_settings({"scheduler-config": SPREAD + SPREAD.splitlines()[-1]})


def test_a_spread() -> None:
    """Default constraints are read as those of a pod, without a selector."""
    [constraint] = parse_settings({"scheduler-config": SPREAD}).scheduler_config

    assert (constraint.max_skew, constraint.when_unsatisfiable) == (1, "ScheduleAnyway")


def test_gates() -> None:
    """Gates that are stated change, and others keep their default."""
    settings = parse_settings({"feature-gates": "NodeRepair=1, Drift=true,ReservedCapacity = False,"})

    assert settings.gate("NodeRepair")
    assert not settings.gate("ReservedCapacity")
    assert settings.feature_gates.keys() == GATES.keys()


def test_a_gate_that_is_not_there() -> None:
    """A gate that there is not is refused in a flag; in the environment it is named, and others count."""
    with pytest.raises(SettingError, match="no feature gate 'NopeGate'; there are ReservedCapacity, NodeRep"):
        parse_settings({"feature-gates": "NopeGate=true"})
    with pytest.raises(SettingError, match="no feature gate 'nodeRepair'; did you mean NodeRepair"):
        parse_settings({"feature-gates": "nodeRepair=true"})
    settings = parse_settings({}, {"FEATURE_GATES": "NodeRepar=true,StaticCapacity=true"})

    assert (settings.gate("NodeRepair"), settings.gate("StaticCapacity")) == (False, True)
    assert settings.ignored == (
        "FEATURE_GATES: there is no feature gate 'NodeRepar'; did you mean NodeRepair?",
    )


def test_a_setting_that_is_not_there() -> None:
    """A name that no setting has is refused, with the nearest one or those that there are."""
    with pytest.raises(SettingError, match=f"no setting 'pace'; there are {SETTINGS[0].name}, "):
        parse_settings({"pace": "fast"})
    with pytest.raises(SettingError, match="no setting 'metric-port'; did you mean metrics-port"):
        parse_settings({"metric-port": "1"})
    with pytest.raises(SettingError, match="a feature gate: give it as feature-gates=NodeRepair=true"):
        parse_settings({"NodeRepair": "true"})
    with pytest.raises(AttributeError):
        _ = parse_settings({}).pace


def test_what_settings_mean_for_prices(tmp_path: Path) -> None:
    """Prices, factors and commitments of a file are part of the policy; a date without a zone is in UTC."""
    file = tmp_path / "commitments.yaml"
    file.write_text(
        "commitments: [{kind: SavingsPlan, hourly: 2.5, rate: 0.7, until: '2027-01-01T00:00:00'}]", "utf-8"
    )
    given = {"node-price": "0.01", "price-factors": "m5=0.9, *=1", "commitments": str(file)}
    prices = scheduling_policy(parse_settings(given)).prices

    assert (prices.node, prices.factors) == (0.01, {"m5": 0.9, "*": 1.0})
    assert [(each.hourly, each.until) for each in prices.commitments] == [
        (2.5, datetime(2027, 1, 1, tzinfo=UTC))
    ]
    assert scheduling_policy(parse_settings({})).prices.concentration == 0.5
