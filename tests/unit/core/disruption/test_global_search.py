"""The global strategy: what moves cost, which commands it returns, and how far savings can go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from karpenter.api.nodepool import Budget
from karpenter.api.pod import ContainerPort, Pod
from karpenter.core.disruption import global_search
from karpenter.core.disruption.budgets import Headroom
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from karpenter.core.disruption.consolidation import Consolidation, RefusedMove
from karpenter.core.disruption.global_search import MoveCosts, consolidate_globally, least_cost
from karpenter.core.disruption.multinodeconsolidation import consolidate_several
from karpenter.core.disruption.payback import LeastSaving
from karpenter.core.disruption.singlenodeconsolidation import consolidate_one
from karpenter.core.disruption.sweep import ClusterSweep, RemovalBound
from karpenter.core.model.catalog import Catalog
from tests.unit.core.disruption.clusters import MARKET, NOW, cluster, kind, machine, pod, pool, simulated

if TYPE_CHECKING:
    from karpenter.core.disruption.candidates import Candidate
    from karpenter.core.state.cluster import ClusterView

COSTS = MoveCosts(0.1, {"a": 2.0, "b": 5.0}, {"a": LeastSaving(0.3, 0.4), "b": LeastSaving(0.0, 0.0)})


def saving(amount: float, *names: str) -> Command:
    return Command(reason=UNDERUTILIZED, candidates=names, hourly_before=1.0 + amount, hourly_after=1.0)


def test_what_the_going_of_a_node_must_save() -> None:
    """A tenth for each unit of what emptying it costs, and what it must save in any case."""
    assert [COSTS.price("a"), COSTS.price("b")] == [0.3, 0.5]


def test_what_commands_are_worth() -> None:
    """What they save, less what each of their nodes must."""
    assert COSTS.value([saving(1.0, "a"), saving(0.25, "b")]) == pytest.approx(1.0 - 0.3 + 0.25 - 0.5)
    assert COSTS.value([]) == 0


def test_more_may_be_asked_where_nodes_are_replaced() -> None:
    """A node whose going must save $0.30, or $0.40 where another takes its place."""
    replaced = msgspec.structs.replace(saving(1.0, "a", "b"), replacements=(SimpleNamespace(),))

    assert COSTS.value([replaced]) == pytest.approx(1.0 - 0.4 - 0.5)


@pytest.mark.parametrize(
    ("saved", "rate"),
    [
        pytest.param(7.0, 0.6, id="a dollar for each unit of cost raises it to sixty cents"),
        pytest.param(0.7, 0.1, id="a poor command does not lower it"),
    ],
)
def test_a_good_command_raises_what_others_must_save(saved: float, rate: float) -> None:
    """What saves much less for what it moves is left for a later decision."""
    found = COSTS.raised(saving(saved, "a", "b"))

    assert found.rate == pytest.approx(rate)
    assert (found.costs, found.least) == (COSTS.costs, COSTS.least)


def _goal(view: ClusterView, **must: float) -> tuple[Any, dict[str, Candidate]]:
    """Return what decides what is simulated, where each node must save so much, and the candidates."""
    simulator, candidates = simulated(view)
    bound = RemovalBound(ClusterSweep(simulator.encoded(), list(candidates.values())))
    least = {name: LeastSaving(must.get(name, 0.0), 9.0) for name in candidates}
    costs = MoveCosts(0.0, dict.fromkeys(candidates, 1.0), least)
    return global_search._Goal(bound, costs), candidates


@pytest.mark.parametrize(
    ("pods", "going", "launched", "most"),
    [
        pytest.param(4, ["n1"], None, 0.2 - 0.2 * 1.1 - 0.01, id="four pods and a tenth more"),
        pytest.param(1, ["n1"], None, 0.2 - 0.1 * 1.2 - 0.01, id="one pod needs a whole small machine"),
        pytest.param(
            1, ["n1", "n2"], None, 0.4 - (0.05 + 0.19995) * 1.1 - 0.03, id="the pods of two nodes together"
        ),
        pytest.param(
            4, ["n1"], ["default/a-0"], 0.2 - 0.1 * 1.4 - 0.01, id="a machine is launched for one of them"
        ),
        pytest.param(
            4, ["n1"], [f"default/a-{at}" for at in range(4)], 0.2 - 0.2 * 1.2 - 0.01, id="or for all of them"
        ),
        pytest.param(4, ["n1"], [], 0.2 - 0.01, id="nothing is launched"),
    ],
)
def test_what_the_going_of_nodes_may_be_worth(
    pods: int, going: list[str], launched: list[str] | None, most: float
) -> None:
    """Medium nodes for $0.20; their pods have no room elsewhere and cost $0.05 each."""
    view = cluster(
        pool(),
        machine("n1", "medium"),
        machine("n2", "medium"),
        *(pod(f"a-{at}", "n1") for at in range(pods)),
        *(pod(f"b-{at}", "n2", cpu="1333m") for at in range(3)),
    )
    goal, candidates = _goal(view, n1=0.01, n2=0.02)

    found = goal.most([candidates[name] for name in going], launched)

    assert found == pytest.approx(most, abs=1e-6)


@pytest.mark.parametrize(
    ("going", "limit"),
    [
        pytest.param(["n1"], 0.2 - 0.05 - 0.01, id="one of three pods must be paid for"),
        pytest.param(["n1", "n2"], 0.4 - 0.25 - 0.03, id="the pods of both must be paid for"),
    ],
)
def test_what_the_going_of_nodes_is_worth_at_most(going: list[str], limit: float) -> None:
    """Medium nodes for $0.20; their pods cost $0.05 each, and the other node has room for two."""
    view = cluster(
        pool(),
        machine("n1", "medium"),
        machine("n2", "medium"),
        *(pod(f"a-{at}", "n1") for at in range(3)),
        *(pod(f"b-{at}", "n2") for at in range(2)),
    )
    goal, candidates = _goal(view, n1=0.01, n2=0.02)

    assert goal.limit([candidates[name] for name in going]) == pytest.approx(limit, abs=1e-6)


def test_nothing_is_left_out_that_a_pool_scores() -> None:
    """The best move that a Balanced pool refuses is told, so all of them are simulated."""
    view = cluster(pool(consolidation_policy="Balanced"), machine("n1", "medium"), pod("a-0", "n1"))
    goal, candidates = _goal(view)

    assert goal.most(list(candidates.values())) == float("inf")
    assert goal.limit(list(candidates.values())) == float("inf")
    assert goal.paid(list(candidates.values())) == float("inf")


def test_what_is_hardly_better_is_not_looked_for() -> None:
    """The next command must be worth a twentieth more than the best so far."""
    goal, _ = _goal(cluster(pool(), machine("n1", "medium"), pod("a-0", "n1")), n1=0.3)

    assert goal.is_reached(saving(0.3001, "n1"))
    assert not goal.is_reached(saving(0.3, "n1"))
    goal.beat([saving(1.3, "n1")])
    assert goal.least == pytest.approx(1.05, abs=1e-6)
    assert goal.is_reached(saving(1.3501, "n1"))
    assert not goal.is_reached(saving(1.3499, "n1"))


REFUSED = RefusedMove(DisruptionCode.NO_SAVING, "no cheaper machine would do")


class _Answers(NamedTuple):
    """Decides as it is told; an estimate of what packing by price is worth."""

    greedy: Command | RefusedMove
    launched: frozenset[str] | None
    priced: Command | RefusedMove = REFUSED
    estimate: float = 0.0

    def decide_greedily(self, group: Any) -> Any:
        del group
        return self.greedy, self.launched

    def decide(self, group: Any) -> Any:
        del group
        return self.priced

    def most(self, group: Any, launched: Any) -> float:
        """Return what packing by price may be worth."""
        del group, launched
        return self.estimate


POD = frozenset({"default/a-0"})
GOOD, BETTER = saving(0.5, "a"), saving(0.7, "a")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        pytest.param(_Answers(GOOD, None, BETTER, 9.0), GOOD, id="nothing is launched"),
        pytest.param(_Answers(GOOD, POD, BETTER, 0.211), BETTER, id="may be a twentieth better"),
        pytest.param(_Answers(GOOD, POD, BETTER, 0.209), GOOD, id="may be hardly better"),
        pytest.param(_Answers(REFUSED, POD, BETTER, 0.001), BETTER, id="may be worth something"),
        pytest.param(_Answers(REFUSED, POD, BETTER, 0.0), None, id="can be worth nothing"),
        pytest.param(_Answers(REFUSED, POD, BETTER, 1e-8), None, id="can be worth what rounding may be"),
        pytest.param(_Answers(saving(0.2, "a"), POD, BETTER, 0.001), BETTER, id="is worth less than nothing"),
        pytest.param(_Answers(saving(0.299, "a"), None), None, id="saves less than it must"),
        pytest.param(_Answers(saving(0.301, "a"), None), saving(0.301, "a"), id="saves a little more"),
        pytest.param(_Answers(REFUSED, POD, REFUSED, 9.0), None, id="neither pays"),
    ],
)
def test_when_machines_of_a_group_are_packed_by_price(answers: Any, found: Command | None) -> None:
    """A group that costs $0.30 to move: only where that may be worth a twentieth more than greedily."""
    assert global_search._worthwhile([], answers, COSTS, answers) == found


class _Search:
    """Stands for what decides and for what estimates, and notes what is asked."""

    def __init__(self, worth: dict[str, float], pays: str, limits: dict[str, float]) -> None:
        self.worth, self.pays, self.limits, self.least = worth, pays, limits, 0.0
        self.limited: list[str] = []
        self.estimated: list[str] = []
        self.greedily: list[str] = []
        self.by_price: list[str] = []

    def paid(self, going: Any) -> float:
        return 9.0 if going[0].name in self.worth else 0.0

    def limit(self, going: Any) -> float:
        """Return what the going of a node is worth at most."""
        self.limited.append(going[0].name)
        return self.limits.get(going[0].name, 9.0)

    def most(self, going: Any, launched: Any = None) -> float:
        """Return what the going of a node may be worth."""
        if launched is None:
            self.estimated.append(going[0].name)
        return self.worth[going[0].name]

    def is_reached(self, command: Command) -> bool:
        """Return whether a command is better than the best so far."""
        return command is GOOD

    def decide_greedily(self, going: Any) -> Any:
        """Return that machines would be launched and nothing saved."""
        self.greedily.append(going[0].name)
        return REFUSED, POD

    def decide(self, going: Any) -> Any:
        """Return what packing by price finds: one pays, and another does not pay enough."""
        self.by_price.append(going[0].name)
        return GOOD if going[0].name == self.pays else BETTER


@pytest.mark.parametrize(
    ("worth", "pays", "greedily", "by_price"),
    [
        pytest.param({"a": 1.0, "b": 4.0, "c": 3.0, "d": 2.0}, "", "bcda", "bc", id="two in vain"),
        pytest.param({"a": 1.0, "b": 4.0, "c": 3.0, "d": 2.0}, "c", "bcda", "bcda", id="the second pays"),
        pytest.param({"a": 0.0, "b": 4.0, "c": -1.0, "d": 2.0}, "", "bd", "bd", id="two are worth nothing"),
    ],
)
def test_in_which_order_nodes_are_tried(
    worth: dict[str, float], pays: str, greedily: str, by_price: str
) -> None:
    """What may be worth most comes first; after two that were packed by price in vain none is."""
    search: Any = _Search(worth, pays, {})
    sets: Any = [[SimpleNamespace(name=name)] for name in worth]

    found = list(global_search._few(sets, search, lambda: False, search))

    assert ("".join(search.greedily), "".join(search.by_price)) == (greedily, by_price)
    assert sorted(search.estimated) == sorted(worth)
    assert found == ([GOOD] if pays else [])
    assert list(global_search._few(sets, search, lambda: True, search)) == []


def test_what_is_worth_no_more_than_the_best_is_not_packed_by_price() -> None:
    """Once it is known which pods machines are launched for, a set may be worth just as much as the best."""

    class Search(_Search):
        def most(self, going: Any, launched: Any = None) -> float:
            return super().most(going) if launched is None else self.least

    search: Any = Search({"a": 1.0}, "a", {})
    sets: Any = [[SimpleNamespace(name="a")]]

    assert list(global_search._few(sets, search, lambda: False, search)) == []
    assert (search.greedily, search.by_price) == (["a"], [])


def test_what_cannot_be_worth_much_is_not_estimated() -> None:
    """The limit of a node holds where an estimate is above it; one that costs nothing is not looked at."""
    limits = {"a": 0.0, "b": 2.0, "c": 3.0, "d": 2.5}
    search: Any = _Search({"a": 5.0, "b": 5.0, "c": 1.0, "d": 0.0}, "", limits)
    sets: Any = [[SimpleNamespace(name=each)] for each in "abcde"]

    list(global_search._few(sets, search, lambda: False, search))

    assert "".join(search.limited) == "abcd"
    assert "".join(search.estimated) == "cdb"
    assert "".join(search.greedily) == "bc"


@pytest.mark.parametrize(("size", "sizes"), [(0, []), (1, [1]), (2, [2, 1]), (7, [7, 3]), (10, [10, 5])])
def test_a_group_is_tried_whole_and_then_the_first_half_of_it(size: int, sizes: list[int]) -> None:
    """The nodes that cost most for what they hold are the first."""
    group: Any = list(range(size))

    assert global_search._halves(group) == [group[:each] for each in sizes]


def test_which_sets_of_nodes_are_looked_at() -> None:
    """Each alone, the first of the ranking together, the most wasteful and half of those; each set once."""
    view = cluster(
        pool(budgets=(Budget(nodes="3"),)),
        *(machine(f"n{at}", "medium") for at in range(4)),
        *(pod(f"a-{at}-{n}", f"n{at}", cpu="100m") for at in range(4) for n in range(at + 1)),
    )
    _, candidates = simulated(view)
    named = [candidates[f"n{at}"] for at in range(4)]

    def sets(*wasteful: int) -> list[str]:
        found = global_search._sets(
            named,
            [named[at] for at in wasteful],
            Headroom.at(view, UNDERUTILIZED, NOW),
        )
        return ["".join(each.name[1:] for each in some) for some in found]

    assert sets() == ["0", "1", "2", "3", "01", "012"]
    assert sets(3, 1, 0, 2) == ["0", "1", "2", "3", "01", "012", "310"]
    assert sets(3, 1) == ["0", "1", "2", "3", "01", "012", "31"]
    assert sets(2) == sets()


class _Groups:
    """Stands for budgets, for what estimates and for what decides about groups of ten; some groups pay."""

    least = 0.0

    def __init__(self, pays: str) -> None:
        self.pays = pays
        self.asked: list[int] = []
        self.taken: list[int] = []

    def within(self, candidates: Any) -> list[Any]:
        """Return the nodes that may go together: all."""
        return list(candidates)

    def most(self, group: Any, launched: Any = None) -> float:
        """Return what may be saved: nothing by half a group."""
        del launched
        return float(len(group) == 10)

    def decide_greedily(self, group: Any) -> Any:
        """Return what a group saves, for which no machine is launched."""
        number = group[0].number // 10
        self.asked.append(number)
        pays = self.pays[number] == "+"
        return (saving(9.0, *(each.name for each in group)) if pays else REFUSED), None

    def after(self, going: Any) -> _Groups:
        """Note the nodes that budgets are asked to let go; a command changes nothing here."""
        if not isinstance(going, Command):
            self.taken += [each.number for each in going]
        return self


@pytest.mark.parametrize(
    ("pays", "asked"),
    [
        pytest.param("--+-", [0, 1, 2, 3], id="two groups in a row do not pay"),
        pytest.param("---+", [0, 1, 2], id="three groups in a row do not pay"),
        pytest.param("--+--+", [0, 1, 2, 3, 4, 5], id="what pays begins a new row"),
        pytest.param("++++++++", [0, 1, 2, 3, 4, 5], id="six groups are enough for a pass"),
    ],
)
def test_how_many_groups_are_looked_at(pays: str, asked: list[int]) -> None:
    """Groups of ten, the most wasteful first, until three in a row are not worth it, or six were asked."""
    ranked: Any = [SimpleNamespace(name=f"n{at}", number=at) for at in range(10 * len(pays))]
    names = [each.name for each in ranked]
    costs = MoveCosts(0.0, dict.fromkeys(names, 1.0), dict.fromkeys(names, LeastSaving(0.0, 0.0)))
    groups: Any = _Groups(pays)

    found = global_search._groups(
        ranked, [], groups, groups, move_costs=costs, stop=lambda: False, goal=groups
    )

    assert groups.asked == asked
    goes = [at for at in asked if pays[at] == "+"]
    assert [each.candidates[0] for each in found] == [f"n{10 * at}" for at in goes]
    assert groups.taken == [number for at in goes for number in range(10 * at, 10 * at + 10)]
    stopped = global_search._groups(
        ranked, [], groups, groups, move_costs=costs, stop=lambda: True, goal=groups
    )
    assert stopped == []


def _port(name: str, node: str) -> Pod:
    """Return a pod that shares no node with another of its kind, because of a host port."""
    found = pod(name, node)
    (box,) = found.spec.containers
    box = msgspec.structs.replace(box, ports=(ContainerPort(container_port=80, host_port=80),))
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, containers=(box,)))


def _found(
    view: ClusterView, *, market: Catalog = MARKET, least: float = 0.0, stop: bool = False
) -> list[Command]:
    simulator, candidates = simulated(view, market)
    consolidation = Consolidation(simulator, {}, spot_to_spot=False, most_replacements=100)
    return consolidate_globally(
        list(candidates.values()),
        consolidation,
        simulator,
        Headroom.at(view, UNDERUTILIZED, NOW),
        lambda: stop,
        least=lambda _: LeastSaving(least, least),
    )


def _exchanges(count: int, **disruption: Any) -> ClusterView:
    """Return so many xlarge nodes, each with a pod for which a small one of its own would do."""
    return cluster(
        pool(**disruption),
        *(machine(f"n{at:02}", "xlarge") for at in range(count)),
        *(_port(f"a-{at}", f"n{at:02}") for at in range(count)),
    )


def test_exchanges_are_joined_ten_at_a_time() -> None:
    """Thirteen nodes are replaced by smaller ones, in commands of ten and three, which add up."""
    found = _found(_exchanges(13))

    assert [len(each.candidates) for each in found] == [10, 3]
    assert [len(each.replacements) for each in found] == [10, 3]
    assert [each.pods_moved for each in found] == [10, 3]
    assert [each.hourly_before for each in found] == pytest.approx([8.0, 2.4])
    assert [each.hourly_after for each in found] == pytest.approx([1.0, 0.3])
    assert len({name for each in found for name in each.candidates}) == 13


@pytest.mark.parametrize(
    ("least", "count"),
    [
        pytest.param(0.69, 13, id="each saves more than it must"),
        pytest.param(0.71, 0, id="each saves less than it must"),
    ],
)
def test_every_node_that_goes_saves_what_it_must(least: float, count: int) -> None:
    """An xlarge node for a small one saves $0.70 an hour."""
    assert sum(len(each.candidates) for each in _found(_exchanges(13), least=least)) == count


@pytest.mark.parametrize(("allowed", "goes"), [("3", 3), ("11", 11), ("0", 0)])
def test_a_budget_holds_over_all_commands(allowed: str, goes: int) -> None:
    """No more nodes go together than the budget allows."""
    found = _found(_exchanges(13, budgets=(Budget(nodes=allowed),)))

    assert sum(len(each.candidates) for each in found) == goes


def test_a_search_that_is_stopped_returns_nothing() -> None:
    """Nothing was decided when the time was up."""
    assert _found(_exchanges(13), stop=True) == []
    assert _found(_exchanges(3), stop=True) == []


def test_without_candidates_there_is_nothing_to_search() -> None:
    """No node, or none whose pods could move."""
    stuck = msgspec.structs.replace(
        pod("a-0", "n1"),
        spec=msgspec.structs.replace(pod("a-0", "n1").spec, node_selector={"kubernetes.io/hostname": "n1"}),
    )

    assert _found(cluster(pool())) == []
    assert _found(cluster(pool(), machine("n1", "xlarge"), stuck)) == []


def test_on_a_small_cluster_what_saves_most_wins() -> None:
    """Removing the two large nodes together for one is worth more than one alone, or the small one."""
    sold = Catalog(types=(*MARKET.types, kind("wide", 10, 0.25)))
    view = cluster(
        pool(),
        machine("n1", "large"),
        machine("n2", "large"),
        pod("a-1", "n1", cpu="5"),
        pod("a-2", "n2", cpu="5"),
    )

    (command,) = _found(view, market=sold)

    assert sorted(command.candidates) == ["n1", "n2"]
    assert [each.purchase.instance_type for each in command.replacements] == ["wide"]
    assert command.saving == pytest.approx(0.55)


def test_nodes_that_cost_most_for_what_they_hold_are_packed_anew() -> None:
    """
    Fourteen nodes, none of which has room for the pod of another, or could be exchanged for less.

    A large node holds three of their pods, an xlarge one seven: ten of them need one of each, which saves
    $0.80, and the other four a large and a medium one, which saves $0.20.
    """
    view = cluster(
        pool(),
        *(machine(f"n{at:02}", "medium") for at in range(14)),
        *(pod(f"a-{at}", f"n{at:02}", cpu="2100m") for at in range(14)),
    )

    found = _found(view)

    assert [len(each.candidates) for each in found] == [10, 4]
    assert [each.saving for each in found] == pytest.approx([0.8, 0.2])
    assert len({name for each in found for name in each.candidates}) == 14
    assert [len(each.candidates) for each in _found(view, least=0.049)] == [10, 4]
    assert [len(each.candidates) for each in _found(view, least=0.051)] == [10]
    assert _found(view, least=0.081) == []


@pytest.mark.parametrize(
    ("parts", "prices", "going", "expected"),
    [
        pytest.param(
            [machine("n1", "xlarge"), pod("a-0", "n1", cpu="2")], {}, ["n1"], 0.1, id="a small node would do"
        ),
        pytest.param(
            [machine("n1", "xlarge"), pod("a-0", "n1", cpu="16")],
            {"n1": 0.5},
            ["n1"],
            0.5,
            id="what is there stays",
        ),
        pytest.param(
            [machine("n1", "xlarge"), pod("a-0", "n1", cpu="16")],
            {"n1": 0.9},
            ["n1"],
            0.8,
            id="another is cheaper",
        ),
        pytest.param(
            [machine("n1", "small"), machine("n2", "xlarge"), pod("a-0", "n1", cpu="2")],
            {},
            ["n1"],
            0.0,
            id="free room on a node that stays costs nothing",
        ),
        pytest.param(
            [machine("n1", "small"), machine("n2", "xlarge"), pod("a-0", "n1", cpu="2")],
            {},
            ["n1", "n2"],
            0.1,
            id="unless that node may go as well",
        ),
        pytest.param(
            [
                *(machine(f"n{at}", "small") for at in (1, 2, 3)),
                *(pod(f"a-{at}", "n1") for at in range(2)),
                *(pod(f"b-{at}", f"n{at}") for at in (2, 3)),
            ],
            {},
            ["n1"],
            0.0,
            id="the free room of two nodes adds up",
        ),
        pytest.param([machine("n1", "xlarge")], {}, ["n1"], 0.0, id="no pods"),
    ],
)
def test_the_least_that_pods_must_cost(
    parts: list[Any], prices: dict[str, float], going: list[str], expected: float
) -> None:
    """Every node may stay for what it costs, others are launched at the price of the catalog."""
    market = msgspec.structs.replace(MARKET, node_prices=prices)
    simulator, candidates = simulated(cluster(pool(), *parts), market)

    found = least_cost(simulator.as_it_is(), [candidates[name] for name in going])

    assert found == pytest.approx(expected, abs=1e-6)


def _classic(parts: list[Any], *, several: bool, stop: int = 99, **disruption: Any) -> tuple[str, ...] | None:
    """Return which nodes one step of the classic strategy removes, ranked by name."""
    view = cluster(pool(**disruption), pool("other"), *parts)
    simulator, candidates = simulated(view)
    ranked = [candidates[name] for name in sorted(candidates)]
    asked = iter([False] * stop + [True] * 99)
    headroom = Headroom.at(view, UNDERUTILIZED, NOW)
    consolidation = Consolidation(simulator, {}, spot_to_spot=False, most_replacements=1)
    method = consolidate_several if several else consolidate_one
    found = method(ranked, consolidation, headroom, lambda: next(asked))
    return None if found is None else found.candidates


def _filled(*cores: str) -> list[Any]:
    """Return medium nodes, each with a pod of so many cores."""
    return [
        *(machine(f"n{at}", "medium") for at in range(len(cores))),
        *(pod(f"a-{at}", f"n{at}", cpu=each) for at, each in enumerate(cores)),
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(_filled("1", "1"), ("n0", "n1"), id="two become one"),
        pytest.param(
            _filled("1", "1", "1", "1"), ("n0", "n1", "n2"), id="three of four: the last has room for all"
        ),
        pytest.param(
            _filled("1", "1", "1", "4", "4"),
            ("n0", "n1"),
            id="two of five: the third has room, the others are full",
        ),
        pytest.param(_filled("4", "4"), None, id="nothing pays"),
        pytest.param(_filled("1"), None, id="one alone is not asked"),
    ],
)
def test_several_nodes_go_together(parts: list[Any], expected: tuple[str, ...] | None) -> None:
    """The longest prefix of a ranking whose pods need at most one new node, for less."""
    assert _classic(parts, several=True) == expected


def test_several_nodes_within_a_budget() -> None:
    """Of four that could go together two are allowed."""
    found = _classic(_filled("1", "1", "1", "1"), several=True, budgets=(Budget(nodes="2"),))

    assert found == ("n0", "n1")
    assert _classic(_filled("1", "1"), several=True, stop=0) is None


@pytest.mark.parametrize(
    ("parts", "change", "expected"),
    [
        pytest.param(_filled("4", "1"), {}, ("n1",), id="the first that pays"),
        pytest.param(_filled("4", "4"), {}, None, id="none pays"),
        pytest.param(
            [*_filled("1"), machine("n9", "medium", pool="other"), pod("z-0", "n9", cpu="1")],
            {"budgets": (Budget(nodes="0"),)},
            ("n9",),
            id="a node of a pool whose budget is used up is passed by",
        ),
    ],
)
def test_one_node_goes_alone(
    parts: list[Any], change: dict[str, Any], expected: tuple[str, ...] | None
) -> None:
    """The first node of a ranking whose going pays, as far as budgets allow."""
    assert _classic(parts, several=False, **change) == expected
    assert _classic(parts, several=False, stop=0, **change) is None
