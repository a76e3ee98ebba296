"""The values that describe a sandbox. They load none of what they describe, which takes long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.aws.account import DEFAULT_REGION, ManagedNodeGroup, zones_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from karpenter.cloud.kwok import Behaviour
    from karpenter.core.model.catalog import Catalog
    from karpenter_local.aws.inprocess import AwsInProcess
    from karpenter_local.aws.room import InstanceTimings
    from karpenter_local.aws.server import EmbeddedAws
    from karpenter_local.kubelet.settings import KubeletSettings

SandboxClock: TypeAlias = Literal["virtual", "real"]
OperatorTransport: TypeAlias = Literal["in-process", "http"]
NODE_CLASS: Final = "default"
"""The name of the node class that a sandbox creates."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which control plane, and how it is reached."""

    control_plane: str = "embedded"
    """``embedded``, or ``real``: etcd and the programs of Kubernetes as child processes."""

    http: bool = False
    """Whether an embedded API server also listens on loopback."""

    port: int = 0
    """Where it listens; 0 for any free port."""

    state: Path | None = None
    """The directory of the state of the cluster; without one, an embedded cluster is in memory only."""

    durable: bool = False
    """Whether a real control plane finds the objects of an earlier one in its directory."""

    controllers: bool = True
    """Whether controllers, scheduler and kubelets run. Without them the cluster is an API server alone."""

    definitions: bool = True
    """Whether the CustomResourceDefinitions of Karpenter are installed."""

    nodes: int = 0
    """Simulated worker nodes to begin with."""

    zones: tuple[str, ...] = ()
    """The zones of these nodes; empty means zones of this machine."""

    kubernetes: str = KUBERNETES
    """The version that an embedded API server and its kubelets report."""

    kubelets: KubeletSettings | None = None


@dataclass(frozen=True, kw_only=True)
class KwokOptions:
    """The cloud in memory."""

    catalog: Catalog | None = None
    """What is sold; without it, the built-in catalogue."""

    behaviour: Behaviour | None = None
    """How long launches and terminations take; without it, a launch takes a second."""

    node_class: bool = True
    """Whether a KWOKNodeClass ``default`` is created."""

    in_operator: bool = False
    """Whether the operator makes the cloud itself, of its environment, as ``karpenter run`` does."""


@dataclass(frozen=True, kw_only=True)
class AwsOptions:
    """The embedded AWS."""

    region: str = DEFAULT_REGION
    types: tuple[str, ...] = ()
    """The instance types that are sold; empty means all."""

    pace: InstanceTimings | None = None
    """How long instances take to start and to stop."""

    server: EmbeddedAws | AwsInProcess | None = None
    """An AWS that runs already and is shared. Without it the sandbox starts its own, which ends with it."""

    in_process: bool = False
    """Whether AWS answers in the event loop, with chance that the seed decides, instead of on loopback."""

    node_class: bool = True
    """Whether an EC2NodeClass ``default`` is created."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the AWS provider beside those that name the cluster."""

    bare: bool = False
    """Whether the account is as before any installation: no roles, no queue, no rules."""

    tagged: bool = True
    """Whether subnets and security groups carry the discovery tag."""

    node_groups: tuple[ManagedNodeGroup, ...] = ()
    """Managed node groups whose instances have joined before the sandbox is entered."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in which the cluster has subnets."""
        return zones_of(self.region)


CloudOptions: TypeAlias = KwokOptions | AwsOptions
