"""Filling many claims at once, held against placing one pod at a time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ZONE
from karpenter.api.pod import NodeSelectorRequirement
from karpenter.core.scheduling.pack import greedy, one_by_one
from karpenter.core.scheduling.problem import Options, Problem
from karpenter_local.testing.builders import (
    affinity_term,
    instance_type,
    node,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
    taint,
    tolerate,
)
from tests.unit.core.scheduling.pack import schedulers
from tests.unit.core.scheduling.pack.schedulers import bins

if TYPE_CHECKING:
    from karpenter.core.scheduling.pack.scheduler import Scheduler

T8, A8 = instance_type("t8", cpu=8, memory=16), instance_type("a8", cpu=8, memory=16, arch="arm64")
POOL = pool("p", T8, A8)
GREEDY = Options(packing="greedy")
EVEN = [spread(ZONE, app="web")]
WEB = pod("w", app="web", cpu="500m", spreads=EVEN)
NEAR = [affinity_term(ZONE, app="web")]
SETTLED = [
    pod(f"z{number}", cpu="6", on={ZONE: f"zone-{number % 3 + 1}", ARCH: "amd64"}) for number in range(5)
]
FULL = node("n", *(pod(f"v{n}", app="web") for n in range(5)), zone="zone-3", free={"cpu": "0"})
UNLABELLED = NodeSelectorRequirement(key="example.com/x", operator="DoesNotExist")
OPEN = replicas(pod("open", cpu="5"), 3)


def contents(scheduler: Scheduler) -> list[Counter[str]]:
    """Return how many pods of each name every claim has."""
    return [Counter(name.rpartition("-")[0] or name for name in each) for each in bins(scheduler)]


@pytest.mark.parametrize(
    ("given", "placements"),
    [
        pytest.param(problem(replicas(WEB, 70), pools=[POOL]), 15, id="zone spread"),
        pytest.param(problem(SETTLED, replicas(WEB, 40), pools=[POOL]), 29, id="claims with a zone"),
        pytest.param(problem(OPEN, SETTLED, replicas(WEB, 40), pools=[POOL]), 34, id="claims without a zone"),
        pytest.param(
            problem(replicas(pod("w", app="web", cpu="500m", near=NEAR), 60), pools=[POOL]),
            13,
            id="zone affinity",
        ),
        pytest.param(
            problem(SETTLED, replicas(pod("w", app="web", cpu="300m", near=NEAR), 20), pools=[POOL]),
            18,
            id="zone affinity beside others",
        ),
        pytest.param(
            problem(
                SETTLED,
                pod("d", app="db", cpu="5", on={ZONE: "zone-2"}),
                replicas(pod("w", cpu="300m", near=[affinity_term(ZONE, app="db")]), 30),
                pools=[POOL],
            ),
            17,
            id="affinity to other pods",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(pod("w", cpu="300m", spreads=[spread(ZONE, app="db")]), 30),
                pools=[POOL],
            ),
            10,
            id="spread of other pods",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", cpu="1", spreads=[spread(ZONE, app="web", skew=2)]), 30),
                pools=[POOL],
            ),
            30,
            id="a larger skew",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", cpu="1", spreads=[spread(ZONE, app="web", min_domains=4)]), 12),
                pools=[POOL],
            ),
            3,
            id="too few domains",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(
                    pod("w", app="web", cpu="100m", spreads=[*EVEN, spread(HOSTNAME, app="web", skew=4)]), 40
                ),
                pools=[POOL],
            ),
            32,
            id="so many per node",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", cpu="1", spreads=[*EVEN, spread(CAPACITY_TYPE, app="web")]), 30),
                pools=[POOL],
            ),
            30,
            id="two spreads",
        ),
        pytest.param(
            problem(
                pod("t", cpu="6", on={ZONE: "zone-1"}, tolerations=[tolerate("t")]),
                replicas(WEB, 20),
                pools=[pool("q", T8, taints=(taint("t"),)), POOL],
            ),
            9,
            id="claims with a taint",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(pod("w", app="web", cpu="500m", on={ARCH: "arm64"}, spreads=EVEN), 20),
                pools=[POOL],
            ),
            13,
            id="claims of another architecture",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(
                    pod("w", app="web", cpu="500m", spreads=EVEN, terms=[[only(ZONE, "zone-1", "zone-2")]]),
                    20,
                ),
                pools=[POOL],
            ),
            13,
            id="some zones only",
        ),
        pytest.param(
            problem(replicas(pod("w", app="web", cpu="500m", ports=[80], spreads=EVEN), 12), pools=[POOL]),
            12,
            id="host ports",
        ),
        pytest.param(
            problem(
                replicas(
                    pod("w", app="web", cpu="500m", near=[affinity_term(HOSTNAME, app="web")], spreads=EVEN),
                    12,
                ),
                pools=[POOL],
            ),
            1,
            id="host affinity",
        ),
        pytest.param(problem(replicas(WEB, 40), pools=[pool("p", T8, limits={"cpu": "16"})]), 2, id="limits"),
        pytest.param(
            problem(replicas(WEB, 40), pools=[POOL], nodes=[node("n", zone="zone-1")]),
            32,
            id="existing nodes",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(pod("w", cpu="100m", near=[affinity_term(ZONE, app="db")]), 20),
                pools=[POOL],
                nodes=[node("n", pod("d", app="db"), zone="zone-2", free={"cpu": "500m"})],
            ),
            13,
            id="an existing node beside claims",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(
                    pod("w", app="web", cpu="100m", near=[affinity_term(HOSTNAME, app="web")], spreads=EVEN),
                    12,
                ),
                pools=[POOL],
            ),
            6,
            id="host affinity beside others",
        ),
        pytest.param(
            problem(
                SETTLED,
                replicas(pod("w", app="web", cpu="100m", apart=[affinity_term(ZONE, app="web")]), 12),
                pools=[POOL],
            ),
            8,
            id="zone anti-affinity",
        ),
        pytest.param(
            problem(
                replicas(pod("x", app="web", cpu="6", on={ZONE: "zone-1"}), 4),
                replicas(pod("y", cpu="5", on={ZONE: "zone-1"}), 4),
                replicas(
                    pod("w", app="web", cpu="100m", near=NEAR, spreads=[spread(HOSTNAME, app="web", skew=2)]),
                    9,
                ),
                pools=[pool("p", T8)],
            ),
            16,
            id="claims with room for one, and with room for two",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", cpu="500m", near=NEAR), 40),
                pools=[pool("p", instance_type("t2", cpu=2, memory=4), T8, limits={"cpu": "10"})],
            ),
            8,
            id="limits that let a claim grow, but not two",
        ),
        pytest.param(
            problem(
                replicas(pod("w", app="web", cpu="1", spreads=[spread(ZONE, app="web", min_domains=3)]), 21),
                pools=[POOL],
            ),
            6,
            id="just enough domains",
        ),
        pytest.param(
            problem(replicas(WEB, 30), pools=[pool("p", T8, requires=[only(ZONE, "zone-1")])]),
            7,
            id="one domain",
        ),
        pytest.param(
            problem(
                [pod(f"z{n}", cpu="6", on={ZONE: f"zone-{n}"}, terms=[[UNLABELLED]]) for n in (1, 2, 3)],
                replicas(
                    pod(
                        "w",
                        app="web",
                        cpu="100m",
                        on={"example.com/x": "a"},
                        terms=[[only("example.com/x", "b")]],
                        spreads=EVEN,
                    ),
                    12,
                ),
                pools=[POOL],
            ),
            3,
            id="labels that no node has together",
        ),
        pytest.param(
            problem(
                [pod(f"z{n}", cpu="6", on={ZONE: f"zone-{n}", ARCH: "amd64"}) for n in (1, 2, 3)],
                replicas(WEB, 12),
                pools=[POOL],
                nodes=[FULL],
            ),
            9,
            id="a domain that has more pods than others have room for",
        ),
        pytest.param(
            problem(SETTLED, replicas(WEB, 10), pools=[POOL], nodes=[FULL]),
            9,
            id="a domain that has more pods than others get",
        ),
    ],
)
def test_many_pods_are_placed_as_one_pod_after_the_other(
    given: Problem, placements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim gets as many pods of each kind as it would get one pod at a time, several at once."""
    found = schedulers.placed(given)
    monkeypatch.setattr(one_by_one, "_FEW", 10**9)
    slow = schedulers.fresh(given)
    greedy.pack(slow, {each.number: len(each.pods) for each in slow.encoded.classes})

    assert contents(found) == contents(slow)
    assert len(found.placements) <= placements


def test_many_pods_are_few_placements() -> None:
    """Pods that go to one claim in one pass are placed together."""
    scheduler = schedulers.placed(
        problem(replicas(pod("w", app="web", cpu="100m", spreads=EVEN), 200), pools=[POOL])
    )

    assert sum(len(each) for each in bins(scheduler)) == 200
    assert len(list(scheduler.placements)) < 30
