"""The moves a packer can make: what forbids them, and what they change for later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from karpenter.api.labels import ARCH, HOSTNAME, INSTANCE_TYPE, ON_DEMAND, ZONE
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.scheduling.pack.scheduler import NewClaim
from karpenter.core.scheduling.pack.topologygroup import TopologyType
from karpenter.core.scheduling.problem import Options, PodVolumes
from karpenter_local.testing.builders import (
    NodeWithPods,
    affinity_term,
    instance_type,
    node,
    offering,
    offerings,
    pod,
    pool,
    problem,
    replicas,
    spread,
)
from tests.unit.core.scheduling.pack.schedulers import bins, fresh, placed, pod_data_of, unlabelled

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

T4 = instance_type("t4", cpu=4, memory=8)
T8 = instance_type("t8", cpu=8, memory=16)
ARM = instance_type("arm", cpu=8, memory=16, arch="arm64")
POOL = pool("p", T4, T8)


def test_a_node_takes_what_it_has_room_for() -> None:
    """Putting pods on a node leaves so much less."""
    scheduler = fresh(problem(replicas(pod("a", cpu="1500m"), 3), nodes=[node("n", free={"cpu": "4"})]))
    pod_data = pod_data_of(scheduler, "a-000")

    before = scheduler.node_takes(pod_data, 0)
    scheduler.put_on_node(pod_data, 0, 2)

    assert (before, scheduler.node_takes(pod_data, 0)) == (True, False)
    assert scheduler.nodes_for(pod_data).tolist() == []
    assert [(placement.bin, placement.pod_count) for placement in scheduler.placements] == [(0, 2)]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(node("n"), True, id="a free node"),
        pytest.param(node("n", ports=(HostPort(80),)), False, id="its port is taken"),
        pytest.param(node("n", ports=(HostPort(81),)), True, id="another port is taken"),
        pytest.param(node("n", volume_limits={"csi": 0}), False, id="no more volumes can be attached"),
        pytest.param(
            node("n", volumes={"csi": frozenset({"default/c"})}, volume_limits={"csi": 1}),
            True,
            id="its volume is there",
        ),
        pytest.param(node("n", pod("b", app="b")), False, id="who it avoids is there"),
    ],
)
def test_what_keeps_a_pod_off_a_node(there: NodeWithPods, expected: bool) -> None:
    """Room, ports, volumes and topology are all checked."""
    one = pod("a", ports=[80], apart=[affinity_term(HOSTNAME, app="b")])
    volumes = {"default/a": PodVolumes(claims={"csi": frozenset({"default/c"})})}
    scheduler = fresh(problem(one, nodes=[there], volumes=volumes))

    assert scheduler.node_takes(pod_data_of(scheduler, "a"), 0) is expected


def test_ports_and_volumes_that_were_given_are_taken() -> None:
    """What one pod was given on a node is not given to another."""
    volumes = {f"default/{name}": PodVolumes(claims={"csi": frozenset({name})}) for name in "ab"}
    scheduler = fresh(
        problem(
            pod("a", ports=[80]),
            pod("b", ports=[81]),
            pod("c", ports=[80]),
            nodes=[node("n", volume_limits={"csi": 1})],
            volumes=volumes,
        )
    )

    scheduler.put_on_node(pod_data_of(scheduler, "a"), 0)

    assert not scheduler.fits_ports(pod_data_of(scheduler, "c"), 0)
    assert scheduler.fits_ports(pod_data_of(scheduler, "b"), 0)
    assert not scheduler.fits_volumes(pod_data_of(scheduler, "b"), 0)


def test_pods_on_nodes_count_in_their_domains() -> None:
    """A pod on a node counts in its zone and on the node itself."""
    both = [spread(ZONE, app="a"), spread(HOSTNAME, app="a")]
    scheduler = fresh(problem(pod("a", app="a", spreads=both), nodes=[node("n", zone="zone-2")]))
    pod_data = pod_data_of(scheduler, "a")

    scheduler.put_on_node(pod_data, 0)

    assert pod_data.demands.domains[0].group.counts == {"zone-2": 1}
    assert pod_data.demands.hosts[0].group.hosts[0] == 1


def test_pods_on_nodes_without_the_label_count_nowhere() -> None:
    """A node that is in no zone adds nothing to any zone."""
    scheduler = fresh(
        problem(
            pod("a", app="a"),
            pod("x", cpu="9", app="x", spreads=[spread(ZONE, app="a")]),
            nodes=[unlabelled(node("n"), ZONE)],
        )
    )

    scheduler.put_on_node(pod_data_of(scheduler, "a"), 0)

    assert pod_data_of(scheduler, "x").demands.domains[0].group.counts == {}


def test_a_spread_that_does_not_look_at_a_node_hides_no_other() -> None:
    """A pod on a node counts for every spread that looks at the node, whatever others do."""
    owners = [
        pod("x", cpu="9", app="x", on={ARCH: "arm64"}, spreads=[spread(ZONE, app="a")]),
        pod("y", cpu="9", app="y", spreads=[spread(ZONE, app="a")]),
        pod("z", cpu="9", app="z", on={ARCH: "arm64"}, spreads=[spread(ZONE, skew=2, app="a")]),
    ]
    scheduler = fresh(problem(pod("a", app="a"), *owners, nodes=[node("n", zone="zone-2")]))

    scheduler.put_on_node(pod_data_of(scheduler, "a"), 0)

    counted = [pod_data_of(scheduler, each.name).demands.domains[0].group.counts for each in owners]
    assert [counts.get("zone-2", 0) for counts in counted] == [0, 1, 0]


def test_only_nodes_that_a_spread_looks_at_count() -> None:
    """A pod on a node or claim that the spread's owner could not use does not count."""
    owner = pod("x", cpu="9", app="x", on={ARCH: "arm64"}, spreads=[spread(ZONE, app="a")])
    given = problem(replicas(pod("a", app="a", cpu="3"), 2), owner, pools=[pool("p", T4)], nodes=[node("n")])

    scheduler = placed(given)

    assert bins(scheduler) == [["a-001"]]
    assert sum(pod_data_of(scheduler, "x").demands.domains[0].group.counts.values()) == 0


def test_opening_a_claim() -> None:
    """A claim starts in the state that its first pod narrows the pool to."""
    scheduler = fresh(problem(pod("a", on={ZONE: "zone-1"}), pools=[POOL]))
    pod_data = pod_data_of(scheduler, "a")

    new_claim = scheduler.new_claim(pod_data, scheduler.templates[0])
    assert new_claim is not None
    claim = scheduler.open(new_claim)
    scheduler.put_on_claim(pod_data, claim, new_claim.state)

    assert new_claim.state.domains(ZONE) == frozenset({"zone-1"})
    assert (scheduler.claims.count, int(scheduler.claims.pods[0])) == (1, 1)


@pytest.mark.parametrize(
    ("one", "limits"),
    [
        pytest.param(pod("a", cpu="64"), {}, id="too large"),
        pytest.param(pod("a", on={ZONE: "x"}), {}, id="nowhere sold"),
        pytest.param(
            pod("a", near=[affinity_term(HOSTNAME, app="b")]), {}, id="a new node has no matching pods"
        ),
        pytest.param(pod("a"), {"nodes": "0"}, id="no more nodes allowed"),
        pytest.param(pod("a"), {"cpu": "3"}, id="every type beyond the limit"),
    ],
)
def test_what_keeps_a_claim_from_being_opened(one: Pod, limits: dict[str, str]) -> None:
    """A claim is only opened for a pod that it can hold."""
    scheduler = fresh(problem(one, pools=[pool("p", T4, T8, limits=limits)]))

    assert scheduler.new_claim(pod_data_of(scheduler, "a"), scheduler.templates[0]) is None


def test_a_claim_takes_a_pod_by_the_first_way_with_room() -> None:
    """When the best zone has no machine that holds all pods of a claim, the next is tried."""
    kinds = [
        instance_type("small", cpu=4, sold=[offering("zone-1", ON_DEMAND, 0.1)]),
        instance_type("large", cpu=8, sold=[offering("zone-2", ON_DEMAND, 0.9)]),
    ]
    given = problem(
        pod("a", cpu="3"),
        pod("b", cpu="2", app="b", spreads=[spread(ZONE, app="b")]),
        pools=[pool("p", *kinds)],
    )

    scheduler = placed(given)

    assert bins(scheduler) == [["a", "b"]]
    assert scheduler.claims.states[0].domains(ZONE) == frozenset({"zone-2"})


def test_a_claim_refuses_who_does_not_fit_in_any_way() -> None:
    """A claim says what it would become, or that it cannot."""
    scheduler = placed(
        problem(pod("a", cpu="7"), pod("b", cpu="2", on={ZONE: "zone-1"}), pod("c"), pools=[POOL])
    )

    assert scheduler.next_state(pod_data_of(scheduler, "b"), 0) is None
    assert scheduler.next_state(pod_data_of(scheduler, "c"), 0) is scheduler.claims.states[0]


def test_filling_takes_no_more_than_topology_allows() -> None:
    """A claim that already has who the pods avoid takes none of them."""
    scheduler = fresh(
        problem(
            pod("a", app="a"),
            replicas(pod("b", cpu="50m", apart=[affinity_term(HOSTNAME, app="a")]), 2),
            pools=[POOL],
        )
    )
    pod_data = pod_data_of(scheduler, "a")
    new_claim = scheduler.new_claim(pod_data, scheduler.templates[0])
    assert new_claim is not None
    claim = scheduler.open(new_claim)

    taken = (
        scheduler.fill(pod_data, claim, new_claim.state, 1),
        scheduler.fill(pod_data_of(scheduler, "b-000"), claim, new_claim.state, 2),
    )

    assert taken == (1, 0)


def test_anti_affinity_blocks_every_zone_that_a_claim_could_get() -> None:
    """While a claim's zone is open, a pod that avoids others counts in all of them."""
    scheduler = placed(problem(pod("a", app="a", apart=[affinity_term(ZONE, app="a")]), pools=[POOL]))

    groups = {group.kind: group.counts for group in scheduler.counting(pod_data_of(scheduler, "a"))}

    assert groups == {
        kind: {"zone-1": 1, "zone-2": 1, "zone-3": 1}
        for kind in (TopologyType.POD_ANTI_AFFINITY, TopologyType.INVERSE_ANTI_AFFINITY)
    }


def test_whether_a_first_pod_could_start_a_claim() -> None:
    """Limits and reservations are asked where they matter, and the frontier where not."""
    scheduler = fresh(problem(pod("a", cpu="6"), pools=[POOL, pool("q", T4, T8, limits={"cpu": "4"})]))
    want = pod_data_of(scheduler, "a").pod_class.want

    plain, limited = (scheduler.base(template) for template in scheduler.templates)

    assert scheduler.starts(plain, want)
    assert not scheduler.starts(limited, want)


def test_limits_are_counted_before_a_claim_is_opened() -> None:
    """A limit that the next claim may exceed is counted exactly from then on, however claims are opened."""
    scheduler = fresh(problem(pod("a"), pools=[pool("p", T4, T8, limits={"cpu": "15"})]))
    state = scheduler.base(scheduler.templates[0])

    scheduler.open(NewClaim(state))
    between = scheduler.pool_limits[0].is_exact
    scheduler.open(NewClaim(state))

    assert (between, scheduler.pool_limits[0].is_exact) == (False, True)


def test_what_claims_may_release() -> None:
    """Only reservations and limits that bind can be given back."""
    reserved = instance_type(
        "r", sold=[*offerings(0.1), offering("zone-1", "reserved", 0.01, reservation="r", left=1)]
    )

    assert not fresh(problem(pod("a"), pools=[POOL])).may_release()
    assert fresh(problem(pod("a"), pools=[pool("p", reserved)])).may_release()
    assert placed(problem(pod("a"), pools=[pool("p", T4, T8, limits={"cpu": "7"})])).may_release()


def test_minimum_values_are_kept_when_a_claim_is_narrowed() -> None:
    """A pod that would leave a claim with too little choice goes elsewhere."""
    given = problem(
        pod("a", cpu="1"),
        pod("b", cpu="500m", on={INSTANCE_TYPE: "t8"}),
        pools=[pool("p", T4, T8, min_values={INSTANCE_TYPE: 2}), pool("q", T8)],
        options=Options(packing="greedy"),
    )

    scheduler = placed(given)

    assert bins(scheduler) == [["a"], ["b"]]
    assert [state.template.number for state in scheduler.claims.states] == [0, 1]
