"""Whether a saving is worth the trouble."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from karpenter.api.meta import OwnerReference
from karpenter.core.disruption.churn import PastCommand, past_command, undoes
from karpenter.core.disruption.command import EMPTY, UNDERUTILIZED, Command
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.payback import Payback
from karpenter.core.disruption.settings import DisruptionSettings
from tests.unit.core.disruption.clusters import NOW, cluster, decided, held, machine, pod, pool, simulated

SHRINKABLE = cluster(pool(), machine("node-1", "xlarge"), pod("web-0", "node-1"))


def test_a_saving_that_pays_is_made() -> None:
    """By default a saving has an hour to pay for the pods it moves."""
    (command,) = decided(SHRINKABLE).commands

    assert command.candidates == ("node-1",)


def test_a_saving_that_does_not_pay_is_left_alone() -> None:
    """When evicting a pod is dear, a machine stays although something cheaper would do."""
    verdict = decided(SHRINKABLE, payback=Payback(eviction_price=10.0))

    assert held(verdict) == {"node-1": "NoPayback"}


def test_payback_can_be_switched_off() -> None:
    """A payback time of zero does not ask."""
    verdict = decided(SHRINKABLE, payback=Payback(eviction_price=10.0, within=timedelta(0)))

    assert len(verdict.commands) == 1


def test_both_machines_are_paid_while_one_starts() -> None:
    """The price of a command counts every replacement for its start-up time."""
    (command,) = decided(SHRINKABLE).commands
    payback = Payback(eviction_price=0.0, start_up=timedelta(minutes=30))

    assert payback.price(command, []) == 0.5 * command.hourly_after


def _undoing() -> PastCommand:
    return PastCommand(
        when=NOW - timedelta(minutes=10),
        removed=frozenset({("small", "zone-1", "on-demand")}),
        added=frozenset({("xlarge", "zone-1", "on-demand")}),
        workloads=frozenset({"default/ReplicaSet/web"}),
    )


def test_a_command_that_would_undo_another_is_refused() -> None:
    """Small to large to small again, for the same workload and within the hour, is a loop."""
    verdict = decided(SHRINKABLE, past=(_undoing(),))

    assert held(verdict) == {"node-1": "WouldUndo"}


def test_an_old_command_may_be_undone() -> None:
    """After the hour the world may have changed."""
    verdict = decided(SHRINKABLE, past=(_undoing(),), no_return=timedelta(minutes=5))

    assert len(verdict.commands) == 1


def test_a_command_may_be_undone_as_soon_as_the_time_is_over() -> None:
    """What was done just ten minutes ago may be undone where ten minutes must pass."""
    verdict = decided(SHRINKABLE, past=(_undoing(),), no_return=timedelta(minutes=10))

    assert len(verdict.commands) == 1


def test_what_was_done_is_remembered() -> None:
    """A command that was carried out is recognised when the next one would undo it."""
    (command,) = decided(SHRINKABLE).commands
    past = past_command(command, [], NOW)

    assert past.added == {("small", "zone-1", "on-demand")}
    assert past.removed == frozenset()
    assert not undoes(command, [], [past], NOW, within=DisruptionSettings().no_return)


def test_what_costs_nothing_pays_whatever_it_saves() -> None:
    """A command without pods and without replacements has no price, which a saving of nothing earns back."""
    assert Payback().earns(Command(reason=EMPTY, candidates=("m",)), ())


@pytest.mark.parametrize(
    ("controllers", "expected"),
    [
        pytest.param((True,), {"default/ReplicaSet/a"}, id="a controller"),
        pytest.param((False,), {"default/ReplicaSet/a"}, id="the only owner"),
        pytest.param((False, True), {"default/ReplicaSet/b"}, id="of several the controller"),
        pytest.param((False, False), set(), id="several, and no controller"),
    ],
)
def test_the_workload_of_a_pod_is_that_of_its_controller(
    controllers: tuple[bool, ...], expected: set[str]
) -> None:
    """By it pods are recognised that come back under other names."""
    owners = tuple(
        OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, controller=controls)
        for name, controls in zip("ab", controllers, strict=False)
    )
    found = pod("web-0", "node-1")
    owned = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, owner_references=owners)
    )
    _, candidates = simulated(cluster(pool(), machine("node-1"), owned))
    command = Command(reason=UNDERUTILIZED, candidates=("node-1",))

    assert past_command(command, tuple(candidates.values()), NOW).workloads == expected


def test_commands_are_remembered_for_as_long_as_they_must_not_be_undone() -> None:
    """What was done ten minutes ago is forgotten where ten minutes count, and kept where eleven do."""
    command, ago = Command(reason=UNDERUTILIZED, candidates=("m",)), timedelta(minutes=10)
    memory = DisruptionMemory(past=(_undoing(),))

    assert len(memory.after(command, (), NOW, kept_for=ago).past) == 1
    assert len(memory.after(command, (), NOW, kept_for=ago + timedelta(minutes=1)).past) == 2
