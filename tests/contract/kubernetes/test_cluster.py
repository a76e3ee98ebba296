"""The rest of the control plane: budgets, namespaces, nodes, volumes, service accounts."""

import pytest

from tests.contract.kubernetes.api import STRATEGIC, Api, Object, done, eventually
from tests.contract.kubernetes.machines import (
    NOT_READY,
    join,
    living,
    named,
    report,
    run,
    run_all,
    schedule,
    taints,
)
from tests.contract.kubernetes.objects import budget, configmap, deployment, node, pod


def budget_status(api: Api, name: str = "guard") -> Object:
    """Return what the controller has counted."""
    found: Object = api.read("poddisruptionbudgets", name)["status"]
    return found


def counted(api: Api, **expected: int) -> Object:
    """Wait until the budget's counts are as expected."""
    return eventually(
        lambda: (
            found
            if all((found := budget_status(api)).get(key) == value for key, value in expected.items())
            else None
        )
    )


def ready_deployment(api: Api, replicas: int) -> None:
    """Make a Deployment whose pods are all ready."""
    api.make("deployments", deployment("web", replicas))
    eventually(lambda: len(living(api, "app=web")) == replicas)
    run_all(api, "app=web")


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        pytest.param({"minAvailable": 1}, 1, 3, id="at least one"),
        pytest.param({"minAvailable": "50%"}, 2, 2, id="at least half"),
        pytest.param({"minAvailable": "30%"}, 2, 2, id="shares of at least are rounded up"),
        pytest.param({"maxUnavailable": 1}, 3, 1, id="at most one missing"),
        pytest.param({"maxUnavailable": "30%"}, 2, 2, id="shares of at most are rounded up"),
        pytest.param({"maxUnavailable": 0}, 4, 0, id="none missing"),
        pytest.param({"minAvailable": "100%"}, 4, 0, id="all there"),
        pytest.param({"minAvailable": 9}, 9, 0, id="more than there are"),
    ],
)
def test_budgets_count(api: Api, spec: Object, desired: int, allowed: int) -> None:
    """Of four ready pods, so many may go."""
    ready_deployment(api, 4)
    api.make("poddisruptionbudgets", budget("guard", {"app": "web"}, **spec))

    assert counted(api, currentHealthy=4, desiredHealthy=desired, disruptionsAllowed=allowed, expectedPods=4)


def test_a_budget_says_whether_it_allows(api: Api) -> None:
    """The condition repeats the count in a word."""
    ready_deployment(api, 2)
    api.make("poddisruptionbudgets", budget("guard", {"app": "web"}, minAvailable=2))
    counted(api, currentHealthy=2)

    [condition] = budget_status(api)["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_a_budget_without_pods(api: Api) -> None:
    """Nothing to guard, nothing allowed."""
    api.make("poddisruptionbudgets", budget("guard", {"app": "none"}, minAvailable=1))

    found = eventually(
        lambda: found if (found := budget_status(api)).get("observedGeneration") == 1 else None
    )

    assert (found["expectedPods"], found["disruptionsAllowed"]) == (0, 0)


def test_a_budget_follows_its_pods(api: Api) -> None:
    """A pod that is no longer ready is one fewer."""
    ready_deployment(api, 2)
    api.make("poddisruptionbudgets", budget("guard", {"app": "web"}, minAvailable=1))
    counted(api, disruptionsAllowed=1)
    name = living(api, "app=web")[0]["metadata"]["name"]

    broken = {"conditions": [{"type": "Ready", "status": "False"}]}
    done(api.patch("pods", name, {"status": broken}, kind=STRATEGIC, sub="status"))

    assert counted(api, currentHealthy=1, disruptionsAllowed=0)


def test_a_budget_over_pods_of_no_controller(api: Api) -> None:
    """How many may be missing cannot be counted where nobody says how many there should be."""
    api.make("pods", pod("a", labels={"app": "web"}))
    run(api, "a")
    api.make("poddisruptionbudgets", budget("guard", {"app": "web"}, maxUnavailable=1))

    found = counted(api, currentHealthy=1, desiredHealthy=0, expectedPods=0, disruptionsAllowed=0)
    [event] = eventually(lambda: done(api.find("events", fieldSelector="reason=UnmanagedPods"))["items"])

    assert found["conditions"][0]["reason"] == "InsufficientPods"
    assert event["message"].endswith('please set ".spec.minAvailable" field of the PDB to an integer value.')


def test_broken_pods_may_always_go(api: Api) -> None:
    """With AlwaysAllow, a pod that runs but is not ready can be evicted whatever the budget."""
    ready_deployment(api, 1)
    api.make(
        "poddisruptionbudgets",
        budget("guard", {"app": "web"}, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow"),
    )
    name = living(api, "app=web")[0]["metadata"]["name"]
    broken = {"conditions": [{"type": "Ready", "status": "False"}]}
    done(api.patch("pods", name, {"status": broken}, kind=STRATEGIC, sub="status"))
    counted(api, currentHealthy=0)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}

    assert api.create("pods", body, name=name, sub="eviction").status == 201


def test_a_new_namespace(api: Api) -> None:
    """A namespace is active, carries its name as a label and has a finalizer of its own."""
    found = api.read("namespaces", api.namespace)

    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert found["spec"]["finalizers"] == ["kubernetes"]


def test_a_namespace_gets_its_account(api: Api) -> None:
    """A controller makes the default service account."""
    assert eventually(lambda: "default" in api.names("serviceaccounts"))


def test_a_namespace_goes_with_everything_in_it(api: Api) -> None:
    """Deleting a namespace empties it first."""
    name = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    done(api.send("POST", api.path("configmaps", namespace=name), configmap("a")))
    done(api.send("POST", api.path("deployments", namespace=name), deployment("web", 1)))

    answer = api.delete("namespaces", name)

    assert answer.json["status"]["phase"] == "Terminating"
    assert eventually(lambda: api.gone("namespaces", name))
    assert done(api.send("GET", api.path("configmaps", namespace=name)))["items"] == []


def test_a_terminating_namespace_takes_nothing_new(api: Api) -> None:
    """What is on its way out cannot grow."""
    name = api.make("namespaces", {"metadata": {"name": f"{api.unique}-b"}})["metadata"]["name"]
    held = api.path("configmaps", namespace=name)
    done(api.send("POST", held, configmap("held", finalizers=["x.io/wait"])))
    done(api.delete("namespaces", name))

    answer = api.send("POST", held, configmap("late"))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )
    assert ("metadata.namespace", "NamespaceTerminating") in [
        (field, reason) for field, reason, _ in answer.causes
    ]
    conditions = eventually(lambda: api.read("namespaces", name)["status"].get("conditions"))
    assert "NamespaceDeletionDiscoveryFailure" in [each["type"] for each in conditions]
    done(
        api.send(
            "PATCH", f"{held}/held", {"metadata": {"finalizers": None}}, headers={"Content-Type": STRATEGIC}
        )
    )
    assert eventually(lambda: api.gone("namespaces", name))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_namespaces_that_come_with_the_cluster(api: Api, name: str) -> None:
    """Four namespaces are there from the start."""
    assert api.read("namespaces", name)["status"]["phase"] == "Active"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_that_cannot_go(api: Api, name: str) -> None:
    """Some of them cannot be deleted."""
    answer = api.delete("namespaces", name)

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_names_of_namespaces_are_labels(api: Api) -> None:
    """A namespace's name has no dots and at most 63 characters."""
    answers = [api.create("namespaces", {"metadata": {"name": name}}).status for name in ("a.b", "x" * 64)]

    assert answers == [422, 422]


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
    """tolerationSeconds is how long a pod may stay."""
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


def test_a_claim_is_bound_to_a_volume(api: Api) -> None:
    """A claim of a class that binds at once takes a volume that fits."""
    api.make(
        "storageclasses", {"metadata": {"name": api.unique}, "provisioner": "kubernetes.io/no-provisioner"}
    )
    volume = {
        "storageClassName": api.unique,
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
    }
    api.make(
        "persistentvolumes",
        {"metadata": {"name": api.unique}, "spec": {**volume, "hostPath": {"path": "/x"}}},
    )
    claim = {
        "storageClassName": api.unique,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }

    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})

    found = eventually(
        lambda: (
            read if (read := api.read("persistentvolumeclaims", "c"))["status"]["phase"] == "Bound" else None
        )
    )
    assert found["spec"]["volumeName"] == api.unique
    assert found["status"]["capacity"] == {"storage": "2Gi"}
    bound = api.read("persistentvolumes", api.unique)
    assert (bound["status"]["phase"], bound["spec"]["claimRef"]["name"]) == ("Bound", "c")


def test_a_claim_in_use_is_protected(api: Api) -> None:
    """A claim that a pod uses stays until the pod is gone."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    api.make("pods", pod("p", spec={"nodeName": "somewhere", "volumes": volumes}))
    run(api, "p")

    done(api.delete("persistentvolumeclaims", "c"))

    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "deletionTimestamp" in api.read("persistentvolumeclaims", "c")["metadata"]
    done(api.delete("pods", "p", gracePeriodSeconds=0))
    assert eventually(lambda: api.gone("persistentvolumeclaims", "c"))


def test_a_storage_class_that_waits(api: Api) -> None:
    """WaitForFirstConsumer leaves a claim alone until a pod comes."""
    body = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    api.make("storageclasses", {"metadata": {"name": api.unique}, **body})
    claim = {
        "storageClassName": api.unique,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})

    found = eventually(lambda: done(api.find("events", fieldSelector="involvedObject.name=c"))["items"])

    assert (found[0]["reason"], found[0]["message"]) == (
        "WaitForFirstConsumer",
        "waiting for first consumer to be created before binding",
    )
