"""What other objects of a namespace or the cluster say about new ones."""

import pytest

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.objects import container, pod


def limit(api: Api, **fields: Object) -> None:
    """Put a limit on containers of the namespace."""
    api.make(
        "limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **fields}]}}
    )


def resources(api: Api, name: str, given: Object | None = None) -> Object:
    """Return what a container gets when a pod is tried."""
    sent = pod(name, spec={"containers": [container(resources=given or {})]})
    found: Object = done(api.create("pods", sent, dryRun="All"))["spec"]["containers"][0]["resources"]
    return found


def test_a_limit_range_fills_in(api: Api) -> None:
    """Containers that say nothing get the namespace's defaults."""
    limit(api, defaultRequest={"cpu": "100m"}, default={"cpu": "200m"})

    expected = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    assert eventually(lambda: resources(api, "a") == expected)


def test_a_limit_range_leaves_what_is_said(api: Api) -> None:
    """Defaults do not replace what a pod asks for."""
    limit(api, defaultRequest={"cpu": "100m"}, default={"cpu": "500m"})
    eventually(lambda: resources(api, "probe"))

    given = {"requests": {"cpu": "300m"}, "limits": {"cpu": "400m"}}
    assert resources(api, "a", given) == given


def test_a_limit_range_refuses(api: Api) -> None:
    """Too much is forbidden, in words that name the limit."""
    limit(api, max={"cpu": "1"})
    sent = pod("a", spec={"containers": [container(resources={"limits": {"cpu": "2"}})]})

    answer = eventually(
        lambda: found if (found := api.create("pods", sent, dryRun="All")).status == 403 else None
    )

    assert answer.reason == "Forbidden"
    assert answer.message == 'pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2'


def test_values_of_priority_classes_are_fixed(api: Api) -> None:
    """How much a class is worth never changes."""
    api.make("priorityclasses", {"metadata": {"name": api.unique}, "value": 7})

    answer = api.patch("priorityclasses", api.unique, {"value": 8})

    assert answer.status == 422
    assert answer.causes[0][0] == "value"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"value": 1_000_000_001}, "value", id="above what users may have"),
        pytest.param(
            {"value": 1, "preemptionPolicy": "Sometimes"}, "preemptionPolicy", id="an unknown policy"
        ),
    ],
)
def test_bad_priority_classes(api: Api, fields: Object, field: str) -> None:
    """Users stay below the system."""
    answer = api.create("priorityclasses", {"metadata": {"name": api.unique}, **fields})

    assert (answer.status, answer.reason) in {(422, "Invalid"), (403, "Forbidden")}
    assert field in answer.message


def test_names_of_the_system_are_reserved(api: Api) -> None:
    """Classes that begin with system- come with the cluster."""
    answer = api.create("priorityclasses", {"metadata": {"name": f"system-{api.unique}"}, "value": 1})

    assert (answer.status, answer.reason) in {(422, "Invalid"), (403, "Forbidden")}


def test_a_service_gets_an_address(api: Api) -> None:
    """A service that asks for none gets an address of the cluster, and keeps it."""
    made = api.make("services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    patched = done(api.patch("services", "s", {"spec": {"ports": [{"port": 81}]}}))

    assert made["spec"]["clusterIP"].startswith("10.96.")
    assert made["spec"]["clusterIPs"] == [made["spec"]["clusterIP"]]
    assert (made["spec"]["type"], made["spec"]["ipFamilies"]) == ("ClusterIP", ["IPv4"])
    assert patched["spec"]["clusterIP"] == made["spec"]["clusterIP"]


def test_a_claim_is_fixed(api: Api) -> None:
    """What a claim asks for cannot be changed afterwards."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.make("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})

    answer = api.patch("persistentvolumeclaims", "c", {"spec": {"accessModes": ["ReadWriteMany"]}})

    assert answer.status == 422
    assert answer.causes[0][:2] == ("spec", "FieldValueForbidden")


def test_the_default_storage_class_is_filled_in(api: Api) -> None:
    """A claim that names no class gets the one that is marked."""
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    api.make("storageclasses", {"metadata": {"name": api.unique, **marked}, "provisioner": "x.io/none"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": spec}

    def filled() -> bool:
        made = done(api.create("persistentvolumeclaims", body, dryRun="All"))
        return bool(made["spec"].get("storageClassName") == api.unique)

    assert eventually(filled)


def test_a_runtime_class_that_is_not_there(api: Api) -> None:
    """A pod cannot name a runtime that nobody has defined."""
    answer = api.create("pods", pod("a", spec={"runtimeClassName": "nope"}))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == 'pods "a" is forbidden: pod rejected: RuntimeClass "nope" not found'
