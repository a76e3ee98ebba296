"""The scheduler: where pods go."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import DEFAULT, join, named, schedule, verdict
from tests.contract.kubernetes.objects import container, pod
from tests.contract.kubernetes.rules import HOSTNAME, expression, require

pytestmark = pytest.mark.usefixtures("empty_cluster")


def test_a_pod_gets_the_only_node(api: Api) -> None:
    """A pod that fits is bound, and its condition says so."""
    join(api, "n")

    assert schedule(api, "a", requests={"cpu": "1"}) == "n"
    conditions = {each["type"]: each["status"] for each in api.read("pods", "a")["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_pod_waits_for_a_node(api: Api) -> None:
    """A refused pod is tried again when a node comes that could help."""
    schedule(api, "a")

    join(api, "n")

    assert eventually(lambda: verdict(api, "a") == "n")


def test_a_gated_pod_is_not_looked_at(api: Api) -> None:
    """A gate holds a pod back until it is removed."""
    join(api, "n")
    message = schedule(api, "a", {"schedulingGates": [{"name": "x.io/wait"}]})

    done(api.patch("pods", "a", {"spec": {"schedulingGates": None}}))

    assert message == "Scheduling is blocked due to non-empty scheduling gates"
    assert eventually(lambda: verdict(api, "a") == "n")


def test_a_pod_of_another_scheduler_is_not_looked_at(api: Api) -> None:
    """Pods name their scheduler."""
    join(api, "n")
    api.make("pods", pod("other"))
    schedule(api, "mine")

    assert verdict(api, "other") == ""


def test_a_selector_picks_its_node(api: Api) -> None:
    """Labels decide."""
    for short in "ab":
        join(api, short, labels={"pick": short})

    assert schedule(api, "p", {"nodeSelector": {"pick": "b"}}) == "b"


@pytest.mark.parametrize(
    ("requirement", "picked"),
    [
        pytest.param(expression("size", "In", "2", "3"), "b", id="In"),
        pytest.param(expression("size", "NotIn", "2"), "a", id="NotIn"),
        pytest.param(expression("extra", "Exists"), "b", id="Exists"),
        pytest.param(expression("extra", "DoesNotExist"), "a", id="DoesNotExist"),
        pytest.param(expression("size", "Gt", "1"), "b", id="Gt"),
        pytest.param(expression("size", "Lt", "2"), "a", id="Lt"),
    ],
)
def test_operators_of_node_affinity(api: Api, requirement: Object, picked: str) -> None:
    """Every operator of a node affinity."""
    join(api, "a", labels={"size": "1"})
    join(api, "b", labels={"size": "2", "extra": ""})

    assert schedule(api, "p", require(requirement)) == picked


def test_terms_of_an_affinity_are_alternatives(api: Api) -> None:
    """One term that matches is enough."""
    join(api, "a", labels={"size": "1"})
    terms = [{"matchExpressions": [expression("size", "In", wanted)]} for wanted in ("7", "1")]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }

    assert schedule(api, "p", {"affinity": affinity}) == "a"


def test_an_affinity_to_a_name(api: Api) -> None:
    """A node is picked by its name with matchFields, as a DaemonSet does."""
    for short in "ab":
        join(api, short)
    term = {"matchFields": [expression("metadata.name", "In", named(api, "b"))]}
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }

    assert schedule(api, "p", {"affinity": affinity}) == "b"


def test_a_preference_decides_between_equals(api: Api) -> None:
    """A preferred affinity is followed where it can be."""
    for short in "abc":
        join(api, short, labels={"pick": short})
    preference = {"matchExpressions": [expression("pick", "In", "b")]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]
        }
    }

    assert schedule(api, "p", {"affinity": affinity}) == "b"


def test_a_preference_gives_way(api: Api) -> None:
    """A preference that nothing meets is no obstacle."""
    join(api, "a")
    preference = {"matchExpressions": [expression("pick", "In", "none")]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": preference}]
        }
    }

    assert schedule(api, "p", {"affinity": affinity}) == "a"


def test_the_emptier_node_is_chosen(api: Api) -> None:
    """Among equals, the one with more room left wins."""
    join(api, "full")
    schedule(
        api, "first", {"nodeSelector": {HOSTNAME: named(api, "full")}}, requests={"cpu": "3", "memory": "6Gi"}
    )
    join(api, "free")

    assert schedule(api, "p", requests={"cpu": "500m", "memory": "1Gi"}) == "free"


@pytest.mark.parametrize(
    ("toleration", "placed"),
    [
        pytest.param(
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True, id="exactly"
        ),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="any value and effect"),
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="another value"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": "x", "operator": "Exists"}, False, id="another key"),
    ],
)
def test_tolerations(api: Api, toleration: Object, placed: bool) -> None:
    """A taint keeps out whoever does not tolerate it."""
    join(api, "n", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})

    assert (schedule(api, "p", {"tolerations": [toleration]}) == "n") is placed


def test_a_soft_taint_is_avoided(api: Api) -> None:
    """PreferNoSchedule is followed where it can be."""
    join(api, "soft", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    join(api, "plain")

    assert schedule(api, "p") == "plain"


def test_a_soft_taint_gives_way(api: Api) -> None:
    """PreferNoSchedule alone keeps nobody out."""
    join(api, "soft", spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})

    assert schedule(api, "p") == "soft"


def test_requests_of_init_containers_count(api: Api) -> None:
    """The largest init container counts where it is larger than all others together."""
    join(api, "n", cpu="2")

    message = schedule(
        api, "p", {"initContainers": [container("init", requests={"cpu": "3"})]}, requests={"cpu": "1"}
    )

    assert "1 Insufficient cpu" in message


def test_sidecars_count_beside_the_others(api: Api) -> None:
    """An init container that stays counts as long as the pod lives."""
    join(api, "n", cpu="2")
    sidecar = {**container("side", requests={"cpu": "1500m"}), "restartPolicy": "Always"}

    message = schedule(api, "p", {"initContainers": [sidecar]}, requests={"cpu": "1"})

    assert "1 Insufficient cpu" in message


def test_overhead_counts(api: Api) -> None:
    """What a runtime class adds is part of the request."""
    join(api, "n", cpu="2")
    body = {"metadata": {"name": api.unique}, "handler": "x", "overhead": {"podFixed": {"cpu": "1500m"}}}
    api.make("/apis/node.k8s.io/v1/runtimeclasses", body)
    spec = {"schedulerName": DEFAULT, "runtimeClassName": api.unique}

    def refused() -> str:
        answer = api.create("pods", pod("p", spec=spec, requests={"cpu": "1"}))
        return "made" if answer.status == 201 else ""

    assert eventually(refused)
    assert "1 Insufficient cpu" in eventually(lambda: verdict(api, "p"))


def test_finished_pods_take_no_room(api: Api) -> None:
    """Room comes back when a pod has ended."""
    join(api, "n", cpu="1")
    schedule(api, "first", requests={"cpu": "1"})
    schedule(api, "second", requests={"cpu": "1"})

    done(api.patch("pods", "first", {"status": {"phase": "Succeeded"}}, sub="status"))

    assert eventually(lambda: verdict(api, "second") == "n")


def test_a_deleted_pod_makes_room(api: Api) -> None:
    """Room comes back when a pod is gone."""
    join(api, "n", cpu="1")
    schedule(api, "first", requests={"cpu": "1"})
    schedule(api, "second", requests={"cpu": "1"})

    done(api.delete("pods", "first", gracePeriodSeconds=0))

    assert eventually(lambda: verdict(api, "second") == "n")


def test_an_uncordoned_node_is_used(api: Api) -> None:
    """A pod that waits is tried again when a cordon is lifted."""
    name = join(api, "n", spec={"unschedulable": True})
    schedule(api, "p")

    done(api.patch("nodes", name, {"spec": {"unschedulable": None}}))

    assert eventually(lambda: verdict(api, "p") == "n")


def test_a_label_that_comes_later(api: Api) -> None:
    """A pod that waits is tried again when a node gets the label."""
    name = join(api, "n")
    schedule(api, "p", {"nodeSelector": {"late": "yes"}})

    done(api.patch("nodes", name, {"metadata": {"labels": {"late": "yes"}}}))

    assert eventually(lambda: verdict(api, "p") == "n")


def test_volumes_tie_a_pod_to_a_node(api: Api) -> None:
    """A volume that is on one node brings its pods there."""
    join(api, "a")
    join(api, "b")
    terms = [{"matchExpressions": [expression(HOSTNAME, "In", named(api, "b"))]}]
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": api.unique,
        "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    api.make(
        "storageclasses",
        {
            "metadata": {"name": api.unique},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    api.make("persistentvolumes", {"metadata": {"name": api.unique}, "spec": volume})
    claim = {
        "storageClassName": api.unique,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    eventually(lambda: api.read("persistentvolumes", api.unique)["status"]["phase"] == "Available")

    api.make(
        "pods",
        pod(
            "p",
            spec={
                "schedulerName": DEFAULT,
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        ),
    )

    assert eventually(lambda: verdict(api, "p") == "b")
    assert eventually(lambda: api.read("persistentvolumeclaims", "c")["status"]["phase"] == "Bound")
