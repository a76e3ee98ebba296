"""What taking one machine away would save, in figures worked out by hand: small costs $0.10, medium $0.20."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from karpenter.api.meta import LabelSelector
from karpenter.api.node import Taint
from karpenter.api.nodepool import Budget, NodePool
from karpenter.api.pod import (
    Affinity,
    ContainerPort,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from karpenter.core.disruption import sweep as sweeps
from karpenter.core.disruption.budgets import Headroom
from karpenter.core.disruption.payback import LeastSaving
from karpenter.core.disruption.sweep import ClusterSweep, RemovalBound, memory_per_cpu
from karpenter.core.model.catalog import Catalog, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.state.statenode import state_nodes
from tests.unit.core.disruption.clusters import GIB, MARKET, NOW, cluster, kind, machine, pod, pool, simulated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.core.state.cluster import ClusterView

WEB = LabelSelector(match_labels={"app": "web"})


def _with(found: Pod, **spec: Any) -> Pod:
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, **spec))


def _apart(name: str, node: str, *, cpu: str = "500m") -> Pod:
    """Return a pod that shares no node with another of its app."""
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=WEB)
    apart = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return _with(pod(name, node, cpu=cpu, labels={"app": "web"}), affinity=Affinity(pod_anti_affinity=apart))


def _spread(name: str, node: str, *, cpu: str = "500m") -> Pod:
    """Return a pod that is spread over zones with others of its app."""
    spread = TopologySpreadConstraint(
        max_skew=9, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=WEB
    )
    return _with(pod(name, node, cpu=cpu, labels={"app": "web"}), topology_spread_constraints=(spread,))


def _port(name: str, node: str, *, cpu: str = "500m") -> Pod:
    """Return a pod that needs port 80 of its node."""
    found = pod(name, node, cpu=cpu)
    (box,) = found.spec.containers
    box = msgspec.structs.replace(box, ports=(ContainerPort(container_port=80, host_port=80),))
    return _with(found, containers=(box,))


def _template(found: NodePool, **spec: Any) -> NodePool:
    template = msgspec.structs.replace(
        found.spec.template, spec=msgspec.structs.replace(found.spec.template.spec, **spec)
    )
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, template=template))


def _sweep(
    view: ClusterView, market: Catalog = MARKET, *, quiet: frozenset[str] = frozenset()
) -> ClusterSweep:
    simulator, candidates = simulated(view, market, quiet=quiet)
    return ClusterSweep(simulator.encoded(), list(candidates.values()))


def _trial(sweep: ClusterSweep, name: str) -> tuple[float, dict[str, int], bool] | None:
    """Return what the going of a machine saves, how many pods go where, and whether one is launched."""
    names = {at: each.name for at, each in sweep.candidates.items()}
    (at,) = (at for at, each in names.items() if each == name)
    found = sweep.trial(at)
    if found is None:
        return None
    moved: dict[str, int] = {}
    for _, node, count in found.shifts:
        moved[names[node]] = moved.get(names[node], 0) + count
    return round(found.saving, 6), moved, found.exchanges


GOING: list[Any] = [machine("n1", "medium")]
SMALL: list[Any] = [machine("n2", "small")]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(
            [*SMALL, pod("a-0", "n1")], (0.2, {"n2": 1}, False), id="a pod with room elsewhere costs nothing"
        ),
        pytest.param(
            [*SMALL, pod("a-0", "n1", cpu="0")], (0.2, {"n2": 1}, False), id="a pod that asks for no core"
        ),
        pytest.param(
            [*SMALL, *(pod(f"a-{n}", "n1") for n in range(2))],
            (0.2, {"n2": 2}, False),
            id="pods may take the last of the room",
        ),
        pytest.param(
            [*SMALL, *(pod(f"a-{n}", "n1") for n in range(3))],
            (0.1, {"n2": 2}, True),
            id="what is left over needs a new small machine",
        ),
        pytest.param(
            [*SMALL, machine("n3", "small"), *(pod(f"a-{n}", "n1") for n in range(3))],
            (0.2, {"n2": 2, "n3": 1}, False),
            id="pods of one kind go to several machines",
        ),
        pytest.param(
            [*SMALL, pod("a-0", "n1", cpu="500m"), pod("b-0", "n1", cpu="2")],
            (0.1, {"n2": 1}, True),
            id="the larger pod goes first",
        ),
        pytest.param(
            [
                *SMALL,
                pod("a-0", "n1", cpu="1"),
                pod("b-0", "n1", cpu="600m"),
                pod("c-0", "n1", cpu="300m"),
                pod("d-0", "n1", cpu="200m"),
            ],
            (0.1, {"n2": 3}, True),
            id="what pods of other kinds took is no longer free",
        ),
        pytest.param(
            [
                *SMALL,
                *(pod(f"a-{n}", "n1", cpu="700m") for n in range(2)),
                *(pod(f"b-{n}", "n1", cpu="300m") for n in range(2)),
                pod("c-0", "n1", cpu="100m"),
            ],
            (0.1, {"n2": 4}, True),
            id="of each kind as much as all of its pods took",
        ),
        pytest.param(
            [*SMALL, _port("a-0", "n1"), _port("b-0", "n2")],
            (0.1, {}, True),
            id="a port that is taken keeps a pod away",
        ),
        pytest.param(
            [*SMALL, machine("n3", "small"), _port("a-0", "n1"), _port("b-0", "n2")],
            (0.2, {"n3": 1}, False),
            id="after a machine that refuses, the next is asked",
        ),
        pytest.param(
            [*SMALL, machine("n3", "small"), _apart("a-0", "n1"), _apart("a-1", "n2")],
            (0.2, {"n3": 1}, False),
            id="pods that stay apart pass by a machine that has one",
        ),
        pytest.param(
            [*SMALL, _apart("a-0", "n1"), _apart("a-1", "n2")], (0.1, {}, True), id="or one is launched"
        ),
        pytest.param(
            [_apart("a-0", "n1"), _apart("a-1", "n1")],
            None,
            id="one new machine does not hold two that stay apart",
        ),
        pytest.param(
            [machine("n2", "small", zone="zone-2"), machine("n3", "small"), _spread("a-0", "n1")],
            (0.2, {"n3": 1}, False),
            id="pods that are spread stay in their zone",
        ),
        pytest.param(
            [machine("n2", "small", zone="zone-2"), _spread("a-0", "n1")],
            (0.1, {}, True),
            id="even if nothing there has room",
        ),
        pytest.param([], (0.2, {}, False), id="an empty machine saves all that it costs"),
    ],
)
def test_what_the_going_of_a_machine_saves(
    parts: list[Any], expected: tuple[float, dict[str, int], bool]
) -> None:
    """The pods of a medium machine go to others with room, and what is left over to one new machine."""
    assert _trial(_sweep(cluster(pool(), *GOING, *parts)), "n1") == expected


def test_a_quiet_machine_takes_no_pods() -> None:
    """Pods that move for a saving do not go where it is too early to consolidate."""
    view = cluster(pool(), *GOING, *SMALL, machine("n3", "small"), pod("a-0", "n1"))

    assert _trial(_sweep(view, quiet=frozenset({"n2"})), "n1") == (0.2, {"n3": 1}, False)


def test_a_new_machine_is_as_large_as_all_that_is_left_over() -> None:
    """Pods of two kinds that find no room need one machine for both: medium, not small."""
    parts: list[Any] = [
        machine("n1", "large"),
        *(pod(f"a-{n}", "n1", cpu="1500m") for n in range(2)),
        pod("b-0", "n1"),
    ]

    assert _trial(_sweep(cluster(pool(), *parts)), "n1") == (0.2, {}, True)


def test_pods_that_no_machine_holds_together_keep_theirs() -> None:
    """Nothing that is sold has 17 cores."""
    market = Catalog(types=(kind("small", 2, 0.1), kind("xlarge", 16, 0.8)))
    sold = Catalog(types=(kind("small", 2, 0.1),))
    view = cluster(pool(), machine("n1", "xlarge"), *(pod(f"a-{n}", "n1", cpu="1500m") for n in range(2)))

    assert _trial(_sweep(view, market), "n1") == (0.0, {}, True)
    assert _trial(_sweep(view, msgspec.structs.replace(sold, node_prices={"n1": 0.8})), "n1") is None


def _zoned(near: float, far: float) -> Catalog:
    """Return a market of a small type that costs more in one zone than in the other."""
    base = kind("small", 2, 0.1)
    offerings = tuple(
        Offering(requirements=Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: "on-demand"}), price=price)
        for zone, price in (("zone-1", near), ("zone-2", far))
    )
    return Catalog(types=(msgspec.structs.replace(base, offerings=offerings), kind("medium", 4, 0.2)))


@pytest.mark.parametrize(
    ("one", "saved"),
    [
        pytest.param(pod("a-0", "n1"), 0.15, id="anywhere"),
        pytest.param(_spread("a-0", "n1"), 0.12, id="in the zone where its spread counts it"),
    ],
)
def test_a_new_machine_is_priced_where_the_pods_may_go(one: Pod, saved: float) -> None:
    """Zone 1 sells a small machine for $0.08, zone 2 for $0.05."""
    found = _trial(_sweep(cluster(pool(), *GOING, one), _zoned(0.08, 0.05)), "n1")

    assert found == (saved, {}, True)


def test_a_new_machine_is_launched_by_a_pool_that_the_pods_tolerate() -> None:
    """The first NodePool that takes all that is left over sets the price, whatever others would ask."""
    tainted = _template(pool("tainted"), taints=(Taint(key="only", effect="NoSchedule"),))
    cheap = Catalog(
        types=(),
        by_pool={
            "tainted": (kind("small", 2, 0.01),),
            "default": (kind("small", 2, 0.07), kind("medium", 4, 0.2)),
        },
    )

    found = _trial(_sweep(cluster(tainted, pool(), *GOING, pod("a-0", "n1")), cheap), "n1")

    assert found == (0.13, {}, True)


def _swept(
    view: ClusterView, least: Mapping[str, float] | None = None, *, stops: int = 99
) -> tuple[list[str], list[str]]:
    asked = iter([False] * stops + [True] * 99)
    sweep = _sweep(view)
    headroom = Headroom.at(view, "Underutilized", NOW)
    asked_of = dict.fromkeys((each.name for each in sweep.candidates.values()), 0.0) | dict(least or {})
    wanted = {name: LeastSaving(each, each) for name, each in asked_of.items()}
    found = sweep.sweep(headroom, lambda: next(asked), wanted)
    return [each.name for each in found.emptied], [each.name for each in found.exchanged]


THREE: list[Any] = [
    machine("n1", "large"),
    machine("n2", "medium"),
    machine("n3", "small"),
    pod("a-0", "n1"),
    pod("b-0", "n2"),
    pod("c-0", "n3"),
]


@pytest.mark.parametrize(
    ("parts", "least", "expected"),
    [
        pytest.param(
            THREE, {}, (["n1", "n3"], []), id="the best saving first; n2, which took the pods, stays"
        ),
        pytest.param(THREE, {"n1": 0.39}, (["n1", "n3"], []), id="more than what must be saved"),
        pytest.param(THREE, {"n1": 0.4}, (["n2", "n3"], []), id="no more than what must be saved"),
        pytest.param(
            [machine("n1", "large"), pod("a-0", "n1")], {}, ([], ["n1"]), id="a machine for a smaller one"
        ),
        pytest.param(
            [machine("n1", "small"), pod("a-0", "n1")], {}, ([], []), id="nothing is saved by its like"
        ),
    ],
)
def test_which_machines_a_sweep_takes(
    parts: list[Any], least: dict[str, float], expected: tuple[list[str], list[str]]
) -> None:
    """Machines go in the order of what they save per cost of moving, while that is more than the least."""
    assert _swept(cluster(pool(), *parts), least) == expected


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        pytest.param(LeastSaving(0.39, 9.0), (["n1"], []), id="room elsewhere, and enough is saved"),
        pytest.param(LeastSaving(0.4, 0.0), ([], []), id="room elsewhere, and too little is saved"),
    ],
)
def test_what_a_sweep_must_save_where_nothing_is_launched(
    least: LeastSaving, expected: tuple[list[str], list[str]]
) -> None:
    """A large machine for $0.40 whose pod has room on another, which stays."""
    view = cluster(pool(), machine("n1", "large"), machine("n2", "small"), pod("a-0", "n1"))
    sweep = _sweep(view)
    headroom = Headroom.at(view, "Underutilized", NOW)

    found = sweep.sweep(headroom, lambda: False, {"n1": least, "n2": LeastSaving(9.0, 9.0)})

    assert ([each.name for each in found.emptied], [each.name for each in found.exchanged]) == expected


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        pytest.param(LeastSaving(9.0, 0.29), ["n1"], id="enough is saved"),
        pytest.param(LeastSaving(0.0, 0.31), [], id="too little is saved"),
    ],
)
def test_what_a_sweep_must_save_where_another_machine_is_launched(
    least: LeastSaving, expected: list[str]
) -> None:
    """A large machine for $0.40 becomes a small one for $0.10."""
    view = cluster(pool(), machine("n1", "large"), pod("a-0", "n1"))

    found = _sweep(view).sweep(Headroom.at(view, "Underutilized", NOW), lambda: False, {"n1": least})

    assert (found.emptied, [each.name for each in found.exchanged]) == ([], expected)


def test_a_sweep_ends_when_it_is_told_to() -> None:
    """What was found until then is kept; every second machine has taken the pod of the one before."""
    view = cluster(
        pool(), *(machine(f"n{n}", "small") for n in range(6)), *(pod(f"a-{n}", f"n{n}") for n in range(6))
    )

    assert [len(_swept(view, stops=stops)[0]) for stops in (0, 1, 2, 99)] == [0, 1, 1, 3]


def test_a_sweep_passes_by_a_pool_whose_budget_is_used_up() -> None:
    """The best machine is held by the budget of its NodePool; the others go."""
    view = cluster(
        pool("held", budgets=(Budget(nodes="0"),)), pool(), *machine("n1", "large", pool="held"), *THREE[1:]
    )

    assert _swept(view) == (["n2", "n3"], [])


def test_a_sweep_goes_on_after_a_machine_that_lost_its_room() -> None:
    """The first takes the room that the second needed; the third, which is worth least, still goes."""
    guard = pod("guard-0", "d", cpu="300m", annotations={"karpenter.sh/do-not-disrupt": "true"})
    here = {"node_selector": {ZONE: "zone-1"}}
    view = cluster(
        pool(),
        machine("a", "large"),
        machine("b", "small"),
        machine("c", "small", zone="zone-2"),
        machine("d", "small"),
        guard,
        _with(pod("a-0", "a", cpu="1500m"), **here),
        _with(pod("b-0", "b", cpu="1500m"), **here),
        *(pod(f"c-{at}", "c", cpu="100m") for at in range(2)),
    )

    assert _swept(view) == (["a", "c"], [])


def test_a_sweep_counts_what_it_moves_against_anti_affinity() -> None:
    """Two pods that stay apart: once the first has moved to the free machine, the second cannot."""
    guard = pod("guard-0", "n3", cpu="100m", annotations={"karpenter.sh/do-not-disrupt": "true"})
    view = cluster(
        pool(),
        machine("n1", "small"),
        machine("n2", "small"),
        machine("n3", "small"),
        guard,
        _apart("a-0", "n1", cpu="100m"),
        _apart("a-1", "n2", cpu="100m"),
    )

    assert _swept(view) == (["n1"], [])


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        pytest.param(0.0, ["n1", "n2"], id="moving is free"),
        pytest.param(0.2, ["n1"], id="moving costs more than one of them wastes"),
        pytest.param(0.75, [], id="moving costs all that is wasted"),
    ],
)
def test_machines_by_what_they_waste(price: float, expected: list[str]) -> None:
    """One core costs $0.05 at least: of $0.80, $0.20 and $0.10 for a pod of 1, 1 and 2 cores that is more."""
    view = cluster(
        pool(),
        machine("n1", "xlarge"),
        machine("n2", "medium"),
        machine("n3", "small"),
        pod("a-0", "n1"),
        pod("b-0", "n2"),
        pod("c-0", "n3", cpu="2"),
    )

    assert [each.name for each in _sweep(view).by_waste(lambda _: price)] == expected


def test_of_equal_machines_the_one_that_holds_less_wastes_more() -> None:
    """Medium nodes for $0.20 with one pod each, of three cores and of one."""
    view = cluster(pool(), *GOING, machine("n2", "medium"), pod("a-0", "n1", cpu="3"), pod("b-0", "n2"))

    assert [each.name for each in _sweep(view).by_waste(lambda _: 0.0)] == ["n2", "n1"]


@pytest.mark.parametrize(
    ("parts", "going", "saved"),
    [
        pytest.param([pod("a-0", "n1")], ["n1"], 0.1, id="a pod without room anywhere needs a whole machine"),
        pytest.param([*SMALL, pod("a-0", "n1")], ["n1"], 0.2, id="a pod with room elsewhere costs nothing"),
        pytest.param(
            [*SMALL, *(pod(f"a-{n}", "n1") for n in range(3))],
            ["n1"],
            0.15,
            id="of three pods, two have room and one costs its share of a machine",
        ),
        pytest.param(
            [*SMALL, pod("a-0", "n1", cpu="2"), pod("b-0", "n1", cpu="2")],
            ["n1"],
            0.1,
            id="a machine has room for either pod and not for both",
        ),
        pytest.param(
            [*SMALL, pod("a-0", "n1"), pod("b-0", "n2")],
            ["n1", "n2"],
            0.2,
            id="machines that go have no room for each other's pods",
        ),
        pytest.param([*SMALL], ["n1", "n2"], 0.3, id="empty machines save all that they cost"),
    ],
)
def test_how_much_the_going_of_machines_can_save(parts: list[Any], going: list[str], saved: float) -> None:
    """What goes is paid for no longer; its pods cost $0.05 per core, or a small machine of $0.10."""
    view = cluster(pool(), *GOING, *parts)
    _, candidates = simulated(view)

    some = [candidates[name] for name in going]
    found = sum(each.price or 0.0 for each in some) - RemovalBound(_sweep(view)).least_launched(some)

    assert found == pytest.approx(saved, abs=1e-6)
    assert found > saved - 1e-12  # rounding hides no saving


@pytest.mark.parametrize(
    ("parts", "going", "left"),
    [
        pytest.param([pod("a-0", "n1")], ["n1"], 0.1, id="a pod without room needs a machine"),
        pytest.param([*(pod(f"a-{n}", "n1") for n in range(3))], ["n1"], 0.15, id="three cost their share"),
        pytest.param([*SMALL, pod("a-0", "n1")], ["n1"], 0.0, id="a pod with room costs nothing"),
        pytest.param([*SMALL, *(pod(f"a-{n}", "n1") for n in range(4))], ["n1"], 0.1, id="two of four pods"),
        pytest.param(
            [machine("n2", "small", zone="zone-2"), *(_spread(f"a-{n}", "n1", cpu="1") for n in range(3))],
            ["n1"],
            0.1,
            id="pods that are spread may go to another zone",
        ),
        pytest.param(
            [*SMALL, pod("a-0", "n1"), pod("b-0", "n2", cpu="2"), pod("c-0", "n1", cpu="2")],
            ["n1", "n2"],
            0.25,
            id="machines that go together have no room for each other",
        ),
        pytest.param(
            [*SMALL, machine("n3", "medium"), pod("a-0", "n1", cpu="3"), pod("b-0", "n2", cpu="1500m")],
            ["n1", "n2"],
            0.1,
            id="the largest pod takes the room, and the other needs a whole machine",
        ),
    ],
)
def test_what_pods_without_room_must_cost(parts: list[Any], going: list[str], left: float) -> None:
    """$0.05 per core, or a small machine of $0.10, for the pods that a trial finds no room for."""
    view = cluster(pool(), *GOING, *parts)
    _, candidates = simulated(view)
    bound = RemovalBound(_sweep(view))
    unknown = RemovalBound(ClusterSweep(simulated(view)[0].encoded(), []))
    some = [candidates[name] for name in going]

    paid = bound.least_paid(bound.left_over(some))
    assert paid == pytest.approx(left, abs=1e-6)
    assert paid <= left
    assert not unknown.left_over(some)


def test_a_bound_knows_the_cluster_before_it_was_swept() -> None:
    """The pod of the first medium node takes the room of the small one, which the bound does not see."""
    view = cluster(
        pool(), *GOING, *SMALL, machine("n3", "medium"), *(pod(f"a-{n}", f"n{n}") for n in (1, 2, 3))
    )
    _, candidates = simulated(view)
    sweep = _sweep(view)
    bound = RemovalBound(sweep)
    headroom = Headroom.at(view, "Underutilized", NOW)

    assert sweep.unswept() is sweep
    found = sweep.sweep(headroom, lambda: False, dict.fromkeys(candidates, LeastSaving(0.0, 0.0)))
    assert sweep.unswept() is not sweep

    assert [each.name for each in (*found.emptied, *found.exchanged)] == ["n1", "n3"]
    (at,) = (at for at, each in sweep.candidates.items() if each.name == "n3")
    assert sweep.displaced(at)[1].total() == 1
    assert bound.left_over([candidates["n3"]]).total() == 0
    assert sweep.unswept().displaced(at)[1].total() == 0


def test_passes_about_the_same_pods_share_what_those_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pods run makes no difference; how many there are, and what is sold, does. Four are kept."""
    monkeypatch.setattr(sweeps, "_markets", type(sweeps._markets)())
    other = Catalog(types=MARKET.types[1:])

    def sold(pods: int, node: str = "n1", market: Catalog = MARKET) -> Any:
        view = cluster(pool(), *GOING, *SMALL, *(pod(f"a-{n}", node, cpu="100m") for n in range(pods)))
        return _sweep(view, market)._market

    first = sold(1)
    assert sold(1) is first
    assert sold(1, "n2") is first
    assert first.values is sold(1).values
    others = [sold(2), sold(1, market=other), sold(3)]
    assert first not in others
    assert sold(1) is first
    assert sold(4) is not None
    assert sold(1) is first
    assert sold(2) not in others


def test_a_machine_is_tried_again_only_after_another_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound and a sweep ask for the same trials; what one finds holds until room is taken."""
    view = cluster(pool(), *GOING, *SMALL, machine("n3"), *(pod(f"a-{n}", f"n{n}") for n in (1, 2, 3)))
    sweep, tried = _sweep(view), []
    shift = ClusterSweep._shift

    def noted(self: ClusterSweep, each: Any, count: int, at: int, *more: Any) -> int:
        tried.append(at)
        return shift(self, each, count, at, *more)

    monkeypatch.setattr(ClusterSweep, "_shift", noted)
    first = [sweep.displaced(at) for at in sweep.candidates]
    assert [sweep.displaced(at) for at in sweep.candidates] == first
    assert sorted(tried) == [0, 1, 2]

    headroom = Headroom.at(view, "Underutilized", NOW)
    found = sweep.sweep(headroom, lambda: False, dict.fromkeys(("n1", "n2", "n3"), LeastSaving(0.0, 0.0)))
    assert [each.name for each in found.emptied] == ["n1"]
    tried.clear()
    for at in sweep.candidates:
        sweep.displaced(at)
    assert 2 in tried


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([machine("n1"), pod("a-0", "n1", cpu="2")], GIB / 4 / 2000, id="one pod"),
        pytest.param(
            [machine("n1"), machine("n2"), pod("a-0", "n1", cpu="2"), pod("b-0", "n2", cpu="500m")],
            GIB / 2 / 2500,
            id="pods of all nodes together",
        ),
        pytest.param([machine("n1")], 0.0, id="no pod"),
    ],
)
def test_the_usual_memory_per_cpu(parts: list[Any], expected: float) -> None:
    """Bytes per thousandth of a core, of what pods request; each requests 256 MiB here."""
    assert memory_per_cpu(state_nodes(cluster(pool(), *parts))) == expected


def test_a_machine_that_saves_less_than_it_costs_waits_for_better_ones() -> None:
    """
    Budgets allow one node to go. The medium one comes up first, for $0.20 and two pods.

    It needs a small one for $0.10, so it saves $0.10 for two pods; the small one saves as much for one pod.
    """
    view = cluster(
        pool(budgets=(Budget(nodes="1"),)),
        *GOING,
        *SMALL,
        machine("n3", "small"),
        *(pod(f"a-{n}", "n1") for n in range(2)),
        pod("b-0", "n2", cpu="500m"),
        pod("c-0", "n3", cpu="1500m"),
    )
    simulator, candidates = simulated(view)
    sweep = ClusterSweep(simulator.encoded(), [candidates["n1"], candidates["n2"]])
    headroom = Headroom.at(view, "Underutilized", NOW)

    found = sweep.sweep(headroom, lambda: False, dict.fromkeys(candidates, LeastSaving(0.0, 0.0)))

    assert [each.name for each in found.emptied] == ["n2"]
    assert found.exchanged == []
