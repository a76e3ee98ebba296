"""
Invariants of commands: replacements come first, cost no more, differ from what goes, and do not go back.

Which machines belong to a command is told by the order of writes. A replica closes the nodes of a command one
after the other, then creates what replaces them, and does nothing about another command meanwhile; an Event
tells replacements from other claims. Two commands without replacements, or one without and the next one with,
look like one. So whether replacements come first is judged only where all machines go together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.api.nodeclaim import NodeClaim
from karpenter_local.simulation.invariants.disruption import begins
from karpenter_local.simulation.invariants.invariant import (
    Invariant,
    ViolationLog,
    begins_to_leave,
    is_leaving,
    is_true,
    reason_of,
)

if TYPE_CHECKING:
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite

HOUR: Final = 3600.0
_COMMAND_SECONDS: Final = 0.5
"""Seconds within which all machines of a command go."""

_CENT: Final = 1e-6

Kind = tuple[str, str, str]


class ObservedCommand(msgspec.Struct, kw_only=True, eq=False):
    """Machines that were disrupted together, and the claims that were created right after."""

    by: str
    reason: str
    going: dict[str, NodeClaim]
    created: list[str] = []
    left: dict[str, NodeClaim] = {}
    """Those that have gone."""

    incomplete: tuple[str, ...] = ()
    """Replacements that were not initialized when the first one went."""


class ReplacementInvariant(Invariant):
    """Replacements first, never dearer, never the like of what goes, and never back again within the hour."""

    name = "replacement"

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        super().__init__(simulated, violations)
        self._prices = {
            (kind.name, offering.zone, offering.capacity_type): offering.price
            for kind in simulated.catalog.types
            for offering in kind.offerings
        }
        self._last: dict[str, ObservedCommand] = {}
        """The command that each replica began last."""

        self._of: dict[str, ObservedCommand] = {}
        """The command of each claim."""

        self._past: list[_Swap] = []

    def on_write(self, write: ObjectWrite) -> None:
        if not write.by:
            return
        claim = write.after
        if isinstance(claim, NodeClaim) and write.before is None:
            if write.by in self._last:
                self._last[write.by].created.append(claim.name)
        elif isinstance(claim, NodeClaim) and (reason := begins(write)):
            last = self._last.get(write.by)
            if last is None or last.created or last.left or last.reason != reason:
                last = self._last[write.by] = ObservedCommand(
                    by=write.by, reason=reason, going={}, created=[], left={}
                )
            last.going[claim.name] = claim
            self._of[claim.name] = last
        before = write.before
        if isinstance(before, NodeClaim) and begins_to_leave(write):
            command = self._of.get(before.name)
            if (
                command is not None
                and command.by == write.by
                and reason_of(before)
                and not self.simulated.goes_anyway(before)
            ):
                if not command.left:
                    command.incomplete = tuple(
                        name for name in self._replacements(command) if not self._is_complete(name)
                    )
                    asyncio.get_running_loop().call_later(_COMMAND_SECONDS, self._judge, command)
                command.left[before.name] = before

    def _replacements(self, command: ObservedCommand) -> list[str]:
        return [name for name in command.created if name in self.mirror.replacements]

    def _is_complete(self, name: str) -> bool:
        claim = self.mirror.claims.get(name)
        return claim is not None and is_true(claim, "Initialized")

    def _judge(self, command: ObservedCommand) -> None:
        if len(command.left) < len(command.going):
            return
        text = f"{command.reason}: {', '.join(sorted(command.left))}"
        for name in command.incomplete:
            self.violated(f"machines go ({text}) before their replacement {name} is complete")
        names = self._replacements(command)
        added = [claim for name in names if (claim := self.mirror.claims.get(name)) is not None]
        if command.reason == "Drifted" or any(is_leaving(each) for each in added):
            return
        going = list(command.going.values())
        before = sum(self._prices.get(kind_of(each), 0.0) for each in going)
        after = sum(self._prices.get(kind_of(each), 0.0) for each in added)
        if after > before + _CENT:
            self.violated(f"the bill grows from {before:.4f} to {after:.4f} an hour by {text}")
        if not self.simulated.sandbox.settings.gate("SpotToSpotConsolidation"):
            spot = all(kind_of(each)[2] == SPOT for each in going)
            if spot and any(kind_of(each)[2] == SPOT for each in added):
                self.violated(f"spot machines are replaced by spot machines, which is not enabled ({text})")
        for each in added if len(added) == 1 else ():
            if kind_of(each) in {kind_of(gone) for gone in going}:
                self.violated(f"{each.name} is the like of a machine that it replaces ({text})")
        swap = _Swap(self.now, _kinds(going), _kinds(added), self._demand())
        self._past = [each for each in self._past if self.now - each.at < HOUR]
        if any(swap.undoes(each) for each in self._past):
            self.violated(f"what went comes back within the hour, for the same pods: {text}")
        self._past.append(swap)

    def _demand(self) -> Counter[str]:
        """Return how many pods of each workload there are, leaving out those on their way out."""
        return Counter(
            pod.metadata.labels.get("app", "")
            for pod in self.mirror.pods.values()
            if not is_leaving(pod) and pod.status.phase in {"Pending", "Running"}
        )


class _Swap(NamedTuple):
    """Nodes that went, nodes that came instead, and the pods that they were for."""

    at: float
    went: Counter[Kind]
    came: Counter[Kind]
    demand: Counter[str]

    def undoes(self, other: _Swap) -> bool:
        """Say whether this leads back to where the other began."""
        return bool(self.came) and (self.went, self.came, self.demand) == (
            other.came,
            other.went,
            other.demand,
        )


def _kinds(claims: list[NodeClaim]) -> Counter[Kind]:
    return Counter(kind_of(each) for each in claims)


def kind_of(claim: NodeClaim) -> Kind:
    """Return the type, zone and capacity type of a launched claim."""
    labels = claim.metadata.labels
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
