"""Nodes: taints that follow from what they report, and pods that are driven out."""

import pytest

from tests.contract.kubernetes.api import STRATEGIC, Api, done, eventually
from tests.contract.kubernetes.machines import NOT_READY, join, report, schedule, taints
from tests.contract.kubernetes.objects import node


@pytest.mark.usefixtures("empty_cluster")
def test_a_new_node_is_not_ready(api: Api) -> None:
    """A node is tainted until it has reported."""
    made = api.make("nodes", node(api.unique))

    assert [(each["key"], each["effect"]) for each in made["spec"]["taints"]] == [(NOT_READY, "NoSchedule")]


@pytest.mark.usefixtures("empty_cluster")
def test_a_node_that_reports_loses_its_taint(api: Api) -> None:
    """Ready means that pods may come."""
    assert NOT_READY not in taints(api, join(api, "n"))


@pytest.mark.usefixtures("empty_cluster")
def test_a_cordon_is_also_a_taint(api: Api) -> None:
    """Unschedulable becomes a taint, and goes with it."""
    name = join(api, "n")
    cordon = "node.kubernetes.io/unschedulable"

    done(api.patch("nodes", name, {"spec": {"unschedulable": True}}))
    assert eventually(lambda: cordon in taints(api, name))
    done(api.patch("nodes", name, {"spec": {"unschedulable": None}}))

    assert eventually(lambda: cordon not in taints(api, name))


@pytest.mark.usefixtures("empty_cluster")
def test_a_node_that_is_not_ready_is_tainted_twice(api: Api) -> None:
    """Not ready keeps new pods away, and drives old ones out after their patience.

    Another node stays ready: where none is, nobody is driven out, because the fault may be ours.
    """
    name = join(api, "n")
    join(api, "other")

    report(api, "n", ready="False")

    def effects() -> set[str]:
        found = api.read("nodes", name)["spec"].get("taints", [])
        return {each["effect"] for each in found if each["key"] == NOT_READY}

    assert eventually(lambda: effects() == {"NoSchedule", "NoExecute"}, within=40)


@pytest.mark.usefixtures("empty_cluster")
@pytest.mark.parametrize(
    ("condition", "taint"),
    [
        ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ],
)
def test_conditions_become_taints(api: Api, condition: str, taint: str) -> None:
    """What a node reports about itself keeps new pods away."""
    name = join(api, "n")

    change = {"status": {"conditions": [{"type": condition, "status": "True"}]}}
    done(api.patch("nodes", name, change, kind=STRATEGIC, sub="status"))

    assert eventually(lambda: taint in taints(api, name))


@pytest.mark.usefixtures("empty_cluster")
def test_a_no_execute_taint_drives_pods_out(api: Api) -> None:
    """Pods that do not tolerate a NoExecute taint are deleted, and told why."""
    name = join(api, "n")
    schedule(api, "p", {"terminationGracePeriodSeconds": 30})

    done(api.patch("nodes", name, {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}))

    found = eventually(
        lambda: found if "deletionTimestamp" in (found := api.read("pods", "p"))["metadata"] else None
    )
    [condition] = [each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )


@pytest.mark.usefixtures("empty_cluster")
def test_a_toleration_holds_a_pod(api: Api) -> None:
    """A pod that tolerates the taint stays, one that does not goes."""
    name = join(api, "n")
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]
    schedule(api, "stays", {"tolerations": tolerations})
    schedule(api, "goes")

    done(api.patch("nodes", name, {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}))

    assert eventually(lambda: api.gone("pods", "goes"))
    assert not api.gone("pods", "stays")


@pytest.mark.usefixtures("empty_cluster")
def test_a_toleration_runs_out(api: Api) -> None:
    """A pod may stay for its tolerationSeconds."""
    name = join(api, "n")
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]
    schedule(api, "p", {"tolerations": tolerations})

    done(api.patch("nodes", name, {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}))

    assert not api.gone("pods", "p")
    assert eventually(lambda: api.gone("pods", "p"))


@pytest.mark.parametrize(
    "label",
    [
        ("kubernetes.io/os", "linux"),
        ("topology.kubernetes.io/zone", "z-1"),
    ],
)
def test_well_known_labels_stay_as_given(api: Api, label: tuple[str, str]) -> None:
    """The server does not rewrite the labels of nodes."""
    made = api.make("nodes", node(api.unique, labels=dict([label])))

    assert made["metadata"]["labels"] == dict([label])


def test_a_provider_id_is_set_once(api: Api) -> None:
    """Which machine a node is never changes."""
    api.make("nodes", node(api.unique, spec={"providerID": "x://1"}))

    answer = api.patch("nodes", api.unique, {"spec": {"providerID": "x://2"}})

    assert answer.status == 422
    assert answer.causes[0][0] == "spec.providerID"


def test_a_provider_id_may_come_later(api: Api) -> None:
    """A node without one may get one."""
    api.make("nodes", node(api.unique))

    assert (
        done(api.patch("nodes", api.unique, {"spec": {"providerID": "x://1"}}))["spec"]["providerID"]
        == "x://1"
    )


def test_taints_are_unique(api: Api) -> None:
    """The same key and effect twice is refused."""
    doubled = [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]

    answer = api.create("nodes", node(api.unique, spec={"taints": doubled}))

    assert answer.status == 422
    assert answer.causes[0][:2] == ("metadata.taints[1]", "FieldValueDuplicate")
