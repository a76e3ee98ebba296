"""Quotas: what a namespace may use, what it uses, and what is refused beyond that."""

from http import HTTPStatus
from typing import Any

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import container, pod


def quota(api: Api, name: str = "q", **spec: Any) -> None:
    """Make a quota, and wait until the server has counted."""
    api.make("resourcequotas", {"metadata": {"name": name}, "spec": spec})
    eventually(lambda: api.read("resourcequotas", name).get("status", {}).get("used"))


def used(api: Api, name: str = "q") -> Object:
    """Return what the quota says is used."""
    found: Object = api.read("resourcequotas", name)["status"]["used"]
    return found


def asking(name: str, requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    """Return a pod whose only container has requests and limits."""
    resources = {key: part for key, part in (("requests", requests), ("limits", limits)) if part}
    return pod(name, spec={"containers": [container(resources=resources)], **spec})


def test_a_quota_counts(api: Api) -> None:
    """The status of a quota says what is allowed and what is used, as objects come and go."""
    hard = {"pods": "3", "requests.cpu": "2", "limits.memory": "2Gi", "count/deployments.apps": "1"}
    quota(api, hard=hard)

    api.make("pods", asking("a", {"cpu": "500m"}, {"memory": "1Gi", "cpu": "1"}))
    eventually(lambda: used(api)["pods"] == "1")
    before = used(api)
    done(api.delete("pods", "a", gracePeriodSeconds=0))

    assert api.read("resourcequotas", "q")["status"]["hard"] == hard
    assert (before["requests.cpu"], before["limits.memory"]) == ("500m", "1Gi")
    assert before["count/deployments.apps"] == "0"
    assert eventually(lambda: used(api)["requests.cpu"] == "0")


@pytest.mark.parametrize(
    ("hard", "first", "second", "said"),
    [
        pytest.param(
            {"pods": "1"},
            asking("a"),
            asking("b"),
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
            id="pods",
        ),
        pytest.param(
            {"requests.cpu": "1", "limits.cpu": "4", "pods": "9"},
            asking("a", {"cpu": "600m"}, {"cpu": "1"}),
            asking("b", {"cpu": "600m"}, {"cpu": "1"}),
            "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, "
            "limited: requests.cpu=1",
            id="cpu",
        ),
        pytest.param(
            {"memory": "2Gi"},
            asking("a", {"memory": "1Gi"}),
            asking("b", {"memory": "1536Mi"}),
            "exceeded quota: q, requested: memory=1536Mi, used: memory=1Gi, limited: memory=2Gi",
            id="memory by its bare name",
        ),
        pytest.param(
            {"requests.example.com/gpu": "1"},
            asking("a", None, {"example.com/gpu": "1"}),
            asking("b", None, {"example.com/gpu": "1"}),
            "exceeded quota: q, requested: requests.example.com/gpu=1, used: requests.example.com/gpu=1, "
            "limited: requests.example.com/gpu=1",
            id="a device",
        ),
        pytest.param(
            {"requests.cpu": "1", "limits.memory": "1Gi"},
            asking("a", {"cpu": "1"}, {"memory": "1Gi"}),
            asking("b"),
            "failed quota: q: must specify limits.memory for: main; requests.cpu for: main",
            id="a pod that does not say",
        ),
    ],
)
def test_what_is_beyond_a_quota_is_refused(
    api: Api, hard: Object, first: Object, second: Object, said: str
) -> None:
    """A pod that would exceed a quota is forbidden, in words that say by how much."""
    quota(api, hard=hard)
    done(api.create("pods", first))

    answer = api.create("pods", second)

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == f'pods "b" is forbidden: {said}'


def test_other_objects_are_counted(api: Api) -> None:
    """Claims, services and any kind by its name count too."""
    quota(
        api,
        hard={
            "count/secrets": "1",
            "services.nodeports": "1",
            "requests.storage": "1Gi",
            "gold.storageclass.storage.k8s.io/requests.storage": "512Mi",
        },
    )
    api.make("secrets", {"metadata": {"name": "a"}})
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    answers = [
        api.create("secrets", {"metadata": {"name": "b"}}),
        api.create("services", {"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": ports}}),
        api.create(
            "persistentvolumeclaims",
            {"metadata": {"name": "b"}, "spec": {**claim, "storageClassName": "gold"}},
        ),
    ]

    assert [answer.status for answer in answers] == [403, 403, 403]
    assert "requested: count/secrets=1, used: count/secrets=1" in answers[0].message
    assert "requested: services.nodeports=2" in answers[1].message
    assert "requested: gold.storageclass.storage.k8s.io/requests.storage=1Gi" in answers[2].message
    done(api.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim}))


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        pytest.param({"scopes": ["BestEffort"]}, asking("b"), asking("b", {"cpu": "1"}), id="best effort"),
        pytest.param({"scopes": ["NotBestEffort"]}, asking("b", {"cpu": "1"}), asking("b"), id="the others"),
        pytest.param(
            {"scopes": ["Terminating"]},
            asking("b", activeDeadlineSeconds=60),
            asking("b"),
            id="with a deadline",
        ),
        pytest.param(
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            asking("b", priorityClassName="system-node-critical"),
            asking("b"),
            id="of a priority",
        ),
    ],
)
def test_scopes(api: Api, spec: Object, inside: Object, outside: Object) -> None:
    """A quota with scopes is about the pods in them, and about nothing else."""
    quota(api, hard={"pods": "0"}, **spec)

    assert api.create("pods", inside).status == 403
    assert api.create("pods", outside).status == 201


def test_a_pod_that_has_ended_is_free(api: Api) -> None:
    """What a pod used is available again when it has succeeded."""
    quota(api, hard={"pods": "1"})
    api.make("pods", asking("a"))
    eventually(lambda: used(api)["pods"] == "1")

    done(api.patch("pods", "a", {"status": {"phase": "Succeeded"}}, sub="status"))

    assert eventually(lambda: used(api)["pods"] == "0")
    # The admission of a real server keeps what it knows of a quota for a few seconds.
    assert eventually(lambda: api.create("pods", asking("b")).status == HTTPStatus.CREATED)
