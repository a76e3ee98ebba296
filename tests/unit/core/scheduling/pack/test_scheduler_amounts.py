"""Claims and limits at amounts that just fit, and pods that go to the claim with the fewest."""

from __future__ import annotations

import numpy as np
import pytest

from karpenter.api.labels import HOSTNAME, INSTANCE_TYPE
from karpenter.core.scheduling.pack import greedy
from karpenter.core.scheduling.pack.greedy import place_together
from karpenter.core.scheduling.pack.one_by_one import room_for_many
from karpenter.core.scheduling.problem import Options
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from tests.unit.core.scheduling.pack.schedulers import bins, fresh, placed, pod_data_of

GPU = "example.com/gpu"
T4 = instance_type("t4", cpu=4, memory=8, price=0.2)
T8 = instance_type("t8", cpu=8, memory=16, price=0.4)
WITH_GPU = instance_type("g", cpu=4, memory=8, resources={GPU: 1}, price=1.0)


@pytest.mark.parametrize(
    ("limit", "claims"),
    [
        pytest.param("2", 2, id="two GPUs are two claims"),
        pytest.param("0", 0, id="none is none"),
    ],
)
def test_a_limit_on_a_resource_of_which_each_node_has_one(limit: str, claims: int) -> None:
    """The third node with a GPU would exceed the limit."""
    pods = replicas(pod("a", cpu="3", resources={GPU: "1"}), 3)

    scheduler = placed(problem(pods, pools=[pool("p", WITH_GPU, limits={GPU: limit})]))

    assert scheduler.claims.count == claims


def test_a_limit_on_a_resource_that_types_lack_does_not_hold_them() -> None:
    """Nodes without a GPU are launched though no more GPUs are allowed."""
    scheduler = placed(problem(pod("a"), pools=[pool("p", T4, WITH_GPU, limits={GPU: "0"})]))

    assert scheduler.claims.count == 1
    assert scheduler.pool_limits[0].types_within(None).tolist() == [True, False]


def test_a_limit_that_is_counted_exactly_may_leave_room_for_any_type() -> None:
    """Once counted, as many claims may become any type as fit into what is left."""
    scheduler = placed(
        problem(replicas(pod("a", cpu="5"), 2), pools=[pool("p", T4, T8, limits={"cpu": "24"})])
    )
    limits = scheduler.pool_limits[0]
    limits.count_exactly(lambda _: [0])

    assert limits.is_exact
    assert limits.left() == {"cpu": 16_000}
    assert [limits.allow_any(count) for count in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        pytest.param(4000, 0, id="just as much as the smaller has"),
        pytest.param(4001, 1, id="a little more"),
    ],
)
def test_the_cheapest_type_that_holds_a_total(cpu: int, expected: int) -> None:
    """A type holds what it has room for, to the last."""
    scheduler = fresh(problem(pod("a"), pools=[pool("p", T4, T8)]))

    assert scheduler.base(scheduler.templates[0]).cheapest((cpu, 2**30, 1)) == expected


def test_caps_of_bins_for_pods_with_host_ports() -> None:
    """Each of a range of bins takes one pod that wants a host port, and none beside a pod it avoids."""
    one = pod("a", ports=[80], apart=[affinity_term(HOSTNAME, app="b")])
    nodes = [node("n0"), node("n1", pod("b", app="b")), node("n2")]
    pod_data = pod_data_of(fresh(problem(one, nodes=nodes)), "a")

    caps = pod_data.host_caps(1, 3)

    assert caps is not None
    assert caps.tolist() == [0, 1]
    assert [pod_data.host_cap(number) for number in (0, 1, 2)] == [1, 0, 1]


def test_pods_go_to_the_claim_with_the_fewest() -> None:
    """With one pod here and three there, two more go here."""
    given = problem(replicas(pod("a", cpu="1"), 4), replicas(pod("b", cpu="100m"), 2), pools=[pool("p", T8)])
    scheduler = fresh(given)
    first = pod_data_of(scheduler, "a-000")
    for count in (1, 3):
        new_claim = scheduler.new_claim(first, scheduler.templates[0])
        assert new_claim is not None
        scheduler.put_on_claim(first, scheduler.open(new_claim), new_claim.state, count)

    left = place_together(scheduler, pod_data_of(scheduler, "b-000"), 2)

    assert left == 0
    assert scheduler.claims.pods[:2].tolist() == [3, 3]


def test_many_pods_that_stay_apart_from_each_other_share_no_claim() -> None:
    """Twenty claims for large pods take one of twenty small ones each, however many there are."""
    given = problem(
        replicas(pod("a", cpu="3"), 20),
        replicas(pod("b", cpu="100m", app="b", spreads=[spread(HOSTNAME, app="b")]), 20),
        pools=[pool("p", T4)],
        options=Options(packing="greedy"),
    )

    found = bins(placed(given))

    assert len(found) == 20
    assert all(sum(name.startswith("b-") for name in each) == 1 for each in found)


def test_a_class_that_found_no_place_is_tried_again_only_where_others_matter() -> None:
    """A pod that is too large stays; a pod that wants company waits until that is placed."""
    given = problem(
        pod("x", cpu="64"),
        pod("a", cpu="3", near=[affinity_term(HOSTNAME, app="b")]),
        pod("b", cpu="1", app="b"),
        pools=[pool("p", T4)],
    )
    scheduler = fresh(given)

    left = greedy.pack(scheduler, {each.number: 1 for each in scheduler.encoded.classes})

    assert [each.example.name for each in scheduler.encoded.classes if each.number in left] == ["x"]
    assert sorted(bins(scheduler)[0]) == ["a", "b"]


@pytest.mark.parametrize(
    ("used", "want", "expected"),
    [
        pytest.param([1000, 0], [1000, 0, 1], [7, 8], id="what is not wanted does not matter"),
        pytest.param([8000, 7000], [1000, 2**30, 1], [0, 1], id="a full claim takes none"),
        pytest.param(
            [8000, 0], [0, 0, 1], [110, 110], id="pods that want nothing else, as many as a node may have"
        ),
        pytest.param(
            [9000, 7000], [0, 2**30, 1], [0, 16], id="an overdrawn claim takes none, whatever is wanted"
        ),
    ],
)
def test_how_many_pods_claims_have_room_for(used: list[int], want: list[int], expected: list[int]) -> None:
    """Claims of eight cores and 16 GiB that use so many thousandths of a core."""
    scheduler = fresh(problem(pod("a"), pools=[pool("p", T8)]))
    state = scheduler.base(scheduler.templates[0])
    for each in used:
        scheduler.claims.take(scheduler.claims.open(state), state, [each, 0, 0])

    found = room_for_many(scheduler, state, np.array([0, 1]), np.array(want))

    assert found.tolist() == expected


def test_claims_are_filled_beside_nodes_that_have_what_pods_avoid() -> None:
    """The second claim takes its pod though the existing node has a pod that it avoids."""
    there = node("n", pod("b", app="b"), free={"cpu": "0"})
    pods = replicas(pod("a", cpu="3", apart=[affinity_term(HOSTNAME, app="b")]), 2)
    scheduler = fresh(problem(pods, pools=[pool("p", T4)], nodes=[there]))
    pod_data = pod_data_of(scheduler, "a-000")

    taken = []
    for _ in range(2):
        new_claim = scheduler.new_claim(pod_data, scheduler.templates[0])
        assert new_claim is not None
        taken.append(scheduler.fill(pod_data, scheduler.open(new_claim), new_claim.state, 1))

    assert taken == [1, 1]
    assert scheduler.next_state(pod_data, 1) is None


def test_many_pods_leave_a_claim_its_choice_of_types() -> None:
    """With two types demanded, claims are filled to the smaller, which has room for fifteen more pods."""
    given = problem(
        pod("a", cpu="1"),
        replicas(pod("b", cpu="200m", memory="1Mi"), 20),
        pools=[pool("p", T4, T8, min_values={INSTANCE_TYPE: 2})],
        options=Options(packing="greedy"),
    )

    assert [len(each) for each in bins(placed(given))] == [16, 5]
