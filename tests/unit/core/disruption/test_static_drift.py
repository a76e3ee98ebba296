"""Drift in pools of a fixed size: exchanged one for one, and never more machines than the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import NODES
from karpenter.api.meta import Condition
from tests.unit.core.disruption.clusters import LONG_AGO, NOW, cluster, decided, machine, pool

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

DRIFTED = Condition(type="Drifted", status="True", reason="ImageDrift", last_transition_time=LONG_AGO)


def static(replicas: int, limit: int | None) -> NodePool:
    """Return a pool of a fixed size."""
    found = pool()
    limits = {NODES: limit} if limit is not None else {}
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, replicas=replicas, limits=limits)
    )


@pytest.mark.parametrize(
    ("limit", "going", "expected"),
    [
        pytest.param(None, "", 3, id="without a limit all go at once"),
        pytest.param(4, "", 1, id="a limit leaves room for one replacement"),
        pytest.param(3, "", 0, id="a limit leaves room for none"),
        pytest.param(None, "replaced", 0, id="the next wait until what is replaced has begun to go"),
        pytest.param(4, "deleted", 0, id="what goes takes room until it is gone"),
        pytest.param(5, "deleted", 1, id="what goes takes its own room only"),
        pytest.param(None, "deleted", 2, id="without a limit the next follow"),
    ],
)
def test_as_many_are_exchanged_as_there_may_be_machines(limit: int | None, going: str, expected: int) -> None:
    """A replacement comes before what it replaces goes, and both count against the limit on nodes."""
    machines = [machine(f"old-{number}", conditions=(DRIFTED,)) for number in range(3)]
    if going:
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
