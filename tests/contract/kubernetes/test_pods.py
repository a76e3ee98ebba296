"""Pods: what the server fills in, binding, gates, and eviction against budgets."""

import re
from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import budget, container, pod


def binding(name: str, target: str, **fields: Any) -> Object:
    """Return what a scheduler sends."""
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **fields}}
    return {**body, "target": {"apiVersion": "v1", "kind": "Node", "name": target}}


def eviction(name: str, **options: Any) -> Object:
    """Return what a drain sends."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


def run(api: Api, name: str, node: str = "somewhere") -> None:
    """Make the pod run and be ready, as a kubelet would."""
    if not api.read("pods", name)["spec"].get("nodeName"):
        done(api.create("pods", binding(name, node), name=name, sub="binding"))
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    done(api.patch("pods", name, {"status": status}, sub="status"))


def test_what_the_server_fills_in(api: Api) -> None:
    """A small pod becomes a whole one."""
    sent = {
        "metadata": {"name": "a"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }

    made = api.make("pods", sent)

    for account in ("serviceAccount", "serviceAccountName"):  # set where service accounts are mounted
        made["spec"].pop(account, None)
    assert made["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "nobody",
        "tolerations": [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_the_default_scheduler(api: Api) -> None:
    """A pod that names no scheduler gets the default one."""
    sent = pod("a", spec={"schedulerName": None, "schedulingGates": [{"name": "x.io/wait"}]})

    assert api.make("pods", sent)["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("app@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    """Images without a tag, or with latest, are always pulled."""
    made = api.make("pods", pod("a", spec={"containers": [container(image=image)]}))

    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param({}, "BestEffort", id="nothing asked"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="requests only"),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
            id="limits equal to requests",
        ),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits only"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="one limit only"),
    ],
)
def test_quality_of_service(api: Api, resources: Object, quality: str) -> None:
    """The class follows from requests and limits."""
    made = api.make("pods", pod("a", spec={"containers": [container(resources=resources)]}))

    assert made["status"]["qosClass"] == quality


def test_limits_are_requests_too(api: Api) -> None:
    """A limit without a request is also the request."""
    made = api.make("pods", pod("a", spec={"containers": [container(resources={"limits": {"cpu": "1"}})]}))

    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.0", "1"),
        ("1e3", "1e3"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.1Gi", "107374182400m"),
    ],
)
def test_quantities_are_kept_in_their_shortest_form(api: Api, given: str, kept: str) -> None:
    """Quantities are normalised when stored."""
    made = api.make("pods", pod("a", requests={"memory": given}))

    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == kept


def test_priority_by_class(api: Api) -> None:
    """A priority class gives a number and a policy."""
    api.make("priorityclasses", {"metadata": {"name": api.unique}, "value": 77, "preemptionPolicy": "Never"})

    spec = api.make("pods", pod("a", spec={"priorityClassName": api.unique}))["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (77, "Never")


def test_system_classes_are_there(api: Api) -> None:
    """Two classes come with the server."""
    values = {
        name: api.read("priorityclasses", name)["value"]
        for name in ("system-cluster-critical", "system-node-critical")
    }

    assert values == {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}


def test_a_class_that_is_not_there(api: Api) -> None:
    """A pod cannot name a class that does not exist."""
    answer = api.create("pods", pod("a", spec={"priorityClassName": "nope"}))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == 'pods "a" is forbidden: no PriorityClass with name nope was found'


def test_a_priority_cannot_be_made_up(api: Api) -> None:
    """The number comes from a class."""
    answer = api.create("pods", pod("a", spec={"priority": 5}))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'pods "a" is forbidden: the integer value of priority (5) must not be provided in pod spec; '
        "priority admission controller computed 0 from the given PriorityClass name"
    )


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


def test_a_pod_without_a_budget_is_evicted(api: Api) -> None:
    """Eviction is a delete that asks first."""
    api.make("pods", pod("a"))

    answer = api.create("pods", eviction("a"), name="a", sub="eviction")

    assert (answer.status, answer.json["status"]) == (201, "Success")
    assert api.gone("pods", "a")


def test_evicting_what_is_not_there(api: Api) -> None:
    """There must be a pod to evict."""
    answer = api.create("pods", eviction("a"), name="a", sub="eviction")

    assert (answer.status, answer.reason) == (404, "NotFound")


def test_an_eviction_under_another_name(api: Api) -> None:
    """The eviction names the pod in its address."""
    api.make("pods", pod("a"))

    answer = api.create("pods", eviction("b"), name="a", sub="eviction")

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "name in URL does not match name in Eviction object"


def test_a_budget_holds_an_eviction_back(api: Api) -> None:
    """When no disruption is allowed, the answer is 429 with the reason and when to ask again."""
    labels = {"app": "x"}
    api.make("pods", pod("a", labels=labels))
    run(api, "a")
    api.make("poddisruptionbudgets", budget("guard", labels, minAvailable=1))
    eventually(lambda: api.read("poddisruptionbudgets", "guard")["status"].get("currentHealthy") == 1)

    answer = api.create("pods", eviction("a"), name="a", sub="eviction")

    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.causes == [
        ("", "DisruptionBudget", "The disruption budget guard needs 1 healthy pods and has 1 currently")
    ]
    assert answer.json["details"].get("retryAfterSeconds", 0) == 0
    assert not api.gone("pods", "a")


def test_a_budget_that_nobody_has_counted_yet(api: Api) -> None:
    """Before the controller has looked at a budget, evictions wait ten seconds."""
    labels = {"app": "x"}
    api.make("pods", pod("a", labels=labels))
    run(api, "a")
    api.make("poddisruptionbudgets", budget("guard", labels, minAvailable=1))
    unseen = {
        "observedGeneration": 0,
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }

    def held_back() -> Object | None:
        done(api.patch("poddisruptionbudgets", "guard", {"status": unseen}, sub="status"))
        answer = api.create("pods", eviction("a"), name="a", sub="eviction")
        found: Object = answer.json
        return found if found["details"].get("retryAfterSeconds") else None

    status = eventually(held_back)

    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"]["retryAfterSeconds"] == 10
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget guard is still being processed by the server.",
        }
    ]


def test_a_budget_with_room_lets_one_go(api: Api) -> None:
    """An eviction takes one from what is allowed, and is remembered until the pod is gone."""
    labels = {"app": "x"}
    for name in "ab":
        api.make("pods", pod(name, labels=labels, spec={"terminationGracePeriodSeconds": 30}))
        run(api, name)
    api.make("poddisruptionbudgets", budget("guard", labels, minAvailable=1))
    eventually(lambda: api.read("poddisruptionbudgets", "guard")["status"].get("disruptionsAllowed") == 1)

    first = api.create("pods", eviction("a"), name="a", sub="eviction")
    second = api.create("pods", eviction("b"), name="b", sub="eviction")

    assert (first.status, second.status) == (201, 429)
    guard = api.read("poddisruptionbudgets", "guard")
    assert guard["status"]["disruptionsAllowed"] == 0
    for name in "ab":
        done(api.delete("pods", name, gracePeriodSeconds=0))


def test_an_evicted_pod_says_why(api: Api) -> None:
    """An eviction leaves a condition on a pod that has time to end."""
    api.make("pods", pod("a", spec={"nodeName": "somewhere", "terminationGracePeriodSeconds": 30}))

    done(api.create("pods", eviction("a"), name="a", sub="eviction"))

    [condition] = [
        each for each in api.read("pods", "a")["status"]["conditions"] if each["type"] == "DisruptionTarget"
    ]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"
    done(api.delete("pods", "a", gracePeriodSeconds=0))


def test_pods_that_are_over_need_no_budget(api: Api) -> None:
    """A finished pod can always be evicted."""
    labels = {"app": "x"}
    api.make("pods", pod("a", labels=labels))
    run(api, "a")
    done(api.patch("pods", "a", {"status": {"phase": "Succeeded"}}, sub="status"))
    api.make("poddisruptionbudgets", budget("guard", labels, minAvailable=1))

    assert api.create("pods", eviction("a"), name="a", sub="eviction").status == 201


def test_pods_that_wait_need_no_budget(api: Api) -> None:
    """A pending pod can always be evicted."""
    labels = {"app": "x"}
    api.make("pods", pod("a", labels=labels))
    api.make("poddisruptionbudgets", budget("guard", labels, minAvailable=1))

    assert api.create("pods", eviction("a"), name="a", sub="eviction").status == 201


def test_two_budgets_over_one_pod(api: Api) -> None:
    """A pod under two budgets cannot be evicted at all."""
    labels = {"app": "x"}
    api.make("pods", pod("a", labels=labels))
    run(api, "a")
    for name in ("one", "two"):
        api.make("poddisruptionbudgets", budget(name, labels, minAvailable=0))

    answer = api.create("pods", eviction("a"), name="a", sub="eviction")

    assert answer.status == 500
    assert (
        answer.message
        == "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


def test_a_dry_eviction(api: Api) -> None:
    """Trying an eviction evicts nobody."""
    api.make("pods", pod("a"))

    done(api.create("pods", eviction("a", dryRun=["All"]), name="a", sub="eviction"))

    assert not api.gone("pods", "a")


def test_an_eviction_may_insist_on_a_uid(api: Api) -> None:
    """Preconditions of a delete hold for an eviction."""
    api.make("pods", pod("a"))

    answer = api.create(
        "pods",
        eviction("a", preconditions={"uid": "11111111-1111-4111-8111-111111111111"}),
        name="a",
        sub="eviction",
    )

    assert (answer.status, answer.reason) == (409, "Conflict")
