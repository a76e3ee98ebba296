"""Settings of hollow nodes: how fast, how often, and for which nodes."""

from collections.abc import Mapping

import msgspec

from karpenter.api.node import Node
from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.kubelet.script import PodTimings

UNMANAGED = "local.karpenter.sh/kubelet"
"""On a Node, with the value ``none``: no simulated kubelet runs for it."""


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all hollow nodes of a cluster."""

    boot: float = 0.2
    """Seconds from the appearance of a Node to its first report."""
    heartbeat: float = 10.0
    """Seconds between two renewals of a node's lease."""
    lease_seconds: int = 40
    """How long a lease is good for. Raise it with `heartbeat` for long simulations of many nodes."""
    habits: PodTimings = PodTimings()
    drivers: Mapping[str, int] = msgspec.field(default_factory=lambda: {"ebs.csi.aws.com": 26})
    """CSI drivers on every node, and how many volumes of each it can take."""
    version: str = f"v{KUBERNETES}.0"
    """Of Kubernetes, as nodes report it that do not say otherwise."""
    narrate: bool = False
    """Publish an event for every container that starts."""

    @property
    def report(self) -> float:
        """Seconds between two reports of a node that has nothing new to say."""
        return max(300.0, 10 * self.heartbeat)

    def adopts(self, node: Node) -> bool:
        return node.metadata.annotations.get(UNMANAGED) != "none"
