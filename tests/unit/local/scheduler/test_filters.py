"""Which nodes a pod may go to, filter by filter, with the words for those it may not."""

from typing import Any

import pytest

from karpenter.api.pod import Pod
from karpenter_local.scheduler.nodeinfo import NodeInfo
from tests.unit.local.scheduler.clusters import HOSTNAME, ZONE, World, affinity, near, node, pod, spread

TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}
ARM = {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm"]}]}


def expression(operator: str, *values: str) -> dict[str, Any]:
    """Return a required node affinity with one condition on the label ``cpus``."""
    return affinity(
        "nodeAffinity",
        {"matchExpressions": [{"key": "cpus", "operator": operator, "values": list(values)}]},
    )


@pytest.mark.parametrize(
    ("asks", "offered", "expected"),
    [
        pytest.param(pod(), node("n"), "n", id="a pod that asks for nothing goes anywhere"),
        pytest.param(pod(cpu="4"), node("n"), "n", id="a pod may take all of a node"),
        pytest.param(pod(cpu="4001m"), node("n"), "1 Insufficient cpu", id="one thousandth too much"),
        pytest.param(
            pod(requests={"cpu": "5", "memory": "9Gi", "example.com/gpu": "1"}),
            node("n"),
            "1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory",
            id="every shortage is named",
        ),
        pytest.param(pod(), node("n", room={"pods": "0"}), "1 Too many pods", id="no slot for a pod"),
        pytest.param(
            pod(), node("n", unschedulable=True), "1 node(s) were unschedulable", id="a cordoned node"
        ),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]),
            node("n", unschedulable=True),
            "n",
            id="a pod that tolerates everything ignores a cordon",
        ),
        pytest.param(
            pod(), node("n", taints=[TAINT]), "1 node(s) had untolerated taint(s)", id="an untolerated taint"
        ),
        pytest.param(
            pod(tolerations=[{"key": "team", "operator": "Equal", "value": "red"}]),
            node("n", taints=[TAINT]),
            "n",
            id="a tolerated taint",
        ),
        pytest.param(
            pod(),
            node("n", taints=[{**TAINT, "effect": "PreferNoSchedule"}]),
            "n",
            id="a taint that only discourages",
        ),
        pytest.param(
            pod(),
            node("n", taints=[{**TAINT, "effect": "NoExecute"}]),
            "1 node(s) had untolerated taint(s)",
            id="a taint that drives out also keeps out",
        ),
        pytest.param(
            pod(nodeSelector={"disk": "ssd"}),
            node("n"),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a label that is missing",
        ),
        pytest.param(
            pod(nodeSelector={"disk": "ssd"}), node("n", labels={"disk": "ssd"}), "n", id="it is there"
        ),
        pytest.param(
            pod(affinity=affinity("nodeAffinity", ARM, {"matchFields": []})),
            node("n"),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="neither term holds, the empty one least of all",
        ),
        pytest.param(
            pod(affinity=affinity("nodeAffinity", ARM)),
            node("n", labels={"arch": "arm"}),
            "n",
            id="a term holds",
        ),
        pytest.param(
            pod(affinity=expression("Gt", "7")), node("n", labels={"cpus": "8"}), "n", id="more than"
        ),
        pytest.param(
            pod(affinity=expression("Lt", "8")),
            node("n", labels={"cpus": "8"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="not less than",
        ),
        pytest.param(
            pod(affinity=expression("Gt", "7")),
            node("n", labels={"cpus": "many"}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="no number to compare",
        ),
        pytest.param(
            pod(affinity=expression("NotIn", "8")), node("n"), "n", id="a missing label is not in a list"
        ),
        pytest.param(
            pod(affinity=expression("DoesNotExist")), node("n"), "n", id="a label that should be missing"
        ),
        pytest.param(
            pod(affinity=expression("Exists")),
            node("n"),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="a label that should be there",
        ),
    ],
)
def test_a_node_by_itself(asks: Pod, offered: NodeInfo, expected: str) -> None:
    """A node is judged by its room, cordon, taints and labels, and the first objection is the one told."""
    assert World(offered).where(asks) == expected


def test_a_node_asked_for_by_name() -> None:
    """A daemon's pod names its node: the others are passed over, whatever else is wrong with them."""
    world = World(node("one", room={"cpu": "1"}), node("two", taints=[TAINT]), node("three"))
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["one"]}]}

    assert world.where(pod(affinity=affinity("nodeAffinity", by_name))) == "one"
    assert (
        world.where(pod(cpu="2", affinity=affinity("nodeAffinity", by_name)))
        == "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    )


def test_room_is_what_others_leave() -> None:
    """Pods on a node take room until they are gone."""
    world = World(node("n")).put("n", pod("first", cpu="3"))

    assert world.where(pod(cpu="2")) == "1 Insufficient cpu"
    world.table.take("default/first")
    assert world.where(pod(cpu="2")) == "n"


def test_a_node_that_shrinks() -> None:
    """Room may become negative when a node reports less than is used, and comes back when it grows."""
    world = World(node("n")).put("n", pod("first", cpu="3"))

    world.table.set_node(node("n", room={"cpu": "2"}))
    assert world.where(pod(cpu="1m")) == "1 Insufficient cpu"
    world.table.set_node(node("n", room={"cpu": "8"}))
    assert world.where(pod(cpu="5")) == "n"


def test_pods_on_a_node_that_is_not_there_yet() -> None:
    """A pod bound to an unknown node takes its room once the node appears."""
    world = World().put("late", pod("first", cpu="3"))

    world.table.set_node(node("late"))

    assert world.where(pod(cpu="2")) == "1 Insufficient cpu"


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        pytest.param(
            {"hostPort": 80}, "1 node(s) didn't have free ports for the requested pod ports", id="same"
        ),
        pytest.param({"hostPort": 81}, "n", id="another number"),
        pytest.param({"hostPort": 80, "protocol": "UDP"}, "n", id="another protocol"),
        pytest.param(
            {"hostPort": 80, "hostIP": "10.0.0.1"},
            "1 node(s) didn't have free ports for the requested pod ports",
            id="one address of all that are taken",
        ),
        pytest.param({"containerPort": 80}, "n", id="a port of the pod and not of the node"),
    ],
)
def test_ports(port: dict[str, Any], expected: str) -> None:
    """A port of the node is had by one pod at a time."""
    world = World(node("n")).put("n", pod("first", container={"ports": [{"hostPort": 80}]}))

    assert world.where(pod(container={"ports": [port]})) == expected


def test_a_port_is_given_back() -> None:
    """A port is free again when its pod is gone."""
    world = World(node("n")).put("n", pod("first", container={"ports": [{"hostPort": 80}]}))
    world.table.take("default/first")

    assert world.where(pod(container={"ports": [{"hostPort": 80}]})) == "n"


class TestSpread:
    """Required spread over zones: a has two pods of web, b has one, c has none, d is not labelled."""

    @pytest.fixture
    def world(self) -> World:
        """Four nodes in three zones and none."""
        world = World(*(node(f"n-{zone}", zone=zone) for zone in "abc"))
        world.table.set_node(
            NodeInfo(name="bare", labels={}, taints=(), unschedulable=False, room={"cpu": 4000}, most_pods=10)
        )
        return world.put("n-a", pod("1", app="web"), pod("2", app="web")).put("n-b", pod("3", app="web"))

    @pytest.mark.parametrize(
        ("constraint", "expected"),
        [
            pytest.param(spread("web"), {"n-c"}, id="only the emptiest zone"),
            pytest.param(spread("web", skew=2), {"n-b", "n-c"}, id="one more is allowed"),
            pytest.param(spread("web", skew=3), {"n-a", "n-b", "n-c"}, id="all are even enough"),
            pytest.param(spread("web", skew=2, minDomains=4), {"n-b", "n-c"}, id="fewer zones than wanted"),
            pytest.param(spread("web", minDomains=4), {"n-c"}, id="a zone that is missing counts as empty"),
        ],
    )
    def test_skew(self, world: World, constraint: dict[str, Any], expected: set[str]) -> None:
        """A zone may exceed the emptiest one by the skew and no more, counting the pod itself."""
        assert world.feasible(pod(app="web", topologySpreadConstraints=[constraint])) == expected

    def test_a_pod_that_is_not_counted(self, world: World) -> None:
        """A pod outside its own selector adds nothing to a zone."""
        assert world.feasible(pod(app="other", topologySpreadConstraints=[spread("web")])) == {"n-b", "n-c"}

    def test_words(self, world: World) -> None:
        """A node without the label is told apart from one that is too full."""
        asks = pod(app="web", nodeSelector={}, topologySpreadConstraints=[spread("web")])
        world.table.drop_node("n-c")
        world.put("n-b", pod("4", app="web"))
        world.table.set_node(node("n-c", zone="c", unschedulable=True))

        assert world.where(asks) == (
            "1 node(s) didn't match pod topology spread constraints (missing required label), "
            "1 node(s) were unschedulable, 2 node(s) didn't match pod topology spread constraints"
        )

    def test_affinity_decides_which_zones_count(self, world: World) -> None:
        """Zones that the pod's own selector excludes are no domains, unless the policy says so."""
        only_a: dict[str, Any] = {"nodeSelector": {ZONE: "a"}}
        honours = pod(app="web", topologySpreadConstraints=[spread("web")], **only_a)
        ignores = pod(
            app="web", topologySpreadConstraints=[spread("web", nodeAffinityPolicy="Ignore")], **only_a
        )

        assert world.where(honours) == "n-a"
        assert "1 node(s) didn't match pod topology spread constraints" in world.where(ignores)

    def test_taints_decide_only_if_asked(self, world: World) -> None:
        """A tainted zone is a domain, unless the policy honours taints."""
        world.table.set_node(node("n-c", zone="c", taints=[TAINT]))
        ignores = pod(app="web", topologySpreadConstraints=[spread("web")])
        honours = pod(app="web", topologySpreadConstraints=[spread("web", nodeTaintsPolicy="Honor")])

        assert "2 node(s) didn't match pod topology spread constraints" in world.where(ignores)
        assert world.where(honours) == "n-b"

    def test_pods_that_leave_do_not_count(self, world: World) -> None:
        """A pod that is being deleted no longer makes its zone fuller."""
        world.put("n-a", pod("1", app="web"), pod("2", app="web"), living=False)
        world.put("n-c", pod("5", app="web"))

        assert world.feasible(pod(app="web", topologySpreadConstraints=[spread("web")])) == {"n-a"}

    def test_match_label_keys(self, world: World) -> None:
        """Only pods of the same revision are counted when the constraint says so."""
        constraint = spread("web", matchLabelKeys=["revision"])
        asks = pod(app="web", labels={"revision": "2"}, topologySpreadConstraints=[constraint])
        world.put("n-c", pod("5", app="web", labels={"revision": "2"}))

        assert world.feasible(asks) == {"n-a", "n-b"}

    def test_other_namespaces_do_not_count(self, world: World) -> None:
        """A constraint sees its own namespace only."""
        asks = pod(app="web", namespace="other", topologySpreadConstraints=[spread("web")])

        assert world.feasible(asks) == {"n-a", "n-b", "n-c"}

    def test_two_constraints(self, world: World) -> None:
        """Every constraint must hold."""
        world.table.set_node(node("n-c2", zone="c"))
        world.put("n-c", pod("5", app="web"))
        constraints = [spread("web"), spread("web", key=HOSTNAME)]

        assert world.where(pod(app="web", topologySpreadConstraints=constraints)) == "n-c2"


class TestAffinity:
    """Required affinity: cache runs in zone a, web in zone b, zone c is empty."""

    @pytest.fixture
    def world(self) -> World:
        """Three nodes in three zones."""
        world = World(*(node(f"n-{zone}", zone=zone) for zone in "abc"))
        return world.put("n-a", pod("cache", app="cache")).put("n-b", pod("web", app="web"))

    def test_near(self, world: World) -> None:
        """A pod goes where its neighbour is."""
        assert world.where(pod(affinity=affinity("podAffinity", near("cache")))) == "n-a"

    def test_near_nobody(self, world: World) -> None:
        """Where there is no such neighbour, there is no place."""
        asks = pod(affinity=affinity("podAffinity", near("missing")))

        assert world.where(asks) == "3 node(s) didn't match pod affinity rules"

    def test_the_first_of_its_kind(self, world: World) -> None:
        """A pod that wants to be near its own kind may be the first, but only where the label is."""
        asks = pod(app="new", affinity=affinity("podAffinity", near("new")))

        assert world.feasible(asks) == {"n-a", "n-b", "n-c"}
        world.put("n-c", pod("other", app="new"))
        assert world.feasible(asks) == {"n-c"}

    def test_the_first_of_its_kind_in_a_selected_namespace(self, world: World) -> None:
        """Whether a pod is its own neighbour depends on the labels of its namespace too."""
        term = near("new", namespaceSelector={"matchLabels": {"team": "blue"}})
        wrong = near("new", namespaceSelector={"matchLabels": {"team": "red"}})

        assert world.feasible(pod(app="new", affinity=affinity("podAffinity", term))) == {"n-a", "n-b", "n-c"}
        assert "3 node(s)" in world.where(pod(app="new", affinity=affinity("podAffinity", wrong)))

    def test_near_two_at_once(self, world: World) -> None:
        """A neighbour counts only if it satisfies every term."""
        asks = pod(affinity=affinity("podAffinity", near("cache"), near("web")))

        assert world.where(asks) == "3 node(s) didn't match pod affinity rules"

    def test_apart(self, world: World) -> None:
        """A pod stays out of the domains of those it avoids."""
        asks = pod(affinity=affinity("podAntiAffinity", near("cache"), near("web")))

        assert world.where(asks) == "n-c"

    def test_avoided_by_others(self, world: World) -> None:
        """What a placed pod avoids stays away from it, though it did not ask."""
        world.put("n-c", pod("shy", app="shy", affinity=affinity("podAntiAffinity", near("loud"))))

        assert world.feasible(pod(app="loud")) == {"n-a", "n-b"}
        world.table.take("default/shy")
        assert world.feasible(pod(app="loud")) == {"n-a", "n-b", "n-c"}

    def test_words(self, world: World) -> None:
        """The pod's own rules are told apart from those of others."""
        world.put("n-c", pod("shy", app="shy", affinity=affinity("podAntiAffinity", near("loud"))))
        asks = pod(app="loud", affinity=affinity("podAntiAffinity", near("cache"), near("web")))

        assert world.where(asks) == (
            "1 node(s) didn't satisfy existing pods anti-affinity rules, "
            "2 node(s) didn't match pod anti-affinity rules"
        )

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            pytest.param({}, {"n-a", "n-b", "n-c"}, id="its own namespace by default"),
            pytest.param({"namespaces": ["default"]}, {"n-b", "n-c"}, id="a named namespace"),
            pytest.param({"namespaceSelector": {}}, {"n-b", "n-c"}, id="every namespace"),
            pytest.param(
                {"namespaceSelector": {"matchLabels": {"team": "blue"}}}, {"n-b", "n-c"}, id="a selected one"
            ),
            pytest.param(
                {"namespaceSelector": {"matchLabels": {"team": "red"}}},
                {"n-a", "n-b", "n-c"},
                id="one that is not selected",
            ),
        ],
    )
    def test_namespaces(self, world: World, more: dict[str, Any], expected: set[str]) -> None:
        """A term speaks of the namespaces it names or selects, and of its pod's own if it says nothing."""
        asks = pod(namespace="other", affinity=affinity("podAntiAffinity", near("cache", **more)))

        assert world.feasible(asks) == expected

    def test_a_namespace_that_changes(self, world: World) -> None:
        """Rules that select namespaces follow their labels."""
        term = near("cache", namespaceSelector={"matchLabels": {"team": "red"}})
        asks = pod(namespace="other", affinity=affinity("podAntiAffinity", term))
        assert world.feasible(asks) == {"n-a", "n-b", "n-c"}

        world.table.set_namespace("default", {"team": "red"})

        assert world.feasible(asks) == {"n-b", "n-c"}

    def test_match_and_mismatch_label_keys(self, world: World) -> None:
        """Terms may speak only of pods of the same, or of another, revision."""
        labels = {"revision": "2"}
        world.put("n-c", pod("other", app="cache", labels=labels))
        same = near("cache", matchLabelKeys=["revision"])
        others = near("cache", mismatchLabelKeys=["revision"])

        assert world.feasible(pod(labels=labels, affinity=affinity("podAntiAffinity", same))) == {
            "n-a",
            "n-b",
        }
        assert world.feasible(pod(labels=labels, affinity=affinity("podAntiAffinity", others))) == {
            "n-b",
            "n-c",
        }

    def test_a_node_without_the_label(self, world: World) -> None:
        """A node without the topology label satisfies anti-affinity, and no affinity."""
        bare = NodeInfo(name="bare", labels={}, taints=(), unschedulable=False, room={}, most_pods=9)
        world.table.set_node(bare)
        world.put("bare", pod("there", app="cache"))

        assert world.feasible(pod(affinity=affinity("podAffinity", near("cache")))) == {"n-a"}
        assert "bare" in world.feasible(pod(affinity=affinity("podAntiAffinity", near("cache"))))
