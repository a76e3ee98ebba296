"""What makes the gap between a plan and its lower bound."""

from __future__ import annotations

import msgspec
import pytest

from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.api.pod import Affinity
from karpenter.core.scheduling.problem import Cost, Problem
from karpenter.core.scheduling.proof import exact, gap
from karpenter.core.scheduling.proof.gap import with_gap_parts
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    pod,
    pool,
    problem,
    replicas,
    spread,
)

SMALL = instance_type("small", cpu=2, memory=8, price=0.10)
LARGE = instance_type("large", cpu=4, memory=16, price=0.12)
HUGE = instance_type("huge", cpu=16, memory=64, price=1.00)
BOTH = "web"


def together(**rules: object) -> Problem:
    """Return two pods of different size under the same rules, which one machine would hold."""
    pods = [pod("a", cpu="1", app=BOTH, **rules), pod("b", cpu="500m", app=BOTH, **rules)]  # type: ignore[arg-type]
    return problem(*pods, pools=[pool("p", SMALL, LARGE)])


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param("topology spread", together(spreads=[spread(ZONE, app=BOTH)]), id="a spread over zones"),
        pytest.param(
            "topology spread",
            msgspec.structs.replace(
                together(),
                spread_defaults=dict.fromkeys(("default/a", "default/b"), (spread(ZONE, app=BOTH),)),
            ),
            id="a default spread",
        ),
        pytest.param(
            "pod anti-affinity",
            together(apart=[affinity_term(HOSTNAME, app=BOTH)]),
            id="classes that keep apart",
        ),
    ],
)
def test_a_kind_of_constraint_makes_the_gap(name: str, given: Problem) -> None:
    """The kind without which the plan is proved cheapest makes the whole gap."""
    cost = solve_and_prove(given).cost
    assert cost.gap > 0.01

    found = with_gap_parts(cost, given)

    ((told, part),) = found.gap_parts
    assert told == name
    assert part == pytest.approx(cost.gap)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        pytest.param(
            "limits",
            problem(
                replicas(pod("a", cpu="1900m"), 3),
                pools=[pool("p", SMALL, HUGE, limits={"nodes": "1"})],
            ),
            id="a limit on nodes",
        ),
        pytest.param(
            "minValues",
            problem(
                replicas(pod("a", cpu="1500m"), 2),
                pools=[pool("p", SMALL, LARGE, min_values={INSTANCE_TYPE: 2})],
            ),
            id="minValues that keep claims small",
        ),
    ],
)
def test_what_the_bound_of_large_problems_leaves_out(
    name: str, given: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits and minValues make a gap where a problem is not small enough to be solved exactly."""
    assert solve_and_prove(given).cost.optimal
    monkeypatch.setattr(exact, "_PODS", 0)
    monkeypatch.setattr(exact, "_CLASSES", 0)
    cost = solve_and_prove(given).cost
    assert cost.gap > 0.01

    found = with_gap_parts(cost, given)

    ((told, part),) = found.gap_parts
    assert told == name
    assert 0.001 <= part <= cost.gap


def test_a_constraint_that_makes_nothing_of_the_gap_is_not_named() -> None:
    """A limit that leaves room for every plan is solved without, and does not count."""
    given = together(apart=[affinity_term(HOSTNAME, app=BOTH)])
    wide = msgspec.structs.replace(given, pools=(pool("p", SMALL, LARGE, limits={"cpu": "1000"}),))

    found = with_gap_parts(solve_and_prove(wide).cost, wide)

    assert [name for name, _ in found.gap_parts] == ["pod anti-affinity"]


def test_pod_affinity_is_left_out_as_well() -> None:
    """Affinity between pods is one of the kinds; pods that have none of it are not solved again."""
    near = together(near=[affinity_term(ZONE, app=BOTH)])

    relaxed = gap._KINDS["pod affinity"](near)

    assert relaxed is not None
    assert [each.spec.affinity for each in relaxed.pods] == [Affinity()] * 2
    assert gap._KINDS["pod affinity"](together()) is None


@pytest.mark.parametrize(
    "cost", [Cost(hourly=1.0, lower_bound=0.995), Cost(hourly=1.0)], ids=["a small gap", "no bound"]
)
def test_a_small_gap_needs_no_words(cost: Cost) -> None:
    """Below one percent nothing is solved again."""
    assert with_gap_parts(cost, together()) is cost


def test_many_pods_are_not_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solving again takes as long as solving, several times."""
    monkeypatch.setattr(gap, "_PODS", 1)
    cost = Cost(hourly=2.0, lower_bound=1.0)

    assert with_gap_parts(cost, together()) is cost


def test_a_gap_of_one_percent_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least gap that is explained is explained, with as many pods as are solved again."""
    given = together(apart=[affinity_term(HOSTNAME, app=BOTH)])
    cost = solve_and_prove(given).cost
    monkeypatch.setattr(gap, "_WORTH_TELLING", cost.gap)
    monkeypatch.setattr(gap, "_PODS", len(given.pods))
    relaxed = gap._KINDS["pod anti-affinity"](given)
    assert relaxed is not None
    part = cost.gap - solve_and_prove(relaxed).cost.gap
    monkeypatch.setattr(gap, "_LEAST_PART", part)

    assert [name for name, _ in with_gap_parts(cost, given).gap_parts] == ["pod anti-affinity"]
    monkeypatch.setattr(gap, "_LEAST_PART", part * 1.01)
    assert with_gap_parts(cost, given).gap_parts == ()


def test_the_largest_part_comes_first() -> None:
    """Two kinds that make parts of a gap are told in the order of their size."""
    given = msgspec.structs.replace(
        together(apart=[affinity_term(HOSTNAME, app=BOTH)]),
        pools=(pool("p", SMALL, LARGE, HUGE, limits={"nodes": "2"}, min_values={INSTANCE_TYPE: 2}),),
    )
    cost = msgspec.structs.replace(solve_and_prove(given).cost, lower_bound=1e-3)

    parts = [part for _, part in with_gap_parts(cost, given).gap_parts]

    assert len(parts) > 1
    assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize(
    ("kind", "rules", "changes"),
    [
        pytest.param("pod affinity", {}, False, id="no affinity"),
        pytest.param("pod affinity", {"apart": [affinity_term(ZONE, app=BOTH)]}, False, id="the other kind"),
        pytest.param("pod affinity", {"near": [affinity_term(ZONE, app=BOTH)]}, True, id="affinity"),
        pytest.param("pod anti-affinity", {"near": [affinity_term(ZONE, app=BOTH)]}, False, id="not apart"),
        pytest.param("pod anti-affinity", {"apart": [affinity_term(ZONE, app=BOTH)]}, True, id="apart"),
        pytest.param("topology spread", {}, False, id="no spread"),
        pytest.param("topology spread", {"spreads": [spread(ZONE, app=BOTH)]}, True, id="a spread"),
        pytest.param("limits", {}, False, id="no limits"),
        pytest.param("minValues", {}, False, id="no minValues"),
    ],
)
def test_only_what_has_a_constraint_is_solved_without(
    kind: str, rules: dict[str, object], *, changes: bool
) -> None:
    """A problem without a kind of constraint is not solved again; otherwise nothing of the kind is left."""
    given = together(**rules)

    relaxed = gap._KINDS[kind](given)

    assert (relaxed is not None) is changes
    if relaxed is not None:
        assert gap._KINDS[kind](relaxed) is None
