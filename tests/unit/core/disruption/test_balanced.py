"""Pools that weigh savings against moves: what is approved, what is not, and what is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.nodepool import Budget
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command
from karpenter.core.disruption.events import score_effects
from karpenter.core.disruption.memory import unreadable_budgets
from karpenter.core.effects import Announce, Count, Measure
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool

if TYPE_CHECKING:
    from karpenter.core.disruption.disrupt import DisruptionDecision


def _told(verdict: DisruptionDecision, *names: str) -> list[tuple[str, str]]:
    view = cluster(pool(), *(machine(name) for name in names))
    effects = score_effects(verdict.commands, verdict.rejected, view)
    return [(each.reason, each.about.kind) for each in effects if isinstance(each, Announce)]


def test_a_move_that_is_worth_it_is_approved_and_said_so() -> None:
    """A large machine that goes for one pod scores well, which its node and claim are told."""
    view = cluster(
        pool(consolidation_policy="Balanced"),
        machine("node-1", "xlarge"),
        machine("node-2", "medium"),
        pod("web-0", "node-1", cpu="1"),
        *(pod(f"api-{number}", "node-2", cpu="250m") for number in range(12)),
    )

    verdict = decided(view, explain=0)

    (command,) = verdict.commands
    (weight,) = command.scores
    assert weight.score >= 0.5
    assert 0 < weight.disruption < weight.saving <= 1
    assert _told(verdict, *command.candidates) == [
        ("ConsolidationApproved", "Node"),
        ("ConsolidationApproved", "NodeClaim"),
    ]


def test_a_move_that_is_too_light_is_counted() -> None:
    """A saving of a few percent for most of the pods is refused, counted and measured."""
    view = cluster(
        pool(consolidation_policy="Balanced"),
        machine("node-1", "medium"),
        *(pod(f"web-{number}", "node-1", cpu="150m") for number in range(12)),
        machine("node-2", "xlarge"),
        pod("api-0", "node-2", cpu="15"),
    )

    verdict = decided(view)

    assert held(verdict)["node-1"] == "NotBalanced"
    (weight,) = verdict.rejected
    effects = score_effects(verdict.commands, verdict.rejected, view)
    labels = {"decision": "rejected", "nodepool": "default", "policy": "Balanced"}
    assert effects == (
        Measure(metric="karpenter_consolidation_score", labels=labels, value=weight.score),
        Count(metric="karpenter_consolidation_moves_total", labels=labels),
    )


def test_a_move_of_several_machines_is_told_to_the_pool() -> None:
    """What concerns many machines is told to their pool, as far as it is there."""
    view = cluster(
        pool(consolidation_policy="Balanced"),
        *(machine(f"node-{number}", "large") for number in range(4)),
        *(pod(f"web-{number}", f"node-{number}", cpu="1") for number in range(4)),
    )

    verdict = decided(view, explain=0)

    assert len(verdict.commands[0].candidates) > 1
    assert _told(verdict) == [("ConsolidationApproved", "NodePool")]
    assert score_effects(verdict.commands, (), cluster())[2:] == ()


def test_the_best_of_what_was_too_light_is_remembered() -> None:
    """Of many moves that were refused the one that came closest counts."""
    view = cluster(
        pool(consolidation_policy="Balanced"),
        *(machine(f"node-{number}", "medium") for number in range(2)),
        *(pod(f"web-{number}", f"node-{number % 2}", cpu="120m") for number in range(20)),
        pod("more-0", "node-0", cpu="700m"),
        machine("node-9", "xlarge"),
        pod("api-0", "node-9", cpu="15"),
    )

    verdict = decided(view)

    (best,) = verdict.rejected
    assert 0 < best.score < 0.5


def test_budgets_that_cannot_be_read_are_named() -> None:
    """A pool with such a budget is said to be held by it; others are not."""
    bad = Budget(nodes="1", schedule="at noon", duration="1h")
    view = cluster(pool("fine"), pool("held", budgets=(Budget(nodes="10%"), bad)))

    found = unreadable_budgets(view)

    assert list(found) == ["held"]
    assert found["held"].startswith("Nothing is disrupted, because a budget cannot be read: budgets[1]: ")


def test_a_saving_is_counted_for_pools_that_do_not_score_it() -> None:
    """A node with too little on it counts as a move; an empty one moves nothing, and is not counted."""
    view = cluster(pool(), machine("node-1"))
    labels = {"decision": "approved", "nodepool": "default", "policy": "WhenEmptyOrUnderutilized"}
    counted = (Count(metric="karpenter_consolidation_moves_total", labels=labels),)

    for reason, expected in ((UNDERUTILIZED, counted), (EMPTY, ())):
        assert score_effects([Command(reason=reason, candidates=("node-1",))], (), view) == expected


def test_the_shares_of_a_move_are_of_the_nodes_that_stay() -> None:
    """Of $1.00 an hour $0.80 is saved, and of 2 nodes with 13 pods 1 with 1 pod goes; a third node leaves."""
    node, claim = machine("out", "xlarge")
    leaving = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
    view = cluster(
        pool(consolidation_policy="Balanced"),
        [node, msgspec.structs.replace(claim, metadata=leaving)],
        machine("node-1", "xlarge"),
        machine("node-2", "medium"),
        pod("web-0", "node-1", cpu="1"),
        *(pod(f"api-{number}", "node-2", cpu="250m") for number in range(12)),
    )

    (command,) = decided(view, explain=0).commands

    assert command.candidates == ("node-1",)
    (found,) = command.scores
    assert [found.saving, found.disruption, found.score] == pytest.approx([0.8, 2 / 15, 6.0])
