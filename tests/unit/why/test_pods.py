"""Why a pod is where it is, will be somewhere, or has no place: each sentence once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.why.clusters import answer, machine, pod, pool

if TYPE_CHECKING:
    from pathlib import Path

PREFERS_ZONE_B = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}
                    ]
                },
            }
        ]
    }
}
REQUIRES_ZONE_B = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}
                    ]
                }
            ]
        }
    }
}
BESIDE_NONE = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "absent"}}}
        ]
    }
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
FULL = [pool("spot", "spot", weight=10, limits={"cpu": "4"}), *machine("n", nodepool="spot")]
FULL += [pod("x", "4", nodeName="n")]
SPREAD = {
    "topologyKey": "example.com/rack",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {},
}
TAINTS = {"taints": [{"key": "team", "value": "data", "effect": "NoSchedule"}]}
NEXT_TO = pod("other", nodeName="n", metadata={"labels": {"app": "web"}})
UNREADY = pool("broken", weight=10)
UNREADY["status"] = {
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "message": "no class",
            "reason": "No",
            "lastTransitionTime": "2026-03-01T00:00:00Z",
        }
    ]
}


@pytest.mark.parametrize(
    ("objects", "place", "because"),
    [
        pytest.param(
            [pool(), pod("a")],
            "It will run on a new four of NodePool default (zone-a, on-demand, $0.1000 an hour).",
            "on-demand, because NodePool default does not allow spot",
            id="the NodePool does not allow spot",
        ),
        pytest.param(
            [pool("default", "spot", "on-demand"), pod("a", "10")],
            "It will run on a new big of NodePool default (zone-a, on-demand, $0.4000 an hour).",
            "on-demand, because no spot offering of a type that fits is available",
            id="spot is not sold",
        ),
        pytest.param(
            [
                pool("default", "spot", "on-demand"),
                pod("a", nodeSelector={"karpenter.sh/capacity-type": "on-demand"}),
            ],
            "It will run on a new four of NodePool default (zone-a, on-demand, $0.1000 an hour).",
            "on-demand, because the pod requires karpenter.sh/capacity-type In [on-demand]",
            id="the pod does not want spot",
        ),
        pytest.param(
            [*FULL, pool("rest"), pod("a")],
            "It will run on a new four of NodePool rest (zone-a, on-demand, $0.1000 an hour).",
            "NodePool spot is passed over: pool spot is at its limit of 4 cpu",
            id="a NodePool before it is at its limit",
        ),
        pytest.param(
            [UNREADY, pool("rest"), pod("a")],
            "It will run on a new four of NodePool rest (zone-a, on-demand, $0.1000 an hour).",
            "NodePool broken is passed over: it is not ready: no class",
            id="a NodePool before it is not ready",
        ),
        pytest.param(
            [pool(), pod("a", affinity=PREFERS_ZONE_B)],
            "It will run on a new four of NodePool default (zone-a, on-demand, $0.1000 an hour).",
            "no existing node takes it; four in zone-a (on-demand, $0.1000 an hour) is the cheapest of 2 "
            "types that hold it; it gave up a preferred node affinity",
            id="a preference was given up",
        ),
        pytest.param(
            [pool(), *machine("n"), pod("a")],
            "It will run on node n.",
            "node n is the first existing node that suits it and has room",
            id="an existing node has room",
        ),
        pytest.param(
            [pool(), *machine("n"), pod("a", nodeName="n")],
            "It runs on node n (four, zone-a, on-demand, NodePool default).",
            "evicted now, it would go to node n: node n is the first existing node that suits it and has "
            "room",
            id="it runs",
        ),
    ],
)
def test_says_where_a_pod_goes_and_why(
    objects: list[dict[str, Any]], place: str, because: str, tmp_path: Path
) -> None:
    """A pod with a place is told the place, and why that one."""
    found = answer("pod/a", objects, tmp_path)
    assert (found["placed"], found["answer"]) == (True, place)
    assert because in found["because"]
    assert found["changes"] == []


@pytest.mark.parametrize(
    ("objects", "code", "nearest", "change"),
    [
        pytest.param(
            [pool(), pod("a", "1", "40Gi")],
            "NoInstanceTypeFits",
            "needs 8.0 more GiB on the largest type",
            "lower the pod's memory request from 40Gi to 32758Mi",
            id="too much memory",
        ),
        pytest.param(
            [pool(), pod("a", "20")],
            "NoInstanceTypeFits",
            "needs 4.1 more cpu on the largest type",
            "lower the pod's cpu request from 20 to 15900m",
            id="too much cpu",
        ),
        pytest.param(
            [
                pool(limits={"cpu": "40"}),
                *(each for i in range(10) for each in machine(f"n{i}")),
                *(pod(f"p{i}", "4", nodeName=f"n{i}") for i in range(10)),
                pod("a"),
            ],
            "LimitReached",
            "would fit if the limit were 44 cpu",
            "raise the limit of NodePool default on cpu from 40 to 44",
            id="the limit",
        ),
        pytest.param(
            [pool(template=TAINTS), pod("a")],
            "TaintNotTolerated",
            "",
            "add a toleration for team=data:NoSchedule to the pod",
            id="a taint",
        ),
        pytest.param(
            [pool(), pod("a", nodeSelector={"topology.kubernetes.io/zone": "zone-b"})],
            "NoInstanceTypeMatches",
            "",
            "drop nodeSelector topology.kubernetes.io/zone=zone-b from the pod",
            id="a nodeSelector",
        ),
        pytest.param(
            [pool(), pod("a", affinity=REQUIRES_ZONE_B)],
            "NoInstanceTypeMatches",
            "",
            "drop the required node affinity from the pod",
            id="a required node affinity",
        ),
        pytest.param(
            [pool(), pod("a", affinity=BESIDE_NONE)],
            "PodAffinityNotMet",
            "",
            "drop the pod affinity from the pod",
            id="a pod affinity",
        ),
        pytest.param(
            [pool(), pod("a", topologySpreadConstraints=[SPREAD])],
            "TopologyNotMet",
            "",
            "make the topology spread over example.com/rack ScheduleAnyway",
            id="a topology spread",
        ),
        pytest.param(
            [pool(), *machine("n"), NEXT_TO, pod("a", affinity=APART)],
            "PodAntiAffinityNotMet",
            "",
            "drop the pod anti-affinity from the pod",
            id="a pod anti-affinity",
        ),
    ],
)
def test_says_what_keeps_each_node_pool_from_serving_a_pod(
    objects: list[dict[str, Any]], code: str, nearest: str, change: str, tmp_path: Path
) -> None:
    """A pod without a place is told the reason, the nearest miss, and a change that was tried and helps."""
    found = answer("pod/a", objects, tmp_path)
    assert not found["placed"]
    assert [(each["code"], each["nearest"]) for each in found["nodePools"]] == [(code, nearest)]
    assert [each["change"] for each in found["changes"]] == [change]


@pytest.mark.parametrize(
    ("objects", "because"),
    [
        pytest.param([pod("a")], "no NodePool is ready to launch nodes", id="there is no NodePool"),
        pytest.param(
            [pool(), pod("a", schedulingGates=[{"name": "wait"}])],
            "kube-scheduler does not look at it before its scheduling gates go: wait",
            id="it has a scheduling gate",
        ),
        pytest.param(
            [
                pool(),
                pod(
                    "a",
                    affinity={
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchExpressions": [
                                            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                ),
            ],
            "it requires a node without a NodePool, so no NodePool may serve it",
            id="it may not run on our nodes",
        ),
    ],
)
def test_says_why_no_node_pool_is_asked(objects: list[dict[str, Any]], because: str, tmp_path: Path) -> None:
    """A pod that no NodePool is asked about is told why, and no change is named."""
    found = answer("pod/a", objects, tmp_path)
    assert (found["placed"], found["because"], found["changes"]) == (False, [because], [])


def test_a_named_change_was_tried_under_the_limits(tmp_path: Path) -> None:
    """Where memory is short and a limit would forbid the large type too, no smaller request is promised."""
    found = answer("pod/a", [pool(limits={"cpu": "1"}), pod("a", "1", "40Gi")], tmp_path)
    assert found["changes"] == []


def test_the_named_limit_is_the_lowest_that_helps(tmp_path: Path) -> None:
    """Two pods share a limit that one machine uses up: the other needs room for one more of the smallest."""
    objects = [pool(limits={"cpu": "4"}), pod("a", "3"), pod("b", "3")]
    found = [answer(f"pod/{name}", objects, tmp_path) for name in "ab"]
    (refused,) = (each for each in found if not each["placed"])
    (miss,) = refused["nodePools"]
    assert miss["message"] == "with the nodes of this plan, pool default is at its limit of 4 cpu"
    assert miss["nearest"] == "would fit if the limit were 8 cpu"


def test_a_pod_that_no_node_can_ever_serve_is_told_so(tmp_path: Path) -> None:
    """A pod that the provisioner ignores is told why, without asking any NodePool."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]
    found = answer("pod/a", [pool(), pod("a", volumes=volumes)], tmp_path)
    assert (found["placed"], found["nodePools"], found["changes"]) == (False, [], [])
    assert "absent" in found["because"][0]
