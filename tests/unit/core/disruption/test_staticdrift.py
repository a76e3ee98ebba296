"""Drift in pools of a fixed size: exchanged one for one, and never more machines than the limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.labels import NODES
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import Budget, NodePool
from tests.unit.core.disruption.clusters import LONG_AGO, NOW, cluster, decided, held, machine, pool

DRIFTED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=LONG_AGO)


def static(replicas: int, limit: int | None, **disruption: Any) -> NodePool:
    """Return a pool of a fixed size."""
    found = pool(**disruption)
    limits = {NODES: limit} if limit is not None else {}
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, replicas=replicas, limits=limits)
    )


@pytest.mark.parametrize(
    ("limit", "going", "expected"),
    [
        pytest.param(None, "", 3, id="without a limit all go at once"),
        pytest.param(4, "", 1, id="a limit leaves room for one replacement"),
        pytest.param(5, "", 2, id="a limit leaves room for two"),
        pytest.param(3, "", 0, id="a limit leaves room for none"),
        pytest.param(None, "replaced", 0, id="the next wait until what is replaced has begun to go"),
        pytest.param(4, "deleted", 0, id="what goes takes room until it is gone"),
        pytest.param(4, "launching", 0, id="what goes takes room before it has a machine"),
        pytest.param(5, "deleted", 1, id="what goes takes its own room only"),
        pytest.param(None, "deleted", 2, id="without a limit the next follow"),
    ],
)
def test_as_many_are_exchanged_as_there_may_be_machines(limit: int | None, going: str, expected: int) -> None:
    """A replacement comes before what it replaces goes, and both count against the limit on nodes."""
    machines = [machine(f"old-{number}", conditions=(DRIFTED,)) for number in range(3)]
    if going == "launching":
        _, claim = machine("new")
        assert isinstance(claim, NodeClaim)
        leaving = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
        bare = msgspec.structs.replace(claim.status, provider_id="", node_name="")
        machines.append([msgspec.structs.replace(claim, metadata=leaving, status=bare)])
    elif going:
        machines.append(machine("new"))
    if going == "deleted":
        node, claim = machines[0]
        leaving = msgspec.structs.replace(claim.metadata, deletion_timestamp=NOW)
        machines[0] = [node, msgspec.structs.replace(claim, metadata=leaving)]
    view = cluster(static(3, limit), *machines)
    if going == "replaced":
        view = msgspec.structs.replace(view, marked=frozenset({"old-0"}))

    commands = decided(view, static_capacity=True).commands

    assert [len(each.replacements) for each in commands] == [1] * expected
    assert all(each.reason == "Drifted" for each in commands)


@pytest.mark.parametrize(
    ("limit", "machines", "gate", "code", "words"),
    [
        pytest.param(None, 2, False, "StaticCapacity", "gate StaticCapacity is off", id="the gate is off"),
        pytest.param(None, 3, True, "StaticCapacity", "more machines than its 2", id="others go first"),
        pytest.param(2, 2, True, "NodeLimit", "may have 2 nodes at most", id="the limit leaves no room"),
    ],
)
def test_a_drifted_machine_says_what_it_waits_for(
    limit: int | None, machines: int, gate: bool, code: str, words: str
) -> None:
    """That its pool is static does not explain why it is not replaced."""
    view = cluster(
        static(2, limit), *(machine(f"old-{number}", conditions=(DRIFTED,)) for number in range(machines))
    )

    verdict = decided(view, static_capacity=gate)

    assert verdict.commands == ()
    assert {kept.code for kept in verdict.kept} == {code}
    assert all(words in kept.message for kept in verdict.kept)


def test_what_was_exchanged_when_time_ran_out_counts() -> None:
    """Those that were not reached are looked at again after what goes now."""
    view = cluster(static(3, None), *(machine(f"old-{number}", conditions=(DRIFTED,)) for number in range(3)))
    answers = iter([False, True, True])

    verdict = decided(view, static_capacity=True, stop=lambda: next(answers))

    assert [each.candidates for each in verdict.commands] == [("old-0",)]
    assert held(verdict) == {"old-1": "OutOfTime", "old-2": "OutOfTime"}


def test_a_budget_holds_the_machines_of_a_pool_of_a_fixed_size() -> None:
    """As many are exchanged at once as it allows, and none where it allows none."""
    machines = [machine(f"old-{number}", conditions=(DRIFTED,)) for number in range(3)]

    one = decided(cluster(static(3, None, budgets=(Budget(nodes="1"),)), *machines), static_capacity=True)
    none = decided(cluster(static(3, None, budgets=(Budget(nodes="0"),)), *machines), static_capacity=True)

    assert [each.candidates for each in one.commands] == [("old-0",)]
    assert held(one) == {"old-1": "Waiting", "old-2": "Waiting"}
    assert none.commands == ()
    assert set(held(none).values()) == {"Budget"}


def named(name: str, replicas: int, limit: int | None = None, **more: Any) -> NodePool:
    """Return a pool of a fixed size with a name."""
    found = static(replicas, limit, **more)
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, name=name))


def test_what_holds_one_pool_of_a_fixed_size_does_not_hold_the_next() -> None:
    """A surplus, a limit, a budget or an empty market keeps the machines of one pool only."""
    unsold = named("d", 1)
    unsold = msgspec.structs.replace(
        unsold,
        spec=msgspec.structs.replace(
            unsold.spec,
            template=pool(ways=("reserved",)).spec.template,
        ),
    )
    names = {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}
    machines = [
        machine(f"{name}-{number}", pool=name, conditions=(DRIFTED,))
        for name, count in names.items()
        for number in range(count)
    ]
    pools = [named("a", 1), named("b", 1, 1), named("c", 1, budgets=(Budget(nodes="0"),)), unsold]

    verdict = decided(cluster(*pools, named("e", 1), *machines), static_capacity=True)

    assert [each.candidates for each in verdict.commands] == [("e-0",)]
    assert held(verdict) == {
        "a-0": "StaticCapacity",
        "a-1": "StaticCapacity",
        "b-0": "NodeLimit",
        "c-0": "Budget",
        "d-0": "NoInstanceTypes",
    }


def test_a_pool_of_no_machines_exchanges_none() -> None:
    """The last machine of a pool with zero replicas is surplus, and goes without a replacement."""
    verdict = decided(cluster(static(0, None), machine("old", conditions=(DRIFTED,))), static_capacity=True)

    assert verdict.commands == ()
    assert held(verdict) == {"old": "StaticCapacity"}
