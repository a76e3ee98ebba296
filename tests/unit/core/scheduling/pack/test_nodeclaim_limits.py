"""Pool limits, kept exactly while claims are filled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE
from karpenter.core.scheduling.encode.nodeclaimtemplate import Template
from karpenter.core.scheduling.pack.nodeclaim import PoolLimits, pool_limits
from karpenter.core.scheduling.problem import Options, Plan, Pool, Problem
from karpenter.core.scheduling.solve import solve
from karpenter_local.testing.builders import (
    RULES,
    affinity_term,
    instance_type,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
)
from karpenter_local.testing.validator import problems_of

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType

GREEDY = Options(packing="greedy")
S2, S4, S8, S16 = (instance_type(f"s{cpu}", cpu=cpu, memory=2 * cpu) for cpu in (2, 4, 8, 16))


def limits(limits: dict[str, str], *sizes: int) -> PoolLimits:
    """Return the limits of a NodePool with types of some cores."""
    kinds = [instance_type(f"s{cpu}", cpu=cpu, memory=2 * cpu) for cpu in sizes]
    found = Template(0, pool("p", *kinds, limits=limits), [], ("cpu", "memory", "pods"), RULES.well_known)
    return pool_limits([found])[0]


def machines(plan: Plan) -> Counter[str]:
    """Return which types a plan buys, and how many of each."""
    return Counter(new.purchase.instance_type for new in plan.new_nodes)


def alone(name: str, count: int, cpu: str = "1") -> tuple[Pod, ...]:
    """Return so many pods, no two of which share a machine."""
    return replicas(pod(name, app=name, apart=[affinity_term(HOSTNAME, app=name)], cpu=cpu), count)


def test_only_pools_with_limits_are_counted() -> None:
    """Nothing is counted for a pool that is not limited."""
    free = Template(0, pool("p", S2), [], ("cpu",), RULES.well_known)
    limited = Template(1, pool("q", S2, limits={"cpu": "4"}), [], ("cpu",), RULES.well_known)

    assert set(pool_limits([free, limited])) == {1}


@pytest.mark.parametrize(
    ("limit", "opened", "expected"),
    [
        pytest.param("32", 0, False, id="one of the largest would do"),
        pytest.param("32", 1, False, id="two of the largest would just do"),
        pytest.param("32", 2, True, id="three might not"),
        pytest.param("15", 0, True, id="not even one"),
    ],
)
def test_a_limit_is_tight_when_the_largest_machines_might_exceed_it(
    limit: str, opened: int, expected: bool
) -> None:
    """Nothing is asked until one more claim of the largest type might be too much."""
    ours = limits({"cpu": limit}, 4, 16)
    for claim in range(opened):
        ours.opened(claim)

    assert ours.may_bind() is expected


def test_taking_and_bearing() -> None:
    """A claim bears what is left and what it has taken already; a new one only what is left."""
    ours = limits({"cpu": "20"}, 2, 8, 16)
    ours.opened(0)

    ours.take(0, [1])

    assert ours.left() == {"cpu": 12000}
    assert ours.types_within(None).tolist() == [True, True, False]
    assert ours.types_within(0).tolist() == [True, True, True]


def test_taking_again_replaces_what_was_taken() -> None:
    """A claim takes the largest of its types once, however often it is asked."""
    ours = limits({"cpu": "20", "memory": "100Gi"}, 2, 8, 16)

    ours.take(0, [0, 1])
    ours.take(0, [0])

    assert ours.left() == {"cpu": 18000, "memory": 96 * 2**30}


def test_counting_exactly_begins_with_what_there_is() -> None:
    """When a limit becomes tight, every claim so far is counted."""
    ours = limits({"cpu": "20"}, 2, 8, 16)
    for claim in (3, 5):
        ours.opened(claim)

    ours.count_exactly({3: [0], 5: [1]}.__getitem__)

    assert ours.is_exact
    assert ours.left() == {"cpu": 10000}


def test_what_is_left_is_shared_out_as_freedom() -> None:
    """Every claim may become what its share allows, and all of them together never exceed the limit."""
    ours = limits({"cpu": "20"}, 2, 4, 8, 16)
    for claim in (0, 1):
        ours.opened(claim)
    ours.count_exactly({0: [0], 1: [0]}.__getitem__)

    allowed_types = ours.allowed_types()

    sizes = [2, 4, 8, 16]
    largest = [max(size for size, fine in zip(sizes, allowed_types[c], strict=True) if fine) for c in (0, 1)]
    assert largest == [8, 8]


def test_a_limit_on_what_no_type_has_limits_nothing() -> None:
    """Types without GPUs count as none of them, however many claims there are."""
    ours = limits({"gpu": "1"}, 4, 16)
    for claim in range(3):
        ours.opened(claim)
    assert not ours.may_bind()

    ours.count_exactly(lambda _: [1])

    assert ours.left() == {"gpu": 1}
    assert ours.types_within(None).tolist() == [True, True]


def test_what_a_claim_cannot_use_is_left_for_the_next() -> None:
    """One GPU for two claims: half of it is none, so the first keeps none, and the second may have it."""
    kinds = [instance_type("plain"), instance_type("fast", resources={"gpu": 1})]
    ours = pool_limits([Template(0, pool("p", *kinds, limits={"gpu": "1"}), [], ("cpu",), RULES.well_known)])[
        0
    ]
    for claim in (0, 1):
        ours.opened(claim)
    ours.count_exactly(lambda _: [0])

    assert [flags.tolist() for flags in ours.allowed_types().values()] == [[True, False], [True, True]]


def test_the_number_of_machines_is_counted_down() -> None:
    """A limit on nodes leaves one less with every claim."""
    ours = limits({"nodes": "1"}, 2)
    before = ours.allows_another

    ours.opened(0)

    assert (before, ours.allows_another, ours.left()) == (True, False, {})


def test_without_a_limit_on_machines_another_is_always_allowed() -> None:
    """A pool that limits only resources may launch any number."""
    ours = limits({"cpu": "1"}, 2)
    ours.opened(0)

    assert ours.allows_another


# Whole plans.


@pytest.mark.parametrize(
    ("given", "expected", "refused"),
    [
        pytest.param(
            problem(alone("a", 5), pools=[pool("p", S2, limits={"nodes": "3"})]),
            {"s2": 3},
            2,
            id="a limit on nodes is reached to the last node",
        ),
        pytest.param(
            problem(alone("a", 5), pools=[pool("p", S2, limits={"cpu": "8"})]),
            {"s2": 4},
            1,
            id="a limit on cores is reached to the last core",
        ),
        pytest.param(
            problem(alone("a", 5), pools=[pool("p", S2, limits={"memory": "9Gi"})]),
            {"s2": 2},
            3,
            id="any resource can be limited",
        ),
        pytest.param(
            problem(pod("a"), pools=[pool("p", S2, S16, limits={"cpu": "10"})]),
            {"s2": 1},
            0,
            id="a type that is too large for the limit is not bought",
        ),
        pytest.param(
            problem(pod("a", cpu="12"), pools=[pool("p", S2, S16, limits={"cpu": "10"})]),
            {},
            1,
            id="a pod that needs such a type is refused",
        ),
        pytest.param(
            problem(alone("a", 3), pools=[pool("p", S2, S4, S8, limits={"cpu": "10"})]),
            {"s2": 3},
            0,
            id="several claims share what is left",
        ),
        pytest.param(
            problem(
                alone("a", 2, cpu="3"),
                alone("b", 2, cpu="1"),
                pools=[pool("p", S2, S4, S8, limits={"cpu": "8"})],
            ),
            {"s4": 2},
            0,
            id="claims are filled when no more can be opened",
        ),
        pytest.param(
            problem(
                replicas(pod("a", cpu="1"), 20),
                pools=[pool("p", S2, S4, S8, S16, limits={"cpu": "14"})],
            ),
            {"s8": 1, "s4": 1, "s2": 1},
            6,
            id="a limit is used up with machines of different sizes",
        ),
        pytest.param(
            problem(
                alone("a", 3),
                pools=[pool("p", S2, limits={"nodes": "1"}), pool("q", S4, limits={"cpu": "7"})],
            ),
            {"s2": 1, "s4": 1},
            1,
            id="what one pool may not launch, the next one launches",
        ),
        pytest.param(
            problem(
                alone("a", 3),
                pools=[pool("p", S4, S8, S16, min_values={INSTANCE_TYPE: 2}, limits={"cpu": "20"})],
            ),
            {"s4": 2},
            1,
            id="a claim takes what it needs for the least choice of values",
        ),
    ],
)
def test_limits_are_kept(given: Problem, expected: dict[str, int], refused: int) -> None:
    """What the machines of a pool could become never exceeds its limits, and what there is, is used."""
    plan = solve(msgspec.structs.replace(given, options=GREEDY))

    assert machines(plan) == expected
    assert len(plan.refusals) == refused
    assert problems_of(given, plan) == []


def reserved_too(name: str, cpu: int, *, left: int) -> InstanceType:
    """Return a type that is sold on demand, and out of a reservation in one zone."""
    out_of = offering("zone-1", "reserved", 0.0001, reservation=f"r-{name}", left=left)
    return instance_type(name, cpu=cpu, memory=2 * cpu, sold=[*offerings(cpu * 0.05), out_of])


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(
            pool("p", reserved_too("big", 16, left=1), S2, limits={"cpu": "10"}),
            [("s2", "")],
            id="reserved capacity beyond the limit is neither used nor waited for",
        ),
        pytest.param(
            pool("p", reserved_too("mid", 4, left=1), S2, limits={"cpu": "10"}),
            [("mid", "r-mid")],
            id="reserved capacity within the limit is used first",
        ),
    ],
)
def test_limits_come_before_reservations(ours: Pool, expected: list[tuple[str, str]]) -> None:
    """What is reserved counts only as far as the pool may still launch it."""
    given = problem(pod("a"), pools=[ours], options=GREEDY)

    plan = solve(given)

    assert [(new.purchase.instance_type, new.purchase.reservation_id) for new in plan.new_nodes] == expected
    assert problems_of(given, plan) == []


def test_a_claim_without_a_reservation_counts_as_what_it_can_really_be_bought_as() -> None:
    """Reserved machines that others hold are no size that a claim could have."""
    only_reserved = instance_type(
        "tiny", cpu=2, sold=[offering("zone-1", "reserved", 0.01, reservation="r", left=1)]
    )
    given = problem(
        alone("a", 4),
        pools=[pool("p", only_reserved, S8, limits={"cpu": "20"})],
        options=Options(packing="greedy", reserved="fallback"),
    )

    plan = solve(given)

    assert machines(plan) == {"tiny": 1, "s8": 2}
    assert len(plan.refusals) == 1
    assert problems_of(given, plan) == []


def test_room_that_a_claim_gives_back_is_used() -> None:
    """When a claim is narrowed to smaller machines, pods that the limit had refused are tried again."""
    cheap = instance_type("cheap", cpu=16, memory=32, price=0.01)
    given = problem(
        pod("a", cpu="3", app="a", apart=[affinity_term(HOSTNAME, app="a")]),
        pod("b", cpu="2", app="a", apart=[affinity_term(HOSTNAME, app="a")]),
        pod("c", cpu="1", terms=[[only(INSTANCE_TYPE, "s4", "s8")]]),
        pools=[pool("p", cheap, S2, S4, S8, limits={"cpu": "17"})],
        options=GREEDY,
    )

    plan = solve(given)

    assert plan.refusals == ()
    assert problems_of(given, plan) == []
