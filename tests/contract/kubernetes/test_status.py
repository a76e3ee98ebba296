"""Spec and status are written through different doors; the generation counts changes of the spec."""

import pytest

from tests.contract.kubernetes.api import APPLY, MERGE, STRATEGIC, Api, done
from tests.contract.kubernetes.objects import deployment, node, pod, workload


def test_a_create_ignores_the_status(api: Api) -> None:
    """What is new has no past."""
    made = api.make("deployments", {**deployment("a", 0), "status": {"replicas": 7}})

    assert made["status"].get("replicas", 0) == 0


def test_a_replace_ignores_the_status(api: Api) -> None:
    """The main door does not let a status in."""
    api.make("pods", pod("a"))
    sent = api.read("pods", "a")
    sent["status"] = {"phase": "Running"}

    assert done(api.replace("pods", sent))["status"]["phase"] == "Pending"


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC], ids=["merge", "strategic"])
def test_a_patch_ignores_the_status(api: Api, kind: str) -> None:
    """Neither by patch."""
    api.make("pods", pod("a"))

    assert (
        done(api.patch("pods", "a", {"status": {"phase": "Running"}}, kind=kind))["status"]["phase"]
        == "Pending"
    )


def test_the_status_door_ignores_the_spec(api: Api) -> None:
    """Through the status, only the status changes."""
    made = api.make("deployments", deployment("a", 0))
    sent = {**made, "spec": {**made["spec"], "replicas": 5}, "status": {"observedGeneration": 9}}
    sent["metadata"] = {"name": "a"}

    stored = done(api.replace("deployments", sent, sub="status"))

    assert (stored["spec"]["replicas"], stored["status"]["observedGeneration"]) == (0, 9)


def test_the_status_door_ignores_labels_of_a_deployment(api: Api) -> None:
    """Labels are not status."""
    api.make("deployments", deployment("a", 0))

    stored = done(api.patch("deployments", "a", {"metadata": {"labels": {"x": "1"}}}, sub="status"))

    assert "labels" not in stored["metadata"]


def test_the_status_can_be_read_alone(api: Api) -> None:
    """GET on the status is the whole object."""
    made = api.make("pods", pod("a"))

    assert done(api.get("pods", "a", sub="status")) == made


def test_a_node_reports_its_status(api: Api) -> None:
    """Capacity, conditions and addresses come through the status; spec stays."""
    api.make("nodes", node(api.unique))
    status = {"capacity": {"cpu": "4", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}

    stored = done(api.patch("nodes", api.unique, {"status": status}, kind=STRATEGIC, sub="status"))

    assert stored["status"]["capacity"] == {"cpu": "4", "memory": "8Gi"}
    assert stored["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi"}


def test_the_generation_starts_at_one(api: Api) -> None:
    """Kinds with a spec count from one."""
    assert api.make("deployments", deployment("a", 0))["metadata"]["generation"] == 1


def test_the_generation_counts_changes_of_the_spec(api: Api) -> None:
    """A change of the spec is one more."""
    api.make("deployments", deployment("a", 0))

    assert done(api.patch("deployments", "a", {"spec": {"paused": True}}))["metadata"]["generation"] == 2


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_the_generation_does_not_count_metadata(api: Api, field: str) -> None:
    """Labels are not the spec; annotations of a Deployment count, because they reach its ReplicaSets."""
    api.make("deployments", deployment("a", 0))

    patched = done(api.patch("deployments", "a", {"metadata": {field: {"x.io/y": "1"}}}))

    assert patched["metadata"]["generation"] == {"labels": 1, "annotations": 2}[field]


def test_the_generation_does_not_count_status(api: Api) -> None:
    """Nor is the status."""
    api.make("deployments", deployment("a", 0))

    patched = done(api.patch("deployments", "a", {"status": {"observedGeneration": 1}}, sub="status"))

    assert patched["metadata"]["generation"] == 1


def test_configmaps_do_not_count(api: Api) -> None:
    """Kinds without a spec have no generation."""
    made = api.make("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}})

    assert "generation" not in made["metadata"]


def test_pods_count(api: Api) -> None:
    """Pods have a generation since 1.33."""
    made = api.make("pods", pod("a"))
    change = {"spec": {"containers": [{"name": "main", "image": "new:2"}]}}

    patched = done(api.patch("pods", "a", change, kind=STRATEGIC))

    assert (made["metadata"]["generation"], patched["metadata"]["generation"]) == (1, 2)


def test_the_scale_of_a_deployment(api: Api) -> None:
    """Scale shows replicas wanted and there, and the selector."""
    made = api.make("deployments", deployment("a", 0))

    found = done(api.get("deployments", "a", sub="scale"))

    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert found["spec"] == {}
    assert found["status"] == {"replicas": 0, "selector": "app=a"}
    assert found["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    ("resource", "kind"),
    [("deployments", "Deployment"), ("replicasets", "ReplicaSet"), ("statefulsets", "StatefulSet")],
)
def test_scaling(api: Api, resource: str, kind: str) -> None:
    """A PUT on the scale changes the replicas and nothing else."""
    extra = {"serviceName": "x"} if kind == "StatefulSet" else {}
    api.make(resource, workload(kind, "a", replicas=0, spec=extra))
    sent = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 2},
    }

    scaled = done(api.replace(resource, sent, sub="scale"))

    assert scaled["spec"] == {"replicas": 2}
    after = api.read(resource, "a")
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (2, 2)


def test_scaling_by_patch(api: Api) -> None:
    """A merge patch on the scale is what ``kubectl scale`` may send."""
    api.make("deployments", deployment("a", 0))

    scaled = done(api.patch("deployments", "a", {"spec": {"replicas": 3}}, sub="scale"))

    assert (scaled["kind"], scaled["spec"]["replicas"]) == ("Scale", 3)


def test_scaling_below_nothing(api: Api) -> None:
    """There is no negative scale."""
    api.make("deployments", deployment("a", 0))

    answer = api.patch("deployments", "a", {"spec": {"replicas": -1}}, sub="scale")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes[0][0] == "spec.replicas"


def test_scaling_with_an_old_version_conflicts(api: Api) -> None:
    """The version in a scale is the version of the object."""
    api.make("deployments", deployment("a", 0, spec={"paused": True}))
    scale = done(api.get("deployments", "a", sub="scale"))
    done(api.patch("deployments", "a", {"metadata": {"labels": {"x": "1"}}}))

    answer = api.replace("deployments", {**scale, "spec": {"replicas": 2}}, sub="scale")

    assert (answer.status, answer.reason) == (409, "Conflict")


def test_applying_replicas_to_a_scale(api: Api) -> None:
    """The scale can be applied to, and then owns the replicas."""
    api.make("deployments", deployment("a", 0))
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": 2},
    }

    answer = api.patch("deployments", "a", body, kind=APPLY, sub="scale", fieldManager="scaler", force="true")

    assert answer.json["spec"]["replicas"] == 2
    entries = api.read("deployments", "a")["metadata"]["managedFields"]
    [entry] = [each for each in entries if each["manager"] == "scaler"]
    assert (entry["subresource"], entry["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})


def test_there_is_no_scale_of_a_daemonset(api: Api) -> None:
    """A DaemonSet has as many pods as there are nodes."""
    answer = api.get("daemonsets", "a", sub="scale")

    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")
