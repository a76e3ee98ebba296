"""
What the solver is asked: pods to place, the nodes there are, and what may be bought.

Everything is a value that was worked out before: which pods count, what their
volumes demand, how much room a node has left, what a pool may still launch. The
solver itself reads nothing else, so a saved problem can be solved again.

How a problem is put together from cluster objects is in ``core.state``.

What the solver answers: machines to launch, pods on each, and why some have no place.

Pure values, in the words of the public plan contract. Rendering is the CLI's.
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
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.scheduling.dynamicresources.types import DynamicResources

MAX_INSTANCE_TYPES: Final = 600
"""How many instance types one claim may name."""


class PodVolumes(msgspec.Struct, frozen=True):
    """What the volumes of one pod demand of its node."""

    alternatives: tuple[Requirements, ...] = ()
    """Places from which every volume can be reached; one of them must hold. None: anywhere."""

    claims: Mapping[str, frozenset[str]] = {}
    """CSI driver to the claims that the pod mounts through it."""


NO_VOLUMES: Final = PodVolumes()


class ExistingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is there, or a claim on its way: room that is paid for already."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    free: Mapping[str, int]
    """What is left after bound pods and after daemons that are still to come."""

    initialized: bool = True
    ports: tuple[HostPort, ...] = ()
    volumes: Mapping[str, frozenset[str]] = {}
    volume_limits: Mapping[str, int] = {}
    quiet: bool = False
    """Inside its quiet time: takes pods that wait, but none that are moved for savings."""


class BoundPod(msgspec.Struct, frozen=True):
    """A pod that runs somewhere: it counts for spread and affinity."""

    pod: Pod
    node: str


class TopologyNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as topology sees it, whether or not it takes pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """What a NodePool may launch at this moment."""

    name: str
    requirements: Requirements
    """Requirements and labels of the template, as one."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    types: tuple[InstanceType, ...] = ()
    limits: Mapping[str, int] = {}
    """What the pool's limits leave, per limited resource; `nodes` counts machines."""

    overlaid: Mapping[str, tuple[bool, bool]] = {}
    """Instance types whose price, and whose capacity, an overlay has changed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to decide where the problem leaves room."""

    preferences: Literal["Respect", "Ignore"] = "Respect"
    min_values: Literal["Strict", "BestEffort"] = "Strict"
    packing: Literal["price", "greedy"] = "price"
    """`price` looks for the cheapest machines; `greedy` fills the fewest, first come first served."""

    usual: float | None = None
    """
    The memory that pods usually want for a unit of processor. Where it is given, pods that want more or
    less go to nodes that have more or less; else to the first node that takes them.
    """

    reserved: Literal["strict", "fallback"] = "strict"
    effort: int = 60
    """Rounds of improvement the packer may spend; more is cheaper and slower."""

    prove: bool = True
    """Work out the least that any plan could cost."""

    seed: int = 0
    stop: Callable[[], bool] | None = None
    """Asked between steps; True ends the search with what there is."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one run of the solver depends on."""

    pods: tuple[Pod, ...]
    nodes: tuple[ExistingNode, ...] = ()
    """In the order in which they are tried."""

    pools: tuple[Pool, ...] = ()
    """In the order in which they are tried."""

    daemons: tuple[Pod, ...] = ()
    volumes: Mapping[str, PodVolumes] = {}
    """By pod key; a pod without an entry has no volumes that matter."""

    located: tuple[BoundPod, ...] = ()
    places: tuple[TopologyNode, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Namespace to its labels."""

    moved: frozenset[str] = frozenset()
    """Keys of pods that run already and are only moved for savings."""

    spread_defaults: Mapping[str, tuple[TopologySpreadConstraint, ...]] = {}
    """By pod key: constraints for pods that state none."""

    devices: DynamicResources | None = None
    """What there is to know of devices; None where no pod needs any."""

    rules: LabelRules = LabelRules()
    options: Options = Options()


__all__ = [
    "MAX_INSTANCE_TYPES",
    "NOTHING_REQUIRED",
    "NO_VOLUMES",
    "ExistingNode",
    "BoundPod",
    "Options",
    "TopologyNode",
    "PodVolumes",
    "Pool",
    "Problem",
]


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """The offering that would be launched now: the cheapest one that satisfies the claim."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    reservation_id: str = ""


class InstanceTypeOptions(Protocol):
    """The types and offerings that would do for one new node, worked out when asked."""

    def type_names(self) -> tuple[str, ...]:
        """Return every type that would do, cheapest first."""

    def requirements(self, types: tuple[str, ...]) -> Requirements:
        """Return what the claim would carry."""

    def requests(self) -> Mapping[str, int]:
        """Return what pods and daemons of the node ask for."""


class NewNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A claim to be created, and the pods it is for."""

    name: str
    pool: str
    purchase: Purchase
    pods: tuple[str, ...]
    fitting: InstanceTypeOptions
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = {}
    """Every label whose value is settled already."""

    allocatable: Mapping[str, int] = {}
    """Room of the purchased type, daemons included."""

    @cached_property
    def instance_types(self) -> tuple[str, ...]:
        """Every type that would do, cheapest first."""
        return self.fitting.type_names()

    @cached_property
    def requirements(self) -> Requirements:
        """What the claim would carry."""
        return self.fitting.requirements(self.instance_types)

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """What pods and daemons of the node ask for."""
        return self.fitting.requests()


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why one pool cannot serve a pod."""

    pool: str
    code: str
    message: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod without a place: one sentence, and the same pool by pool."""

    pod: str
    message: str
    reasons: tuple[Reason, ...] = ()


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the new machines cost per hour, and the least that any plan could cost."""

    hourly: float = 0.0
    lower_bound: float = 0.0
    method: str = ""
    """How the bound was proved."""

    @property
    def gap(self) -> float:
        """How far the price is above the bound, as a share of it."""
        return self.hourly / self.lower_bound - 1 if self.lower_bound > 0 else 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one problem."""

    new_nodes: tuple[NewNode, ...] = ()
    placed: Mapping[str, tuple[str, ...]] = {}
    """Existing node to the pods that are to run there."""

    refusals: tuple[Refusal, ...] = ()
    cost: Cost = Cost()
    because: Mapping[str, str] = {}
    """Placed pod to why it was put there."""

    complete: bool = True
    """False when the search was stopped before every pod was looked at."""
