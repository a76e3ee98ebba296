"""Volumes, claims and their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.tables.columns import (
    AGE,
    NAME,
    Cell,
    Object,
    TableColumn,
    at,
    column,
    dig,
    size,
)

if TYPE_CHECKING:
    from datetime import datetime


# https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _modes(path: str) -> Cell:
    def cell(value: Object, _: datetime) -> str:
        found = dig(value, path) or ()
        return ",".join(short for mode, short in _SHORT_MODES.items() if mode in found)

    return cell


def _state(value: Object, _: datetime) -> str:
    if value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(dig(value, "status.phase") or "")


def _bound(path: str, cell: Cell) -> Cell:
    """Return a cell that is empty until the claim has a volume."""

    def shown(value: Object, now: datetime) -> object:
        return cell(value, now) if dig(value, path) else ""

    return shown


def _claim(value: Object, _: datetime) -> str:
    ref = dig(value, "spec.claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


def _class(value: Object, _: datetime) -> str:
    annotations = value["metadata"].get("annotations") or {}
    return str(
        annotations.get("volume.beta.kubernetes.io/storage-class")
        or dig(value, "spec.storageClassName")
        or ""
    )


CLAIMS = (
    NAME,
    column("Status", _state),
    column("Volume", at("spec.volumeName")),
    column("Capacity", _bound("spec.volumeName", at("status.capacity.storage", "0"))),
    column("Access Modes", _bound("spec.volumeName", _modes("status.accessModes"))),
    column("StorageClass", _class),
    column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
    AGE,
    column("VolumeMode", at("spec.volumeMode", "<unset>"), wide=True),
)
VOLUMES = (
    NAME,
    column("Capacity", at("spec.capacity.storage", "0")),
    column("Access Modes", _modes("spec.accessModes")),
    column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
    column("Status", _state),
    column("Claim", _claim),
    column("StorageClass", _class),
    column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
    column("Reason", at("status.reason")),
    AGE,
    column("VolumeMode", at("spec.volumeMode", "<unset>"), wide=True),
)


def _class_name(value: Object, _: datetime) -> str:
    default = (value["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{value['metadata']['name']} (default)" if default else str(value["metadata"]["name"])


def _expands(value: Object, _: datetime) -> bool:
    return bool(value.get("allowVolumeExpansion"))


CLASSES = (
    TableColumn(name="Name", cell=_class_name, format="name"),
    column("Provisioner", at("provisioner")),
    column("ReclaimPolicy", at("reclaimPolicy", "Delete")),
    column("VolumeBindingMode", at("volumeBindingMode", "<unset>")),
    column("AllowVolumeExpansion", _expands),
    AGE,
)


def _tokens(value: Object, _: datetime) -> str:
    found = dig(value, "spec.tokenRequests")
    return ",".join(item.get("audience", "") for item in found) if found else "<unset>"


def _lifecycle(value: Object, _: datetime) -> str:
    return ",".join(dig(value, "spec.volumeLifecycleModes") or ()) or "<none>"


DRIVERS = (
    NAME,
    column("AttachRequired", at("spec.attachRequired", True), type_="boolean"),
    column("PodInfoOnMount", at("spec.podInfoOnMount", False), type_="boolean"),
    column("StorageCapacity", at("spec.storageCapacity", False), type_="boolean"),
    column("TokenRequests", _tokens),
    column("RequiresRepublish", at("spec.requiresRepublish", False), type_="boolean"),
    column("Modes", _lifecycle),
    AGE,
)
CSI_NODES = (NAME, column("Drivers", size("spec.drivers"), type_="integer"), AGE)
ATTACHMENTS = (
    NAME,
    column("Attacher", at("spec.attacher")),
    column("PV", at("spec.source.persistentVolumeName")),
    column("Node", at("spec.nodeName")),
    column("Attached", at("status.attached", False), type_="boolean"),
    AGE,
)
ATTRIBUTES = (NAME, column("DriverName", at("driverName")), AGE)
