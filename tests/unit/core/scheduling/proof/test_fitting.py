"""Whether whole pods fit on given machines, held against trying every assignment."""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np
import pytest

from karpenter.core.scheduling.price.divided import DomainSplit
from karpenter.core.scheduling.price.whole import Bin, PatternProblem, Solution
from karpenter.core.scheduling.proof import fitting
from karpenter.core.scheduling.proof.columns import PatternSearch
from karpenter.core.scheduling.proof.fitting import (
    PROGRAM,
    SOON,
    Shares,
    exchanged,
    large_on_machines,
    on_machines,
    packed_at_random,
    shortfall,
)

SEEDS = [*range(25), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(25, 400))]
LONG = 200_000
APART = PatternProblem(
    count=(3, 3), want=((2,), (3,)), cap=(3, 3), bins=(Bin((7,), 1.0, (0, 1)), Bin((5,), 0.8, (0, 1)))
)
ODD = PatternProblem(
    count=(1, 1, 1),
    want=((5,), (6,), (7,)),
    cap=(1, 1, 1),
    bins=(Bin((9,), 1.0, (0, 1, 2)), Bin((18,), 2.9, (0, 1, 2))),
)
"""Three pods that fit on two small machines divided and not whole."""


def drawn(seed: int) -> tuple[PatternProblem, list[tuple[int, ...]]]:
    """Return a few pods, and machines that hold them just so or nearly, some of which may be in two zones."""
    rng = np.random.default_rng(seed)
    items = int(rng.integers(2, 5))
    want = [tuple(rng.integers(1, 7, 2).tolist()) for _ in range(items)]
    count = [int(each) for each in rng.integers(1, 3, items)]
    zone = rng.integers(0, 3, items)  # 0 and 1 are zones, 2 is any
    in_zone = [tuple(np.flatnonzero((zone == each) | (zone == 2)).tolist()) for each in (0, 1)]
    total = np.array(count) @ np.array(want)
    machines = int(rng.integers(2, 4))
    bins: list[Bin] = []
    chosen: list[tuple[int, ...]] = []
    for _ in range(machines):
        room = np.ceil(total / machines * rng.uniform(0.8, 1.5, 2)).astype(int)
        first = len(bins)
        bins += [Bin(tuple(room.tolist()), 1.0, mine) for mine in in_zone]
        chosen.append((first, first + 1) if rng.random() < 0.6 else (first + int(rng.integers(2)),))
    cap = tuple(1 if rng.random() < 0.3 else each for each in count)
    split = DomainSplit(2, (0, 1), (0, 0), 1, from_zero=False)
    splits = (split,) if items > 2 and count[:2] == [2, 2] and zone[:2].tolist() == [0, 1] else ()
    return PatternProblem(tuple(count), tuple(want), cap, tuple(bins), splits), chosen


def can_be_placed(given: PatternProblem, machines: list[tuple[int, ...]]) -> bool:
    """Return whether some choice of bins holds the pods in some division, by trying all of them."""
    counts = [list(given.count)]
    for split in given.splits:
        counts = []
        for first in range(split.count + 1):
            if abs(split.count - 2 * first) <= split.max_skew:
                each = list(given.count)
                each[split.items[0]], each[split.items[1]] = first, split.count - first
                counts.append(each)
    return any(_placed(given, bins, count) for bins in product(*machines) for count in counts)


def _placed(given: PatternProblem, bins: tuple[int, ...], count: list[int]) -> bool:
    pods = [item for item, each in enumerate(count) for _ in range(each)]

    def rest(position: int, left: list[tuple[int, ...]], held: list[tuple[int, ...]]) -> bool:
        if position == len(pods):
            return True
        item = pods[position]
        for place, number in enumerate(bins):
            after = tuple(a - b for a, b in zip(left[place], given.want[item], strict=True))
            mine = held[place].count(item)
            if item in given.bins[number].items and min(after) >= 0 and mine < given.cap[item]:
                now = [*left[:place], after, *left[place + 1 :]]
                if rest(position + 1, now, [*held[:place], (*held[place], item), *held[place + 1 :]]):
                    return True
        return False

    return rest(0, [given.bins[number].room for number in bins], [()] * len(bins))


def alone(numbers: list[int]) -> list[tuple[int, ...]]:
    """Return machines that are one bin each."""
    return [(number,) for number in numbers]


def is_valid(given: PatternProblem, machines: list[tuple[int, ...]], found: Solution) -> bool:
    """Return whether a solution places every pod on one of the bins of each machine, within its room."""
    holds = np.array([each.holds for each in found.patterns])
    count = np.array(given.count)
    for split, divided in zip(given.splits, found.divided, strict=True):
        count[list(split.items)] = divided
        assert sum(divided) == split.count
        assert max(divided) - min(divided) <= split.max_skew
    rooms = np.array([given.bins[each.bin].room for each in found.patterns])
    allowed = [
        set(np.flatnonzero(each.holds).tolist()) <= set(given.bins[each.bin].items) and each.bin in alike
        for each, alike in zip(found.patterns, machines, strict=True)
    ]
    return bool(
        (holds.sum(axis=0) == count).all()
        and (holds @ np.array(given.want) <= rooms).all()
        and (holds <= np.array(given.cap)).all()
        and all(allowed)
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("limit", [SOON, LONG])
def test_an_integer_program_tells_whether_pods_fit(seed: int, limit: int) -> None:
    """A short program and a long one say what trying every assignment says."""
    given, machines = drawn(seed)

    found, work = on_machines(given, machines, limit)

    assert found is not None
    assert work >= PROGRAM
    assert bool(found.patterns) is can_be_placed(given, machines)
    assert not found.patterns or is_valid(given, machines, found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("least", [0.04, 0.25, 2.0])
def test_machines_that_large_pods_refuse_hold_no_pods(
    seed: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many pods are whole, machines that are refused do not hold all of them."""
    monkeypatch.setattr(fitting, "_LARGE", least)
    given, machines = drawn(seed)

    shares, possible, _ = large_on_machines(given, machines)

    assert possible or not can_be_placed(given, machines)
    assert possible is (shares is not None)


@pytest.mark.parametrize("seed", SEEDS)
def test_machines_on_which_divisible_pods_do_not_fit_hold_no_whole_ones(seed: int) -> None:
    """Values of pods are found only where no assignment is, and then they are worth more than fits."""
    given, machines = drawn(seed)

    value = shortfall(given, PatternSearch(given).cap, machines, np.ones(len(given.count)))

    assert value is None or not can_be_placed(given, machines)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_exchange_finds_fits(seed: int) -> None:
    """Exchanges begin with divided pods and end with whole ones on the same machines, or with nothing."""
    given, machines = drawn(seed)
    shares, _, _ = large_on_machines(given, machines)
    if shares is None:
        return

    found, work = exchanged(given, PatternSearch(given).cap, shares, np.random.default_rng(0), 30)

    assert work >= 0
    assert found is None or (is_valid(given, machines, found) and can_be_placed(given, machines))


def test_most_pods_are_found_a_place_by_exchanges() -> None:
    """Of the drawn problems that have a solution, exchanges find one in nearly all."""
    found, solvable = 0, 0
    for seed in range(60):
        given, machines = drawn(seed)
        shares, _, _ = large_on_machines(given, machines)
        if shares is not None and can_be_placed(given, machines):
            cap, rng = PatternSearch(given).cap, np.random.default_rng(0)
            found += exchanged(given, cap, shares, rng, 40)[0] is not None
            solvable += 1

    assert solvable >= 20
    assert found >= 0.8 * solvable


def test_too_many_pods_are_not_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods beyond a number are left as they are."""
    monkeypatch.setattr(fitting, "_EXCHANGED", 2)
    shares = Shares((1,), np.array([[1.0, 1.0, 1.0]]), np.array([1, 1, 1]))

    assert exchanged(ODD, np.ones((2, 3)), shares, np.random.default_rng(0), 9) == (None, 0)


def test_a_machine_holds_no_more_pods_than_may_share_it() -> None:
    """Where pods that keep apart find no other machine, there is no solution, however much room there is."""
    given = PatternProblem(count=(2,), want=((1,),), cap=(1,), bins=(Bin((9,), 1.0, (0,)),))
    shares = Shares((0,), np.array([[1.0]]), np.array([2]))

    assert exchanged(given, np.ones((1, 1)), shares, np.random.default_rng(0), 9)[0] is None


@pytest.mark.parametrize(
    ("numbers", "fits"),
    [
        pytest.param([0, 1], False, id="too few"),
        pytest.param([0, 1, 1], True, id="enough"),
        pytest.param([0, 0], False, id="enough room but not for whole pods"),
    ],
)
def test_whole_pods_on_given_machines(numbers: list[int], *, fits: bool) -> None:
    """Three pods of 2 and three of 3 fit on machines of 7, 5 and 5, but not on 7 and 5 or on 7 and 7."""
    found, work = on_machines(APART, alone(numbers), SOON)

    assert found is not None
    assert work >= PROGRAM
    assert bool(found.patterns) is fits
    assert not fits or is_valid(APART, alone(numbers), found)


def test_the_zone_of_a_machine_is_chosen() -> None:
    """Of two machines that may be in either zone, one goes to each where pods ask for both zones."""
    given = PatternProblem(
        count=(1, 1, 1),
        want=((3,), (3,), (2,)),
        cap=(1, 1, 1),
        bins=(Bin((5,), 1.0, (0, 2)), Bin((5,), 1.0, (1, 2))),
    )

    found, _ = on_machines(given, [(0, 1), (0, 1)], SOON)
    refused, _ = on_machines(given, [(0, 1), (0,)], SOON)
    other, _ = on_machines(msgspec.structs.replace(given, want=((5,), (5,), (1,))), [(0, 1)] * 2, SOON)

    assert found is not None
    assert refused is not None
    assert other is not None
    assert sorted(each.bin for each in found.patterns) == [0, 1]
    assert sorted(each.bin for each in refused.patterns) == [0, 1]
    assert other.patterns == ()


def test_no_choice_of_zones_is_enough() -> None:
    """Pods of three zones do not fit on two machines, of which each is in one zone."""
    given = PatternProblem(
        count=(1, 1, 1),
        want=((7,), (7,), (7,)),
        cap=(1, 1, 1),
        bins=tuple(Bin((9,), 1.0, (item,)) for item in range(3)),
    )
    machines = [(0, 1, 2)] * 2

    assert large_on_machines(given, machines)[1] is False
    assert shortfall(given, PatternSearch(given).cap, machines, np.ones(3)) is not None
    assert shortfall(given, PatternSearch(given).cap, [(0, 1, 2)] * 3, np.ones(3)) is None


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param("_fits", SOON, id="rounding errors of the library"),
        pytest.param("_COLUMNS", SOON, id="too many pods on too many machines"),
        pytest.param("_EQUAL", 0, id="too few rounds"),
    ],
)
def test_an_answer_that_is_not_exact_is_none(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding errors of the library, or too few rounds, leave it open whether the pods fit."""
    monkeypatch.setattr(fitting, name, (lambda *_: False) if name == "_fits" else 0)
    given = PatternProblem(
        count=(5, 5, 5),
        want=((31, 50), (47, 20), (23, 41)),
        cap=(5, 5, 5),
        bins=(Bin((130, 130), 1.0, (0, 1, 2)),),
    )

    assert on_machines(given, alone([0] * (6 if name == "_fits" else 5)), limit)[0] is None


def test_too_many_large_pods_leave_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program of large pods is too large, machines are not refused."""
    monkeypatch.setattr(fitting, "_COLUMNS_OF_LARGE", 0)

    assert large_on_machines(ODD, alone([0, 0])) == (None, True, 0)


def test_a_resource_that_no_machine_has() -> None:
    """Machines without a resource hold no pods that ask for it, and need not be filled with it."""
    given = PatternProblem(count=(1, 1), want=((2, 0), (2, 1)), cap=(1, 1), bins=(Bin((4, 0), 1.0, (0, 1)),))

    found, _ = on_machines(given, alone([0]), SOON)

    assert found is not None
    assert found.patterns == ()


@pytest.mark.parametrize(("count", "fits"), [(1, False), (0, True)])
def test_no_machine_holds_a_pod(count: int, *, fits: bool) -> None:
    """Where no machine is large enough for any pod, only no pods fit."""
    given = PatternProblem(count=(count,), want=((5,),), cap=(1,), bins=(Bin((4,), 1.0, (0,)),))

    found, _ = on_machines(given, alone([0]), SOON)

    assert found is not None
    assert bool(found.patterns) is fits
    assert large_on_machines(given, alone([0]))[1] is fits


def test_two_pods_that_want_the_same_unit() -> None:
    """Where there is one unit of a resource, two pods that want it do not share a machine."""
    given = PatternProblem(count=(1, 1), want=((1,), (1,)), cap=(1, 1), bins=(Bin((1,), 1.0, (0, 1)),))

    found, _ = on_machines(given, alone([0]), SOON)

    assert found is not None
    assert found.patterns == ()


def test_pods_of_a_split_are_divided_evenly() -> None:
    """Pods are placed in random orders; those of a split go to the emptiest domains."""
    given = PatternProblem(
        count=(3, 3),
        want=((2,), (2,)),
        cap=(3, 3),
        bins=(Bin((4,), 1.0, (0,)), Bin((4,), 1.0, (1,))),
        splits=(DomainSplit(3, (0, 1), (1, 0), 1, from_zero=False),),
    )
    cap = np.array([[2.0, 0.0], [0.0, 2.0]])

    found = packed_at_random(given, cap, np.array([0, 1]), np.random.default_rng(0))

    assert found is not None
    assert found.divided == ((1, 2),)
    assert [each.holds for each in found.patterns] == [(1, 0), (0, 2)]
    assert packed_at_random(given, cap, np.array([0]), np.random.default_rng(0)) is None


def test_pods_that_fit_by_rounding_errors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is placed is checked in whole numbers."""
    monkeypatch.setattr(fitting, "_fits", lambda *_: False)
    cap = np.array([[1.0, 1.0, 1.0]])

    assert packed_at_random(ODD, cap, np.array([0, 0, 0]), np.random.default_rng(0)) is None
