"""Pods: what the server fills in and what it computes."""

import pytest

from tests.contract.kubernetes.api import Api, Object
from tests.contract.kubernetes.objects import container, pod


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
        pytest.param({"requests": {"ephemeral-storage": "1Gi"}}, "BestEffort", id="only disk asked"),
        pytest.param({"requests": {"cpu": "0"}}, "BestEffort", id="nothing of a cpu asked"),
        pytest.param({"limits": {"example.com/gpu": "1"}}, "BestEffort", id="only an extended resource"),
    ],
)
def test_quality_of_service(api: Api, resources: Object, quality: str) -> None:
    """The class follows from requests and limits."""
    made = api.make("pods", pod("a", spec={"containers": [container(resources=resources)]}))

    assert made["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("own", "of_containers", "quality"),
    [
        pytest.param({}, {}, "BestEffort", id="empty"),
        pytest.param({}, {"requests": {"cpu": "1"}}, "BestEffort", id="empty, and its container asks"),
        pytest.param({"requests": {"cpu": "1"}}, {}, "Burstable", id="requests"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, {}, "Guaranteed", id="limits"),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"cpu": "500m"}},
            "Burstable",
            id="limits, and its container requests less",
        ),
    ],
)
def test_quality_of_service_of_a_whole_pod(
    api: Api, own: Object, of_containers: Object, quality: str
) -> None:
    """A pod with resources of its own is classed by these, whatever its containers ask for."""
    containers = [container(resources=of_containers)]

    made = api.make("pods", pod("a", spec={"resources": own, "containers": containers}))

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
