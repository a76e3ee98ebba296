"""PodDisruptionBudgets: how many pods may go."""

import pytest

from tests.contract.kubernetes.api import STRATEGIC, Api, Object, done, eventually
from tests.contract.kubernetes.machines import living, run, run_all
from tests.contract.kubernetes.objects import budget, deployment, pod


def budget_status(api: Api, name: str = "guard") -> Object:
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
