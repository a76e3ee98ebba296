"""How far savings could ever go."""

from __future__ import annotations

import pytest

from karpenter.core.disruption.command import SavingsBound
from karpenter.core.disruption.disrupt import savings_bound
from tests.unit.core.disruption.clusters import (
    MARKET,
    NOW,
    cluster,
    decided,
    facts,
    machine,
    pod,
    pool,
)


def _reach(*parts: object) -> SavingsBound:
    found = decided(cluster(*parts), prove=True).bound  # type: ignore[arg-type]
    assert found is not None
    return found


def test_nothing_is_worked_out_unless_asked() -> None:
    """A pass of the operator does not need it."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))

    assert decided(view).bound is None


def test_a_pod_costs_at_least_its_share_of_the_cheapest_machine() -> None:
    """One small pod on a large machine: the bound is above nothing, and below what is found."""
    parts = (pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))
    (command,) = decided(cluster(*parts)).commands

    found = _reach(*parts)

    assert (found.nodes, found.hourly) == (1, command.hourly_before)
    assert 0 < found.least <= command.hourly_after


def test_free_room_on_machines_that_stay_costs_nothing() -> None:
    """Where a machine that nothing but emptiness removes could take all pods, nothing has to be paid."""
    parts = (
        pool(),
        pool("other", consolidation_policy="WhenEmpty"),
        machine("node-1", "small"),
        pod("web-0", "node-1", cpu="100m"),
        machine("node-2", "xlarge", pool="other"),
        pod("web-1", "node-2", cpu="100m"),
    )

    found = _reach(*parts)

    assert found.nodes == 1
    assert found.least == pytest.approx(0.0)


def test_what_is_there_may_stay() -> None:
    """The smallest machine there is, for one pod that needs a machine, is as cheap as can be."""
    found = _reach(pool(), machine("node-1", "small"), pod("web-0", "node-1", cpu="1"))

    assert found.least == pytest.approx(found.hourly)


def test_without_pods_or_pools_nothing_must_be_paid() -> None:
    """No demand, no bound."""
    assert _reach(pool(consolidate_after="Never"), machine("node-1"), pod("web-0", "node-1")) == SavingsBound(
        nodes=0, hourly=0.0, least=0.0
    )


def test_the_bound_needs_no_decision() -> None:
    """Metrics ask for it alone; it is what a decision would prove."""
    parts = (pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))

    assert savings_bound(cluster(*parts), MARKET, now=NOW, context=facts({})) == _reach(*parts)
