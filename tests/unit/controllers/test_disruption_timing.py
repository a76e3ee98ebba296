"""Timing a look for machines to disrupt: every reason for itself."""

from __future__ import annotations

from karpenter.controllers.disruption import LIMIT, MethodTimer
from karpenter.core.disruption.command import DRIFTED, EMPTY, UNDERUTILIZED
from karpenter.telemetry.metrics import Metrics, disruption
from tests.unit.controllers.harness import Shell


def test_every_reason_is_counted_with_its_own_time() -> None:
    """Those that were tried, each once; what took none because it was not reached is not counted."""
    clock = Shell().clock
    metrics = Metrics(clock=clock)
    watch = MethodTimer(clock)
    clock.seconds += 1.0
    watch.lap(EMPTY)
    clock.seconds += 4.0
    watch.lap(DRIFTED)
    watch.count(metrics)

    found = {
        (each.suffix, *each.values): each.value
        for each in metrics[disruption.EVALUATION_DURATION].samples()
        if each.suffix in {"_sum", "_count"}
    }
    assert found == {
        ("_sum", "empty", "empty"): 1.0,
        ("_count", "empty", "empty"): 1.0,
        ("_sum", "drifted", ""): 4.0,
        ("_count", "drifted", ""): 1.0,
    }


def test_a_reason_that_takes_all_its_time_leaves_the_next_its_own() -> None:
    """Time that is up stays up until the next reason; only searches for savings count as timeouts."""
    clock = Shell().clock
    metrics = Metrics(clock=clock)
    watch = MethodTimer(clock)
    answers = []
    for reason in (DRIFTED, UNDERUTILIZED):
        answers.append(watch.is_up())
        clock.seconds += LIMIT + 1.0
        answers.append(watch.is_up())
        watch.lap(reason)
    watch.count(metrics)

    assert answers == [False, True, False, True]
    assert metrics[disruption.CONSOLIDATION_TIMEOUTS].value(consolidation_type="multi") == 1.0
