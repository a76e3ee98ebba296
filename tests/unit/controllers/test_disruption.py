"""Carrying out disruption: machines are closed, replacements come first, and what cannot end is undone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from karpenter.api.labels import ALL_LABEL_RULES, DO_NOT_DISRUPT
from karpenter.api.meta import Condition
from karpenter.controllers.disruption import QUEUE_PERIOD, UNSYNCED, DisruptionController, DisruptionQueue
from karpenter.controllers.executor import InlineExecutor
from karpenter.controllers.metrics.savings import SavingsMetrics
from karpenter.core.disruption.candidates import Candidate, find_candidates
from karpenter.core.disruption.command import DRIFTED, EMPTY, Command
from karpenter.core.disruption.memory import DisruptionMemory, FinishedCommand
from karpenter.core.disruption.outcomes import ExpectedOutcome
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.disruption.validation import validate
from karpenter.core.effects import DeleteObject
from karpenter.core.model.catalog import Catalog
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.core.state.pdb import PdbLimits
from karpenter.core.state.statenode import state_nodes
from karpenter.kube.errors import Conflict, Status, Unreachable
from karpenter.kube.transport import Request
from karpenter.telemetry.metrics import Metrics
from karpenter.telemetry.metrics import disruption as declared
from tests.unit.controllers.harness import Shell
from tests.unit.core.disruption.clusters import MARKET, NOW, decided, machine, pod, pool
from tests.unit.core.lifecycle.objects import claim
from tests.unit.telemetry.clocks import NOON

SWAPPED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=NOW)
COMPLETE = Condition(type="Initialized", status="True", reason="Initialized", last_transition_time=NOW)
LOST = Unreachable("no", request=Request(method="PATCH", path="/"))


class FixedCatalogs:
    """Sells what the tests of disruption sell."""

    def __init__(self) -> None:
        self.latest = MARKET

    async def of(self, pools: Any) -> Catalog:
        del pools
        return self.latest


class NotingExecutor(InlineExecutor):
    """Does the work at once, and notes with which memory."""

    def __init__(self, harness: Harness) -> None:
        self._stage = harness

    async def run(self, work: Any) -> Any:
        if work.func is not validate:
            self._stage.asked.append(work.args[-1])
        found = await super().run(work)
        if work.func is validate:
            self._stage.put(*self._stage.meanwhile)
        return found


class Harness(Shell):
    """Machines, and who removes them."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(pool())
        self.clock.seconds = (NOW - NOON).total_seconds()
        for part in parts:
            self.put(*(part if isinstance(part, list) else [part]))
        self.store.complete = True
        self.metrics = Metrics(clock=self.clock)
        self.catalogs = FixedCatalogs()
        savings = SavingsMetrics(self.store, self.metrics, self.catalogs)
        self.queue = DisruptionQueue(
            store=self.store,
            performer=self.performer,
            clock=self.clock,
            metrics=self.metrics,
            savings=savings,
            rules=ALL_LABEL_RULES,
            nominated_for=timedelta(seconds=20),
        )
        self.disruption = DisruptionController(
            store=self.store,
            performer=self.performer,
            catalogs=self.catalogs,  # type: ignore[arg-type]
            queue=self.queue,
            worker=NotingExecutor(self),
            clock=self.clock,
            metrics=self.metrics,
            savings=savings,
            context=DisruptionContext(),
            buffered=frozenset,
            deciding=asyncio.Lock(),
        )

        self.asked: list[DisruptionMemory] = []
        self.meanwhile: tuple[Any, ...] = ()
        """What comes while a command is validated."""

    @property
    def last_memory(self) -> DisruptionMemory:
        return self.asked[-1]

    def proposed(self) -> tuple[Command, tuple[Candidate, ...]]:
        """Return the first thing that is proposed, and the machines that it is about."""
        view = self.store.view()
        (command, *_) = decided(view).commands
        found = find_candidates(state_nodes(view), view, MARKET, PdbLimits(view), NOW)
        every = (*found.candidates, *found.eventual)
        return command, tuple(each for each in every if each.name in command.candidates)

    async def begin(self) -> bool:
        command, candidates = self.proposed()
        return (await self.queue.start(command, candidates, "a test's")).begun

    def finish_replacements(self) -> None:
        for begun in self.queue.in_progress:
            for name in begun.replacements:
                claim = self.store.claim(name)
                assert claim is not None
                status = msgspec.structs.replace(
                    claim.status, provider_id=f"kwok://{name}", node_name=name, conditions=(COMPLETE,)
                )
                self.put(msgspec.structs.replace(claim, status=status))


def empty() -> Harness:
    return Harness(machine("idle"), machine("busy"), pod("web-1", "busy", cpu="3"))


def drifted() -> Harness:
    """Return a harness with a machine that has to be exchanged."""
    return Harness(machine("old", conditions=(SWAPPED,)), pod("web-1", "old", cpu="3"))


def test_an_empty_machine_is_closed_and_then_removed() -> None:
    """It is closed and counts as leaving; with nothing to wait for, it goes at the next look."""

    async def main() -> None:
        harness = empty()
        assert await harness.begin()
        assert harness.store.marked == harness.queue.claims == {"idle"}
        assert set(harness.performer.kinds) == {"Amend"}
        assert await harness.queue.look() == QUEUE_PERIOD
        assert {"DeleteObject", "Announce", "Count"} <= set(harness.performer.kinds)
        assert harness.queue.in_progress == []

    asyncio.run(main())


def test_a_machine_is_not_removed_by_two_commands() -> None:
    """What one command is about another cannot be about."""

    async def main() -> None:
        harness = empty()
        command, candidates = harness.proposed()
        assert (await harness.queue.start(command, candidates, "first")).begun
        assert not (await harness.queue.start(command, candidates, "second")).begun

    asyncio.run(main())


def test_a_replacement_comes_first() -> None:
    """Nothing goes before what replaces it is complete; until then it says that others wait for it."""

    async def main() -> None:
        harness = drifted()
        assert harness.proposed()[0].reason == DRIFTED
        assert await harness.begin()
        assert "CreateClaim" in harness.performer.kinds
        await harness.queue.look()
        assert harness.performer.kinds == ["Announce"]
        harness.finish_replacements()
        harness.clock.seconds += 30.0
        await harness.queue.look()
        assert "DeleteObject" in harness.performer.kinds
        assert [each.start_up for each in harness.queue.take_finished()] == [timedelta(seconds=30)]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["the replacement is gone", "the replacement takes too long"])
def test_what_cannot_be_finished_is_undone(how: str) -> None:
    """Machines are opened again, count as staying, and the failure is counted."""

    async def main() -> None:
        harness = drifted()
        assert await harness.begin()
        (begun,) = harness.queue.in_progress
        if "gone" in how:
            replacement = harness.store.claim(begun.replacements[0])
            assert replacement is not None
            harness.store.apply(ObjectDeleted(replacement))
        else:
            harness.clock.seconds += 601.0
        await harness.queue.look()
        assert harness.queue.in_progress == []
        assert harness.store.marked == frozenset()
        labels = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}
        assert harness.metrics[declared.QUEUE_FAILURES].value(**labels) == 1.0
        (ended,) = harness.queue.take_finished()
        assert ended.failed == set(begun.claims)

    asyncio.run(main())


def test_a_machine_that_must_not_go_any_more_is_opened_again() -> None:
    """What was forbidden after the decision stays, and the others of its command go."""

    async def main() -> None:
        harness = Harness(machine("idle-1"), machine("idle-2"))
        assert await harness.begin()
        assert harness.store.marked == {"idle-1", "idle-2"}
        harness.put(pod("late-1", "idle-1", annotations={DO_NOT_DISRUPT: "true"}))
        await harness.queue.look()
        gone = [each.name for each in harness.performer.effects if isinstance(each, DeleteObject)]
        assert gone == ["idle-2"]
        assert harness.store.marked == {"idle-2"}

        harness = empty()
        assert await harness.begin()
        harness.put(pod("late-1", "idle"))
        await harness.queue.look()
        assert "DeleteObject" not in harness.performer.kinds
        assert (harness.queue.in_progress, harness.store.marked) == ([], frozenset())
        labels = {"decision": "delete", "reason": "empty", "consolidation_type": "empty"}
        assert harness.metrics[declared.QUEUE_FAILURES].value(**labels) == 1.0

    asyncio.run(main())


def test_what_cannot_be_begun_is_given_up() -> None:
    """A command whose machines cannot be closed, are gone, or whose pool is gone is not begun."""

    async def main() -> None:
        harness = empty()
        harness.performer.error = LOST
        assert not await harness.begin()
        harness.performer.error = None
        command, candidates = harness.proposed()
        harness.drop(*machine("idle"))
        assert not (await harness.queue.start(command, candidates, "a machine that is gone")).begun

        harness = drifted()
        command, candidates = harness.proposed()
        harness.drop(pool())
        assert not (await harness.queue.start(command, candidates, "a pool that is gone")).begun
        assert harness.store.marked == frozenset()

    asyncio.run(main())


def test_a_failure_only_delays() -> None:
    """A command that fails on its way is tried again at the next look."""

    async def main() -> None:
        harness = empty()
        assert await harness.begin()
        harness.performer.error = LOST
        assert await harness.queue.look() == QUEUE_PERIOD
        assert len(harness.queue.in_progress) == 1
        harness.performer.error = None
        await harness.queue.look()
        assert harness.queue.in_progress == []

    asyncio.run(main())


def test_what_fails_for_too_long_is_undone() -> None:
    """Machines that cannot be removed count as staying again, whether or not they can be opened yet."""

    async def main() -> None:
        harness = empty()
        assert await harness.begin()
        harness.performer.error = LOST
        harness.clock.seconds += 601.0
        assert await harness.queue.look() == QUEUE_PERIOD
        assert (harness.queue.in_progress, harness.store.marked) == ([], frozenset())

    asyncio.run(main())


def test_a_pass_proposes_waits_looks_again_and_begins() -> None:
    """An empty machine is announced, looked at again after a while, and begun; the decision is counted."""

    async def main() -> None:
        harness = empty()
        before = harness.clock.seconds
        assert await harness.disruption.look() == 0.0
        assert harness.clock.seconds - before >= 15.0
        assert harness.queue.claims == {"idle"}
        labels = {"decision": "delete", "reason": EMPTY.lower(), "consolidation_type": "empty"}
        assert harness.metrics[declared.DECISIONS].value(**labels) == 1.0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("late", "begun"),
    [
        pytest.param(pod("late-1", "idle"), False, id="onto the machine that was to go"),
        pytest.param(pod("late-1", "busy"), True, id="elsewhere"),
    ],
)
def test_what_comes_while_a_command_is_looked_at_again_counts(late: Any, begun: bool) -> None:
    """A pod that is bound to the machine at the last moment keeps it."""

    async def main() -> None:
        harness = empty()
        harness.meanwhile = (late,)
        await harness.disruption.look()
        assert harness.queue.claims == ({"idle"} if begun else set())
        failed = harness.metrics[declared.FAILED_VALIDATIONS].value(consolidation_type="empty")
        assert failed == (0.0 if begun else 1.0)

    asyncio.run(main())


def test_what_was_seen_is_part_of_the_question() -> None:
    """Pools whose pods landed elsewhere rest, and start-up counts for as long as it took lately."""

    async def main() -> None:
        harness = Harness(machine("busy"), pod("web-1", "busy", cpu="3", creation_timestamp=NOW))
        missed = ExpectedOutcome(
            pools=frozenset({"default"}),
            leaving=frozenset(),
            planned={("other", "default/ReplicaSet/web"): 1},
            moved=1,
            since=NOW - timedelta(hours=1),
        )
        harness.queue._finished.append(FinishedCommand(expected=missed, start_up=timedelta(minutes=9)))
        await harness.disruption.look()
        assert harness.last_memory.resting.keys() == {"default"}
        assert harness.last_memory.start_ups == (timedelta(minutes=9),)
        assert harness.last_memory.learned(Payback(), NOW) == Payback(start_up=timedelta(minutes=9))

    asyncio.run(main())


def test_why_a_machine_stays_is_worked_out_once_in_a_while() -> None:
    """Users are told after a quarter of an hour again, and not worked out for whenever anything changes."""

    async def main() -> None:
        harness = Harness(machine("busy", "small"), pod("web-1", "busy", cpu="1500m"))
        for minutes in (1, 1, 15):
            await harness.disruption.look()
            harness.clock.seconds += minutes * 60
            harness.put(pod(f"late-{harness.clock.seconds}", "busy", cpu="10m"))  # worth looking again
        await harness.disruption.look()
        asked = [
            each.lately_explained(NOW + timedelta(minutes=at))
            for each, at in zip(harness.asked, (0, 1, 2, 17), strict=True)
        ]
        assert [each.keys() for each in asked] == [set(), {"busy"}, {"busy"}, set()]
        told = [
            each for each in harness.performer.effects if getattr(each, "reason", "") == "Unconsolidatable"
        ]
        assert len(told) == 2 * 2

    asyncio.run(main())


def test_a_pool_that_keeps_growing_again_is_known_for_it() -> None:
    """Savings end when machines come that no command has launched; replacements end none."""

    async def main() -> None:
        harness = Harness()
        for number in range(6):
            grown = [*machine(f"grown-{number}", "xlarge"), pod(f"web-{number}", f"grown-{number}")]
            harness.put(*grown)
            await harness.disruption.look()
            (begun,) = harness.queue.in_progress
            assert harness.disruption.memory.launched == set(begun.replacements)
            harness.queue.in_progress.clear()
            harness.drop(*grown, *filter(None, map(harness.store.claim, begun.replacements)))
        memory = harness.disruption.memory
        assert [each.until is not None for each in memory.savings] == 5 * [True] + [False]
        assert [(each.pool, each.grew) for each in memory.changes] == 5 * [("default", True)]

    asyncio.run(main())


def test_nothing_is_decided_before_all_is_known() -> None:
    """A state that lacks something is no ground for a decision."""

    async def main() -> None:
        harness = empty()
        harness.store.complete = False
        assert await harness.disruption.look() == UNSYNCED
        assert harness.performer.kinds == []

    asyncio.run(main())


def test_what_keeps_decisions_waiting_is_said() -> None:
    """After half a minute, and then every ten seconds, until decisions are made again."""

    async def main() -> None:
        harness = empty()
        harness.put(claim(meta={"name": "slow"}))
        with capture_logs() as lines:
            for _ in range(52):
                assert await harness.disruption.look() == UNSYNCED
                harness.clock.seconds += 1.0
            harness.drop(claim(meta={"name": "slow"}))
            await harness.disruption.look()
            harness.put(claim(meta={"name": "slow"}))
            await harness.disruption.look()
        said = [each for each in lines if each["event"] == "state.not_synced"]
        assert [(each["seconds"], each["unlaunched"]) for each in said] == [
            (30, "slow"),
            (40, "slow"),
            (50, "slow"),
        ]

    asyncio.run(main())


def test_a_node_that_was_tainted_by_an_unknown_command_is_untainted() -> None:
    """After a restart no command is known, so what was closed by one is opened again."""

    async def main() -> None:
        harness = Harness(machine("busy"), pod("web-1", "busy", cpu="3"))
        node = harness.store.node("busy")
        claim = harness.store.claim("busy")
        assert node is not None
        assert claim is not None
        harness.store.apply(
            ObjectUpdated(
                msgspec.structs.replace(
                    claim,
                    status=msgspec.structs.replace(
                        claim.status,
                        conditions=(
                            *claim.status.conditions,
                            Condition(type="DisruptionReason", status="True", reason="Empty"),
                        ),
                    ),
                )
            )
        )
        await harness.disruption.look()
        amended = [each for each in harness.performer.effects if "given up" in getattr(each, "because", "")]
        assert amended

    asyncio.run(main())


async def test_nothing_is_decided_while_the_mark_of_an_unknown_command_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim that changed meanwhile is looked at again after a second, before another may be disrupted."""
    node, claim = machine("marked", conditions=(Condition(type="DisruptionReason", status="True"),))
    harness = Harness(machine("empty"), node, claim)
    refused = Conflict(Status(code=409), request=Request(method="PATCH", path="/"))

    async def perform(_effects: object) -> None:
        raise refused

    monkeypatch.setattr(harness.performer, "perform", perform)

    assert await harness.disruption.look() == 1.0
    assert harness.asked == []


async def test_other_prices_and_stock_are_a_reason_to_decide_again() -> None:
    """A decision that found nothing is repeated when the catalogue changes, and not before."""
    harness = Harness(machine("busy"), pod("web-1", "busy", cpu="3"))
    sold = MARKET.types[0]
    gone = msgspec.structs.replace(sold.offerings[0], available=False)
    cheaper = msgspec.structs.replace(sold.offerings[0], price=0.01)

    decisions = []
    for offering in (sold.offerings[0], sold.offerings[0], gone, cheaper):
        changed = msgspec.structs.replace(sold, offerings=(offering,))
        harness.catalogs.latest = Catalog(types=(changed, *MARKET.types[1:]))
        await harness.disruption.look()
        decisions.append(len(harness.asked))

    assert decisions == [1, 1, 2, 3]


async def test_drifted_machines_that_were_not_reached_are_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look comes though nothing has changed, and knows of them; what is reached is forgotten."""
    monkeypatch.setattr("karpenter.controllers.disruption.LIMIT", -1.0)
    harness = Harness(pool(ways=("none",)), machine("old", conditions=(SWAPPED,)), pod("web-1", "old"))

    await harness.disruption.look()
    monkeypatch.undo()
    await harness.disruption.look()
    second = harness.last_memory
    harness.put(machine("other")[0])
    await harness.disruption.look()

    assert harness.asked[0].overdue == frozenset()
    assert second.overdue == {"old"}
    assert harness.last_memory.overdue == frozenset()


async def test_a_machine_counts_as_going_until_it_is_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a budget has room for the next one while nothing can run on this one yet."""
    harness = drifted()
    assert await harness.begin()
    (begun,) = harness.queue.in_progress
    replacement = harness.store.claim(begun.replacements[0])
    assert replacement is not None
    harness.store.apply(ObjectDeleted(replacement))
    marked: list[frozenset[str]] = []

    async def perform(effects: Any) -> None:
        del effects
        marked.append(harness.store.marked)

    monkeypatch.setattr(harness.performer, "perform", perform)
    await harness.queue.look()

    assert marked[-1] == set(begun.claims)
    assert harness.store.marked == frozenset()
