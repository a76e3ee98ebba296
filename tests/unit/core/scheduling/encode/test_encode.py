"""A problem made ready for packing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.labels import PREFER_NO_SCHEDULE, ZONE, LabelRules
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter_local.testing.builders import instance_type, manifest_pod, pod, pool, problem, spread, taint

POOL = pool(
    "p", instance_type("t", cpu=4, memory=8, resources={"example.com/gpu": 2, "example.com/unused": 1})
)


def test_the_axis_has_what_anyone_asks_for() -> None:
    """Cores, memory and the number of pods always matter; others when a pod or a daemon wants them."""
    plain = EncodedProblem(problem(pod("a"), pools=[POOL]))
    special = EncodedProblem(
        problem(
            pod("a", resources={"example.com/gpu": "1"}),
            pools=[POOL],
            daemons=[pod("d", resources={"ephemeral-storage": "1Gi"})],
        )
    )

    assert plain.axis == ("cpu", "memory", "pods")
    assert special.axis == ("cpu", "ephemeral-storage", "example.com/gpu", "memory", "pods")


def test_classes_know_their_place_on_the_axis() -> None:
    """What a class wants is a row of exact integers."""
    encoded = EncodedProblem(problem(pod("a", cpu="250m", resources={"example.com/gpu": "1"}), pools=[POOL]))

    (group,) = encoded.classes
    assert group.want == (250, 1, 128 * 2**20, 1)
    assert group.vector.tolist() == list(group.want)


def test_templates_keep_the_order_of_pools() -> None:
    """Pools are numbered in the order in which they are tried."""
    encoded = EncodedProblem(problem(pod("a"), pools=[pool("b", *POOL.types), pool("a", *POOL.types)]))

    assert [(template.number, template.pool.name) for template in encoded.templates] == [(0, "b"), (1, "a")]


def test_avoiding_nodes_is_a_preference_only_where_some_pool_discourages() -> None:
    """Pods have a last relaxation that accepts discouraging taints when there are any."""
    reluctant = pool("p", *POOL.types, taints=(taint("t", PREFER_NO_SCHEDULE),))

    plain, discouraged = (
        EncodedProblem(problem(pod("a"), pools=[POOL])),
        EncodedProblem(problem(pod("a"), pools=[reluctant])),
    )

    assert len(plain.classes[0].constraints.relaxations) == 1
    assert [relaxation.given_up for relaxation in discouraged.classes[0].constraints.relaxations] == [
        "",
        "avoiding PreferNoSchedule nodes",
    ]


def test_every_run_starts_with_fresh_counts() -> None:
    """What one run counts is not seen by another."""
    encoded = EncodedProblem(problem(pod("a", app="a", spreads=[spread(ZONE, app="a")]), pools=[POOL]))
    one, other = (Scheduler(encoded).pod_data[0][0].demands.domains[0].group for _ in range(2))

    one.add("zone-1")

    assert (one.counts["zone-1"], other.counts["zone-1"]) == (1, 0)


def test_what_is_not_requested_counts_as_nothing_in_the_order_of_placing() -> None:
    """The most cpu first, then the most memory: a thousandth of a core is more than none, a byte as well."""
    asked = {"a": {"memory": "1Gi"}, "b": {"cpu": "1m"}, "c": {"cpu": "1m", "memory": "1"}, "d": {}}
    pods = [
        manifest_pod(name, containers=[{"name": "app", "resources": {"requests": each}}])
        for name, each in asked.items()
    ]

    encoded = EncodedProblem(problem(*pods, pools=[POOL]))

    assert [each.example.name for each in encoded.classes] == ["c", "b", "a", "d"]


PLAIN = problem(pod("a"), pools=[POOL], daemons=[pod("d")])


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        pytest.param({}, True, id="the same"),
        pytest.param({"pods": (pod("b", cpu="2"),)}, True, id="other pods"),
        pytest.param({"pools": (POOL,)}, True, id="an equal list of the same pools"),
        pytest.param({"pods": (pod("b", resources={"example.com/gpu": "1"}),)}, False, id="another axis"),
        pytest.param({"pools": (pool("p", *POOL.types),)}, False, id="an equal pool"),
        pytest.param({"pools": (POOL, pool("q", *POOL.types))}, False, id="one more pool"),
        pytest.param({"pools": ()}, False, id="no pool"),
        pytest.param({"daemons": (pod("d"),)}, False, id="other daemons"),
        pytest.param({"rules": LabelRules()}, False, id="other rules"),
    ],
)
def test_problems_of_one_cluster_share_templates(changes: dict[str, Any], shared: bool) -> None:
    """Templates are another problem's where all that they depend on is the same."""
    whole = EncodedProblem(PLAIN)
    part = EncodedProblem(msgspec.structs.replace(PLAIN, **changes), whole)

    assert (part.templates is whole.templates) == shared
    assert [each.pool for each in part.templates] == list(part.problem.pools)
