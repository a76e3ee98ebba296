"""The search over combinations of machines: limits and minValues count, and a short search proves no lie."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest

from karpenter.api.labels import INSTANCE_TYPE
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.price import repack
from karpenter.core.scheduling.price.bound import counted_capacity, placed_counts
from karpenter.core.scheduling.price.repack import pattern_problem
from karpenter.core.scheduling.price.whole import Bin, Pattern, PatternProblem, Solution
from karpenter.core.scheduling.problem import Options, Pool, Problem
from karpenter.core.scheduling.proof import machines
from karpenter.core.scheduling.proof.columns import replaceable_pairs
from karpenter.core.scheduling.proof.fitting import PROGRAM
from karpenter.core.scheduling.proof.machines import MachineSearch, combined_row
from karpenter.core.scheduling.proof.prove import solve_and_prove
from karpenter.core.scheduling.solve import search
from karpenter_local.testing.builders import instance_type, offering, pod, pool, problem, replicas
from tests.unit.core.scheduling.proof.test_columns import assigned, drawn

SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 120))]


def limited(seed: int) -> PatternProblem:
    """Return a drawn problem with a limit on the room of all machines that are bought."""
    given = drawn(seed)
    rng = np.random.default_rng(seed)
    weights = tuple(0.0 if each.once else float(each.room[0]) for each in given.bins)
    needed = sum(count * want[0] for count, want in zip(given.count, given.want, strict=True))
    return msgspec.structs.replace(given, limits=((weights, float(needed * rng.uniform(0.8, 1.6))),))


def cheapest_within(given: PatternProblem) -> float:
    """Return the cost of the cheapest plan within the limit, of all combinations of up to four machines."""
    (weights, limit), best = given.limits[0], np.inf
    bought = [number for number, each in enumerate(given.bins) if not each.once]
    nodes = [number for number, each in enumerate(given.bins) if each.once]
    for counts in product(range(5), repeat=len(bought)):
        chosen = [number for number, count in zip(bought, counts, strict=True) for _ in range(count)]
        cost = sum(given.bins[number].price for number in chosen)
        if len(chosen) <= 4 and cost < best and sum(weights[number] for number in chosen) <= limit:
            whole = msgspec.structs.replace(
                given,
                limits=(),
                bins=tuple(
                    msgspec.structs.replace(given.bins[number], price=0.0, once=True)
                    for number in [*chosen, *nodes]
                ),
            )
            best = cost if np.isfinite(assigned(whole)) else best
    return float(best)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_limit_counts(seed: int) -> None:
    """The cheapest machines are those of all combinations within the limit that hold the pods."""
    given = limited(seed)
    most = 9.0

    least, solved = MachineSearch(given, np.ones(len(given.count)), most).run(10**6)

    cheapest = cheapest_within(given)
    found = most if solved is None else solved.cost
    assert found <= cheapest * (1 + 1e-6)
    assert least == pytest.approx(found, rel=2e-6)
    if solved is not None:
        counted = np.array(given.limits[0][0])[[each.bin for each in solved.patterns]]
        assert counted.sum() <= given.limits[0][1] * (1 + 1e-6)
        if len([each for each in solved.patterns if not given.bins[each.bin].once]) <= 4:
            assert found == pytest.approx(cheapest)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("limit", [0, 300, 3000, 30_000])
def test_a_short_search_proves_no_lie(seed: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon a search ends, its bound is not above the cheapest plan, and its plan not below."""
    monkeypatch.setattr(machines, "_WIDTH", 2)
    monkeypatch.setattr(machines, "_VALUES", 1000)
    given = drawn(seed)
    cheapest = assigned(given)
    most = cheapest * 1.4 if np.isfinite(cheapest) else 9.0

    least, solved = MachineSearch(given, np.ones(len(given.count)), most).run(limit)

    assert least <= min(cheapest, most) * (1 + 1e-6)
    assert solved is None or solved.cost >= cheapest * (1 - 1e-6)


ROOMS = ((9,), (18,))
ODD = PatternProblem(
    count=(1, 1, 1),
    want=((5,), (6,), (7,)),
    cap=(1, 1, 1),
    bins=(Bin((9,), 1.0, (0, 1, 2)), Bin((18,), 2.9, (0, 1, 2))),
)
"""Three pods that fit on two small machines divided and not whole."""


@pytest.mark.parametrize("few", [0, 14])
def test_machines_that_hold_pods_only_divided(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines of 9 have room for 18, but not for pods of 5, 6 and 7."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", few)

    least, solved = MachineSearch(ODD, np.array([0.8, 0.9, 1.0]), 9.0).run(100_000)

    assert solved is not None
    assert solved.cost == pytest.approx(2.9)
    assert least == pytest.approx(2.9, rel=1e-5)


def test_a_plan_beyond_a_limit_is_not_taken_over() -> None:
    """What is offered has to obey limits."""
    given = msgspec.structs.replace(ODD, limits=(((9.0, 18.0), 20.0),))
    looked = MachineSearch(given, np.ones(3), 9.0)

    looked.offer(Solution(3.9, (Pattern((1, 0, 0), 1.0, 0), Pattern((0, 1, 1), 2.9, 1))))
    assert looked.best == 9.0
    looked.offer(Solution(2.9, (Pattern((1, 1, 1), 2.9, 1),)))
    assert looked.best == 2.9


@pytest.mark.parametrize(
    ("rows", "price", "combined"),
    [
        # One machine for each half: the mean of both rows says that both are needed, for 1 + 3.
        pytest.param([[1.0, 0.0], [0.0, 1.0]], [1.0, 3.0], [[0.25, 0.75]], id="both count"),
        pytest.param([[1.0, 1.0], [0.5, 0.5]], [1.0, 1.0], [[0.5, 0.5]], id="one requires all"),
        pytest.param([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [1.0, 1.0], [[2 / 3, 2 / 3]], id="one is implied"),
        pytest.param([], [1.0, 3.0], [], id="nothing is required"),
        pytest.param([[1.0, 1.0]], [0.0, 1.0], [], id="what is free can be had for nothing"),
        pytest.param([[0.0, 0.0], [1.0, 1.0]], [1.0, 1.0], [], id="no machine gives what is needed"),
    ],
)
def test_what_rows_require_together(
    rows: list[list[float]], price: list[float], combined: list[list[float]]
) -> None:
    """Rows have values at which no machine is worth more than its price; their mean is a row as well."""
    found = combined_row(np.array(rows).reshape(-1, 2), np.array(price))

    assert found.shape[1] == 2
    assert found.tolist() == [pytest.approx(row) for row in combined]


def test_rows_are_combined_once() -> None:
    """What rows require together is worked out anew only when there are more of them, or more is needed."""
    looked = MachineSearch(ODD, np.ones(3), 9.0)
    work = looked.work

    first = looked._needed(1.0)
    assert looked._needed(1.0) is first
    assert looked.work == work + PROGRAM

    assert (looked._needed(2.0) <= first.max(axis=0)).all()
    assert looked.work == work + 2 * PROGRAM
    looked._require(np.array([5.0, 6.0, 7.0]), np.array([8.0, 17.0]))
    assert looked._needed(1.0) is not first
    assert looked.work == work + 3 * PROGRAM


@pytest.mark.parametrize("seed", range(20))
def test_what_rows_require_together_is_true(seed: int) -> None:
    """Whatever obeys every row obeys their combination, and that requires no less than any one of them."""
    rng = np.random.default_rng(seed)
    rows, price = rng.uniform(0.0, 1.0, (4, 5)) * (rng.random((4, 5)) < 0.7) + 0.01, rng.uniform(0.5, 2.0, 5)

    (found,) = combined_row(rows, price)

    for bought in rng.integers(0, 9, (200, 5)):
        if (rows @ bought >= 1).all():
            assert found @ bought >= 1 - 1e-9
    assert (price / found).min() >= (price / rows).min(axis=1).max() - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_an_integer_program_finds_plans_as_well(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no random order places the pods, an integer program does, and the plan is the cheapest."""
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 1))
    given = drawn(seed)
    cheapest = assigned(given)
    most = cheapest * 1.4 if np.isfinite(cheapest) else 9.0

    least, solved = MachineSearch(given, np.ones(len(given.count)), most).run(10**6)

    assert least == pytest.approx(min(cheapest, most), rel=2e-6, abs=1e-6)
    assert (solved is None) is not (0 < cheapest < most)


def test_without_values_of_whole_pods_the_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are many items, combinations are tried one after the other."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", 0)

    least, solved = MachineSearch(ODD, np.ones(3), 9.0).run(100_000)

    assert solved is not None
    assert solved.cost == pytest.approx(2.9)
    assert least == pytest.approx(2.9, rel=1e-5)


def test_a_program_without_an_answer_requires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library gives up, no row comes of it."""
    looked = MachineSearch(ODD, np.ones(3), 9.0)
    monkeypatch.setattr(looked, "_generated", lambda *_: None)
    rows = len(looked._rows)

    looked._require_others([(0,), (0,)])

    assert len(looked._rows) == rows


def test_a_better_plan_is_sought_on_machines_with_room_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is found on machines that have more room than is needed, unless divisible pods do not fit."""
    given = PatternProblem(
        count=(2, 2, 2),
        want=((2,), (3,), (4,)),
        cap=(2, 2, 2),
        bins=(Bin((20,), 1.0, (0, 1, 2)), Bin((9,), 0.8, (0, 1, 2))),
    )
    looked = MachineSearch(given, np.ones(3), 9.0)
    looked._seek(5000)
    assert looked.best < 9.0

    monkeypatch.setattr(machines, "shortfall", lambda *_: np.ones(3))
    monkeypatch.setattr(machines, "_FEW_ITEMS", 0)
    looked = MachineSearch(given, np.ones(3), 9.0)
    looked._seek(5000)
    assert looked.best == 9.0


def test_what_is_not_found_out_is_asked_again_only_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines for which an integer program ended too soon stay open until it may take twice as long."""
    asked: list[int] = []

    def ended(_: PatternProblem, __: list[tuple[int, ...]], limit: int) -> tuple[None, int]:
        asked.append(limit)
        return None, 7

    monkeypatch.setattr(machines, "on_machines", ended)
    looked = MachineSearch(ODD, np.ones(3), 9.0)
    work, some = looked.work, [(0,), (0,), (1,)]

    assert [looked._decided(some, limit) for limit in (100, 199, 200)] == [False] * 3
    assert asked == [100, 200]
    assert looked.work == work + 14
    assert looked._open == {tuple(some): 200}


def test_the_cheapest_open_machines_bound_what_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not found out whether pods fit, the bound is no higher than what the machines cost."""
    monkeypatch.setattr(machines, "large_on_machines", lambda *_: (None, True, 0))
    monkeypatch.setattr(machines, "packed_at_random", lambda *_: None)
    monkeypatch.setattr(machines, "on_machines", lambda *_: (None, 0))
    monkeypatch.setattr(machines, "_FEW_ITEMS", 0)

    least, solved = MachineSearch(ODD, np.array([0.8, 0.9, 1.0]), 9.0).run(100_000)

    assert solved is None
    assert least == pytest.approx(2.0)


def test_open_machines_are_decided_from_the_cheapest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that stayed open are asked about once more, until one of them stays open again."""
    asked: list[tuple[tuple[int, ...], ...]] = []

    def decided(_: PatternProblem, machines: list[tuple[int, ...]], __: int) -> tuple[Solution | None, int]:
        asked.append(tuple(machines))
        return (Solution(np.inf, ()) if len(machines) == 2 else None), 7

    looked = MachineSearch(ODD, np.ones(3), 9.0)
    looked._open = {((0,),) * 4: 1, ((0,), (0,)): 1, ((0,),) * 3: 1, ((0,),) * 10: 1}
    monkeypatch.setattr(machines, "on_machines", decided)
    monkeypatch.setattr(machines, "_FEW_ITEMS", 0)
    monkeypatch.setattr(machines, "large_on_machines", lambda *_: (None, True, 0))
    monkeypatch.setattr(machines, "packed_at_random", lambda *_: None)

    looked._decide_open(looked.work + 10**6)

    assert asked == [((0,), (0,)), ((0,),) * 3]
    assert set(looked._open) == {((0,),) * 3, ((0,),) * 4, ((0,),) * 10}


def test_open_machines_on_which_large_pods_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What exchanges or large pods decide is not asked of a longer program."""
    looked = MachineSearch(ODD, np.ones(3), 9.0)
    looked._open = {((0,), (0,)): 1}
    monkeypatch.setattr(machines, "on_machines", None)

    looked._decide_open(looked.work + 10**6)

    assert looked._open == {}


def test_open_machines_that_cost_more_than_the_plan_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not cheaper than the best plan is not asked about."""
    looked = MachineSearch(ODD, np.ones(3), 2.9)
    looked._open = {((0,),) * 3: 1}
    monkeypatch.setattr(machines, "large_on_machines", None)

    looked._decide_open(looked.work + 10**6)

    assert looked._open == {((0,),) * 3: 1}


def test_a_long_program_finds_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where exchanges find nothing, open machines on which the pods fit become the plan."""
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 1))
    looked = MachineSearch(ODD, np.ones(3), 9.0)
    looked._open = {((1,),): 1}

    looked._decide_open(looked.work + 10**6)

    assert looked._open == {}
    assert looked.best == pytest.approx(2.9)


def test_pods_that_are_too_many_to_be_exchanged_are_placed_in_random_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the machines that large pods were put on, in the zones that were chosen for them."""
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 0))
    looked = MachineSearch(ZONAL, np.ones(3), 9.0)

    assert not looked._exchanged([(0, 1), (0, 1)], 9)
    assert looked.best == pytest.approx(2.0)


def test_a_better_plan_that_is_not_found_soon_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines with room to spare on which pods may fit are decided by a short program."""
    monkeypatch.setattr(machines, "exchanged", lambda *_: (None, 1))
    looked = MachineSearch(ODD, np.ones(3), 9.0)

    looked._seek(50_000)

    assert looked.best == pytest.approx(2.9)


ZONAL = PatternProblem(
    count=(1, 1, 2),
    want=((4,), (4,), (2,)),
    cap=(1, 1, 2),
    bins=(
        Bin((6,), 1.0, (0, 2)),
        Bin((6,), 1.0, (1, 2)),
        Bin((12,), 2.5, (0, 2)),
        Bin((6,), 0.9, (2,)),
    ),
)
"""Two pods that ask for different zones and two that do not; the first two machines differ in their zone."""


def test_bins_that_differ_only_in_their_pods_are_one_machine() -> None:
    """A machine of equal room and price may be either bin, and of each bin one is bought at most."""
    given = msgspec.structs.replace(
        ZONAL, bins=(*ZONAL.bins, Bin((6,), 1.1, (0, 2)), Bin((12,), 2.0, (1, 2)))
    )
    looked = MachineSearch(given, np.ones(3), 9.0)

    assert looked._bought == [(2,), (5,), (0, 1), (3,)]
    assert looked._times.tolist() == [4, 4, 4, 4]
    assert looked._rivals[2].tolist() == [False] * 4
    # Two of the second zone can be replaced by the one of twice their room; two of the first cannot.
    assert looked._machines(np.array([0, 1, 2, 0])) == [(5,), (0, 1), (0, 1)]


def test_both_zones_are_bought() -> None:
    """Each of the pods that ask for a zone gets a machine there, with one of the others beside it."""
    least, solved = MachineSearch(ZONAL, np.ones(3), 9.0).run(100_000)

    assert solved is not None
    assert solved.cost == pytest.approx(2.0)
    assert least == pytest.approx(2.0)
    assert sorted((each.bin, each.holds) for each in solved.patterns) == [(0, (1, 0, 1)), (1, (0, 1, 1))]


def test_machines_that_are_bought_once_in_each_zone() -> None:
    """Where one of twice the room costs as much as two, each zone has one of the smaller at most."""
    bins = [Bin((size,), size / 4.0, (item, 2)) for size in (4, 8) for item in (0, 1)]
    given = PatternProblem(count=(2, 2, 2), want=((1,), (1,), (1,)), cap=(2, 2, 2), bins=tuple(bins))
    looked = MachineSearch(given, np.ones(3), 9.0)

    assert looked._bought == [(2, 3), (0, 1)]
    assert looked._times.tolist() == [6, 2]
    assert looked._rivals.tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize(
    ("limits", "replaceable"),
    [
        pytest.param((), True, id="no limit"),
        pytest.param((((2.0, 4.0), 9.0),), True, id="as much counts"),
        pytest.param((((2.0, 5.0), 9.0),), False, id="more counts of the larger one"),
    ],
)
def test_two_machines_for_which_there_is_a_larger_one(
    limits: tuple[tuple[tuple[float, ...], float], ...], *, replaceable: bool
) -> None:
    """Two machines are not needed where one with the room of both costs, and counts, no more."""
    given = PatternProblem(
        count=(4,), want=((1,),), cap=(4,), bins=(Bin((2,), 1.0, (0,)), Bin((4,), 2.0, (0,))), limits=limits
    )

    assert replaceable_pairs(given, np.ones(2, bool)).tolist() == [[replaceable, False], [False, False]]


def choice(least: int | None, **options: str) -> Problem:
    """Return pods for which one large machine is cheapest, in a pool that wants several types."""
    types = [
        instance_type(f"t{cpu}", cpu=cpu, memory=64, sold=[offering("zone-1", "on-demand", price)])
        for cpu, price in ((4, 0.4), (8, 0.75), (16, 1.4))
    ]
    given = problem(replicas(pod("a", cpu="3", app="a"), 4), pools=[pool("p", *types)])
    if least is None:
        return given
    wanted = requirement(INSTANCE_TYPE, "Exists", [], min_values=least)
    first = given.pools[0]
    named: Pool = msgspec.structs.replace(
        first, requirements=first.requirements.intersect(Requirements.of([wanted]))
    )
    return msgspec.structs.replace(
        given, pools=(named,), options=msgspec.structs.replace(given.options, **options)
    )


@pytest.mark.parametrize(
    ("given", "room"),
    [
        pytest.param(choice(None), 16, id="without minValues"),
        pytest.param(choice(1), 16, id="one type"),
        pytest.param(choice(2), 8, id="two types"),
        pytest.param(choice(3), 4, id="three types"),
        pytest.param(choice(2, min_values="BestEffort"), 16, id="two types if possible"),
    ],
)
def test_min_values_leave_less_room(given: Problem, room: int) -> None:
    """With minValues no machine has more room than so many types have."""
    scheduler, left = search(given)
    patterns, _ = pattern_problem(scheduler, placed_counts(scheduler, left))

    cpu = scheduler.encoded.axis.index("cpu")
    assert max(each.room[cpu] for each in patterns.bins) <= room * 1000
    assert max(each.room[cpu] for each in patterns.bins) > room * 700


def test_more_values_than_there_are_leave_nothing_to_count() -> None:
    """Where no claim can have so much choice, nothing is known about its room."""
    scheduler, _ = search(choice(4))

    assert np.isinf(repack._with_choice(scheduler, scheduler.templates[0])).all()


def test_what_counts_against_limits() -> None:
    """Capacity counts against limits, and each node is one; a plan that limits make dear is proved."""
    types = [
        instance_type(f"t{cpu}", cpu=cpu, memory=64, sold=[offering("zone-1", "on-demand", price)])
        for cpu, price in ((2, 0.3), (4, 0.35))
    ]
    pods = replicas(pod("a", cpu="1500m", app="a"), 2)
    free = problem(pods, pools=[pool("p", *types)])
    tight = problem(pods, pools=[pool("p", *types, limits={"cpu": "4", "nodes": "3"})], options=Options())
    scheduler, left = search(tight)

    assert counted_capacity(scheduler.templates[0]).tolist() == [[2000, 1], [4000, 1]]
    given, _ = pattern_problem(scheduler, placed_counts(scheduler, left))
    assert [limit for _, limit in given.limits] == [4000.0, 3.0]
    assert solve_and_prove(free).cost.optimal
    assert solve_and_prove(tight).cost.optimal
