"""Defaults of volumes, claims and their classes."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def claim(value: Object) -> None:
    """Volumes hold file systems; a claim waits until it is bound."""
    spec = value.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("dataSource") and not spec.get("dataSourceRef"):
        spec["dataSourceRef"] = dict(spec["dataSource"])
    status = value.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def volume(value: Object) -> None:
    """A volume made by hand is kept when it is released."""
    spec = value.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    status = value.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def storage_class(value: Object) -> None:
    """A volume made for a claim goes with it, and is bound at once."""
    value.setdefault("reclaimPolicy", "Delete")
    value.setdefault("volumeBindingMode", "Immediate")


def csi_driver(value: Object) -> None:
    """Volumes are attached first, and outlive pods."""
    spec = value.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
