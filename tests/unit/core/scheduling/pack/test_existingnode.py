"""Existing nodes sorted into kinds that no pod can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.pack.existingnode import Nodes
from karpenter.core.scheduling.problem import PodVolumes
from karpenter_local.testing.builders import affinity_term, node, only, pod, problem, spread, taint, tolerate
from tests.unit.core.scheduling.pack.schedulers import fresh, pod_data_of, unlabelled

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

THERE = [
    node("n0", zone="zone-1"),
    node("n1", zone="zone-2"),
    node("n2", zone="zone-1", taints=(taint("gpu"),)),
    node("n3", zone="zone-1", node_labels={"team": "red"}),
]


def kinds(*pods: Pod) -> list[int]:
    """Return the kind of each node, as far as some pods can tell."""
    return fresh(problem(pods, nodes=THERE)).node_groups.of.tolist()


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod("x"), [0, 0, 1, 0], id="taints always make a difference"),
        pytest.param(pod("x", on={ZONE: "zone-1"}), [0, 1, 2, 0], id="a label that is asked about does"),
        pytest.param(
            pod("x", terms=[[only("team", "red")], [only(ARCH, "arm64")]]),
            [0, 0, 1, 2],
            id="in any relaxation",
        ),
        pytest.param(
            pod("x", app="x", spreads=[spread(ZONE, app="x")]), [0, 1, 2, 0], id="a topology key does"
        ),
        pytest.param(
            pod("x", app="x", spreads=[spread(HOSTNAME, app="x")]),
            [0, 0, 1, 0],
            id="the host name does not by itself",
        ),
    ],
)
def test_kinds(one: Pod, expected: list[int]) -> None:
    """Nodes are of one kind when no pod of the problem could tell them apart."""
    assert kinds(one) == expected


def test_labels_that_volumes_ask_about_make_a_difference() -> None:
    """Where a volume can be reached from is a question about nodes too."""
    volumes = {"default/x": PodVolumes(alternatives=(Requirements.only("team", frozenset({"red"})),))}

    scheduler = fresh(problem(pod("x"), nodes=THERE, volumes=volumes))

    assert scheduler.node_groups.of.tolist() == [0, 0, 1, 2]
    assert [kind.suits(pod_data_of(scheduler, "x")) for kind in scheduler.node_groups.all] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(pod("x"), [0, 1, 3], id="an untolerated taint does not suit"),
        pytest.param(pod("x", tolerations=[tolerate("gpu")]), [0, 1, 2, 3], id="a tolerated taint does"),
        pytest.param(pod("x", on={ZONE: "zone-2"}), [1], id="labels must match"),
        pytest.param(pod("x", on={"team": "red"}), [3], id="a label that a node lacks does not match"),
        pytest.param(
            pod("x", on={"team": "red"}, terms=[[only("team", "blue")]]),
            [],
            id="a contradiction matches no group",
        ),
    ],
)
def test_suits(one: Pod, expected: list[int]) -> None:
    """A kind of node suits a pod by its labels and taints, whatever runs there."""
    scheduler = fresh(problem(one, nodes=THERE))

    assert scheduler.nodes_for(pod_data_of(scheduler, "x")).tolist() == expected
    assert scheduler.nodes_for(pod_data_of(scheduler, "x")).tolist() == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(
            pod("x", near=[affinity_term(ZONE, app="web")]),
            [True, False, False],
            id="only where matching pods are",
        ),
        pytest.param(
            pod("x", apart=[affinity_term(ZONE, app="web")]),
            [False, True, False],
            id="only where no such pod is",
        ),
        pytest.param(
            pod("x", app="new", near=[affinity_term(ZONE, app="new")]),
            [True, True, False],
            id="anywhere with the label, first",
        ),
        pytest.param(pod("x"), [True], id="anywhere without demands"),
    ],
)
def test_permits(one: Pod, expected: list[bool]) -> None:
    """Counts decide which kinds are open now; a node without the label is in no domain."""
    there = [node("n0", pod("w", app="web"), zone="zone-1"), node("n1", zone="zone-2")]
    scheduler = fresh(problem(one, nodes=[*there, unlabelled(node("n2"), ZONE)]))

    assert [kind.permits(pod_data_of(scheduler, "x")) for kind in scheduler.node_groups.all] == expected


@pytest.mark.parametrize(
    ("free", "want", "count"),
    [
        pytest.param((4, 8), (2, 4), 2, id="room for two"),
        pytest.param((2, 4), (2, 4), 1, id="room for exactly one"),
        pytest.param((2, 3), (2, 4), 0, id="too little of one resource"),
        pytest.param((2, 0), (2, 0), 1, id="nothing is left of what the pod does not request"),
        pytest.param((1, 0), (1, 0), 1, id="one unit for one unit"),
        pytest.param((4, -1), (2, 0), 0, id="overdrawn"),
    ],
)
def test_room_of_a_node(free: tuple[int, int], want: tuple[int, int], count: int) -> None:
    """One node, all nodes, and the number of pods are asked alike; after so many pods there is no room."""
    nodes = Nodes(np.array([free], np.int64))

    assert nodes.with_room(want).tolist() == [nodes.fits(0, want)] == [count > 0]
    assert nodes.room_for(np.arange(1), want).tolist() == [count]
    nodes.take(0, np.array(want), count)
    assert nodes.free[:, 0].tolist() == [has - count * asked for has, asked in zip(free, want, strict=True)]
    assert not nodes.fits(0, want)
