"""Which volume a claim gets."""

from typing import Any

import pytest

from karpenter.api.meta import convert
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter_local.controllers import binding
from karpenter_local.controllers.binding import Next


def claim(**more: Any) -> PersistentVolumeClaim:
    """Return a claim of 2Gi."""
    meta = {"name": "data", "namespace": "default", "uid": "mine", "annotations": more.pop("annotations", {})}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
        **more,
    }
    return convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)


def volume(name: str, size: str = "2Gi", **more: Any) -> PersistentVolume:
    """Return a volume of the class ``fast``."""
    meta: dict[str, Any] = {"name": name}
    if more.pop("leaving", False):
        meta["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "storageClassName": "fast",
        **more,
    }
    return convert({"metadata": meta, "spec": spec}, PersistentVolume)


def held(uid: str = "mine", name: str = "data") -> dict[str, Any]:
    return {"claimRef": {"namespace": "default", "name": name, "uid": uid}}


@pytest.mark.parametrize(
    ("volumes", "waits", "expected"),
    [
        pytest.param([], False, None, id="there is none"),
        pytest.param([volume("a", "9Gi"), volume("b", "3Gi")], False, "b", id="the smallest"),
        pytest.param([volume("a", "1Gi")], False, None, id="too small"),
        pytest.param([volume("a", storageClassName="slow")], False, None, id="another class"),
        pytest.param([volume("a", accessModes=["ReadOnlyMany"])], False, None, id="other access"),
        pytest.param([volume("a", volumeMode="Block")], False, None, id="another mode"),
        pytest.param([volume("a", leaving=True)], False, None, id="being deleted"),
        pytest.param([volume("a"), volume("z", "9Gi", **held())], False, "z", id="the one reserved for it"),
        pytest.param([volume("a", **held(""))], False, "a", id="reserved by name alone"),
        pytest.param([volume("a", **held("other"))], False, None, id="reserved for a namesake that is gone"),
        pytest.param([volume("a")], True, None, id="it waits for a pod"),
        pytest.param([volume("a", **held())], True, "a", id="a pod was found and a volume reserved"),
    ],
)
def test_choose(volumes: list[PersistentVolume], waits: bool, expected: str | None) -> None:
    """A claim gets the volume reserved for it, or the smallest free one that fits."""
    found = binding.choose(claim(), volumes, waits=waits)

    assert (None if found is None else found.name) == expected


def storage_class(provisioner: str = "driver", mode: str = "Immediate") -> StorageClass:
    body = {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode}
    return convert(body, StorageClass)


@pytest.mark.parametrize(
    ("asks", "chosen", "expected"),
    [
        pytest.param(claim(), None, Next.VOLUME, id="no class"),
        pytest.param(claim(), storage_class(), Next.PROVISIONER, id="made at once"),
        pytest.param(claim(), storage_class(mode=binding.WAIT), Next.CONSUMER, id="made for a pod"),
        pytest.param(
            claim(annotations={binding.SELECTED_NODE: "n"}),
            storage_class(mode=binding.WAIT),
            Next.PROVISIONER,
            id="a pod has come",
        ),
        pytest.param(claim(), storage_class(binding.NO_PROVISIONER), Next.VOLUME, id="no provisioner"),
        pytest.param(
            claim(),
            storage_class(binding.NO_PROVISIONER, binding.WAIT),
            Next.CONSUMER,
            id="no provisioner, and it waits",
        ),
    ],
)
def test_what_next(asks: PersistentVolumeClaim, chosen: StorageClass | None, expected: Next) -> None:
    """A claim without a volume waits for a pod, a driver, or a volume made by hand."""
    assert binding.what_next(asks, chosen) is expected


@pytest.mark.parametrize(
    ("found", "holder", "expected"),
    [
        pytest.param(volume("a"), None, "Available", id="free"),
        pytest.param(volume("a", **held("")), None, "Available", id="kept for a claim to come"),
        pytest.param(volume("a", **held()), claim(volumeName="a"), "Bound", id="held"),
        pytest.param(volume("a", **held()), claim(), "Available", id="not taken yet"),
        pytest.param(volume("a", **held()), None, "Released", id="its claim is gone"),
        pytest.param(volume("a", **held("older")), claim(), "Released", id="its claim was replaced"),
    ],
)
def test_volume_phase(found: PersistentVolume, holder: PersistentVolumeClaim | None, expected: str) -> None:
    """A volume is free, held, or left behind."""
    assert binding.volume_phase(found, holder) == expected
