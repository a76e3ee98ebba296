"""The scheduler: what it does with a node that another client has nominated a pod for."""

import pytest

from tests.contract.kubernetes.api import JSON_PATCH, Api, Object, done, eventually
from tests.contract.kubernetes.machines import DEFAULT, join, named, schedule, verdict
from tests.contract.kubernetes.objects import pod

pytestmark = pytest.mark.usefixtures("empty_cluster")

MANAGER = "autoscaler"
GATE = [{"name": "example.com/wait"}]


def nominate(api: Api, name: str, on: str | None) -> None:
    """Say where a pod is expected; None withdraws it."""
    target = named(api, on) if on is not None else None
    body = {"status": {"nominatedNodeName": target}}
    done(api.patch("pods", name, body, sub="status", fieldManager=MANAGER))


def nominated(api: Api, name: str) -> str:
    found = str(api.read("pods", name)["status"].get("nominatedNodeName", ""))
    return found.removeprefix(f"{api.unique}-")


def waiting(api: Api, name: str, cpu: str = "1", **spec: object) -> None:
    """Create a pod that the scheduler does not look at before :func:`release`."""
    body: Object = {"schedulerName": DEFAULT, "schedulingGates": GATE, **spec}
    api.make("pods", pod(name, spec=body, requests={"cpu": cpu}))


def release(api: Api, name: str) -> None:
    remove = [{"op": "remove", "path": "/spec/schedulingGates"}]
    done(api.patch("pods", name, remove, kind=JSON_PATCH))


def placed(api: Api, name: str) -> str:
    """Return the node of a pod once it has one."""

    def probe() -> str:
        found = str(api.read("pods", name)["spec"].get("nodeName", ""))
        return found.removeprefix(f"{api.unique}-")

    return eventually(probe)


def test_the_nominated_node_is_tried_first(api: Api) -> None:
    """A pod goes to the node that it was nominated for, though another has more room."""
    join(api, "full", cpu="4")
    schedule(api, "there", requests={"cpu": "2"})
    join(api, "empty", cpu="4")
    waiting(api, "new")
    nominate(api, "new", "full")
    release(api, "new")

    assert placed(api, "new") == "full"


@pytest.mark.parametrize(
    "name", [pytest.param("small", id="has no room"), pytest.param("gone", id="does not exist")]
)
def test_a_nominated_node_that_does_not_fit_is_passed_over(api: Api, name: str) -> None:
    """A pod whose nominated node cannot take it goes to any other, and waits for nothing."""
    join(api, "small", cpu="1")
    join(api, "large", cpu="4")
    waiting(api, "new", cpu="2")
    nominate(api, "new", name)
    release(api, "new")

    assert placed(api, "new") == "large"


def test_room_is_kept_for_nominated_pods(api: Api) -> None:
    """A pod of equal priority may not take it, until the nomination is withdrawn."""
    join(api, "n", cpu="2")
    join(api, "other", cpu="1")
    waiting(api, "expected", cpu="2", nodeSelector={"never": "true"})
    nominate(api, "expected", "n")
    release(api, "expected")
    # It fits nowhere, so that the scheduler withdraws the nomination; one that it sees after that stays.
    eventually(lambda: not nominated(api, "expected"))
    nominate(api, "expected", "n")

    schedule(api, "new", requests={"cpu": "2"})
    assert not api.read("pods", "new")["spec"].get("nodeName")
    nominate(api, "expected", None)
    assert placed(api, "new") == "n"


def test_a_pod_that_fits_nowhere_loses_its_nomination(api: Api) -> None:
    """Where no eviction would help, the scheduler withdraws it, also what another client has set."""
    join(api, "n", cpu="1")
    waiting(api, "new", cpu="2")
    nominate(api, "new", "n")
    release(api, "new")

    assert eventually(lambda: "Insufficient cpu" in verdict(api, "new"))
    assert eventually(lambda: not nominated(api, "new"))


def test_the_first_look_at_a_node_finds_the_nominations_that_were_made_before(api: Api) -> None:
    """A taint goes after the nominations of its pods were written: each goes where it was planned to."""
    closed = {"taints": [{"key": "example.com/closed", "effect": "NoExecute"}]}
    for name in ("a", "b"):
        join(api, name, cpu="2", spec=closed)
    for name in ("one", "two", "three"):
        schedule(api, name, requests={"cpu": "500m"})
    for name, on in (("one", "a"), ("two", "a"), ("three", "a")):
        nominate(api, name, on)
    for name in ("b", "a"):
        taints = [each for each in _taints(api, name) if each["key"] != "example.com/closed"]
        body = {"spec": {"taints": taints}}
        if name == "a":
            done(api.patch("nodes", named(api, name), body))
            continue
        done(api.patch("nodes", named(api, name), {"spec": {"unschedulable": True, **body["spec"]}}))

    assert [placed(api, name) for name in ("one", "two", "three")] == ["a", "a", "a"]


def test_a_nomination_ends_with_the_binding(api: Api) -> None:
    """A bound pod is nominated no longer, and cannot be."""
    join(api, "n", cpu="2")
    waiting(api, "new")
    nominate(api, "new", "n")
    release(api, "new")

    assert placed(api, "new") == "n"
    assert eventually(lambda: not nominated(api, "new"))
    refused = api.patch(
        "pods", "new", {"status": {"nominatedNodeName": named(api, "n")}}, sub="status", fieldManager=MANAGER
    )
    assert (refused.status, "may not be set on pods that are already bound" in refused.message) == (422, True)


def test_who_has_nominated_a_pod(api: Api) -> None:
    """ManagedFields names the client that has set the field last, and none once it is withdrawn."""
    waiting(api, "new")
    nominate(api, "new", "n")
    ours = _managers(api, "new")
    done(
        api.patch(
            "pods",
            "new",
            {"status": {"nominatedNodeName": named(api, "m")}},
            sub="status",
            fieldManager="other",
        )
    )
    others = _managers(api, "new")
    nominate(api, "new", None)

    assert (ours, others, _managers(api, "new")) == ([MANAGER], ["other"], [])


def _taints(api: Api, name: str) -> list[Object]:
    found: list[Object] = api.read("nodes", named(api, name))["spec"].get("taints", [])
    return found


def _managers(api: Api, name: str) -> list[str]:
    """Return the managers of ``status.nominatedNodeName``."""
    return [
        each["manager"]
        for each in api.read("pods", name)["metadata"]["managedFields"]
        if "f:nominatedNodeName" in each["fieldsV1"].get("f:status", {})
    ]
