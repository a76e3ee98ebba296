"""Claims, nodes, pools and pods at any point of their lives, in few words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from karpenter.api import labels
from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter_local.testing.builders import manifest_pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

BORN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NOW = BORN + timedelta(minutes=2)
REF = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CLASS_LABEL = "karpenter.kwok.sh/kwoknodeclass"
OWNER = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "pool-uid"}
ID = "kwok://one"


def at(moment: datetime) -> str:
    """Return a time as the API writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(generation: int = 1, since: datetime = BORN, **statuses: str) -> list[dict[str, Any]]:
    """Return conditions by type and status, all of them since some moment."""
    return [
        {
            "type": kind,
            "status": status,
            "reason": kind if status == "True" else "Because",
            "lastTransitionTime": at(since),
            "observedGeneration": generation,
        }
        for kind, status in statuses.items()
    ]


def claim(
    *,
    name: str = "claim-1",
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **statuses: str,
) -> NodeClaim:
    """Return a claim of the pool ``default`` with its finalizer, and with conditions."""
    return convert(
        {
            "metadata": {
                "name": name,
                "uid": f"{name}-uid",
                "resourceVersion": "7",
                "generation": 1,
                "creationTimestamp": at(BORN),
                "finalizers": [labels.TERMINATION_FINALIZER],
                "labels": {labels.NODEPOOL: "default", labels.ZONE: "zone-1", CLASS_LABEL: "default"},
                "ownerReferences": [OWNER],
                **(meta or {}),
            },
            "spec": {"nodeClassRef": REF, "requirements": [], **(spec or {})},
            "status": {"conditions": conditions(**dict[str, Any](statuses)), **(status or {})},
        },
        NodeClaim,
    )


def launched(**parts: Any) -> NodeClaim:
    status = {"providerID": ID, **parts.pop("status", {})}
    return claim(status=status, **{"Launched": "True", **parts})


def complete(**parts: Any) -> NodeClaim:
    return launched(**{"Registered": "True", "Initialized": "True", **parts})


def node(
    *,
    name: str = "node-1",
    ready: bool = True,
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> Node:
    """Return a node of the machine ``one``."""
    return convert(
        {
            "metadata": {
                "name": name,
                "uid": f"{name}-uid",
                "resourceVersion": "3",
                "creationTimestamp": at(BORN),
                "labels": {},
                **(meta or {}),
            },
            "spec": {"providerID": ID, **(spec or {})},
            "status": {
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                **(status or {}),
            },
        },
        Node,
    )


def pool(
    *,
    meta: dict[str, Any] | None = None,
    template: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **statuses: str,
) -> NodePool:
    """Return the pool ``default``, with conditions."""
    template = template or {}
    return convert(
        {
            "metadata": {
                "name": "default",
                "uid": "pool-uid",
                "resourceVersion": "5",
                "generation": 1,
                "creationTimestamp": at(BORN),
                **(meta or {}),
            },
            "spec": {
                "template": {
                    **template,
                    "spec": {"nodeClassRef": REF, "requirements": [], **template.get("spec", {})},
                },
                **(spec or {}),
            },
            "status": {"conditions": conditions(**dict[str, Any](statuses)), **(status or {})},
        },
        NodePool,
    )


def pod(
    name: str = "pod-1",
    *,
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> Pod:
    """Return a pod that runs on ``node-1``."""
    return manifest_pod(
        name,
        meta={"uid": f"{name}-uid", **(meta or {})},
        status={"phase": "Running", **(status or {})},
        **{"nodeName": "node-1", "containers": [{"name": "app"}], **(spec or {})},
    )


def told(conditions_now: list[dict[str, Any]], kind: str) -> tuple[str, str]:
    """Return status and reason of one condition that is to be written."""
    found = next(each for each in conditions_now if each["type"] == kind)
    return found["status"], found["reason"]
