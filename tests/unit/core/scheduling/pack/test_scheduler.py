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
    company,
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
from tests.unit.core.scheduling.pack.runs import bins, fresh, placed, unlabelled, wish_of

if TYPE_CHECKING:
    from karpenter.api.pod import Pod
    from karpenter_local.testing.builders import Standing

T4 = instance_type("t4", cpu=4, memory=8)
T8 = instance_type("t8", cpu=8, memory=16)
ARM = instance_type("arm", cpu=8, memory=16, arch="arm64")
POOL = pool("p", T4, T8)


def test_a_node_takes_what_it_has_room_for() -> None:
    """Putting pods on a node leaves so much less."""
    run = fresh(problem(replicas(pod("a", cpu="1500m"), 3), nodes=[node("n", free={"cpu": "4"})]))
    wish = wish_of(run, "a-000")

    before = run.node_takes(wish, 0)
    run.put_on_node(wish, 0, 2)

    assert (before, run.node_takes(wish, 0)) == (True, False)
    assert run.nodes_for(wish).tolist() == []
    assert [(move.bin, move.many) for move in run.moves] == [(0, 2)]


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
def test_what_keeps_a_pod_off_a_node(there: Standing, expected: bool) -> None:
    """Room, ports, volumes and company all have a say."""
    one = pod("a", ports=[80], apart=[company(HOSTNAME, app="b")])
    volumes = {"default/a": PodVolumes(claims={"csi": frozenset({"default/c"})})}
    run = fresh(problem(one, nodes=[there], volumes=volumes))

    assert run.node_takes(wish_of(run, "a"), 0) is expected


def test_ports_and_volumes_that_were_given_are_taken() -> None:
    """What one pod was given on a node is not given to another."""
    volumes = {f"default/{name}": PodVolumes(claims={"csi": frozenset({name})}) for name in "ab"}
    run = fresh(
        problem(
            pod("a", ports=[80]),
            pod("b", ports=[81]),
            pod("c", ports=[80]),
            nodes=[node("n", volume_limits={"csi": 1})],
            volumes=volumes,
        )
    )

    run.put_on_node(wish_of(run, "a"), 0)

    assert not run.fits_ports(wish_of(run, "c"), 0)
    assert run.fits_ports(wish_of(run, "b"), 0)
    assert not run.fits_volumes(wish_of(run, "b"), 0)


def test_pods_on_nodes_count_in_their_domains() -> None:
    """A pod on a node counts in its zone and on the node itself."""
    both = [spread(ZONE, app="a"), spread(HOSTNAME, app="a")]
    run = fresh(problem(pod("a", app="a", spreads=both), nodes=[node("n", zone="zone-2")]))
    wish = wish_of(run, "a")

    run.put_on_node(wish, 0)

    assert wish.demands.domains[0].group.counts == {"zone-2": 1}
    assert wish.demands.hosts[0].group.hosts[0] == 1


def test_pods_on_nodes_without_the_label_count_nowhere() -> None:
    """A node that is in no zone adds nothing to any zone."""
    run = fresh(
        problem(
            pod("a", app="a"),
            pod("x", cpu="9", app="x", spreads=[spread(ZONE, app="a")]),
            nodes=[unlabelled(node("n"), ZONE)],
        )
    )

    run.put_on_node(wish_of(run, "a"), 0)

    assert wish_of(run, "x").demands.domains[0].group.counts == {}


def test_only_nodes_that_a_spread_looks_at_count() -> None:
    """A pod on a node or claim that the spread's owner could not use does not count."""
    owner = pod("x", cpu="9", app="x", on={ARCH: "arm64"}, spreads=[spread(ZONE, app="a")])
    given = problem(replicas(pod("a", app="a", cpu="3"), 2), owner, pools=[pool("p", T4)], nodes=[node("n")])

    run = placed(given)

    assert bins(run) == [["a-001"]]
    assert sum(wish_of(run, "x").demands.domains[0].group.counts.values()) == 0


def test_opening_a_claim() -> None:
    """A claim starts in the state that its first pod narrows the pool to."""
    run = fresh(problem(pod("a", on={ZONE: "zone-1"}), pools=[POOL]))
    wish = wish_of(run, "a")

    opening = run.opening(wish, run.templates[0])
    assert opening is not None
    claim = run.open(opening)
    run.put_on_claim(wish, claim, opening.state)

    assert opening.state.domains(ZONE) == frozenset({"zone-1"})
    assert (run.claims.count, int(run.claims.pods[0])) == (1, 1)


@pytest.mark.parametrize(
    ("one", "limits"),
    [
        pytest.param(pod("a", cpu="64"), {}, id="too large"),
        pytest.param(pod("a", on={ZONE: "x"}), {}, id="nowhere sold"),
        pytest.param(pod("a", near=[company(HOSTNAME, app="b")]), {}, id="a new node has no company"),
        pytest.param(pod("a"), {"nodes": "0"}, id="no more nodes allowed"),
        pytest.param(pod("a"), {"cpu": "3"}, id="every type beyond the limit"),
    ],
)
def test_what_keeps_a_claim_from_being_opened(one: Pod, limits: dict[str, str]) -> None:
    """A claim is only opened for a pod that it can hold."""
    run = fresh(problem(one, pools=[pool("p", T4, T8, limits=limits)]))

    assert run.opening(wish_of(run, "a"), run.templates[0]) is None


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

    run = placed(given)

    assert bins(run) == [["a", "b"]]
    assert run.claims.states[0].domains(ZONE) == frozenset({"zone-2"})


def test_a_claim_refuses_who_does_not_fit_in_any_way() -> None:
    """A claim says what it would become, or that it cannot."""
    run = placed(problem(pod("a", cpu="7"), pod("b", cpu="2", on={ZONE: "zone-1"}), pod("c"), pools=[POOL]))

    assert run.claim_way(wish_of(run, "b"), 0) is None
    assert run.claim_way(wish_of(run, "c"), 0) is run.claims.states[0]


def test_filling_takes_no_more_than_company_allows() -> None:
    """A claim that already has who the pods avoid takes none of them."""
    run = fresh(
        problem(
            pod("a", app="a"),
            replicas(pod("b", cpu="50m", apart=[company(HOSTNAME, app="a")]), 2),
            pools=[POOL],
        )
    )
    wish = wish_of(run, "a")
    opening = run.opening(wish, run.templates[0])
    assert opening is not None
    claim = run.open(opening)

    taken = run.fill(wish, claim, opening.state, 1), run.fill(wish_of(run, "b-000"), claim, opening.state, 2)

    assert taken == (1, 0)


def test_anti_affinity_blocks_every_zone_that_a_claim_could_get() -> None:
    """While a claim's zone is open, a pod that avoids others counts in all of them."""
    run = placed(problem(pod("a", app="a", apart=[company(ZONE, app="a")]), pools=[POOL]))

    groups = {group.kind: group.counts for group in run.counting(wish_of(run, "a"))}

    assert groups == {
        kind: {"zone-1": 1, "zone-2": 1, "zone-3": 1} for kind in (TopologyType.APART, TopologyType.KEPT_OFF)
    }


def test_whether_a_first_pod_could_start_a_claim() -> None:
    """Limits and reservations are asked where they matter, and the frontier where not."""
    run = fresh(problem(pod("a", cpu="6"), pools=[POOL, pool("q", T4, T8, limits={"cpu": "4"})]))
    want = wish_of(run, "a").of.want

    plain, limited = (run.base(template) for template in run.templates)

    assert run.starts(plain, want)
    assert not run.starts(limited, want)


def test_limits_are_counted_before_a_claim_is_opened() -> None:
    """A limit that the next claim may exceed is counted exactly from then on, however claims are opened."""
    run = fresh(problem(pod("a"), pools=[pool("p", T4, T8, limits={"cpu": "15"})]))
    state = run.base(run.templates[0])

    run.open(NewClaim(state))
    between = run.ledgers[0].is_exact
    run.open(NewClaim(state))

    assert (between, run.ledgers[0].is_exact) == (False, True)


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

    run = placed(given)

    assert bins(run) == [["a"], ["b"]]
    assert [state.template.number for state in run.claims.states] == [0, 1]
