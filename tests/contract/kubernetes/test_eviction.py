"""Eviction: a delete that asks the budgets first."""

from typing import Any

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import run
from tests.contract.kubernetes.objects import budget, pod


def eviction(name: str, **options: Any) -> Object:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


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
