"""What disruption remembers from one decision to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from karpenter.api.nodepool import Budget
from karpenter.core.disruption.candidates import find_candidates
from karpenter.core.disruption.churn import PoolChange, record_savings
from karpenter.core.disruption.command import EMPTY
from karpenter.core.disruption.memory import EXPLAINED, DisruptionMemory, FinishedCommand, observe
from karpenter.core.disruption.outcomes import ExpectedOutcome, RestPeriod
from karpenter.core.effects import Announce
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, decided, machine, pod, pool, simulated

MINUTE = timedelta(minutes=1)


def finished(*, landed: bool, start_up: timedelta | None = MINUTE) -> FinishedCommand:
    """Return a command that ended long ago and whose one pod should run on node-1."""
    outcome = ExpectedOutcome(
        pools=frozenset({"default"}),
        leaving=frozenset(),
        planned={("node-1" if landed else "node-2", "default/ReplicaSet/web"): 1},
        moved=1,
        since=NOW - timedelta(hours=1),
    )
    return FinishedCommand(expected=outcome, start_up=start_up)


VIEW = cluster(pool(), machine("node-1"), pod("web-0", "node-1", creation_timestamp=NOW))


def test_a_command_that_came_out_as_planned_leaves_no_trace_but_its_start_up() -> None:
    """The NodePool does not rest, and nothing is expected any more."""
    found = observe(VIEW, DisruptionMemory(), now=NOW, finished=[finished(landed=True)])

    assert found.missed == ()
    assert found.memory.start_ups == (MINUTE,)
    assert (found.memory.expected, found.memory.resting) == ((), {})


def test_a_pool_rests_longer_each_time_its_pods_land_elsewhere() -> None:
    """Five minutes, then ten; while it rests no savings are looked for."""
    memory = DisruptionMemory()
    for minutes in (5, 10):
        found = observe(VIEW, memory, now=NOW, finished=[finished(landed=False, start_up=None)])
        memory = found.memory
        assert [(each.pool, each.rest.length) for each in found.missed] == [("default", minutes * MINUTE)]

    assert memory.pools_at_rest(NOW) == {"default"}
    assert memory.pools_at_rest(NOW + 10 * MINUTE) == frozenset()
    assert memory.start_ups == ()


def test_a_pool_that_is_gone_neither_misses_nor_rests() -> None:
    """What becomes of the pods of a NodePool that no longer exists says nothing about savings."""
    memory = DisruptionMemory(resting={"default": RestPeriod(MINUTE, NOW + MINUTE)})
    gone = cluster(machine("node-1"), pod("web-0", "node-1", creation_timestamp=NOW))

    found = observe(gone, memory, now=NOW, finished=[finished(landed=False)])

    assert (found.missed, found.memory.resting) == ((), {})


def test_a_claim_whose_replacement_failed_rests_longer_each_time() -> None:
    """Five minutes, then ten; a claim that is gone is forgotten."""
    failed = FinishedCommand(failed=frozenset({"node-1", "gone"}))
    memory = DisruptionMemory()
    for minutes in (5, 10):
        memory = observe(VIEW, memory, now=NOW, finished=[failed]).memory
        assert memory.failed == {"node-1": RestPeriod(minutes * MINUTE, NOW + minutes * MINUTE)}

    assert memory.claims_at_rest(NOW) == {"node-1"}
    assert memory.claims_at_rest(NOW + 10 * MINUTE) == frozenset()
    assert observe(cluster(pool()), memory, now=NOW).memory.failed == {}


def test_a_command_is_judged_only_once_it_can_be() -> None:
    """Until its pods had time to run again it is remembered."""
    early = finished(landed=False)
    assert early.expected is not None
    outcome = msgspec.structs.replace(early.expected, since=NOW - MINUTE)
    memory = observe(VIEW, DisruptionMemory(), now=NOW, finished=[FinishedCommand(expected=outcome)]).memory

    assert memory.expected == (outcome,)
    assert observe(VIEW, memory, now=NOW + 5 * MINUTE).missed


def test_the_last_start_ups_are_remembered() -> None:
    """Twenty-five of them; older ones say nothing about today."""
    many = [finished(landed=True, start_up=number * MINUTE) for number in range(30)]

    assert len(observe(VIEW, DisruptionMemory(), now=NOW, finished=many).memory.start_ups) == 25


def test_savings_end_when_a_pool_launches_nodes_for_pods() -> None:
    """A new claim ends them, unless it is a replacement, or nothing was seen before."""
    savings = record_savings((), ["default"], NOW - MINUTE)
    memory = DisruptionMemory(savings=savings, claims={})

    (ended,) = observe(VIEW, memory, now=NOW).memory.savings
    replaced = observe(VIEW, memory.with_launched(["node-1", "gone"]), now=NOW).memory
    first = observe(VIEW, msgspec.structs.replace(memory, claims=None), now=NOW).memory

    assert ended.until == NOW
    assert (replaced.savings, replaced.launched) == (savings, frozenset({"node-1"}))
    assert (first.savings, first.claims) == (savings, {"node-1": "default"})


def test_how_pools_grow_and_shrink_is_remembered() -> None:
    """Not at first, and not where nodes are exchanged, begin or end; otherwise for two days."""
    there = {"node-1": "default"}
    old = PoolChange(pool="default", when=NOW - timedelta(days=2), grew=True, nodes=7)
    recent = msgspec.structs.replace(old, when=old.when + MINUTE)

    def changes(claims: dict[str, str] | None, **fields: Any) -> list[tuple[bool, int]]:
        memory = observe(VIEW, DisruptionMemory(claims=claims, **fields), now=NOW).memory
        return [(each.grew, each.nodes) for each in memory.changes]

    assert changes(None) == changes(there) == []
    assert changes(None, changes=(old,)) == [(True, 7)]
    assert changes({}) == [(True, 1)]
    assert changes({}, launched=frozenset({"node-1"})) == []
    assert changes({**there, "gone": "default"}) == [(False, 1)]
    assert changes({**there, "gone": "default"}, exchanged=frozenset({"gone"})) == []
    assert changes({**there, "gone": "default"}, exchanged=frozenset({"node-1"})) == [(False, 0)]
    assert changes({"gone": "default"}) == []
    assert changes({}, changes=(old, recent)) == [(True, 7), (True, 1)]


def test_nodes_that_were_exchanged_are_forgotten_once_they_are_gone_or_stay() -> None:
    """A command that was given up has exchanged nothing."""
    memory = DisruptionMemory(exchanged=frozenset({"node-1", "gone"}))
    given_up = FinishedCommand(failed=frozenset({"node-1"}))

    assert observe(VIEW, memory, now=NOW).memory.exchanged == {"node-1"}
    assert observe(VIEW, memory, now=NOW, finished=[given_up]).memory.exchanged == frozenset()


def test_only_nodes_that_are_replaced_count_as_exchanged() -> None:
    """What goes without a replacement makes its NodePool smaller."""
    _, found = simulated(cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1")))
    (command,) = decided(cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))).commands
    removed = msgspec.structs.replace(command, replacements=())
    going = tuple(found.values())

    assert DisruptionMemory().after(command, going, NOW, kept_for=MINUTE).exchanged == {"node-1"}
    assert DisruptionMemory().after(removed, going, NOW, kept_for=MINUTE).exchanged == frozenset()


def test_a_command_that_was_carried_out_is_remembered() -> None:
    """For an hour it may not be undone, and what it saves begins to last."""
    view = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))
    (command,) = decided(view).commands
    candidates = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW).candidates
    memory = DisruptionMemory()
    for minutes in (0, 30, 61):
        memory = memory.after(command, candidates, NOW + minutes * MINUTE, kept_for=timedelta(hours=1))

    assert [each.when for each in memory.past] == [NOW + 30 * MINUTE, NOW + 61 * MINUTE]
    assert [each.pool for each in memory.savings] == ["default"] * 3


def test_a_budget_that_cannot_be_read_is_news_once() -> None:
    """The Event is published at every look, which the recorder makes fewer; the log has it once."""
    bad = Budget(nodes="1", schedule="at noon", duration="1h")
    view = cluster(pool(budgets=(bad,)))
    first = observe(view, DisruptionMemory(), now=NOW)
    second = observe(view, first.memory, now=NOW)

    assert list(first.unreadable) == ["default"]
    assert second.unreadable == {}
    assert [type(each) for each in second.effects] == [Announce]


def test_a_decision_that_found_nothing_is_not_made_again_before_something_changes() -> None:
    """The same fingerprint, and a time before the next moment that matters."""
    found = decided(
        cluster(pool(), machine("node-1"), pod("web-0", "node-1", cpu="3")), fingerprint="a"
    ).memory

    assert found.is_fruitless("a", NOW)
    assert not found.is_fruitless("b", NOW)
    assert not found.is_fruitless("a", NOW + 5 * MINUTE)
    assert not DisruptionMemory().is_fruitless(None, NOW)


def test_a_decision_that_found_something_is_made_again() -> None:
    """Its commands are numbered, and the next ones go on from there."""
    view = cluster(pool(), machine("node-1"), machine("node-2"), pod("web-0", "node-2", cpu="3"))
    found = decided(view, fingerprint="a")

    assert [(each.reason, each.number) for each in found.commands] == [(EMPTY, 1)]
    assert found.memory.commands == 1
    assert not found.memory.is_fruitless("a", NOW)
    assert found.validate_after == 15.0


def test_what_was_simulated_is_explained_for_a_while() -> None:
    """Then it is worked out again."""
    memory = DisruptionMemory(explained={"a": NOW, "b": NOW - EXPLAINED})

    assert memory.lately_explained(NOW).keys() == {"a"}
