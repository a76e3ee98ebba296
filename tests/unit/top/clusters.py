"""Small clusters to look at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

from karpenter.api.meta import convert
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.core.state.cluster import ClusterView, view_of
from karpenter.top.model import NodeRow, node_rows
from karpenter_local.testing.builders import manifest_pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "58"}


def ago(**amount: float) -> str:
    """Return a moment before now, as the API writes it."""
    return (NOW - timedelta(**amount)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, labels: dict[str, str] | None = None, **more: Any) -> Node:
    """Return a node that is Ready unless told."""
    room = more.pop("room", ROOM)
    ready = {"type": "Ready", "status": more.pop("ready", "True"), "lastTransitionTime": ago(minutes=5)}
    return convert(
        {
            "metadata": {
                "name": name,
                "labels": labels or {},
                "creationTimestamp": more.pop("created", ago(hours=1)),
                **more.pop("metadata", {}),
            },
            "spec": {"providerID": f"aws:///us-east-1a/i-{name}", **more},
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
        },
        Node,
    )


def claim(name: str, **more: Any) -> NodeClaim:
    labels = more.pop("labels", {})
    return convert(
        {
            "metadata": {"name": name, "labels": labels, "creationTimestamp": ago(seconds=100)},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            },
            "status": {"providerID": f"aws:///us-east-1a/i-{name}", "allocatable": ROOM, **more},
        },
        NodeClaim,
    )


def pod(name: str, on: str = "", cpu: str = "1", **more: Any) -> Pod:
    """Return a pod that runs on a node, or waits."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    meta, spec = more.pop("metadata", {}), {"containers": [container], **more.pop("spec", {})}
    status = {"phase": "Running" if on else "Pending", **more}
    return manifest_pod(name, node=on, meta=meta, status=status, **spec)


def view(*objects: Any) -> ClusterView:
    return view_of(objects)


def row(*objects: Any) -> NodeRow:
    """Return the only row of a cluster of these objects."""
    (found,) = node_rows(view(*objects), lambda _: None)
    return found


def printed(renderable: RenderableType, width: int) -> list[str]:
    """Return the lines that are printed, without the blanks at their ends."""
    console = Console(width=width, file=StringIO(), color_system=None)
    with console.capture() as caught:
        console.print(renderable)
    return [line.rstrip() for line in caught.get().removesuffix("\n").split("\n")]
