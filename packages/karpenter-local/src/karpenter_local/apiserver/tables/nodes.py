"""Nodes: ready or not, their roles, their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Object,
    TableColumn,
    at,
    column,
)

if TYPE_CHECKING:
    from datetime import datetime


# kubectl prints what follows this prefix in the column ROLES:
# https://kubernetes.io/docs/reference/labels-annotations-taints/#node-role-kubernetes-io-control-plane
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


def _status(node: Object, _: datetime) -> str:
    conditions = {item["type"]: item["status"] for item in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, _: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {labels[_ROLE]} if labels.get(_ROLE) else set()
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(kind: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        for item in (node.get("status") or {}).get("addresses") or ():
            if item["type"] == kind:
                return str(item["address"])
        return NONE

    return cell


NODES: tuple[TableColumn, ...] = (
    NAME,
    column("Status", _status),
    column("Roles", _roles),
    AGE,
    column("Version", at("status.nodeInfo.kubeletVersion")),
    column("Internal-IP", _address("InternalIP"), wide=True),
    column("External-IP", _address("ExternalIP"), wide=True),
    column("OS-Image", at("status.nodeInfo.osImage", UNKNOWN), wide=True),
    column("Kernel-Version", at("status.nodeInfo.kernelVersion", UNKNOWN), wide=True),
    column("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", UNKNOWN), wide=True),
)
