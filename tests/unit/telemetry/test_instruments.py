import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.telemetry.metrics.instruments import (
    WINDOW_SECONDS,
    AgeMetric,
    CounterMetric,
    GaugeMetric,
    HistogramMetric,
    Instrument,
    Sample,
    SummaryMetric,
    WrongLabels,
    nearest_rank,
)
from tests.unit.telemetry.clocks import HandClock

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


def shown(instrument: Instrument) -> dict[tuple[str, ...], float]:
    """Return the samples by suffix and label values."""
    return {
        (each.suffix, *each.values, *filter(None, [each.last])): each.value for each in instrument.samples()
    }


def summary(clock: HandClock, most: int = 1000) -> SummaryMetric:
    """Return a summary of the usual quantiles."""
    return SummaryMetric(
        "s", ("pool",), quantiles=(0.0, 0.5, 0.9, 0.99, 1.0), monotonic=clock.monotonic, most=most
    )


def test_a_counter_counts_per_series() -> None:
    """Each combination of label values is counted for itself."""
    counter = CounterMetric("c_total", ("zone",))
    counter.add(zone="a")
    counter.add(2.5, zone="a")
    counter.add(zone="b")

    assert shown(counter) == {("", "a"): 3.5, ("", "b"): 1.0}
    assert (counter.value(zone="a"), counter.value(zone="c")) == (3.5, 0.0)


def test_a_counter_never_counts_down() -> None:
    """Counting down would look like a restart to Prometheus."""
    with pytest.raises(ValueError, match="counter c_total cannot count down"):
        CounterMetric("c_total", ()).add(-1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param({}, "metric g takes pool, zone, not none", id="none"),
        pytest.param(
            {"pool": "a", "size": "b"}, "metric g takes pool, zone, not pool, size", id="a wrong one"
        ),
    ],
)
def test_wrong_labels(given: dict[str, str], text: str) -> None:
    """Labels that a metric does not have are refused in one sentence."""
    with pytest.raises(WrongLabels, match=text):
        GaugeMetric("g", ("pool", "zone")).set(1.0, **given)


def test_a_gauge_is_set_moved_and_removed() -> None:
    """A gauge shows the last value of each series until it is removed."""
    gauge = GaugeMetric("g", ("pool",))
    gauge.set(5.0, pool="a")
    gauge.add(-2.0, pool="a")
    gauge.set(1.0, pool="b")
    gauge.remove(pool="b")
    gauge.remove(pool="never there")

    assert shown(gauge) == {("", "a"): 3.0}
    assert (gauge.value(pool="a"), gauge.value(pool="b")) == (3.0, None)


def test_an_owner_replaces_what_it_published() -> None:
    """What an object published before and does not any longer is gone; others keep theirs."""
    gauge = GaugeMetric("g", ("node", "resource"))
    gauge.publish("n1", [(1.0, {"node": "n1", "resource": "cpu"}), (2.0, {"node": "n1", "resource": "gpu"})])
    gauge.publish("n2", [(3.0, {"node": "n2", "resource": "cpu"})])
    gauge.publish("n1", [(4.0, {"node": "n1", "resource": "cpu"})])

    assert shown(gauge) == {("", "n1", "cpu"): 4.0, ("", "n2", "cpu"): 3.0}


def test_an_owner_that_left_shows_nothing() -> None:
    """Retracting removes all series of an owner, and twice is no harm."""
    gauge = GaugeMetric("g", ("node",))
    gauge.publish("n1", [(1.0, {"node": "n1"})])
    gauge.retract("n1")
    gauge.retract("n1")

    assert not shown(gauge)


def test_a_histogram_counts_in_buckets() -> None:
    """A value is counted in its bucket, upper end included, and in every larger one."""
    histogram = HistogramMetric("h", (), buckets=(1.0, 2.5))
    for value in (0.5, 1.0, 2.0, 9.0):
        histogram.observe(value)

    assert list(histogram.samples()) == [
        Sample("_bucket", (), 2, "1"),
        Sample("_bucket", (), 3, "2.5"),
        Sample("_bucket", (), 4, "+Inf"),
        Sample("_sum", (), 12.5),
        Sample("_count", (), 4),
    ]
    assert histogram.count() == 4


@pytest.mark.parametrize("buckets", [(), (2.0, 1.0), (1.0, 1.0)])
def test_buckets_rise(buckets: tuple[float, ...]) -> None:
    """Buckets that do not rise would count wrongly."""
    with pytest.raises(ValueError, match="must be given, and rise"):
        HistogramMetric("h", (), buckets=buckets)


def test_a_summary_shows_quantiles() -> None:
    """Quantiles are those values that so large a share does not exceed; 0 and 1 are the extremes."""
    found = summary(HandClock())
    for value in range(1, 101):
        found.observe(float(value), pool="a")

    assert shown(found) == {
        ("", "a", "0"): 1.0,
        ("", "a", "0.5"): 50.0,
        ("", "a", "0.9"): 90.0,
        ("", "a", "0.99"): 99.0,
        ("", "a", "1"): 100.0,
        ("_sum", "a"): 5050.0,
        ("_count", "a"): 100,
    }


def test_a_summary_forgets_the_old() -> None:
    """Quantiles are of the last ten minutes; sum and count are for ever."""
    clock = HandClock()
    found = summary(clock)
    found.observe(100.0, pool="a")
    clock.seconds = WINDOW_SECONDS - 1
    found.observe(1.0, pool="a")
    clock.seconds = WINDOW_SECONDS
    values = shown(found)

    assert (values["", "a", "1"], values["_sum", "a"], values["_count", "a"]) == (1.0, 101.0, 2)


def test_a_summary_of_nothing() -> None:
    """When nothing was observed lately, quantiles are not a number."""
    clock = HandClock()
    found = summary(clock)
    found.observe(1.0, pool="a")
    clock.seconds = WINDOW_SECONDS

    assert math.isnan(shown(found)["", "a", "0.5"])
    assert (found.count(pool="a"), found.count(pool="b")) == (1, 0)


def test_a_summary_is_bounded() -> None:
    """A flood of observations takes no more room than its newest part."""
    found = summary(HandClock(), most=10)
    for value in range(1000):
        found.observe(float(value), pool="a")

    assert (shown(found)["", "a", "0"], shown(found)["_count", "a"]) == (990.0, 1000)


@given(values=st.lists(numbers, min_size=1), quantile=st.floats(0, 1))
def test_nearest_rank(values: list[float], quantile: float) -> None:
    """The answer is one of the values, and at least so large a share is not above it."""
    found = nearest_rank(sorted(values), quantile)

    assert found in values
    assert sum(value <= found for value in values) >= quantile * len(values) - 1e-9


@given(values=st.lists(numbers))
def test_histograms_agree_with_counting(values: list[float]) -> None:
    """Each bucket holds exactly the values up to its bound."""
    bounds = (-1.0, 0.0, 0.5, 10.0)
    histogram = HistogramMetric("h", (), buckets=bounds)
    histogram.seed(())
    for value in values:
        histogram.observe(value)
    counted = [each.value for each in histogram.samples() if each.suffix == "_bucket"]

    assert counted == [sum(value <= bound for value in values) for bound in (*bounds, math.inf)]


def test_ages_grow_by_themselves() -> None:
    """An age is told a moment, and shows the seconds since then whenever somebody reads."""
    now = [100.0]
    instrument = AgeMetric("a", ("name",), now=lambda: now[0])
    instrument.publish("owner", [(40.0, {"name": "x"})])
    assert [each.value for each in instrument.samples()] == [60.0]
    now[0] = 101.5

    assert [each.value for each in instrument.samples()] == [61.5]
