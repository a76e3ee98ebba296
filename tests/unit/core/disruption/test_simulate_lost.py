"""Whether pods still have room where a command has foreseen it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api.labels import ZONE
from karpenter.api.meta import LabelSelector
from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.core.disruption.command import UNDERUTILIZED, Command
from tests.unit.core.disruption.clusters import cluster, machine, pod, pool, simulated

MOVE = Command(reason=UNDERUTILIZED, candidates=("n1",), moves={"default/web-1": "n2"})


def _spread(name: str, node: str) -> Pod:
    """Return a pod that is spread over zones with others of its app."""
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    found = pod(name, node, labels={"app": "web"})
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, topology_spread_constraints=(spread,))
    )


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        pytest.param([machine("n2"), pod("web-1", "n1")], [], id="the node has room"),
        pytest.param([machine("n2"), pod("web-1", "n1"), pod("b-1", "n2", cpu="3")], [], id="just enough"),
        pytest.param(
            [machine("n2"), pod("web-1", "n1"), pod("b-1", "n2", cpu="3500m")],
            ["default/web-1"],
            id="another pod took the room",
        ),
        pytest.param(
            [pod("web-1", "n1")], ["default/web-1"], id="the node is gone; the one that goes has none"
        ),
        pytest.param(
            [machine("n2"), pod("web-1", "n1"), pod("b-1", "n1", cpu="3")],
            [],
            id="pods that the command does not move are not asked for",
        ),
        pytest.param(
            [machine("n2", zone="zone-2"), _spread("web-1", "n1"), _spread("web-2", "n2")],
            [],
            id="the zone of the node that goes is none to spread over any more",
        ),
        pytest.param(
            [
                machine("n2", zone="zone-2"),
                machine("n3"),
                _spread("web-1", "n1"),
                _spread("web-2", "n2"),
                pod("b-1", "n3", cpu="3500m"),
            ],
            ["default/web-1"],
            id="a zone that stays empty is one",
        ),
    ],
)
def test_pods_that_lost_their_place(parts: list[Any], lost: list[str]) -> None:
    """A command that removes n1, a node of zone 1, for a pod of one core that moves to n2."""
    simulator, _ = simulated(cluster(pool(), machine("n1"), *parts), going=frozenset({"n1"}))

    assert [each.pod for each in simulator.lost(MOVE)] == lost
