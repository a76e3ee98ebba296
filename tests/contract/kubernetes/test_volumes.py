"""Volumes and claims, as far as they need no storage."""

from tests.contract.kubernetes.api import Api, done, eventually
from tests.contract.kubernetes.machines import run
from tests.contract.kubernetes.objects import pod


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
