"""Which of several nodes is best."""

from typing import Any

import pytest

from karpenter.api.meta import LabelSelector
from karpenter.api.pod import Pod
from tests.unit.local.scheduler.clusters import HOSTNAME, World, affinity, near, node, pod, spread


def prefer(weight: int, label: str) -> dict[str, Any]:
    return {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
    }


def lean(weight: int, app: str) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": near(app)}


def test_the_emptier_node() -> None:
    """Pods go where more is left."""
    world = World(node("full"), node("empty")).put("full", pod("first", cpu="2"))

    assert world.choices(pod(cpu="1")) == {"empty"}


def test_pods_that_ask_for_nothing_weigh_something() -> None:
    """Pods without requests still spread, because each is taken for a small one."""
    world = World(node("used"), node("empty")).put("used", *(pod(f"p{n}") for n in range(5)))

    assert world.choices(pod()) == {"empty"}


def test_the_balanced_node() -> None:
    """Of two nodes with the same share left, the one whose cpu and memory are used alike is better."""
    world = World(node("cpu"), node("both"))
    world.put("cpu", pod("a", requests={"cpu": "2", "memory": "1Gi"}))
    world.put("both", pod("b", requests={"cpu": "1250m", "memory": "2560Mi"}))

    assert world.choices(pod(requests={"cpu": "1", "memory": "2Gi"})) == {"both"}


def test_a_discouraging_taint() -> None:
    """A taint that only discourages loses against an equal node without it."""
    taint = {"key": "soft", "effect": "PreferNoSchedule"}
    world = World(node("tainted", taints=[taint]), node("plain"))

    assert world.choices(pod(cpu="1")) == {"plain"}
    assert world.choices(pod(cpu="1", tolerations=[{"key": "soft", "operator": "Exists"}])) == {
        "tainted",
        "plain",
    }


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([prefer(1, "ssd")], {"b"}, id="a label that one has"),
        pytest.param([prefer(1, "ssd"), prefer(2, "gpu")], {"a"}, id="the heavier preference wins"),
        pytest.param([prefer(1, "none")], {"a", "b"}, id="a label that no node has"),
    ],
)
def test_preferred_nodes(terms: list[dict[str, Any]], expected: set[str]) -> None:
    """Preferences add up by weight."""
    world = World(node("a", labels={"gpu": ""}), node("b", labels={"ssd": ""}))

    assert world.choices(pod(affinity=affinity("nodeAffinity", *terms, preferred=True))) == expected


@pytest.mark.parametrize(
    ("kind", "terms", "expected"),
    [
        pytest.param("podAffinity", [lean(1, "cache")], {"a"}, id="towards a neighbour"),
        pytest.param("podAntiAffinity", [lean(1, "cache")], {"b"}, id="away from it"),
        pytest.param("podAffinity", [lean(1, "missing")], {"a", "b"}, id="towards no pod"),
    ],
)
def test_preferred_neighbours(kind: str, terms: list[dict[str, Any]], expected: set[str]) -> None:
    """Preferences about neighbours draw a pod near or keep it away."""
    world = World(node("a", zone="a"), node("b", zone="b"))
    world.put("a", pod("cache", app="cache")).put("b", pod("other", app="other"))

    assert world.choices(pod(affinity=affinity(kind, *terms, preferred=True))) == expected


def test_neighbours_prefer_too() -> None:
    """What a placed pod prefers, or requires, draws the newcomer as well."""
    world = World(node("a", zone="a"), node("b", zone="b"))
    wants = affinity("podAffinity", lean(10, "web"), preferred=True)
    world.put("a", pod("fan", affinity=wants)).put("b", pod("none"))
    assert world.choices(pod(app="web")) == {"a"}

    world = World(node("a", zone="a"), node("b", zone="b"))
    needs = affinity("podAffinity", near("web"))
    world.put("a", pod("none")).put("b", pod("needy", affinity=needs))
    assert world.choices(pod(app="web")) == {"b"}


def test_preferred_spread() -> None:
    """A pod goes to the zone with fewest of its kind, but may go elsewhere."""
    world = World(node("a", zone="a"), node("b", zone="b"))
    world.put("a", pod("1", app="web", requests={"cpu": "100m"}))
    asks = pod(app="web", cpu="100m", topologySpreadConstraints=[spread("web", hard=False)])

    assert world.choices(asks) == {"b"}
    world.table.drop_node("b")
    assert world.choices(asks) == {"a"}


def test_preferred_spread_over_nodes() -> None:
    """Over nodes, each node is its own domain."""
    world = World(node("a"), node("b"), node("c"))
    world.put("a", pod("1", app="web")).put("b", pod("2", app="other"))
    world.put("c", pod("3", app="web"), pod("4", app="web"))
    asks = pod(app="web", topologySpreadConstraints=[spread("web", HOSTNAME, hard=False)])

    assert world.choices(asks) == {"b"}


def test_a_node_outside_the_preferred_topology() -> None:
    """A node without the label gets no points for spreading."""
    world = World(node("in"), node("out"))
    bare = {key: value for key, value in node("out").labels.items() if not key.endswith("zone")}
    world.table.set_node(node("out", labels={}))
    world.table.set_node(type(node("out"))(**{**_fields(node("out")), "labels": bare}))
    asks = pod(app="web", topologySpreadConstraints=[spread("web", hard=False)])

    assert world.choices(asks) == {"in"}


def _fields(info: Any) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__struct_fields__}


def test_workloads_spread_by_default() -> None:
    """Pods of a workload keep apart though they ask for nothing, and a missing label is no obstacle."""
    world = World(node("a", zone="a"), node("b", zone="b"))
    own = LabelSelector(match_labels={"app": "web"})

    def replica(name: str) -> Pod:
        return pod(name, app="web")

    first = world.pod_infos.of(replica("1"), own)
    assert first.default_spread
    assert [each.key for each in first.soft_spread] == [HOSTNAME, "topology.kubernetes.io/zone"]
    assert not world.pod_infos.of(
        pod("x", app="web", topologySpreadConstraints=[spread("web")]), own
    ).soft_spread


def test_ties_fall_by_seed() -> None:
    """Among equals the choice depends on the seed and the pod's name, and on nothing else."""
    names = [f"n{n}" for n in range(5)]
    one = World(*(node(name) for name in names))
    other = World(*(node(name) for name in reversed(names)))

    assert one.where(pod("x"), seed=3) == other.where(pod("x"), seed=3)
    assert one.choices(pod("x")) == set(names)
