"""Why pods have no place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NO_SCHEDULE,
    NODEPOOL,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from karpenter.api.node import Taint
from karpenter.core.model.requirement import requirement
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.encode.encode import EncodedProblem
from karpenter.core.scheduling.pack.scheduler import Scheduler
from karpenter.core.scheduling.problem import Options, PodVolumes, Pool, Problem, Reason
from karpenter.core.scheduling.solve import bought_for, explain, limit_sentence, solve
from karpenter_local.testing.builders import (
    RESERVATION,
    affinity_term,
    instance_type,
    need,
    node,
    offering,
    offerings,
    only,
    pod,
    pool,
    problem,
    replicas,
    spread,
    taint,
)

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import InstanceType

REFERENCE: Final = Path(__file__).parents[4] / "docs" / "reference" / "plan.md"
SMALL: Final = instance_type("small", cpu=2, memory=4)
LARGE: Final = instance_type("large", cpu=8, memory=16)
ARM: Final = instance_type("arm", cpu=4, memory=8, arch="arm64")
RACKS: Final = "example.com/rack"


def reserved(left: int, *, name: str = "metal", cpu: int = 4) -> Pool:
    """Return a pool of one type that is only sold out of a reservation."""
    sold = [offering("zone-1", "reserved", 0.001, reservation="r1", left=left)]
    return pool("p", instance_type(name, cpu=cpu, sold=sold))


def zonal(name: str, zone: str, *, cpu: int = 4) -> Pool:
    """Return a pool of one type that is only sold in one zone."""
    return pool("p", instance_type(name, cpu=cpu, sold=offerings(0.1, zones=[zone])))


def with_volume(zone: str, *, cpu: str = "1") -> Problem:
    """Return the problem of a pod whose volume is in one zone, of which one pool knows two."""
    kinds = [
        instance_type("a", cpu=4, sold=offerings(0.1, zones=["zone-1"])),
        instance_type("b", cpu=2, sold=offerings(0.1, zones=["zone-2"])),
    ]
    volumes = PodVolumes(alternatives=(Requirements.only(ZONE, frozenset({zone})),))
    return problem(pod("x", cpu=cpu), pools=[pool("p", *kinds)], volumes={"default/x": volumes})


def with_whole_limits(left: dict[str, int], whole: dict[str, int]) -> Pool:
    """Return a pool of large machines whose limits leave so much."""
    return msgspec.structs.replace(pool("p", LARGE), limits=left, whole_limits=whole)


def with_zone_limits() -> Problem:
    """Return the problem of a pod that may only go where machines exceed the limit."""
    kinds = [
        instance_type("a", cpu=4, sold=offerings(0.1, zones=["zone-1"])),
        instance_type("b", cpu=16, sold=offerings(0.4, zones=["zone-2"])),
    ]
    there = node("n", pod("y", app="web"), zone="zone-2", free={"cpu": "0"})
    near = pod("x", cpu="1", near=[affinity_term(ZONE, app="web")])
    return problem(near, pools=[pool("p", *kinds, limits={"cpu": "10"})], nodes=[there])


def reason_of(given: Problem, name: str = "x") -> Reason:
    """Return the only reason why a pod was refused."""
    refusal = next(each for each in solve(given).refusals if each.pod == f"default/{name}")
    (reason,) = refusal.reasons
    return reason


CASES: Final = [
    pytest.param(
        problem(pod("x", on={ARCH: "amd64"}, terms=[[only(ARCH, "arm64")]]), pools=[pool("p", SMALL, ARM)]),
        "Contradiction",
        "what the pod asks of label kubernetes.io/arch contradicts itself",
        id="a selector and an affinity that exclude each other are a contradiction",
    ),
    pytest.param(
        problem(pod("x"), pools=[pool("p", SMALL, taints=(taint("dedicated"),))]),
        "TaintNotTolerated",
        "the pod does not tolerate the taint dedicated:NoSchedule",
        id="an untolerated taint is named with its effect",
    ),
    pytest.param(
        problem(
            pod("x"), pools=[pool("p", SMALL, taints=(Taint(key="team", value="ml", effect=NO_SCHEDULE),))]
        ),
        "TaintNotTolerated",
        "the pod does not tolerate the taint team=ml:NoSchedule",
        id="a taint is named with its value, if it has one",
    ),
    pytest.param(
        problem(pod("x", on={"team": "red"}), pools=[pool("p", SMALL)]),
        "RequirementsNotMet",
        "label team has no known values (pod wants team In [red])",
        id="a label that the pool does not define is named",
    ),
    pytest.param(
        problem(pod("x", on={ARCH: "arm64"}), pools=[pool("p", ARM, requires=[only(ARCH, "amd64")])]),
        "RequirementsNotMet",
        "pod wants kubernetes.io/arch In [arm64], node has kubernetes.io/arch In [amd64]",
        id="a requirement that the pool contradicts is told from both sides",
    ),
    pytest.param(
        problem(
            pod("x", terms=[[need(RESERVATION, "Exists")]]),
            pools=[pool("p", SMALL, requires=[need(RESERVATION, "NotIn", "r9")])],
        ),
        "RequirementsNotMet",
        f"no instance type satisfies {RESERVATION} Exists",
        id="a label that must exist but that no type has is named",
    ),
    pytest.param(
        problem(pod("x"), pools=[pool("p")]),
        "NoInstanceTypes",
        "the pool has no instance types",
        id="a pool without types says so",
    ),
    pytest.param(
        problem(pod("x"), pools=[pool("p", SMALL, requires=[only(ARCH, "arm64")])]),
        "NoInstanceTypes",
        "no available instance type satisfies the pool's requirement kubernetes.io/arch In [arm64]",
        id="a pool whose requirements leave no type names the one that does",
    ),
    pytest.param(
        problem(
            pod("x"),
            pools=[pool("p", instance_type("t", sold=[offering("zone-1", SPOT, 0.1, available=False)]))],
        ),
        "NoOfferingAvailable",
        "no offering of any instance type is available",
        id="a sold-out pool says so",
    ),
    pytest.param(
        problem(pod("x", on={ZONE: "zone-9"}), pools=[pool("p", SMALL, LARGE)]),
        "NoInstanceTypeMatches",
        "none of the 2 instance types that are left satisfies topology.kubernetes.io/zone In [zone-9] in an "
        "available offering",
        id="a requirement that no offering satisfies is told with how many types were left",
    ),
    pytest.param(
        problem(pod("x", cpu="16", memory="20Gi"), pools=[pool("p", SMALL, LARGE)]),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants cpu 16, the most is 8 of 8 on large; "
        "wants memory 20Gi, the most is 16Gi of 16Gi on large",
        id="a pod that is too large is told every resource that is short, and the most there is",
    ),
    pytest.param(
        problem(pod("x", cpu="8", memory="20Gi"), pools=[pool("p", SMALL, LARGE)]),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants memory 20Gi, the most is 16Gi of 16Gi on "
        "large",
        id="a resource that just fits is not among those that are short",
    ),
    pytest.param(
        problem(pod("x", cpu="1", resources={"example.com/gpu": "1"}), pools=[pool("p", SMALL)]),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants example.com/gpu 1, the most is 0 of 0 on "
        "small",
        id="a resource that no type has is told as none",
    ),
    pytest.param(
        problem(
            pod("x", cpu="4", memory="12Gi"),
            pools=[pool("p", instance_type("c", cpu=8, memory=8), instance_type("m", cpu=2, memory=16))],
        ),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: no single one of 2 types has room for all of it: "
        "c comes nearest with memory 8Gi for 12Gi",
        id="a pod that no single type holds is told which comes nearest",
    ),
    pytest.param(
        problem(pod("x", cpu="1000"), pools=[pool("p", SMALL)]),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants cpu 1000, the most is 2 of 2 on small "
        "(is M written where m is meant?)",
        id="an absurd amount of cpu is taken for a slip of the pen",
    ),
    pytest.param(
        problem(
            pod("x", cpu="2"), pools=[pool("p", SMALL)], daemons=[pod("agent", cpu="300m", memory="64Mi")]
        ),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants cpu 2, the most is 1.7 of 2 on small",
        id="what daemons take off the largest type is seen in the figures",
    ),
    pytest.param(
        problem(pod("x", memory="4294967297"), pools=[pool("p", instance_type("t", cpu=2, memory=4))]),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants memory 4294967297, the most is 4Gi of 4Gi "
        "on t",
        id="amounts that look alike when they are short are written out",
    ),
    pytest.param(
        with_volume("zone-2", cpu="3"),
        "NoInstanceTypeFits",
        "the pod is too large for every instance type left: wants cpu 3, the most is 2 of 2 on b",
        id="only the types that reach the pod's volume count",
    ),
    pytest.param(
        problem(pod("x"), pools=[pool("p", SMALL, limits={"nodes": "0"})]),
        "LimitReached",
        "the pool's limit on nodes is reached",
        id="a limit on nodes that is used up is named",
    ),
    pytest.param(
        problem(pod("x"), pools=[with_whole_limits({"nodes": 0}, {"nodes": 3})]),
        "LimitReached",
        "pool p is at its limit of 3 nodes",
        id="a limit on nodes that is known whole is told with its number",
    ),
    pytest.param(
        problem(
            pod("x"),
            pools=[with_whole_limits({"cpu": -2000, "memory": 8}, {"cpu": 40_000, "memory": 2**36})],
        ),
        "LimitReached",
        "pool p is at its limit of 40 cpu",
        id="a limit that is used up is told with its amount and those with room are not",
    ),
    pytest.param(
        problem(pod("x"), pools=[pool("p", LARGE, limits={"cpu": "6", "memory": "64Gi"})]),
        "LimitReached",
        "every instance type that would do exceeds the pool's limits, which leave cpu 6, memory 64Gi",
        id="a limit that no type respects is told with what it leaves",
    ),
    pytest.param(
        problem(
            msgspec.structs.replace(pod("x")),
            pools=[msgspec.structs.replace(pool("p", LARGE), limits={"cpu": -2000})],
        ),
        "LimitReached",
        "every instance type that would do exceeds the pool's limits, which leave cpu 0",
        id="a limit that is exceeded already leaves nothing",
    ),
    pytest.param(
        with_zone_limits(),
        "LimitReached",
        "every instance type that would do exceeds the pool's limits, which leave cpu 10",
        id="a limit that only the machines of the right zone exceed is named",
    ),
    pytest.param(
        with_volume("zone-3"),
        "VolumeNotReachable",
        "the pod's volumes can only be reached from topology.kubernetes.io/zone In [zone-3]",
        id="a volume out of reach is told with where it can be reached from",
    ),
    pytest.param(
        problem(
            pod("x", app="web", spreads=[spread(ZONE, app="web")], on={ZONE: "zone-1"}),
            pools=[zonal("t", "zone-1")],
            nodes=[
                node("n", pod("y", app="web"), pod("z", app="web"), zone="zone-1", free={"cpu": "0"}),
                node("m", zone="zone-1", free={"cpu": "0"}),
            ],
        ),
        None,
        "",
        id="a spread over the only zone that the pod allows never refuses it",
    ),
    pytest.param(
        problem(
            pod("x", app="web", spreads=[spread(ZONE, app="web")]),
            pools=[zonal("t", "zone-1")],
            nodes=[
                node("n", pod("y", app="web"), zone="zone-1", free={"cpu": "0"}),
                node("m", zone="zone-2", free={"cpu": "0"}),
            ],
        ),
        "TopologySpreadNotMet",
        "topology spread over topology.kubernetes.io/zone allows a skew of 1 for pods matching app=web; "
        "pods per domain: zone-1 1, zone-2 0",
        id="a spread is told with its skew and the counts of all domains",
    ),
    pytest.param(
        problem(pod("x", near=[affinity_term(ZONE, app="db")]), pools=[pool("p", SMALL)]),
        "PodAffinityNotMet",
        "pod affinity wants a topology.kubernetes.io/zone that has pods matching app=db; "
        "pods per domain: zone-1 0, zone-2 0, zone-3 0",
        id="an affinity to pods that are nowhere is told with all counts",
    ),
    pytest.param(
        problem(pod("x", near=[affinity_term(HOSTNAME, app="db")]), pools=[pool("p", SMALL)]),
        "PodAffinityNotMet",
        "the pod must share a node with pods matching app=db, and no such node takes it",
        id="an affinity to the pods of a node says that no node takes it",
    ),
    pytest.param(
        problem(
            pod("x", app="web", near=[affinity_term(HOSTNAME, app="web"), affinity_term(HOSTNAME, app="db")]),
            pools=[pool("p", SMALL)],
        ),
        "PodAffinityNotMet",
        "the pod must share a node with pods matching app=db, and no such node takes it",
        id="of two affinities the one that cannot be met is told",
    ),
    pytest.param(
        problem(
            pod("x", app="web", apart=[affinity_term(ZONE, app="web")]),
            pools=[zonal("t", "zone-1")],
            nodes=[node("n", pod("y", app="web"), zone="zone-1", free={"cpu": "0"})],
        ),
        "PodAntiAffinityNotMet",
        "pod anti-affinity wants a topology.kubernetes.io/zone without pods matching app=web; "
        "pods per domain: zone-1 1",
        id="an anti-affinity is told with the counts of all domains",
    ),
    pytest.param(
        problem(
            pod("x", app="web"),
            pools=[zonal("t", "zone-1")],
            nodes=[
                node("n", pod("y", apart=[affinity_term(ZONE, app="web")]), zone="zone-1", free={"cpu": "0"})
            ],
        ),
        "PodAntiAffinityNotMet",
        "other pods keep pods matching app=web out of their topology.kubernetes.io/zone by anti-affinity; "
        "pods per domain: zone-1 1",
        id="the anti-affinity of another pod is told as the other pod's",
    ),
    pytest.param(
        problem(
            pod("x", cpu="4", near=[affinity_term(ZONE, app="db")]),
            pools=[
                pool(
                    "p",
                    instance_type("a", cpu=2, sold=offerings(0.1, zones=["zone-1"])),
                    instance_type("b", cpu=8, sold=offerings(0.1, zones=["zone-2"])),
                )
            ],
            nodes=[node("n", pod("y", app="db"), zone="zone-1", free={"cpu": "0"})],
        ),
        "PodAffinityNotMet",
        "pod affinity wants a topology.kubernetes.io/zone that has pods matching app=db; "
        "pods per domain: zone-1 1, zone-2 0",
        id="a zone with matching pods but no room is told with the counts",
    ),
    pytest.param(
        problem(pod("x", app="web", spreads=[spread(RACKS, app="web")]), pools=[pool("p", SMALL)]),
        "TopologyNotMet",
        "nodes of this pool have no label example.com/rack",
        id="a spread over a label that nodes of the pool never have says so",
    ),
    pytest.param(
        problem(
            pod("x", near=[affinity_term(ZONE, app="db")], apart=[affinity_term(ZONE, app="web")]),
            pools=[pool("p", SMALL)],
            nodes=[
                node("n", pod("y", app="db"), pod("z", app="web"), zone="zone-1", free={"cpu": "0"}),
            ],
        ),
        "TopologyNotMet",
        "no domain satisfies all of: pod affinity wants a topology.kubernetes.io/zone that has pods matching "
        "app=db; pod anti-affinity wants a topology.kubernetes.io/zone without pods matching app=web",
        id="demands that can only be met one by one are told together",
    ),
    pytest.param(
        problem(pod("x", app="web", spreads=[spread(HOSTNAME, app="web", skew=0)]), pools=[pool("p", SMALL)]),
        "TopologySpreadNotMet",
        "topology spread over kubernetes.io/hostname allows a skew of 0 for pods matching app=web",
        id="a spread over nodes that allows no pod at all is told",
    ),
    pytest.param(
        problem(pod("x", ports=[80]), pools=[pool("p", SMALL)], daemons=[pod("agent", ports=[80])]),
        "HostPortTaken",
        "a daemon of every node takes a host port that the pod wants (0.0.0.0:80/TCP)",
        id="a host port that a daemon has on every node is named",
    ),
    pytest.param(
        problem(
            pod("x", ports=[81]),
            pools=[pool("p", SMALL, min_values={INSTANCE_TYPE: 2})],
            daemons=[pod("agent", ports=[80])],
        ),
        "MinValuesNotMet",
        "minValues of the pool cannot be kept with this pod: node.kubernetes.io/instance-type has 1 of 2",
        id="another port of a daemon is not to blame for too little choice",
    ),
    pytest.param(
        problem(
            pod("x", cpu="4"),
            pools=[pool("p", SMALL, LARGE, ARM, min_values={INSTANCE_TYPE: 3, CAPACITY_TYPE: 2})],
        ),
        "MinValuesNotMet",
        "minValues of the pool cannot be kept with this pod: node.kubernetes.io/instance-type has 2 of 3",
        id="only keys with too few values are told",
    ),
    pytest.param(
        problem(
            replicas(pod("y", app="y", cpu="200m", apart=[affinity_term(HOSTNAME, app="y")]), 2),
            pod("x", app="y", apart=[affinity_term(HOSTNAME, app="y")]),
            pools=[pool("p", SMALL, ARM, LARGE, min_values={INSTANCE_TYPE: 2}, limits={"cpu": "11"})],
        ),
        "MinValuesNotMet",
        "minValues of the pool cannot be kept with this pod: node.kubernetes.io/instance-type has 1 of 2",
        id="choice that the limits no longer leave does not count",
    ),
    pytest.param(
        problem(pod("x"), pools=[reserved(left=0)]),
        "ReservationExhausted",
        "every reservation that the pod could use is taken",
        id="reserved capacity that is used up is named",
    ),
    pytest.param(
        problem(
            pod("x"), pools=[reserved(left=0)], options=Options(min_values="BestEffort", reserved="fallback")
        ),
        "ReservationExhausted",
        "every reservation that the pod could use is taken",
        id="reserved capacity that is used up is named whatever the policy about choice is",
    ),
]


@pytest.mark.parametrize(("given", "code", "message"), CASES)
def test_reason(given: Problem, code: str | None, message: str) -> None:
    """A pod without a place is told the first thing that stands in its way, pool by pool, in numbers."""
    if code is None:
        assert solve(given).refusals == ()
        return

    reason = reason_of(given)

    assert (reason.pool, reason.code, reason.message) == ("p", code, message)


def test_every_code_is_documented_and_has_a_case() -> None:
    """The reference names the codes that there are, and each is tried here, or with devices."""
    page = REFERENCE.read_text(encoding="utf-8").partition("## Codes of `reasons`")[2]
    tried = {code for case in CASES if (code := case.values[1])}

    assert tried | {"DevicesNotAvailable"} == set(re.findall(r"`(\w+)`", page))


def test_many_domains_are_cut_short() -> None:
    """No more than 25 domains are counted out loud."""
    zones = [f"zone-{number:02d}" for number in range(30)]
    kind = instance_type("t", sold=offerings(0.1, zones=zones))

    reason = reason_of(problem(pod("x", near=[affinity_term(ZONE, app="db")]), pools=[pool("p", kind)]))

    assert reason.message.endswith("zone-23 0, zone-24 0 and 5 others")


def test_a_label_without_domains_is_said_to_have_none() -> None:
    """Where no node can have a label at all, there is nothing to count."""
    roomy = pool("p", SMALL, requires=[need(RACKS, "Exists")])

    reason = reason_of(problem(pod("x", near=[affinity_term(RACKS, app="db")]), pools=[roomy]))

    assert reason.code == "PodAffinityNotMet"
    assert reason.message.endswith("pods per domain: there are no domains")


def test_every_pool_gives_its_own_reason() -> None:
    """With several pools the sentence is made of theirs, in the order in which they are tried."""
    pools = [pool("a", SMALL, taints=(taint("gpu"),)), pool("b", SMALL, requires=[only(ARCH, "arm64")])]

    (refusal,) = solve(problem(pod("x"), pools=pools)).refusals

    assert [each.code for each in refusal.reasons] == ["TaintNotTolerated", "NoInstanceTypes"]
    assert refusal.message == (
        "none of 2 NodePools can serve the pod: a: the pod does not tolerate the taint gpu:NoSchedule; "
        "b: no available instance type satisfies the pool's requirement kubernetes.io/arch In [arm64]"
    )


def test_one_pool_needs_no_list() -> None:
    """With one pool the sentence names it and its reason."""
    (refusal,) = solve(problem(pod("x"), pools=[pool("a", SMALL, taints=(taint("gpu"),))])).refusals

    assert refusal.message == "NodePool a: the pod does not tolerate the taint gpu:NoSchedule"


def test_without_pools_nothing_can_be_launched() -> None:
    """Without NodePools a refusal has no reasons."""
    (refusal,) = solve(problem(pod("x"))).refusals

    assert (refusal.message, refusal.reasons) == ("no NodePool is ready to launch nodes", ())


def test_pods_that_were_not_looked_at_are_told_so() -> None:
    """A pod that nothing stands in the way of is only without a place when the search was stopped."""
    (refusal,) = solve(
        problem(pod("x"), pools=[pool("p", SMALL)], options=Options(stop=lambda: True))
    ).refusals

    assert refusal.message == "the search was stopped before a place for the pod was found"
    assert refusal.reasons == ()


def test_a_pod_that_could_be_served_has_no_obstacle() -> None:
    """Asked about a pool that could serve a pod, nothing is found."""
    scheduler = Scheduler(EncodedProblem(problem(pod("x"), pools=[pool("p", SMALL)])))

    assert explain(scheduler, scheduler.pod_data[0][0], scheduler.templates[0]) is None


def test_the_youngest_pods_of_a_class_are_refused() -> None:
    """When some of equal pods have a place, those that come last are refused."""
    held = pool("p", SMALL, node_labels={NODEPOOL: "p"}, limits={"nodes": "2"})
    apart = replicas(pod("x", app="x", apart=[affinity_term(HOSTNAME, app="x")]), 3)

    refusals = solve(problem(apart, pools=[held])).refusals

    assert [(each.pod, each.reasons[0].code) for each in refusals] == [("default/x-002", "LimitReached")]


def test_the_last_relaxation_is_explained() -> None:
    """What a pod would have given up anyway is not said to stand in its way."""
    volumes = PodVolumes(
        alternatives=(
            Requirements.of([requirement(ZONE, "In", ["zone-8"])]),
            Requirements.of([requirement(ZONE, "In", ["zone-9"])]),
        )
    )
    either = pod("x", terms=[[only(ARCH, "riscv")], [only(CAPACITY_TYPE, ON_DEMAND)]])

    reason = reason_of(problem(either, pools=[pool("p", SMALL)], volumes={"default/x": volumes}))

    assert reason.message == (
        "the pod's volumes can only be reached from topology.kubernetes.io/zone In [zone-8] or "
        "topology.kubernetes.io/zone In [zone-9]"
    )


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        pytest.param(1, "1 pod waits for it; large in zone-1 (spot, $0.2400 an hour)", id="one pod"),
        pytest.param(2, "2 pods wait for it; large in zone-1 (spot, $0.2400 an hour)", id="two pods"),
    ],
)
def test_a_node_is_bought_for_pods(waiting: int, said: str) -> None:
    """Why a node is bought names how many pods wait for it and why it is that machine."""
    plan = solve(problem(*replicas(pod("x"), waiting), pools=[pool("p", LARGE)]))

    (told,) = (bought_for(each) for each in plan.new_nodes)
    assert told.startswith(said)
    assert told.endswith(f"is the only type that holds {'it' if waiting == 1 else 'them'}")


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param({"nodes": 0}, "pool p is at its limit of 3 nodes", id="nothing is left"),
        pytest.param({"nodes": -1}, "pool p is at its limit of 3 nodes", id="less than nothing is left"),
        pytest.param({"nodes": 1}, "", id="one is left"),
        pytest.param({}, "", id="nothing is used"),
        pytest.param({"nodes": 0, "cpu": 0}, "pool p is at its limit of 3 nodes and 4 cpu", id="two limits"),
    ],
)
def test_limits_that_are_used_up(left: dict[str, int], expected: str) -> None:
    """Each limit of which nothing is left is named with its amount."""
    assert limit_sentence("p", {"nodes": 3, "cpu": 4000}, left) == expected


def test_a_limit_that_the_plan_itself_uses_up() -> None:
    """The one node that the limit allows is launched for the first pod; the second learns that."""
    limited = msgspec.structs.replace(pool("p", LARGE, limits={"nodes": "1"}), whole_limits={"nodes": 1})
    pods = replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 2)

    (refusal,) = solve(problem(pods, pools=[limited])).refusals

    assert refusal.message == "NodePool p: with the nodes of this plan, pool p is at its limit of 1 nodes"


GPU: Final = "example.com/gpu"


@pytest.mark.parametrize(
    ("one", "kinds", "nearest"),
    [
        pytest.param(
            pod("x", cpu="4", memory="12Gi"),
            [instance_type("c", cpu=4, memory=8), instance_type("m", cpu=2, memory=16)],
            "c comes nearest with memory 8Gi for 12Gi",
            id="what just fits is not told",
        ),
        pytest.param(
            pod("x", cpu="4", resources={GPU: "1"}),
            [instance_type("plain", cpu=8), instance_type("gpu", cpu=1, resources={GPU: 1})],
            "gpu comes nearest with cpu 1 for 4",
            id="three quarters of the cores are less than the whole GPU",
        ),
        pytest.param(
            pod("x", cpu="10", memory="20Gi", resources={GPU: "1"}),
            [
                instance_type("plain", cpu=16, memory=32),
                instance_type("gpu", cpu=1, memory=2, resources={GPU: 1}),
            ],
            f"plain comes nearest with {GPU} 0 for 1",
            id="nine tenths of two resources are more",
        ),
    ],
)
def test_the_type_that_comes_nearest(one: Pod, kinds: list[InstanceType], nearest: str) -> None:
    """The type that lacks the least share of what a pod requests is told with what it lacks."""
    (refusal,) = solve(problem(one, pools=[pool("p", *kinds)])).refusals

    assert refusal.message.endswith(f"no single one of 2 types has room for all of it: {nearest}")


def test_pods_on_existing_nodes_are_no_reason_against_a_new_one() -> None:
    """The first pod takes the reservation; the second lacks that, and not a host of its own."""
    there = node("n", pod("y", app="a"), free={"cpu": "0"})
    pods = replicas(pod("a", app="a", apart=[affinity_term(HOSTNAME, app="a")]), 2)

    (refusal,) = solve(problem(pods, pools=[reserved(1)], nodes=[there])).refusals

    assert [each.code for each in refusal.reasons] == ["ReservationExhausted"]
