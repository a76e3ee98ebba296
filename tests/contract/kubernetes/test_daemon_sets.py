"""DaemonSets: a pod on every node."""

from functools import partial

import pytest

from tests.contract.kubernetes.api import Api, done, eventually
from tests.contract.kubernetes.machines import join, living, named, run_all
from tests.contract.kubernetes.objects import container, workload
from tests.contract.kubernetes.workloads import owner_of, pump, settled


@pytest.mark.usefixtures("empty_cluster")
def test_a_daemon_set_has_a_pod_on_every_node(api: Api) -> None:
    """One pod per node, tied to it by an affinity and bound by the scheduler."""
    for short in "ab":
        join(api, short)

    api.make("daemonsets", workload("DaemonSet", "web", schedulerName="default-scheduler"))

    eventually(
        lambda: (
            {each["spec"].get("nodeName") for each in living(api, "app=web")}
            == {named(api, "a"), named(api, "b")}
        )
    )
    found = settled(
        api, "daemonsets", "web", desiredNumberScheduled=2, currentNumberScheduled=2, updatedNumberScheduled=2
    )
    one = living(api, "app=web")[0]
    assert found["status"].get("numberReady", 0) == 0
    assert owner_of(one) == ("DaemonSet", "web", True, True)
    affinity = one["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [one["spec"]["nodeName"]]
    assert one["metadata"]["labels"]["controller-revision-hash"]


@pytest.mark.usefixtures("empty_cluster")
def test_daemons_tolerate_what_happens_to_nodes(api: Api) -> None:
    """A daemon's pod is not driven away by the usual taints."""
    join(api, "a")
    api.make("daemonsets", workload("DaemonSet", "web"))

    [one] = eventually(lambda: living(api, "app=web"))

    assert sorted((each["key"], each["effect"]) for each in one["spec"]["tolerations"]) == [
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


@pytest.mark.usefixtures("empty_cluster")
def test_a_daemon_set_follows_nodes(api: Api) -> None:
    """A node that joins gets a pod; a node whose labels do not match gets none."""
    join(api, "a", labels={"pick": "yes"})
    join(api, "b")
    api.make(
        "daemonsets",
        workload("DaemonSet", "web", nodeSelector={"pick": "yes"}, schedulerName="default-scheduler"),
    )
    eventually(lambda: [each["spec"].get("nodeName") for each in living(api, "app=web")] == [named(api, "a")])

    join(api, "c", labels={"pick": "yes"})

    expected = {named(api, "a"), named(api, "c")}
    assert eventually(lambda: {each["spec"].get("nodeName") for each in living(api, "app=web")} == expected)


@pytest.mark.usefixtures("empty_cluster")
def test_a_daemon_set_stays_off_tainted_nodes(api: Api) -> None:
    """A taint that is not tolerated keeps daemons away too."""
    join(api, "a")
    join(api, "b", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})

    api.make("daemonsets", workload("DaemonSet", "web"))

    assert settled(api, "daemonsets", "web", desiredNumberScheduled=1, currentNumberScheduled=1)


@pytest.mark.usefixtures("empty_cluster")
def test_a_daemon_set_rolls_node_by_node(api: Api) -> None:
    """An update replaces one unavailable pod at a time."""
    for short in "ab":
        join(api, short)
    api.make("daemonsets", workload("DaemonSet", "web", schedulerName="default-scheduler"))
    eventually(
        lambda: (
            all(each["spec"].get("nodeName") for each in living(api, "app=web"))
            and len(living(api, "app=web")) == 2
        )
    )
    run_all(api, "app=web")
    settled(api, "daemonsets", "web", numberAvailable=2)
    change = {"spec": {"template": {"spec": {"containers": [{**container(), "image": "new:2"}]}}}}

    done(api.patch("daemonsets", "web", change))

    def images() -> list[str]:
        return sorted(each["spec"]["containers"][0]["image"] for each in living(api, "app=web"))

    assert eventually(lambda: images() == ["new:2", container()["image"]])
    assert eventually(lambda: images() == ["new:2", "new:2"], meanwhile=partial(pump, api))
