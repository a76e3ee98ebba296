"""Money as metrics show it: costs, savings, machines without pods, and the bound."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.controllers.executor import InlineExecutor
from karpenter.controllers.metrics.savings import PERIOD, BoundMetrics, CostMetrics, SavingsMetrics
from karpenter.core.disruption.churn import SavingLifetime
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.state.cluster import ObjectDeleted
from karpenter.telemetry.metrics import CounterMetric, GaugeMetric, MetricSpec
from karpenter.telemetry.metrics import savings as declared
from tests.unit.controllers.test_disruption import FixedCatalogs, Harness, drifted, empty
from tests.unit.core.disruption.clusters import NOW, machine, pod

if TYPE_CHECKING:
    from collections.abc import Callable


EMPTY = ("delete", "empty", "empty")
SINGLE = ("replace", "underutilized", "single")
DRIFTED = ("replace", "drifted", "")


def shown(harness: Harness, metric: MetricSpec[CounterMetric] | MetricSpec[GaugeMetric]) -> dict[Any, float]:
    """Return what a metric shows by its label values, zeros left out."""
    harness.metrics.refresh()
    return {each.values: round(each.value, 4) for each in harness.metrics[metric].samples() if each.value}


def oversized() -> Harness:
    """Return a harness with a machine that is much larger than its pod needs."""
    return Harness(machine("large", "xlarge"), pod("web-1", "large", cpu="1"))


@pytest.mark.parametrize(
    ("begin", "labels", "saved", "moved"),
    [
        pytest.param(empty, EMPTY, {EMPTY: 0.2}, {}, id="an empty machine saves its price and moves nothing"),
        pytest.param(oversized, SINGLE, {SINGLE: 0.7}, {SINGLE: 1.0}, id="a smaller machine saves the rest"),
        pytest.param(drifted, DRIFTED, {}, {DRIFTED: 1.0}, id="drift saves nothing and moves pods"),
    ],
)
def test_what_a_command_saves_and_moves(
    begin: Callable[[], Harness], labels: tuple[str, ...], saved: dict[Any, float], moved: dict[Any, float]
) -> None:
    """Planned savings are counted when a command begins, the real ones and evictions when it is finished."""

    async def main() -> None:
        harness = begin()
        assert await harness.begin()
        assert shown(harness, declared.PLANNED) == saved
        assert (shown(harness, declared.REALIZED), shown(harness, declared.EVICTIONS)) == ({}, {})
        harness.finish_replacements()
        await harness.queue.look()
        assert harness.queue.in_progress == []
        assert shown(harness, declared.REALIZED) == saved
        assert shown(harness, declared.EVICTIONS) == moved
        assert shown(harness, declared.UNDONE) == {}
        assert labels in {*saved, *moved}

    asyncio.run(main())


def test_a_dearer_machine_than_planned_saves_less() -> None:
    """What is realised follows from the machine that was launched, not from the one that was planned."""

    async def main() -> None:
        harness = oversized()
        assert await harness.begin()
        harness.finish_replacements()
        (begun,) = harness.queue.in_progress
        claim = harness.store.claim(begun.replacements[0])
        assert claim is not None
        bought = {
            **claim.metadata.labels,
            INSTANCE_TYPE: "medium",
            CAPACITY_TYPE: "on-demand",
            ZONE: "zone-1",
        }
        meta = msgspec.structs.replace(claim.metadata, labels=bought)
        harness.put(msgspec.structs.replace(claim, metadata=meta))
        await harness.queue.look()
        assert shown(harness, declared.PLANNED) == {SINGLE: 0.7}
        assert shown(harness, declared.REALIZED) == {SINGLE: 0.6}

    asyncio.run(main())


def test_a_command_that_is_undone_is_counted_with_its_cause() -> None:
    """Nothing is saved, and the cause is a label."""

    async def main() -> None:
        harness = drifted()
        assert await harness.begin()
        (begun,) = harness.queue.in_progress
        replacement = harness.store.claim(begun.replacements[0])
        assert replacement is not None
        harness.store.apply(ObjectDeleted(replacement))
        await harness.queue.look()
        assert shown(harness, declared.UNDONE) == {(*DRIFTED, "replacement_lost"): 1.0}
        assert shown(harness, declared.EVICTIONS) == {}

    asyncio.run(main())


def test_what_keeps_nodes_is_shown_with_what_they_cost() -> None:
    """The codes of the last decision replace those of the one before."""

    async def main() -> None:
        harness = Harness(machine("busy"), pod("web-1", "busy", cpu="3"))
        await harness.disruption.look()
        assert shown(harness, declared.KEPT_NODES) == {("default", "NoSaving"): 1.0}
        assert shown(harness, declared.KEPT_COST) == {("default", "NoSaving"): 0.2}

    asyncio.run(main())


def test_how_long_savings_last() -> None:
    """A saving that has ended since the last look is observed once; one that lasts is not."""
    harness = empty()
    savings = SavingsMetrics(harness.store, harness.metrics, FixedCatalogs())
    lasts = SavingLifetime(pool="default", since=NOW)
    ended = SavingLifetime(pool="default", since=NOW, until=NOW + timedelta(hours=3))

    savings.observed((lasts,), (ended, lasts), ["default"])
    savings.observed((ended,), (ended,))

    assert harness.metrics[declared.SAVINGS_LIFETIME].count(nodepool="default") == 1
    assert harness.metrics[declared.MISSED].value(nodepool="default") == 1.0


def test_time_that_machines_are_paid_without_pods() -> None:
    """From one scrape to the next, machines without pods cost time and money; busy ones do not."""
    harness = Harness(
        machine("idle"), machine("busy"), pod("web-1", "busy", cpu="3"), machine("new", conditions=())
    )
    CostMetrics(harness.store, harness.metrics, FixedCatalogs(), harness.clock)
    assert shown(harness, declared.NODE_COST) == {("default", "on-demand", "zone-1", "medium"): 0.6}
    harness.clock.seconds += 1800.0

    seconds = shown(harness, declared.IDLE_SECONDS)
    assert seconds[("default", "empty")] >= 1800.0
    assert sum(seconds.values()) == 3600.0
    assert sum(shown(harness, declared.IDLE_COST).values()) == 0.2
    harness.store.mark_for_deletion(["idle"])
    harness.clock.seconds += 60.0
    assert shown(harness, declared.IDLE_SECONDS)[("default", "terminating")] == 60.0


def test_the_bound() -> None:
    """It is computed when the cluster has changed, and is at most what the nodes cost."""

    async def main() -> None:
        harness = oversized()
        bound = BoundMetrics(
            harness.store,
            harness.metrics,
            FixedCatalogs(),
            InlineExecutor(),
            harness.clock,
            context=DisruptionContext(),
        )
        assert await bound.look() == PERIOD
        assert shown(harness, declared.CONSOLIDATABLE_COST) == {(): 0.8}
        (least,) = shown(harness, declared.COST_BOUND).values()
        assert 0.0 < least <= 0.1
        harness.put(*machine("more", "xlarge"), pod("web-2", "more", cpu="1"))
        assert await bound.look() == PERIOD
        assert shown(harness, declared.CONSOLIDATABLE_COST) == {(): 1.6}
        assert await bound.look() == PERIOD

    asyncio.run(main())
