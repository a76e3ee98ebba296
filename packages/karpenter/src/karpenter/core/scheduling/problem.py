"""
The question and the answer of the solver: :class:`Problem` and :class:`Plan`.

A problem holds values that were worked out before: which pods count, what their volumes require, how much
room a node has left, what a NodePool may still launch. The solver reads nothing else, so a saved problem
can be solved again. ``build`` makes a problem from a ClusterView.

A plan names the NodeClaims to create, the pods for each node, and why some pods cannot be scheduled. Its
field names are those of the public plan contract; rendering is in the CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, Literal, Protocol

import msgspec

from karpenter.api.labels import LabelRules
from karpenter.api.node import Taint
from karpenter.api.pod import Pod, TopologySpreadConstraint
from karpenter.core.model.catalog import InstanceType
from karpenter.core.model.hostportusage import HostPort
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.dynamicresources.types import DynamicResources

MAX_INSTANCE_TYPES: Final = 600
"""
How many instance types one NodeClaim may name; upstream restricts it to the same number (MaxInstanceTypes):
https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go
"""


class PodVolumes(msgspec.Struct, frozen=True):
    """What the volumes of one pod require of its node."""

    alternatives: tuple[Requirements, ...] = ()
    """Requirements of which one must hold for every volume to be reachable; empty means any node."""

    claims: Mapping[str, frozenset[str]] = {}
    """CSI driver to the PersistentVolumeClaims that the pod mounts through it."""


NO_VOLUMES: Final = PodVolumes()


class ExistingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a NodeClaim whose node has not registered yet: capacity that is paid for already."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    free: Mapping[str, int]
    """What is left after bound pods and after daemons that will still be scheduled."""

    initialized: bool = True
    ports: tuple[HostPort, ...] = ()
    volumes: Mapping[str, frozenset[str]] = {}
    volume_limits: Mapping[str, int] = {}
    quiet: bool = False
    """Takes pending pods, but none that consolidation moves."""


class BoundPod(msgspec.Struct, frozen=True):
    """A pod that is bound to a node: it counts for spread and affinity."""

    pod: Pod
    node: str


class TopologyNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as topology counts it, whether or not it takes pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What a NodePool may launch at this moment."""

    name: str
    requirements: Requirements
    """Requirements and labels of the template together."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    types: tuple[InstanceType, ...] = ()
    limits: Mapping[str, int] = {}
    """What the limits of the NodePool leave, per limited resource; `nodes` counts nodes."""

    whole_limits: Mapping[str, int] = {}
    """The limits as the NodePool states them; they are told to people and decide nothing."""

    overlaid: Mapping[str, tuple[bool, bool]] = {}
    """Instance types whose price, and whose capacity, an overlay has changed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run of the solver. The names are part of the flight record format."""

    preferences: Literal["Respect", "Ignore"] = "Respect"
    min_values: Literal["Strict", "BestEffort"] = "Strict"
    packing: Literal["price", "greedy"] = "price"
    """`price` looks for the cheapest nodes; `greedy` stops after first-fit packing."""

    usual: float | None = None
    """
    The usual memory per cpu of pods. Where it is given, pods with a higher or lower ratio go to nodes whose
    free room has a higher or lower ratio; else to the first node that takes them.
    """

    reserved: Literal["strict", "fallback"] = "strict"
    effort: int = 60
    """How many rounds of improvement packing by price may take."""

    seed: int = 0
    stop: Callable[[], bool] | None = None
    """Called between steps; True ends the search with what was found."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one run of the solver depends on."""

    pods: tuple[Pod, ...]
    nodes: tuple[ExistingNode, ...] = ()
    """In the order in which they are tried."""

    pools: tuple[Pool, ...] = ()
    """In the order in which they are tried."""

    daemons: tuple[Pod, ...] = ()
    volumes: Mapping[str, PodVolumes] = {}
    """By pod key; a pod without an entry has no volumes that constrain it."""

    bound_pods: tuple[BoundPod, ...] = ()
    topology_nodes: tuple[TopologyNode, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Namespace to its labels."""

    moved: frozenset[str] = frozenset()
    """Keys of bound pods that consolidation would move."""

    spread_defaults: Mapping[str, tuple[TopologySpreadConstraint, ...]] = {}
    """By pod key: default topology spread constraints for pods that have none."""

    devices: DynamicResources | None = None
    """The state of dynamic resource allocation; None where no pod claims devices."""

    rules: LabelRules = LabelRules()
    options: Options = Options()


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """The cheapest offering that satisfies the NodeClaim: the one that would be launched now."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    reservation_id: str = ""
    parts: tuple[tuple[str, float], ...] = ()
    """What the price is made of, where it is more than the list price."""


class InstanceTypeOptions(Protocol):
    """The instance types that one new node may become; worked out on demand."""

    def type_names(self) -> tuple[str, ...]:
        """Return every instance type that fits, cheapest first."""

    def requirements(self, types: tuple[str, ...]) -> Requirements: ...

    def requests(self) -> Mapping[str, int]:
        """Return the requests of the pods and daemons of the node."""


class NewNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A NodeClaim to create, and the pods that it is for."""

    name: str
    pool: str
    purchase: Purchase
    pods: tuple[str, ...]
    instance_type_options: InstanceTypeOptions
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = {}
    """Every label that has one possible value."""

    allocatable: Mapping[str, int] = {}
    """Allocatable of the purchased type, daemons not taken off."""

    @cached_property
    def instance_types(self) -> tuple[str, ...]:
        """Every instance type that fits, cheapest first."""
        return self.instance_type_options.type_names()

    @cached_property
    def requirements(self) -> Requirements:
        return self.instance_type_options.requirements(self.instance_types)

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """The requests of the pods and daemons of the node."""
        return self.instance_type_options.requests()


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why one NodePool cannot serve a pod."""

    pool: str
    code: str
    message: str
    label: str = ""
    """The label that is asked for in vain; empty where it is about none."""

    largest: tuple[tuple[str, int], ...] = ()
    """Of every resource that alone is too much, the most of it that fits."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that cannot be scheduled: one sentence, and the reasons NodePool by NodePool."""

    pod: str
    message: str
    reasons: tuple[Reason, ...] = ()


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the new nodes cost per hour, and the lower bound for any plan."""

    hourly: float = 0.0
    # No plan for the same pods costs less; 0 where no bound was worked out.
    lower_bound: float = 0.0
    method: str = ""
    """How the bound was proved."""

    added: float = 0.0
    """What on-demand floors and the spread of spot machines add, of which the bound does not know."""

    gap_parts: tuple[tuple[str, float], ...] = ()
    """By how much the gap falls without a kind of constraint, where that was asked."""

    @property
    def gap(self) -> float:
        """How far the cost is above the bound, as a share of the bound."""
        return self.hourly / self.lower_bound - 1 if self.lower_bound > 0 else 0.0

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no plan for the same pods costs less, rounding errors aside."""
        return self.lower_bound > 0 and self.gap <= 1e-6  # noqa: PLR2004  what an integer program can tell


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one problem."""

    new_nodes: tuple[NewNode, ...] = ()
    placed: Mapping[str, tuple[str, ...]] = {}
    """Existing node to the pods that are to run there."""

    refusals: tuple[Refusal, ...] = ()
    cost: Cost = Cost()
    because: Mapping[str, str] = {}
    """Placed pod to the reason for its node."""

    complete: bool = True
    """False when the search was stopped before every pod was considered."""
