"""Putting a problem together."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.cluster import Namespace, Service
from karpenter.api.meta import Resource, convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.api.pod import PodTemplate, TopologySpreadConstraint
from karpenter.api.workloads import DaemonSet
from karpenter.core.model.catalog import Catalog
from karpenter.core.scheduling.build.build import BuiltProblem, assemble
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options
from karpenter.core.state.cluster import view_of
from karpenter.core.state.statenode import state_nodes
from karpenter_local.testing.builders import manifest_pod
from karpenter_local.testing.cluster_problem import build_problem
from tests.unit.core.scheduling.build.catalogue import CATALOG, machine

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
REF = {"group": "example.com", "kind": "ThingClass", "name": "main"}

pod = partial(manifest_pod, namespace="shop", cpu="1")


def node(name: str, cpu: str = "4", **meta: Any) -> Node:
    """Return a node that Karpenter does not manage."""
    status = {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}}
    return convert({"metadata": {"name": name, **meta}, "status": status}, Node)


def pool(name: str = "default", **spec: Any) -> NodePool:
    template = {"spec": {"nodeClassRef": REF, "requirements": []}}
    return convert({"metadata": {"name": name}, "spec": {"template": template, **spec}}, NodePool)


def claim(name: str) -> NodeClaim:
    """Return a machine of the pool, with four cores."""
    plain = {
        "metadata": {"name": name, "labels": {labels.NODEPOOL: "default"}},
        "spec": {"nodeClassRef": REF, "requirements": []},
        "status": {"providerID": name, "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    }
    return convert(plain, NodeClaim)


def taken(
    *objects: Resource, catalog: Catalog = CATALOG, policy: SchedulingPolicy | None = None
) -> BuiltProblem:
    """Return the problem of a cluster that consists of these objects."""
    return build_problem(
        view_of(objects), catalog, now=NOON, options=Options(), policy=policy or SchedulingPolicy()
    )


def test_pods_to_place() -> None:
    """Pods that wait are placed, and those of leaving nodes; pods that run elsewhere are not."""
    problem = taken(
        pod("waits"),
        pod("stays", node="node-1"),
        pod("moves", node="node-2"),
        node("node-1"),
        node("node-2", **GONE),
    ).problem

    assert [each.name for each in problem.pods] == ["waits", "moves"]


def test_bound_pods_count_for_affinity() -> None:
    """Active pods that stay where they are count; those placed anew, finished or leaving do not."""
    problem = taken(
        pod("goes", node="node-1", meta=GONE),
        pod("stays", node="node-1"),
        pod("moves", node="node-2"),
        node("node-1"),
        node("node-2", **GONE),
    ).problem

    assert [(each.pod.name, each.node) for each in problem.bound_pods] == [("stays", "node-1")]


def test_anti_affinity_that_cannot_be_read() -> None:
    """A pod that runs counts, whatever it says about others; what cannot be read is named."""
    bad = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [bad]}}
    found = taken(pod("web", node="node-1", affinity=affinity), node("node-1"))

    assert [(each.pod.name, each.pod.spec.affinity) for each in found.problem.bound_pods] == [("web", None)]
    assert [said.partition(":")[0] for said in found.left_out] == ["pod shop/web keeps no distance to others"]


def test_anti_affinity_is_kept() -> None:
    """A pod that runs goes on keeping others off."""
    far = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [far]}}
    found = taken(pod("web", node="node-1", affinity=affinity), node("node-1"))

    assert (found.problem.bound_pods[0].pod.spec.affinity is not None, found.left_out) == (True, ())


def test_leaving_nodes_take_no_pods_but_are_places() -> None:
    """A node that leaves is no candidate; topology still knows it."""
    problem = taken(node("node-1"), node("node-2", **GONE)).problem

    assert ([each.name for each in problem.nodes], [each.name for each in problem.topology_nodes]) == (
        ["node-1"],
        ["node-1", "node-2"],
    )


def test_nodes_that_are_assumed_away() -> None:
    """A cluster can be looked at without some of its nodes; quiet ones are marked, moved pods are named."""
    view = view_of([node("node-1"), node("node-2"), pod("web", node="node-1")])
    problem = assemble(
        view,
        CATALOG,
        nodes=state_nodes(view),
        pods=[view.pods["shop/web"]],
        options=Options(),
        policy=SchedulingPolicy(),
        quiet=frozenset({"node-2"}),
        moved=frozenset({"shop/web"}),
        without=frozenset({"node-1"}),
    ).problem

    assert [(each.name, each.quiet) for each in problem.nodes] == [("node-2", True)]
    assert [each.name for each in problem.topology_nodes] == ["node-2"]
    assert (problem.moved, problem.bound_pods) == (frozenset({"shop/web"}), ())


def test_limits_count_what_is_there() -> None:
    """What a pool may still launch is what its machines leave of its limits."""
    found = taken(pool(limits={"cpu": "10", "nodes": "3"}), claim("a"))

    assert found.problem.pools[0].limits == {"cpu": 6000, "nodes": 2}


def test_pools_that_may_not_launch_are_left_out_and_named() -> None:
    """The solver sees only pools that may launch nodes; the others are named with the reason."""
    found = taken(pool("good"), pool("bad", replicas=1))

    assert [each.name for each in found.problem.pools] == ["good"]
    assert [(each.pool.name, bool(each.obstacle)) for each in found.pools] == [("good", False), ("bad", True)]


def test_namespaces_are_known_by_their_labels() -> None:
    """Affinity over namespaces needs their labels."""
    plain = {"metadata": {"name": "shop", "labels": {"team": "web"}}}

    assert taken(convert(plain, Namespace)).problem.namespaces == {"shop": {"team": "web"}}


def test_default_spread() -> None:
    """Pods that ask for no spread get the cluster's."""
    default = TopologySpreadConstraint(max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule")
    service = {"metadata": {"name": "s", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
    problem = taken(
        pod("web", meta={"labels": {"app": "web"}}),
        convert(service, Service),
        policy=SchedulingPolicy(spread_defaults=(default,)),
    ).problem

    assert list(problem.spread_defaults) == ["shop/web"]


@pytest.mark.parametrize(("gate", "expected"), [(True, 2), (False, 0)], ids=["on", "off"])
def test_buffers_are_behind_a_gate(gate: bool, expected: int) -> None:
    """Virtual pods are placed where buffers are on."""
    spec = {"podTemplateRef": {"name": "t"}, "replicas": 2}
    buffer = convert({"metadata": {"name": "b", "namespace": "shop"}, "spec": spec}, CapacityBuffer)
    template = convert({"metadata": {"name": "t", "namespace": "shop"}}, PodTemplate)

    assert len(taken(buffer, template, policy=SchedulingPolicy(buffers=gate)).problem.pods) == expected


@pytest.mark.parametrize(
    ("gate", "expected"), [(True, {3.0}), (False, {0.5, 1.0, 2.0, 4.0})], ids=["on", "off"]
)
def test_overlays_are_behind_a_gate(gate: bool, expected: set[float]) -> None:
    """Prices are corrected where overlays are on."""
    plain = {"metadata": {"name": "o"}, "spec": {"requirements": [], "price": "3"}}
    found = taken(pool(), convert(plain, NodeOverlay), policy=SchedulingPolicy(overlays=gate)).problem.pools[
        0
    ]

    assert {each.price for kind in found.types for each in kind.offerings} == expected


RESERVED = Catalog(types=(machine("small", capacity_types=(labels.ON_DEMAND, labels.RESERVED)),))


@pytest.mark.parametrize(
    ("gate", "expected"), [(True, ["on-demand", "reserved"]), (False, ["on-demand"])], ids=["on", "off"]
)
def test_reserved_capacity_is_behind_a_gate(gate: bool, expected: list[str]) -> None:
    """Reserved offerings are bought where reserved capacity is on."""
    found = taken(pool(), catalog=RESERVED, policy=SchedulingPolicy(reserved_capacity=gate)).problem.pools[0]

    assert sorted({each.capacity_type for each in found.types[0].offerings}) == expected


def daemon_set(cpu: str) -> DaemonSet:
    template = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}
    return convert(
        {"metadata": {"name": "d", "namespace": "shop"}, "spec": {"template": template}}, DaemonSet
    )


def test_daemons_take_room_everywhere() -> None:
    """Daemons are given to the solver for new nodes, and taken off existing ones."""
    problem = taken(daemon_set("1"), node("node-1")).problem

    assert ([each.name for each in problem.daemons], problem.nodes[0].free) == (["d"], {"cpu": 3000})


HUGE = machine("huge", capacity={"memory": 10**30})
OVERDRAWN = machine("overdrawn", overhead={"cpu": 10**30})


@pytest.mark.parametrize(
    ("objects", "catalog", "sentence"),
    [
        pytest.param(
            [node("node-1", "1e30")], CATALOG, "node node-1 takes no pods: resource cpu", id="a node"
        ),
        pytest.param(
            [daemon_set("lots")], CATALOG, "DaemonSet shop/d is not counted: container", id="a daemon"
        ),
        pytest.param(
            [],
            Catalog(types=(*CATALOG.types, HUGE)),
            "instance type huge is not bought: resource memory: 1e30 is beyond",
            id="an instance type with more than can be counted",
        ),
        pytest.param(
            [],
            Catalog(types=(*CATALOG.types, OVERDRAWN)),
            "instance type overdrawn is not bought: resource cpu: -",
            id="an instance type with less than can be counted",
        ),
        pytest.param(
            [convert({"metadata": {"name": "o"}, "spec": {"requirements": [], "price": "x"}}, NodeOverlay)],
            CATALOG,
            "NodeOverlay o is not applied: price 'x' is no price",
            id="an overlay",
        ),
        pytest.param(
            [
                convert(
                    {"metadata": {"name": "b", "namespace": "shop"}, "spec": {"replicas": 1}}, CapacityBuffer
                )
            ],
            CATALOG,
            "CapacityBuffer shop/b keeps no room: it names neither",
            id="a buffer",
        ),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named(
    objects: list[Resource], catalog: Catalog, sentence: str
) -> None:
    """One bad object never stops the others: it is left out with a sentence."""
    found = taken(pool(), *objects, catalog=catalog, policy=SchedulingPolicy(overlays=True, buffers=True))

    assert [said[: len(sentence)] for said in found.left_out] == [sentence]
    assert [kind.name for kind in found.problem.pools[0].types] == ["small", "large"]


def test_pools_with_a_catalogue_of_their_own() -> None:
    """Where pools may use different types, each is offered its own, uncountable ones left out."""
    small, large = CATALOG.types
    catalog = Catalog(types=(small, large), by_pool={"one": (small, HUGE), "two": (large,)})
    found = taken(pool("one"), pool("two"), pool("three"), catalog=catalog)

    assert {each.name: [kind.name for kind in each.types] for each in found.problem.pools} == {
        "one": ["small"],
        "two": ["large"],
        "three": [],
    }
    assert [said.partition(":")[0] for said in found.left_out] == ["instance type huge is not bought"]


def test_refused_pods() -> None:
    """Pods that cannot be served are turned away with a sentence."""
    found = taken(pod("bad", cpu="1e30"), pod("good"))

    assert ([each.pod for each in found.refusals], [each.name for each in found.problem.pods]) == (
        ["shop/bad"],
        ["good"],
    )


def test_the_problem_knows_its_options_and_rules() -> None:
    """Options are handed on; which labels mean what is for the catalogue to say."""
    catalog = msgspec.structs.replace(CATALOG, well_known=frozenset({"example.com/size"}))
    problem = taken(catalog=catalog).problem

    assert ("example.com/size" in problem.rules.well_known, problem.options) == (True, Options())


def test_nodes_are_handed_on() -> None:
    """The result holds the state nodes too, deleting ones included."""
    assert [each.name for each in taken(node("b", **GONE), node("a")).nodes] == ["a", "b"]
