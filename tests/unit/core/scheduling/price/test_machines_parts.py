"""How far the search over combinations of machines goes, with values that are worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from karpenter.core.scheduling.price import machines
from karpenter.core.scheduling.price.columns import Bin, LinearSolution, Pattern, PatternProblem
from karpenter.core.scheduling.price.fitting import PROGRAM, SOON, Solution
from karpenter.core.scheduling.price.machines import CHEAPER, MachineSearch, _least_after, _needed_rows

ODD = PatternProblem(
    count=(1, 1, 1),
    want=((5,), (6,), (7,)),
    cap=(1, 1, 1),
    bins=(Bin((9,), 1.0, (0, 1, 2)), Bin((18,), 3.0, (0, 1, 2))),
)
"""Three pods that fit on two small machines divided and not whole; the dearer machine is listed first."""


def searching(given: PatternProblem = ODD, most: float = 8.0) -> MachineSearch:
    return MachineSearch(given, np.ones(len(given.count)), most)


class Recorded:
    """Calls of what is put in the place of a method, each of which takes so many steps."""

    def __init__(self, looked: MachineSearch, *, steps: int = 0, returns: Any = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._looked, self._steps, self._returns = looked, steps, returns

    def __call__(self, *given: Any) -> Any:
        self.calls.append(given)
        self._looked.work += self._steps
        return self._returns(*given) if callable(self._returns) else self._returns


def without_parts(looked: MachineSearch, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, Recorded]:
    """Replace methods of a search by ones that only note that they were called."""
    found = {name: Recorded(looked) for name in names}
    for name, each in found.items():
        monkeypatch.setattr(looked, name, each)
    return found


PARTS = ("_list", "_whole_values", "_seek", "_decide_open")


@pytest.mark.parametrize(
    ("steps", "items", "values", "seeks"),
    [
        pytest.param(40_000, 3, 0, 0, id="a short search"),
        pytest.param(40_001, 3, 1, 1, id="a long search"),
        pytest.param(40_001, 2, 0, 1, id="a long search of many items"),
    ],
)
def test_what_a_search_does(
    steps: int, items: int, values: int, seeks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Combinations are listed in three quarters of the steps; then a long search seeks a better plan."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", items)
    looked = searching()
    parts, work = without_parts(looked, monkeypatch, *PARTS), looked.work

    looked.run(work + steps)

    assert parts["_list"].calls == [(work + 30_000,), (work + steps,)]
    assert len(parts["_whole_values"].calls) == values
    assert parts["_seek"].calls == [((work + steps) // 2,)] * seeks
    assert parts["_decide_open"].calls == [(work + steps,)]


def test_a_better_plan_is_sought_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that goes on does not seek again; what is proved needs nothing more."""
    looked = searching()
    parts = without_parts(looked, monkeypatch, *PARTS)

    looked.run(10**6)
    looked.run(2 * 10**6)
    assert len(parts["_seek"].calls) == 1

    proved = searching()
    proved._least = proved.best
    parts = without_parts(proved, monkeypatch, *PARTS)
    assert proved.run(10**6) == (8.0, None)
    assert parts["_seek"].calls == parts["_whole_values"].calls == []


@pytest.mark.parametrize(
    ("share", "second"),
    [
        pytest.param(1.0, 2.08 + 0.015 * 8, id="all are listed: further the next time"),
        pytest.param(0.99, 2.08 * 0.99 + 0.01 * 8, id="some are left out: as far the next time"),
    ],
)
def test_how_far_combinations_are_listed(
    share: float, second: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What costs a hundredth of the best plan more is listed, in half of the steps that are left."""
    looked = searching()
    looked._least, work = 2.0, looked.work
    nothing = np.zeros((0, 2), np.int64), np.zeros(0)
    listed = Recorded(looked, steps=40, returns=lambda most, _: (*nothing, most * share))
    monkeypatch.setattr(looked, "_combinations", listed)
    monkeypatch.setattr(looked, "_tried", lambda _listed, _cost, most, _limit: most)

    looked._list(work + 80)
    looked._list(work + 80)

    assert listed.calls == [(pytest.approx(2.08), 40), (pytest.approx(second), 20)]


def test_combinations_are_listed_up_to_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs as much as the best plan, but for rounding errors, is not asked."""
    looked = searching()
    looked._least = 7.99
    listed = Recorded(looked, returns=lambda most, _: (np.zeros((0, 2), np.int64), np.zeros(0), most))
    monkeypatch.setattr(looked, "_combinations", listed)

    looked._list(looked.work + 80)

    assert listed.calls == [(8.0 * CHEAPER, 40)]
    assert looked._least == 8.0 * CHEAPER


def trying(
    monkeypatch: pytest.MonkeyPatch, *, may: Any = False, least: float = 0.0
) -> tuple[MachineSearch, Recorded, Recorded]:
    """Return a search that takes a step for each combination that it tries, or decides."""
    looked = searching()
    looked._least = least
    asked, decided = Recorded(looked, steps=1, returns=may), Recorded(looked, steps=1, returns=False)
    monkeypatch.setattr(looked, "_may_fit", asked)
    monkeypatch.setattr(looked, "_decided", decided)
    return looked, asked, decided


def small(count: int) -> list[tuple[int, ...]]:
    """Return so many of the small machine."""
    return [(0,)] * count


LISTED = np.array([[0, number] for number in range(1, 6)])
"""One to five small machines, which cost as much."""

COSTS = np.arange(1.0, 6.0)


def test_combinations_are_tried_from_the_cheapest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs less than any plan is left out; three quarters of the steps are for what is quick to ask."""
    looked, asked, decided = trying(monkeypatch, least=2.0)

    assert looked._tried(LISTED, COSTS, 6.0, looked.work + 4) == 5.0

    assert [each for (each,) in asked.calls] == [small(2), small(3), small(4)]
    assert decided.calls == []


def test_combinations_on_which_pods_may_fit_are_decided_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the steps end, the cost up to which all is known is that of the next one that is open."""
    looked, _, decided = trying(monkeypatch, may=True)

    assert looked._tried(LISTED, COSTS, 6.0, looked.work + 4) == 2.0

    assert decided.calls == [(small(1), SOON)]


def test_all_combinations_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """With steps enough everything is tried that is cheaper than the best plan."""
    looked, asked, decided = trying(monkeypatch, may=lambda each: len(each) == 3)
    looked.best = 4.0

    assert looked._tried(LISTED, COSTS, 6.0, looked.work + 100) == 6.0

    assert [each for (each,) in asked.calls] == [small(1), small(2), small(3)]
    assert decided.calls == [(small(3), SOON)]


def test_combinations_that_do_not_obey_a_new_row_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a try shows that at least three small machines are needed, two are not tried, and three are."""
    looked, asked, _ = trying(monkeypatch)
    row = np.array([1.0, 1 / 3])
    asked._returns = lambda _: looked._rows.append(row) if row is not looked._rows[-1] else None

    looked._tried(LISTED, COSTS, 6.0, looked.work + 100)

    assert [each for (each,) in asked.calls] == [small(1), small(3), small(4), small(5)]


def test_rows_that_combinations_obey() -> None:
    """Machines have to give 1 of what is needed, or more; rows that were known before are not asked."""
    looked = searching()
    known = len(looked._rows)
    looked._rows += [np.array([1.0, 0.5]), np.array([0.0, 0.5])]

    assert looked._obeys(np.array([[1, 0], [0, 2], [0, 1], [9, 2]]), known).tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert looked._obeys(np.array([[0, 0]]), len(looked._rows)).tolist() == [True]


@pytest.mark.parametrize(
    ("steps", "tried"),
    [
        pytest.param(2, 6, id="six combinations"),
        pytest.param(4, 3, id="the steps are over after three"),
        pytest.param(5, 3, id="not yet over after two"),
    ],
)
def test_a_better_plan_is_sought_among_a_few_combinations(
    steps: int, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five times, with less and less room to spare, the cheapest are tried in a fifth of the steps."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", 2)
    looked = searching()
    listed = Recorded(looked, returns=(np.array([[0, number] for number in range(1, 9)]), None, 0.0))
    asked = Recorded(looked, steps=steps, returns=lambda each: len(each) == 3)
    parts = without_parts(looked, monkeypatch, "_decided", "_whole_values")
    monkeypatch.setattr(looked, "_combinations", listed)
    monkeypatch.setattr(looked, "_may_fit", asked)

    looked._seek(54)

    assert listed.calls == [(8.0 * CHEAPER, 10, slack) for slack in (1.08, 1.04, 1.02, 1.01, 1.005)]
    assert [each for (each,) in asked.calls] == [small(number) for number in range(1, tried + 1)] * 5
    assert parts["_decided"].calls == [(small(3), SOON)] * 5
    assert parts["_whole_values"].calls == []


def test_where_a_better_plan_is_found_less_room_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan that is found ends a round; few items have values of whole pods before."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", 3)
    looked = searching()

    def cheaper(_: object) -> bool:
        looked.best -= 1
        return False

    asked = Recorded(looked, returns=cheaper)
    parts = without_parts(looked, monkeypatch, "_whole_values")
    monkeypatch.setattr(looked, "_combinations", lambda *_: (LISTED, None, 0.0))
    monkeypatch.setattr(looked, "_may_fit", asked)

    looked._seek(50)

    assert len(asked.calls) == 5
    assert len(parts["_whole_values"].calls) == 1


@pytest.mark.parametrize(("limit", "asked"), [(1, 0), (2, 1)])
def test_an_integer_program_needs_two_steps(limit: int, asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was not asked yet is one that was asked for a step, and is asked for twice that."""
    looked = searching()
    ended = Recorded(looked, returns=(None, 0))
    monkeypatch.setattr(machines, "on_machines", ended)

    assert not looked._decided(small(2), limit)

    assert len(ended.calls) == asked


@pytest.mark.parametrize(("items", "required"), [(3, 1), (2, 0)])
def test_what_machines_lack_is_required_for_few_items(
    items: int, required: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where whole pods do not fit, values that show it are sought if there are few items."""
    monkeypatch.setattr(machines, "_FEW_ITEMS", items)
    monkeypatch.setattr(machines, "on_machines", lambda *_: (Solution(np.inf, ()), 3))
    looked = searching()
    parts, work = without_parts(looked, monkeypatch, "_require_others"), looked.work

    assert looked._decided(small(2), SOON)

    assert parts["_require_others"].calls == [(small(2),)] * required
    assert looked.work == work + 3
    assert looked._open == {}


@pytest.mark.parametrize(("tried", "exchanges"), [(SOON, 1), (SOON + 1, 0)])
def test_open_machines_are_exchanged_once_more(
    tried: int, exchanges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a short program more exchanges are asked, and then a program for all steps that are left."""
    looked = searching()
    looked.work = 1000
    looked._open = {((0,), (0,)): tried}
    asked, decided = Recorded(looked, returns=True), Recorded(looked, returns=True)
    monkeypatch.setattr(looked, "_exchanged", asked)
    monkeypatch.setattr(looked, "_decided", decided)

    looked._decide_open(50_000)

    assert asked.calls == [(((0,), (0,)), 150)] * exchanges
    assert decided.calls == [(((0,), (0,)), 49_000)]


@pytest.mark.parametrize(
    ("some", "steps"),
    [
        pytest.param(
            [(0,), (0,)], 90 * 2 * 3 // 6, id="90 orders of three pods on two machines, six at once"
        ),
        pytest.param([(0, 1)], 0, id="no bin was chosen"),
    ],
)
def test_pods_are_placed_in_random_orders(
    some: list[tuple[int, ...]], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where large pods were too many to ask, and what cannot be placed stays possible."""
    asked: list[Any] = []
    monkeypatch.setattr(machines, "large_on_machines", lambda *_: (None, True, 7))
    monkeypatch.setattr(machines, "packed_at_random", lambda *given: asked.append(given[2].tolist()))
    looked = searching()
    work = looked.work

    assert looked._exchanged(some, 9)

    assert looked.work == work + 7 + steps
    assert asked == ([[0, 0]] if steps else [])


def test_what_is_found_at_random_is_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods that are placed need no program: it is decided that they fit."""
    known = Solution(3.0, (Pattern((1, 1, 1), 3.0, 1),))
    monkeypatch.setattr(machines, "large_on_machines", lambda *_: (None, True, 7))
    monkeypatch.setattr(machines, "packed_at_random", lambda *_: known)
    looked = searching()

    assert not looked._exchanged([(1,)], 9)

    assert (looked.best, looked._solved) == (3.0, known)


def test_how_long_values_are_improved() -> None:
    """New patterns are sought exactly for half of 40,000 steps, and at all for all of them."""
    looked = searching()
    program: Any = SimpleNamespace(search=SimpleNamespace(work=100))

    def generated(_: float) -> None:
        assert (program.limit, program.cutoff) == (20_100, 40_100)
        program.search.work += 50

    program.generate, work = generated, looked.work

    assert looked._generated(program, 9.0) is None

    assert looked.work == work + PROGRAM + 50


@pytest.mark.parametrize(("cost", "required"), [(16.0, 1), (15.9, 0)])
def test_values_of_pods_that_are_left(cost: float, required: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two machines leave pods, which cost twice the first plan, their values are required."""
    looked = searching()
    bounds: list[Any] = []
    program: Any = SimpleNamespace(
        low=np.ones(3), high=np.full(3, 7.0), bounded=lambda *given: bounds.append([*map(list, given)])
    )
    value = np.array([1.0, 2.0, 3.0])
    solved = LinearSolution(value, np.zeros(3), np.zeros(3), cost)
    generated = Recorded(looked, returns=solved)
    monkeypatch.setattr(looked, "_whole_values", lambda: program)
    monkeypatch.setattr(looked, "_generated", generated)
    parts = without_parts(looked, monkeypatch, "_require_whole")

    looked._require_others([(0,), (0,)])

    assert bounds == [[[0.0] * 3, [2.0, 0.0, np.inf]], [[1.0] * 3, [7.0] * 3]]
    assert generated.calls == [(program, 16.0)]
    assert parts["_require_whole"].calls == [(value,)] * required


def listed(looked: MachineSearch, most: float, limit: int = 10**6) -> tuple[list[list[int]], float]:
    """Return the combinations below a cost, and up to which cost none lacks."""
    found, cost, complete = looked._combinations(most, limit)
    assert cost.tolist() == sorted(cost.tolist())
    assert cost == pytest.approx(found @ looked._price)
    return sorted(found.tolist()), complete


def test_all_combinations_below_a_cost_are_listed() -> None:
    """Of machines for 3 and 1 these cost less than 4, where nothing is required."""
    looked = searching()
    looked._rows, looked._many = [], []

    assert listed(looked, 4.0) == ([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0]], 4.0)
    assert listed(looked, 6.5)[0][4:] == [[1, 0], [1, 1], [1, 2], [1, 3], [2, 0]]


def test_combinations_obey_rows() -> None:
    """At least 1 of what is needed: a large machine has all of it, a small one a half."""
    looked = searching()
    looked._rows, looked._many = [np.array([1.0, 0.5])], [False]

    assert listed(looked, 4.5) == ([[0, 2], [0, 3], [1, 0], [1, 1]], 4.5)


def test_combinations_are_within_limits() -> None:
    """Where 27 units are allowed, one of 18 leaves room for one of 9."""
    looked = searching(msgspec.structs.replace(ODD, limits=(((9.0, 18.0), 27.0),)))
    looked._rows, looked._many = [], []

    assert listed(looked, 9.0)[0] == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]]


def test_machines_count_as_nodes() -> None:
    """Where two nodes are allowed, of which each machine is one, no three are listed."""
    looked = searching(msgspec.structs.replace(ODD, limits=(((1.0, 1.0), 2.0),)))
    looked._rows, looked._many = [], []

    assert listed(looked, 9.0)[0] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]


def test_nothing_can_be_bought() -> None:
    """Where there are only nodes, what pods need beyond them is a row without a machine."""
    looked = searching(PatternProblem((2,), ((1,),), (2,), (Bin((1,), 0.0, (0,), once=True),)))

    assert looked._bought == []
    assert {row.shape for row in looked._rows} == {(0,)}


def test_what_one_pod_needs_is_a_row() -> None:
    """A pod of value 1 needs a machine that holds it, of which each gives all that is needed."""
    looked = searching()
    looked._rows, looked._many = [], []

    looked._require(np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0]))
    looked._require(np.zeros(3), np.array([1.0, 1.0]))

    assert [row.tolist() for row in looked._rows] == [[pytest.approx(1.0), pytest.approx(1.0)]]


def test_what_counts_nothing_has_no_limit() -> None:
    """A limit of which a machine takes nothing does not keep it from being bought."""
    looked = searching(msgspec.structs.replace(ODD, limits=(((0.0, 18.0), 0.0),)))
    looked._rows, looked._many = [], []

    assert listed(looked, 9.0)[0] == [[0, 0], [0, 1], [0, 2], [0, 3]]


ALONE = PatternProblem(count=(30,), want=((1,),), cap=(30,), bins=(Bin((1,), 1.0, (0,)),))


def test_as_many_combinations_are_kept_as_there_are_steps_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """None to 20 machines are ten of 18 steps, more than half: eight are left, and so many are kept."""
    monkeypatch.setattr(machines, "_WIDTH", 1)
    looked = searching(ALONE, 40.0)
    looked._rows, looked._many = [], []
    looked._needed(1.0)

    assert listed(looked, 20.5, 18) == ([[number] for number in range(8)], 8.0)


PAIRS = PatternProblem(
    count=(6,),
    want=((1,),),
    cap=(6,),
    bins=(Bin((5,), 4.0, (0,)), Bin((3,), 3.1, (0,)), Bin((2,), 2.1, (0,))),
)
"""Two machines that are dearer together than the one that has the room of both."""


def test_machines_are_not_bought_beside_those_that_make_them_needless() -> None:
    """One of 3 and one of 2, or two of 2, cost more than one of 5; two of 3 do not fit on it."""
    looked = searching(PAIRS, 20.0)
    looked._rows, looked._many = [], []

    assert looked._bought == [(0,), (1,), (2,)]
    assert looked._rivals.tolist() == [[False] * 3, [False, False, True], [False, True, True]]
    assert looked._times.tolist() == [6, 6, 1]
    found, _ = listed(looked, 8.0)
    assert found == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 2, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("width", "most", "limit", "expected"),
    [
        pytest.param(
            1, 2.5, 0, ([[0, 0]], 1.0), id="none, one and two small ones: three, of which one is kept"
        ),
        pytest.param(1, 3.5, 0, ([], 0.0), id="four are more than one for each pod"),
        pytest.param(2, 3.5, 0, ([[0, 0], [0, 1]], 2.0), id="two of five are kept"),
        # Two at first, which take one step, and then five of all, which take two.
        pytest.param(2, 3.5, 4, ([[0, 0], [0, 1]], 2.0), id="after half of four steps two are kept"),
        pytest.param(
            2, 3.5, 6, ([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0]], 3.5), id="half of six are three steps"
        ),
    ],
)
def test_how_many_combinations_are_kept(
    width: int,
    most: float,
    limit: int,
    expected: tuple[list[list[int]], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where steps are short the cheapest combinations are kept; below the next one none lacks."""
    monkeypatch.setattr(machines, "_WIDTH", width)
    looked = searching()
    looked._rows, looked._many = [], []
    looked._needed(1.0)

    assert listed(looked, most, limit) == expected


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        pytest.param([[1.0, 1.0], [1.0, 2.0]], [[1.0, 1.0]], id="one gives no less of anything"),
        pytest.param([[1.0, 2.0], [1.0, 1.0]], [[1.0, 1.0]], id="in the other order"),
        pytest.param([[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], id="each gives more of something"),
        pytest.param([[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]], id="the same twice"),
    ],
)
def test_rows_that_another_one_implies(rows: list[list[float]], kept: list[list[float]]) -> None:
    """What machines give more of is had where what they give less of is had."""
    assert _needed_rows(np.array(rows)).tolist() == kept


@pytest.mark.parametrize(("value", "many"), [([1.0, 1.0, 0.0], False), ([1.0, 1.0, 1.0], True)])
def test_rows_about_many_items(value: list[float], *, many: bool) -> None:
    """Of what pods of three items or more need, a little more may be required."""
    looked = searching()

    looked._require(np.array(value), np.array([1.0, 1.0]))

    assert looked._many[-1] is many


@pytest.mark.parametrize("slack", [1.0, 2.0])
def test_more_is_needed_only_of_many_items(slack: float) -> None:
    """A row about few items stays as it is; one about many items needs so many times as much."""
    looked = searching()
    looked._rows, looked._many = [np.array([0.5, 0.25])], [False]
    few = looked._needed(slack)
    looked = searching()
    looked._rows, looked._many = [np.array([0.5, 0.25])], [True]
    many = looked._needed(slack)

    assert few[:1].tolist() == [[0.5, 0.25]]
    assert many[:1].tolist() == [[0.5 / slack, 0.25 / slack]]


def test_what_a_need_costs_from_each_machine_on() -> None:
    """The second machine gives all for 2, the third half for 3; the first is free and gives nothing."""
    assert _least_after(np.array([[0.0, 1.0, 0.5]]), np.array([0.0, 2.0, 3.0])).tolist() == [
        [2.0, 2.0, 6.0, np.inf]
    ]


@pytest.mark.parametrize(("limit", "taken"), [(18.0, True), (17.9, False)])
def test_machines_that_reach_a_limit(limit: float, monkeypatch: pytest.MonkeyPatch, *, taken: bool) -> None:
    """What is offered, or bought whole by the linear program, may count as much as the limit allows."""
    looked = searching(msgspec.structs.replace(ODD, limits=(((9.0, 18.0), limit),)))
    asked = Recorded(looked, returns=False)
    monkeypatch.setattr(looked, "_may_fit", asked)
    solved = LinearSolution(np.ones(3), np.zeros(2), np.array([0.0, 1.0]), 3.0)
    program: Any = SimpleNamespace(
        low=np.zeros(2),
        high=np.ones(2),
        price=np.array([1.0, 3.0]),
        solve=lambda: solved,
        bounded=lambda *_: None,
    )

    looked._dive(program)
    looked.offer(Solution(3.0, (Pattern((1, 1, 1), 3.0, 1),)))

    assert [each for (each,) in asked.calls] == [[(1,)]] * (2 if taken else 0)
    assert looked.best == (3.0 if taken else 8.0)
