"""
What the solver answers: machines to launch, pods on each, and why some have no place.

Pure values, in the words of the public plan contract. Rendering is the CLI's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec

from karpenter.api.node import Taint

if TYPE_CHECKING:
    from karpenter.core.model.requirements import Requirements


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """The offering that would be launched now: the cheapest one that satisfies the claim."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    reservation_id: str = ""


class Fitting(Protocol):
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
    fitting: Fitting
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
