"""
What disruption may do, and the facts beside the cluster that every decision of one moment shares.

:class:`DisruptionSettings` follows from the operator's settings and never changes while it runs.
:class:`DisruptionContext` adds what is true at one moment and is in no object of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Literal

import msgspec

from karpenter.core.disruption.payback import Payback
from karpenter.core.scheduling.build.policy import SchedulingPolicy
from karpenter.core.scheduling.problem import Options


class DisruptionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the operator that change what disruption may do."""

    strategy: Literal["classic", "global"] = "classic"
    spot_to_spot: bool = False
    static_capacity: bool = False
    payback: Payback = Payback()
    no_return: timedelta = timedelta(hours=1)
    """For how long a command may not be undone by another."""

    preferred_price: float = 0.0
    """What going back to a NodePool of higher weight is worth, as a share of the node's price; 0: nothing."""

    return_after: timedelta = timedelta(minutes=5)
    """For how long going back must have been possible."""

    surge: bool = False
    """Whether successors of pods that must not be missed are started before they are evicted."""

    explain: int = 200
    """For how many kept nodes one decision simulates what they would cost elsewhere."""

    prove: bool = False
    """Whether a decision includes how far savings could go at the very most."""


class DisruptionContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision about disruption depends on beside cluster, catalog, memory and time."""

    settings: DisruptionSettings = DisruptionSettings()
    options: Options = Options()
    policy: SchedulingPolicy = SchedulingPolicy()
    nominated: frozenset[str] = frozenset()
    """Nodes that are nominated for pending pods."""

    buffered: frozenset[str] = frozenset()
    """Nodes, and claims of nodes that are starting, that hold room for a CapacityBuffer."""

    destinations: Mapping[str, str] = {}
    """The node that each pod of a command in progress moves to, by key; empty if it is a new one."""

    fingerprint: object = None
    """A value that changes with everything that could change a decision that found nothing."""

    stop: Callable[[], bool] | None = None
    """Says when the time for one reason is up; what was found by then counts."""

    tried: Callable[[str], None] | None = None
    """Is called with every reason that was tried, when that is over."""
