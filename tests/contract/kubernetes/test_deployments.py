"""Deployments and ReplicaSets: as many pods as wanted, replaced in steps."""

from functools import partial

import pytest

from tests.contract.kubernetes.api import Api, done, eventually
from tests.contract.kubernetes.machines import bury, join, living, run, run_all, schedule
from tests.contract.kubernetes.objects import container, deployment, workload
from tests.contract.kubernetes.workloads import owner_of, pump, settled


def sets(api: Api) -> dict[str, int]:
    """Return how many pods each ReplicaSet wants, by revision."""
    found = done(api.find("replicasets"))["items"]
    return {
        each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: each["spec"]["replicas"]
        for each in found
    }


def has_revision(api: Api, revision: str) -> bool:
    """Whether the Deployment has got as far as `revision`."""
    return revision in sets(api)


def roll(api: Api, name: str, image: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{**container(), "image": image}]}}}}
    done(api.patch("deployments", name, change))


def test_a_deployment_makes_a_set_that_makes_pods(api: Api) -> None:
    """Names, labels and owners are passed down."""
    api.make("deployments", deployment("web", 2))

    pods = eventually(lambda: found if len(found := living(api, "app=web")) == 2 else None)

    [owned] = done(api.find("replicasets"))["items"]
    digest = owned["metadata"]["labels"]["pod-template-hash"]
    assert owned["metadata"]["name"] == f"web-{digest}"
    assert owned["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert owner_of(owned) == ("Deployment", "web", True, True)
    assert all(each["metadata"]["name"].startswith(f"web-{digest}-") for each in pods)
    assert all(each["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest} for each in pods)
    assert owner_of(pods[0]) == ("ReplicaSet", f"web-{digest}", True, True)
    assert pods[0]["metadata"]["generateName"] == f"web-{digest}-"


def test_the_status_of_a_deployment(api: Api) -> None:
    """Replicas are counted as they come up."""
    api.make("deployments", deployment("web", 2))
    waiting = settled(api, "deployments", "web", replicas=2, unavailableReplicas=2, observedGeneration=1)
    run_all(api, "app=web")

    ready = settled(api, "deployments", "web", readyReplicas=2, availableReplicas=2, updatedReplicas=2)

    conditions = {each["type"]: (each["status"], each["reason"]) for each in ready["status"]["conditions"]}
    assert {each["type"]: each["status"] for each in waiting["status"]["conditions"]}["Available"] == "False"
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert "unavailableReplicas" not in ready["status"]
    assert ready["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_scaling_up(api: Api) -> None:
    """More replicas, more pods."""
    api.make("deployments", deployment("web", 1))
    eventually(lambda: len(living(api, "app=web")) == 1)

    done(api.patch("deployments", "web", {"spec": {"replicas": 3}}, sub="scale"))

    assert eventually(lambda: len(living(api, "app=web")) == 3)


def test_scaling_down_takes_the_pods_that_are_not_ready(api: Api) -> None:
    """Pods that serve are kept over pods that do not."""
    api.make("deployments", deployment("web", 3))
    eventually(lambda: len(living(api, "app=web")) == 3)
    kept = living(api, "app=web")[1]["metadata"]["name"]
    run(api, kept)

    done(api.patch("deployments", "web", {"spec": {"replicas": 1}}, sub="scale"))

    assert eventually(lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == [kept])


def test_deletion_cost_decides_who_goes(api: Api) -> None:
    """Among equals, the cheaper pod goes first."""
    api.make("deployments", deployment("web", 2))
    eventually(lambda: len(living(api, "app=web")) == 2)
    run_all(api, "app=web")
    cheap, dear = [each["metadata"]["name"] for each in living(api, "app=web")]
    for name, cost in ((cheap, "-10"), (dear, "10")):
        annotations = {"controller.kubernetes.io/pod-deletion-cost": cost}
        done(api.patch("pods", name, {"metadata": {"annotations": annotations}}))
    settled(api, "deployments", "web", readyReplicas=2)

    done(api.patch("deployments", "web", {"spec": {"replicas": 1}}, sub="scale"))

    assert eventually(lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == [dear])


def test_a_deleted_pod_is_replaced(api: Api) -> None:
    """There are always as many as wanted."""
    api.make("deployments", deployment("web", 1))
    [first] = eventually(lambda: living(api, "app=web"))

    done(api.delete("pods", first["metadata"]["name"]))

    assert eventually(
        lambda: (
            [each["metadata"]["uid"] for each in living(api, "app=web")]
            not in ([first["metadata"]["uid"]], [])
        )
    )


def test_a_failed_pod_is_replaced(api: Api) -> None:
    """A pod that has failed does not count."""
    api.make("deployments", deployment("web", 1))
    [first] = eventually(lambda: living(api, "app=web"))

    done(api.patch("pods", first["metadata"]["name"], {"status": {"phase": "Failed"}}, sub="status"))

    assert eventually(lambda: len(living(api, "app=web")) == 2)


def test_a_rolling_update_goes_in_steps(api: Api) -> None:
    """With one more and none fewer, a new pod must be ready before an old one goes."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    api.make("deployments", deployment("web", 2, spec={"strategy": strategy}))
    eventually(lambda: len(living(api, "app=web")) == 2)
    run_all(api, "app=web")
    settled(api, "deployments", "web", availableReplicas=2)

    roll(api, "web", "new:2")

    eventually(lambda: sets(api) == {"1": 2, "2": 1})
    assert eventually(lambda: len(living(api, "app=web")) == 3)
    eventually(lambda: sets(api) == {"1": 0, "2": 2}, meanwhile=partial(pump, api))
    eventually(lambda: len(living(api, "app=web")) == 2, meanwhile=partial(pump, api))
    done_at = settled(api, "deployments", "web", updatedReplicas=2, availableReplicas=2, replicas=2)
    assert done_at["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def test_the_default_strategy_allows_a_quarter(api: Api) -> None:
    """Of four, one may be missing and one may be extra."""
    api.make("deployments", deployment("web", 4))
    eventually(lambda: len(living(api, "app=web")) == 4)
    run_all(api, "app=web")
    settled(api, "deployments", "web", availableReplicas=4)

    roll(api, "web", "new:2")

    assert eventually(lambda: sets(api) == {"1": 3, "2": 2})


def test_recreate_empties_first(api: Api) -> None:
    """Recreate starts the new only when the old are gone."""
    api.make(
        "deployments",
        deployment("web", 2, spec={"strategy": {"type": "Recreate"}}, terminationGracePeriodSeconds=30),
    )
    eventually(lambda: len(living(api, "app=web")) == 2)
    run_all(api, "app=web")
    settled(api, "deployments", "web", availableReplicas=2)

    roll(api, "web", "new:2")

    eventually(lambda: not living(api, "app=web"))
    assert sets(api) == {"1": 0}
    bury(api)
    assert eventually(lambda: sets(api) == {"1": 0, "2": 2})


def test_a_paused_deployment_does_not_roll(api: Api) -> None:
    """Paused means that changes of the template wait; scaling does not."""
    api.make("deployments", deployment("web", 1))
    eventually(lambda: len(living(api, "app=web")) == 1)
    done(api.patch("deployments", "web", {"spec": {"paused": True}}))
    roll(api, "web", "new:2")
    done(api.patch("deployments", "web", {"spec": {"replicas": 2}}))

    eventually(lambda: len(living(api, "app=web")) == 2)

    assert len(done(api.find("replicasets"))["items"]) == 1


def test_going_back_reuses_the_old_set(api: Api) -> None:
    """A template that was there before keeps its ReplicaSet, under a new revision."""
    api.make("deployments", deployment("web", 1))
    [first] = eventually(lambda: done(api.find("replicasets"))["items"])
    roll(api, "web", "new:2")
    eventually(lambda: set(sets(api)) == {"1", "2"})

    roll(api, "web", container()["image"])

    eventually(lambda: set(sets(api)) == {"2", "3"})
    again = api.read("replicasets", first["metadata"]["name"])
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_old_sets_are_forgotten(api: Api) -> None:
    """How many are kept is bounded by revisionHistoryLimit."""
    api.make("deployments", deployment("web", 0, spec={"revisionHistoryLimit": 1}))
    for number in "234":
        eventually(partial(has_revision, api, str(int(number) - 1)))
        roll(api, "web", f"new:{number}")

    assert eventually(lambda: set(sets(api)) == {"3", "4"})


def test_labels_of_the_template_do_not_need_a_new_set(api: Api) -> None:
    """Labels of the Deployment itself do not roll anything."""
    api.make("deployments", deployment("web", 0))
    eventually(lambda: set(sets(api)) == {"1"})

    done(api.patch("deployments", "web", {"metadata": {"labels": {"x": "1"}}}))
    settled(api, "deployments", "web", observedGeneration=1)

    assert set(sets(api)) == {"1"}


def test_a_replica_set_counts(api: Api) -> None:
    """The status of a ReplicaSet follows its pods."""
    api.make("replicasets", workload("ReplicaSet", "web", replicas=2))
    settled(api, "replicasets", "web", replicas=2, fullyLabeledReplicas=2)
    run_all(api, "app=web")

    found = settled(api, "replicasets", "web", readyReplicas=2, availableReplicas=2)

    assert found["status"]["observedGeneration"] == 1


def test_ready_long_enough_is_available(api: Api) -> None:
    """Between ready and available stands minReadySeconds."""
    api.make("replicasets", workload("ReplicaSet", "web", replicas=1, spec={"minReadySeconds": 600}))
    eventually(lambda: len(living(api, "app=web")) == 1)
    run_all(api, "app=web")

    found = settled(api, "replicasets", "web", readyReplicas=1)

    assert found["status"].get("availableReplicas", 0) == 0


def test_a_set_lets_go_of_a_pod_that_changes_its_labels(api: Api) -> None:
    """A pod that no longer matches is released and replaced."""
    api.make("replicasets", workload("ReplicaSet", "web", replicas=1))
    [first] = eventually(lambda: living(api, "app=web"))
    name = first["metadata"]["name"]

    done(api.patch("pods", name, {"metadata": {"labels": {"app": "debug"}}}))

    assert eventually(lambda: "ownerReferences" not in api.read("pods", name)["metadata"])
    assert eventually(lambda: len(living(api, "app=web")) == 1)


@pytest.mark.usefixtures("empty_cluster")
def test_a_deployment_lands(api: Api) -> None:
    """Deployment, ReplicaSet and scheduler together: pods on nodes, no more than fit."""
    join(api, "a", cpu="2")
    containers = [container(requests={"cpu": "1"})]

    api.make("deployments", deployment("web", 3, schedulerName="default-scheduler", containers=containers))

    def placed() -> list[bool]:
        return sorted("nodeName" in each["spec"] for each in living(api, "app=web"))

    assert eventually(lambda: placed() == [False, True, True])
    assert "0/1 nodes are available" in schedule(api, "other", requests={"cpu": "1"})
