"""Binding and scheduling gates: how a pod gets its node, once."""

import re
from typing import Any

from tests.contract.kubernetes.api import Api, Object, done
from tests.contract.kubernetes.machines import join
from tests.contract.kubernetes.objects import pod


def binding(name: str, target: str, **fields: Any) -> Object:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **fields}}
    return {**body, "target": {"apiVersion": "v1", "kind": "Node", "name": target}}


def test_binding(api: Api) -> None:
    """A binding sets the node and the condition PodScheduled."""
    api.make("pods", pod("a"))

    answer = api.create("pods", binding("a", "somewhere"), name="a", sub="binding")

    assert answer.status == 201
    assert answer.json["status"] == "Success"
    bound = api.read("pods", "a")
    assert bound["spec"]["nodeName"] == "somewhere"
    [condition] = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert re.fullmatch(r"\d{4}-.*Z", condition["lastTransitionTime"])


def test_a_binding_may_bring_annotations(api: Api) -> None:
    """What a binding carries is put on the pod."""
    api.make("pods", pod("a"))

    done(api.create("pods", binding("a", "somewhere", annotations={"x.io/y": "z"}), name="a", sub="binding"))

    assert api.read("pods", "a")["metadata"]["annotations"] == {"x.io/y": "z"}


def test_a_pod_is_bound_once(api: Api) -> None:
    """A bound pod stays where it is."""
    api.make("pods", pod("a", spec={"nodeName": "here"}))

    answer = api.create("pods", binding("a", "there"), name="a", sub="binding")

    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "here"'
    )


def test_binding_what_is_not_there(api: Api) -> None:
    """There must be a pod to bind."""
    answer = api.create("pods", binding("a", "there"), name="a", sub="binding")

    assert (answer.status, answer.message) == (404, 'pods "a" not found')


def test_binding_to_nothing(api: Api) -> None:
    """A binding names its node."""
    api.make("pods", pod("a"))

    answer = api.create("pods", binding("a", ""), name="a", sub="binding")

    assert (answer.status, answer.message) == (500, "target.name: Required value")


def test_a_gated_pod_cannot_be_bound(api: Api) -> None:
    """A gate keeps a pod from every node."""
    api.make("pods", pod("a", spec={"schedulingGates": [{"name": "x.io/wait"}]}))

    answer = api.create("pods", binding("a", "there"), name="a", sub="binding")

    assert answer.status == 409
    assert (
        answer.message
        == 'Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates'
    )


def test_gates_can_be_removed_but_not_added(api: Api) -> None:
    """Gates only ever go."""
    api.make("pods", pod("a", spec={"schedulingGates": [{"name": "x.io/wait"}]}))

    added = api.patch(
        "pods", "a", {"spec": {"schedulingGates": [{"name": "x.io/wait"}, {"name": "x.io/more"}]}}
    )
    removed = done(api.patch("pods", "a", {"spec": {"schedulingGates": None}}))

    assert (added.status, added.reason) == (422, "Invalid")
    assert "schedulingGates" not in removed["spec"]


def test_gated_pods_say_so(api: Api) -> None:
    """A gated pod has a condition from the start."""
    made = api.make("pods", pod("a", spec={"schedulingGates": [{"name": "x.io/wait"}]}))

    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"


def test_a_bound_pod_takes_the_place_of_its_node(api: Api) -> None:
    """Zone and region of the node become labels of the pod; other labels of the node do not."""
    place = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "disk": "fast"}
    node = join(api, "n", labels=place)
    api.make("pods", pod("a", labels={"app": "web", "topology.kubernetes.io/zone": "wrong"}))
    api.make("pods", pod("b", spec={"nodeName": node}))

    done(api.create("pods", binding("a", node), name="a", sub="binding"))

    taken = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    assert api.read("pods", "a")["metadata"]["labels"] == {"app": "web", **taken}
    assert api.read("pods", "b")["metadata"].get("labels") == taken
