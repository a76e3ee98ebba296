"""What is told of machines that stay and of commands: which Event, to whom, in which words."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.meta import Condition
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command, KeptNode
from karpenter.core.disruption.events import (
    candidate_events,
    command_text,
    kept_events,
    log_facts,
    score_effects,
)
from karpenter.core.effects import Announce, Count
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import LONG_AGO, MARKET, NOW, cluster, decided, machine, pod, pool

DRIFTED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=LONG_AGO)


@pytest.mark.parametrize(
    ("code", "of_pool", "of_machine", "reason"),
    [
        pytest.param("NoSaving", {}, {}, "Unconsolidatable", id="nothing cheaper would do"),
        pytest.param("CannotMove", {}, {}, "Unconsolidatable", id="no saving, since its pods have no place"),
        pytest.param(
            "CannotMove",
            {},
            {"conditions": (DRIFTED,)},
            "DisruptionBlocked",
            id="no exchange, since its pods have no place",
        ),
        pytest.param(
            "ConsolidateAfter",
            {"consolidate_after": "Never"},
            {},
            "Unconsolidatable",
            id="its pool never saves",
        ),
        pytest.param("ConsolidateAfter", {"consolidate_after": "1h"}, {}, "", id="it was not quiet for long"),
        pytest.param("ConsolidateAfter", {"name": "other"}, {}, "", id="its pool is gone by now"),
        pytest.param("Deleting", {}, {}, "DisruptionBlocked", id="it goes already"),
        pytest.param("NotInitialized", {}, {}, "DisruptionBlocked", id="it is not complete"),
        pytest.param("Waiting", {}, {}, "", id="something else goes first"),
    ],
)
def test_machines_are_told_what_holds_them(
    code: str, of_pool: dict[str, Any], of_machine: dict[str, Any], reason: str
) -> None:
    """Savings and other obstacles have Events of their own; what passes by itself has none."""
    view = cluster(pool(**of_pool), machine("m", **of_machine))
    effects = kept_events([KeptNode(node="m", code=DisruptionCode(code), message="because")], view)

    found = {(each.reason, each.about.kind) for each in effects if isinstance(each, Announce)}
    assert found == ({(reason, "Node"), (reason, "NodeClaim")} if reason else set())


def test_what_is_not_told_of_one_machine_hides_no_other() -> None:
    """A node that is gone, one that waits and one that a budget keeps come before one that has an Event."""
    view = cluster(pool(consolidate_after="1h"), *(machine(name) for name in "abcd"))
    codes = {"gone": "NoSaving", "a": "Waiting", "b": "Budget", "c": "ConsolidateAfter", "d": "NoSaving"}
    kept = [KeptNode(node=name, code=DisruptionCode(code), message=code) for name, code in codes.items()]

    told = [each for each in kept_events(kept, view) if isinstance(each, Announce)]

    assert [(each.about.kind, each.about.name, each.reason) for each in told] == [
        ("Node", "d", "Unconsolidatable"),
        ("NodeClaim", "d", "Unconsolidatable"),
        ("NodePool", "default", "DisruptionBlocked"),
    ]


def test_an_event_names_its_own_machine_alone() -> None:
    """Hundreds may go together; each is told of itself, and of how many it is one."""
    view = cluster(pool(), machine("a"), machine("b"))
    alone = Command(reason=UNDERUTILIZED, candidates=("a",), hourly_before=0.5, number=7)
    both = Command(reason=UNDERUTILIZED, candidates=("a", "b"), hourly_before=0.5, number=8)

    def told(command: Command) -> list[str]:
        effects = candidate_events(command, view)
        return [each.message for each in effects if isinstance(each, Announce)]

    assert [command_text(alone, view) in each for each in told(alone)] == [True, True]
    assert not any("part of" in each for each in told(alone))
    assert command_text(both, view) == (
        "Underutilized/0008: delete: nodepools=[default]: [a, b] (savings: $0.50)"
    )
    text = (
        "Underutilized/0008: delete: nodepools=[default]: [b] (savings: $0.50), part of 2-node consolidation"
    )
    assert [text in each for each in told(both)] == [False, False, True, True]
    assert "nodepools=[]" in command_text(both, cluster(pool()))


def test_savings_of_pools_that_do_not_weigh_them_are_counted_too() -> None:
    """Each by its policy, once for every pool that has machines in them and is still there."""
    view = cluster(pool(), machine("a"), machine("b"), machine("c", pool="gone"))
    saving = Command(reason=UNDERUTILIZED, candidates=("a", "b", "c", "d"))

    (count,) = score_effects((saving, Command(reason=EMPTY, candidates=("a",))), (), view)

    assert isinstance(count, Count)
    assert count.labels == {
        "decision": "approved",
        "nodepool": "default",
        "policy": "WhenEmptyOrUnderutilized",
    }


def test_the_facts_of_a_command() -> None:
    """The log says what goes and what comes, under names that people know."""
    view = cluster(pool(), machine("a", "xlarge"), pod("web-1", "a"))
    (command,) = decided(view).commands
    candidates = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates

    assert log_facts(command, candidates) == {
        "decision": "replace",
        "reason": "Underutilized",
        "disrupted-node-count": 1,
        "replacement-node-count": 1,
        "pod-count": 1,
        "disrupted-nodes": [
            {"Node": "a", "NodeClaim": "a", "instance-type": "xlarge", "capacity-type": "on-demand"}
        ],
        "replacement-nodes": [{"capacity-type": "on-demand", "instance-types": "small, medium, large"}],
    }
    several = Command(reason=UNDERUTILIZED, candidates=("a",), replacements=command.replacements * 2)
    assert log_facts(several, candidates)["replacement-nodes"] == [{"capacity-type": "on-demand"}] * 2
