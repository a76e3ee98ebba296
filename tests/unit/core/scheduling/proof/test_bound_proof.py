"""The least that any plan for a problem could cost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE
from karpenter.core.scheduling.proof import bound
from karpenter.core.scheduling.proof.bound import lower_bound
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    only,
    pod,
    pool,
    problem,
    replicas,
    taint,
    tolerate,
)

if TYPE_CHECKING:
    from karpenter.core.scheduling.problem import Problem

CHEAP = instance_type("cheap", cpu=4, memory=8, price=0.10)
DEAR = instance_type("dear", cpu=4, memory=8, price=1.00)
SPOT = 0.6


def bound_of(given: Problem) -> float:
    return lower_bound(*search(given))[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            problem(replicas(pod("a", cpu="4", memory="1Gi"), 3), pools=[pool("p", CHEAP, DEAR)]),
            3 * 0.10 * SPOT,
            id="pods that fill a machine each cost that many of the cheapest",
        ),
        pytest.param(
            problem(pod("a", cpu="2", memory="1Gi"), pools=[pool("p", CHEAP)]),
            0.10 * SPOT,
            id="a machine is bought whole",
        ),
        pytest.param(
            problem(
                pod("a", cpu="4", terms=[[only(INSTANCE_TYPE, "cheap")], [only(INSTANCE_TYPE, "dear")]]),
                pools=[pool("p", CHEAP, DEAR)],
            ),
            0.10 * SPOT,
            id="every alternative of a node affinity counts, not only the last",
        ),
        pytest.param(
            problem(
                pod("a", cpu="4"),
                pools=[pool("p", CHEAP, taints=(taint("t"),)), pool("q", DEAR)],
            ),
            1.00 * SPOT,
            id="a pool that the pod does not tolerate does not count",
        ),
        pytest.param(
            problem(
                pod("a", cpu="4", tolerations=[tolerate("t")]),
                pools=[pool("q", DEAR), pool("p", CHEAP, taints=(taint("t"),))],
            ),
            0.10 * SPOT,
            id="a cheaper pool counts although it comes later",
        ),
        pytest.param(
            problem(pod("a", cpu="4"), pod("b", cpu="64"), pools=[pool("p", CHEAP)]),
            0.10 * SPOT,
            id="a pod that has no place costs nothing",
        ),
        pytest.param(
            problem(pod("a", cpu="4", on={INSTANCE_TYPE: "dear"}), pools=[pool("p", CHEAP, DEAR)]),
            1.00 * SPOT,
            id="what a pod requires counts",
        ),
    ],
)
def test_bound(given: Problem, expected: float) -> None:
    """The bound adds up what placed pods must pay at least, wherever they could run."""
    assert bound_of(given) == pytest.approx(expected)


def test_room_that_is_there_lowers_the_bound() -> None:
    """Pods may run on existing nodes for nothing, as well as that could ever be used."""
    pods = replicas(pod("a", cpu="4", memory="1Gi"), 4)

    without = bound_of(problem(pods, pools=[pool("p", CHEAP)]))
    beside = bound_of(problem(pods, pools=[pool("p", CHEAP)], nodes=[node("n", free={"cpu": "4"})]))

    assert beside < without == pytest.approx(4 * 0.10 * SPOT)


def test_overdrawn_nodes_do_not_raise_the_bound() -> None:
    """A node that has less than nothing left is as good as none."""
    pods = replicas(pod("a", cpu="4", memory="1Gi"), 2)
    none = bound_of(problem(pods, pools=[pool("p", CHEAP)], nodes=[node("n", free={"cpu": "0"})]))

    overdrawn = bound_of(problem(pods, pools=[pool("p", CHEAP)], nodes=[node("n", free={"cpu": "-3"})]))

    assert overdrawn == none


def test_the_proof_is_named() -> None:
    """A bound comes with the method that proved it."""
    assert lower_bound(*search(problem(pod("a"), pools=[pool("p", CHEAP)])))[1] == "linear program"


def test_many_different_sets_of_offerings_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some, pods with other sets may use the union of them: the bound is lower, and still a bound."""
    kinds = [instance_type(f"t{n}", cpu=4, memory=16, price=0.10 + n / 100) for n in range(6)]
    pods = [pod(f"a{n}", cpu="3", on={INSTANCE_TYPE: f"t{n}"}) for n in range(6)]
    given = problem(*pods, pools=[pool("p", *kinds)])
    exact = bound_of(given)
    monkeypatch.setattr(bound, "_MASKS", 2)

    joined = bound_of(given)

    assert 0 < joined < exact <= solve_and_prove(given).cost.hourly


def test_pods_that_fit_no_node_are_bought_however_much_room_there_is() -> None:
    """Room in pieces that are too small for a pod does not lower the bound."""
    pods = replicas(pod("a", cpu="3"), 5)
    pieces = [node(f"n{number}", free={"cpu": "2"}) for number in range(20)]
    one = [*pieces, node("large", free={"cpu": "4"})]

    alone = bound_of(problem(pods, pools=[pool("p", CHEAP)]))
    beside = bound_of(problem(pods, pools=[pool("p", CHEAP)], nodes=pieces))
    with_one = bound_of(problem(pods, pools=[pool("p", CHEAP)], nodes=one))

    assert beside == pytest.approx(alone)
    assert 0 < with_one < alone


def test_pods_that_keep_apart_have_a_bound_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal values say nothing of how many machines there are, so keeping apart adds nothing to the bound."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    apart = [affinity_term(HOSTNAME, app="a")]
    given = problem(replicas(pod("a", cpu="1", app="a", apart=apart), 4), pools=[pool("p", CHEAP, DEAR)])

    cost = solve_and_prove(given).cost

    assert 0 < cost.lower_bound <= cost.hourly
    assert cost.method == "equal values for all machines"
