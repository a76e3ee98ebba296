"""Machines that are replaced: replacements come first, never cost more, and nothing comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from karpenter_local.simulation.invariants.disruption import ReplacementInvariant
from tests.unit.local.simulation.broken import asked, claim, found, machine, node, pod

if TYPE_CHECKING:
    from karpenter_local.sandbox.operators import Replica
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.invariants.invariant import Invariant

SMALL, LARGE = "c-1x-amd64-linux", "c-4x-amd64-linux"


def command(
    cluster: SimulatedCluster, invariant: Invariant, old: str, new: str, *, complete: bool = True
) -> None:
    """Let the operator delete machine `old`, with `new` in its place."""
    goes = cluster.mirror.claims[old]
    if complete:
        claim(cluster, new, "Initialized", kind=cluster.mirror.claims[new].metadata.labels[_TYPE])
    candidate = SimpleNamespace(claim=goes)
    begun: Any = SimpleNamespace(
        command=SimpleNamespace(reason="Underutilized"),
        text="a command",
        candidates=(candidate,),
        replacements=(new,),
        claims=(old,),
        started=datetime(2025, 1, 1, tzinfo=UTC),
    )
    operator = SimpleNamespace(disruption_queue=SimpleNamespace(in_progress=[begun]))
    cluster.replicas[:] = [cast("Replica", SimpleNamespace(operator=operator))]
    invariant.on_call(*asked("DELETE", f"/apis/karpenter.sh/v1/nodeclaims/{old}"))
    cluster.replicas.clear()


_TYPE = "node.kubernetes.io/instance-type"


def a_machine(cluster: SimulatedCluster, name: str, kind: str) -> None:
    """Let there be a machine of a kind that is about to be disrupted."""
    machine(cluster, name)
    node(cluster, name)
    claim(cluster, name, "Initialized", reason="Underutilized", kind=kind)


@pytest.mark.parametrize(
    ("old", "new", "complete", "wrong"),
    [
        pytest.param(LARGE, SMALL, True, [], id="a cheaper one that is complete"),
        pytest.param(
            LARGE,
            SMALL,
            False,
            ["machines go (a command) before their replacement b is complete"],
            id="too soon",
        ),
        pytest.param(
            SMALL,
            LARGE,
            True,
            ["the bill grows from 0.0271 to 0.1086 an hour by a command"],
            id="a dearer one",
        ),
    ],
)
def test_replacements_come_first_and_cost_less(old: str, new: str, complete: bool, wrong: list[str]) -> None:
    """Nothing goes before its replacement is complete, and nothing is replaced by what costs more."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        a_machine(cluster, "a", old)
        claim(cluster, "b", kind=new)
        command(cluster, invariant, "a", "b", complete=complete)

    assert found(ReplacementInvariant, scene) == wrong


@pytest.mark.parametrize(
    ("more", "wrong"),
    [pytest.param(0, 1, id="the same pods"), pytest.param(1, 0, id="other pods")],
)
def test_what_went_does_not_come_back(more: int, wrong: int) -> None:
    """Within the hour, no exchange leads back to where an earlier one began, unless the pods are others."""

    def scene(cluster: SimulatedCluster, invariant: Invariant) -> None:
        pod(cluster, "web")
        for old, new, kind in (("a", "b", SMALL), ("b", "c", SMALL)):
            a_machine(cluster, old, kind)
            claim(cluster, new, kind=kind)
            command(cluster, invariant, old, new)
            for number in range(more):
                pod(cluster, f"more-{number}")

    assert len(found(ReplacementInvariant, scene)) == wrong
