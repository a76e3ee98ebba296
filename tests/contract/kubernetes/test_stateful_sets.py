"""StatefulSets: pods with names that stay."""

from functools import partial

from tests.contract.kubernetes.api import Api, Object, done, eventually
from tests.contract.kubernetes.machines import bury, living, run, run_all
from tests.contract.kubernetes.objects import container, workload
from tests.contract.kubernetes.workloads import owner_of, settled


def stateful(replicas: int, **spec: object) -> Object:
    return workload("StatefulSet", "web", replicas=replicas, spec={"serviceName": "web", **spec})


def test_a_stateful_set_goes_in_order(api: Api) -> None:
    """One pod after the other, each when the one before is ready."""
    api.make("statefulsets", stateful(2))
    eventually(lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == ["web-0"])

    run(api, "web-0")

    assert eventually(
        lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == ["web-0", "web-1"]
    )
    first = api.read("pods", "web-0")
    assert first["spec"]["hostname"] == "web-0"
    assert first["spec"]["subdomain"] == "web"
    assert first["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert first["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert owner_of(first) == ("StatefulSet", "web", True, True)


def test_a_parallel_stateful_set(api: Api) -> None:
    """Parallel does not wait."""
    api.make("statefulsets", stateful(3, podManagementPolicy="Parallel"))

    assert eventually(
        lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == ["web-0", "web-1", "web-2"]
    )


def test_a_stateful_set_shrinks_from_the_end(api: Api) -> None:
    """The highest number goes first."""
    api.make("statefulsets", stateful(3, podManagementPolicy="Parallel"))
    eventually(lambda: len(living(api, "app=web")) == 3)
    run_all(api, "app=web")

    done(api.patch("statefulsets", "web", {"spec": {"replicas": 1}}, sub="scale"))

    assert eventually(
        lambda: [each["metadata"]["name"] for each in living(api, "app=web")] == ["web-0"],
        meanwhile=partial(bury, api),
    )


def test_a_stateful_pod_keeps_its_name(api: Api) -> None:
    """A pod that was deleted comes back under its name."""
    api.make("statefulsets", stateful(1))
    uid = eventually(
        lambda: api.read("pods", "web-0")["metadata"]["uid"] if not api.gone("pods", "web-0") else None
    )

    done(api.delete("pods", "web-0", gracePeriodSeconds=0))

    assert eventually(
        lambda: not api.gone("pods", "web-0") and api.read("pods", "web-0")["metadata"]["uid"] != uid
    )


def test_a_stateful_set_makes_claims(api: Api) -> None:
    """Each pod has claims of its own, from the set's templates."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]
    api.make("statefulsets", stateful(1, volumeClaimTemplates=templates))

    eventually(lambda: not api.gone("pods", "web-0"))

    assert not api.gone("persistentvolumeclaims", "data-web-0")
    volumes = api.read("pods", "web-0")["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}} in volumes


def test_a_stateful_set_rolls_from_the_end(api: Api) -> None:
    """An update replaces the highest number first."""
    api.make("statefulsets", stateful(2, podManagementPolicy="Parallel"))
    eventually(lambda: len(living(api, "app=web")) == 2)
    run_all(api, "app=web")
    settled(api, "statefulsets", "web", readyReplicas=2)
    old = {each["metadata"]["name"]: each["metadata"]["uid"] for each in living(api, "app=web")}

    change = {"spec": {"template": {"spec": {"containers": [{**container(), "image": "new:2"}]}}}}
    done(api.patch("statefulsets", "web", change))

    eventually(
        lambda: api.get("pods", "web-1").json["metadata"].get("uid", old["web-1"]) != old["web-1"],
        meanwhile=partial(bury, api),
    )
    assert api.read("pods", "web-0")["metadata"]["uid"] == old["web-0"]
