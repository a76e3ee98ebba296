"""What budgets allow, and which machines could go, as metrics show it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.meta import Condition
from karpenter.api.nodepool import Budget
from karpenter.controllers.executor import InlineExecutor
from karpenter.controllers.metrics.nodepool import PERIOD, DisruptionBudgetMetrics
from karpenter.core.state.cluster import ObjectUpdated
from karpenter.telemetry.metrics import disruption, nodepools
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.controllers.metrics.test_nodepool import Answered
from tests.unit.core.disruption.clusters import MARKET, NOW, machine, pod, pool
from tests.unit.core.lifecycle.objects import node
from tests.unit.core.lifecycle.objects import pool as static_pool
from tests.unit.telemetry.clocks import NOON

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog


class Shown(Showing):
    """What is shown of machines."""

    gauges: DisruptionBudgetMetrics

    def eligible(self) -> dict[str, int]:
        """Return how many machines could go for each reason, after another look."""
        assert asyncio.run(self.gauges.look()) == PERIOD
        rows = self.rows(disruption.ELIGIBLE_NODES, "reason")
        return {reason: int(count) for (reason,), count in rows.items()}


def shown(*objects: Any, latest: Catalog | None = MARKET) -> Shown:
    """Return machines of a pool, as they are shown."""
    found = Shown()
    found.store.complete = True
    found.clock.seconds = (NOW - NOON).total_seconds()
    for each in objects:
        found.store.apply(ObjectUpdated(each))
    found.gauges = DisruptionBudgetMetrics(
        found.store, found.metrics, Answered(latest), InlineExecutor(), found.clock
    )
    return found


def test_what_budgets_allow() -> None:
    """Of four nodes half may go at once; what leaves already is counted beside, until its machine ends."""
    machines = [each for n in range(4) for each in machine(f"n-{n}")]
    found = shown(pool(budgets=(Budget(nodes="50%"),)), *machines, node())
    names = ("nodepool", "reason")
    assert found.rows(nodepools.ALLOWED_DISRUPTIONS, *names) == {
        ("default", "Empty"): 2.0,
        ("default", "Drifted"): 2.0,
        ("default", "Underutilized"): 2.0,
    }

    found.store.mark_for_deletion(["n-0"])
    assert set(found.rows(nodepools.ALLOWED_DISRUPTIONS, *names).values()) == {2.0}
    assert set(found.rows(nodepools.NODES_CONSUMING_BUDGETS, *names).values()) == {1.0}

    ending = Condition(type="InstanceTerminating", status="True")
    found.store.apply(ObjectUpdated(machine("n-0", conditions=(ending,))[1]))
    assert set(found.rows(nodepools.NODES_CONSUMING_BUDGETS, *names).values()) == {0.0}


def test_without_a_budget_in_force_every_node_may_go() -> None:
    """Nothing is held back, so the whole pool is shown."""
    machines = [each for n in range(3) for each in machine(f"n-{n}")]
    found = shown(pool(budgets=(Budget(nodes="0", reasons=("Drifted",)),)), *machines)
    allowed = found.rows(nodepools.ALLOWED_DISRUPTIONS, "nodepool", "reason")

    assert allowed["default", "Drifted"] == 0.0
    assert allowed["default", "Empty"] == allowed["default", "Underutilized"] == 3.0


@pytest.mark.parametrize(
    ("disruption_of_pool", "latest", "expected"),
    [
        pytest.param(
            {}, MARKET, {"empty": 1, "drifted": 0, "underutilized": 1}, id="all may be consolidated"
        ),
        pytest.param(
            {"consolidation_policy": "WhenEmpty"},
            MARKET,
            {"empty": 1, "drifted": 0, "underutilized": 0},
            id="only empty ones",
        ),
        pytest.param(
            {"consolidate_after": "Never"}, MARKET, {"empty": 0, "drifted": 0, "underutilized": 0}, id="none"
        ),
        pytest.param({}, None, {"empty": 0, "drifted": 0, "underutilized": 0}, id="nobody says what is sold"),
    ],
)
def test_which_machines_could_go(
    disruption_of_pool: dict[str, Any], latest: Catalog | None, expected: dict[str, int]
) -> None:
    """Machines count for every reason for which they could go, budgets aside."""
    found = shown(
        pool(**disruption_of_pool), *machine("busy"), pod("web-1", "busy"), *machine("idle"), latest=latest
    )

    assert found.eligible() == expected


def test_static_pools_are_not_consolidated() -> None:
    """A machine of a static pool goes only when it has drifted."""
    fixed = static_pool(spec={"replicas": 1, "disruption": {"consolidateAfter": "0s"}})
    found = shown(fixed, *machine("idle")).eligible()

    assert found["empty"] == found["underutilized"] == 0


def test_what_has_not_changed_is_not_looked_at_again() -> None:
    """Nothing is worked out anew unless something has changed, and nothing before everything is known."""
    found = shown(pool())
    found.store.complete = False
    assert found.eligible() == {}
    found.store.complete = True
    assert found.eligible()["empty"] == 0
    found.metrics[disruption.ELIGIBLE_NODES].set(9.0, reason="empty")
    assert found.eligible()["empty"] == 9

    for each in machine("idle"):
        found.store.apply(ObjectUpdated(each))
    assert found.eligible()["empty"] == 1
