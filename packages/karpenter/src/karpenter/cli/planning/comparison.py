"""
Two plans side by side: machines, the bill, evictions, and pods without a place.

Each side is what the cluster comes to: everything that has drifted is replaced, expired and empty machines
are gone, and new ones are there. Renderers are in :mod:`.data`, :mod:`.page` and :mod:`.markdown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from karpenter.cli.planning.rollout import DriftRollout, hourly, machines, rollout
from karpenter.core.disruption.command import DRIFTED
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.scheduling.problem import Refusal
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.cli.planning.decision import DecisionSettings, PlanDecision
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


class PlanOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster comes to by one plan."""

    name: str
    machines: Mapping[str, int]
    """By instance type and how they are bought."""

    hourly: float
    """What all machines of NodePools cost per hour then."""

    new: int
    """How many machines are launched for pods that wait."""

    removed: int
    """How many of today's machines go."""

    evicted: int
    """How many pods have to run again elsewhere."""

    refusals: tuple[Refusal, ...] = ()
    """Pods without a place."""

    change: DriftRollout | None = None
    """What becomes of everything that has drifted."""

    @property
    def unscheduled(self) -> frozenset[str]:
        return frozenset(each.pod for each in self.refusals) | frozenset(
            self.change.unscheduled if self.change is not None else ()
        )


class PlanComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two plans."""

    before: PlanOutcome
    after: PlanOutcome

    @property
    def machines(self) -> dict[str, tuple[int, int]]:
        """How many machines of each type there are, before and after; those that differ first."""
        one, other = self.before.machines, self.after.machines
        found = {name: (one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
        return dict(sorted(found.items(), key=lambda each: (-abs(each[1][1] - each[1][0]), each[0])))

    @property
    def hourly(self) -> float:
        """What the second costs more per hour."""
        return self.after.hourly - self.before.hourly

    @property
    def stranded(self) -> tuple[str, ...]:
        """Pods that have a place only before."""
        return tuple(sorted(self.after.unscheduled - self.before.unscheduled))

    @property
    def rescued(self) -> tuple[str, ...]:
        """Pods that have a place only after."""
        return tuple(sorted(self.before.unscheduled - self.after.unscheduled))

    @property
    def is_same(self) -> bool:
        one, other = (msgspec.structs.replace(each, name="") for each in (self.before, self.after))
        return one == other


def outcome(
    decision: PlanDecision,
    view: ClusterView,
    catalog: Catalog,
    settings: DecisionSettings,
    now: datetime,
    *,
    name: str,
) -> PlanOutcome:
    """Return what a cluster comes to by a plan that was made with disruption."""
    assert decision.disruption is not None
    priced = overlaid_catalog(view, catalog, settings.disruption.policy.at(now))
    change = rollout(decision, view, catalog, settings, now)
    nodes = [each for each in state_nodes(view) if each.claim is not None and not each.is_deleting]
    commands = [each for each in decision.disruption.commands if change is None or each.reason != DRIFTED]
    gone = {node for each in commands for node in each.candidates}
    evicted = sum(each.pods_moved for each in commands)
    if change is not None:
        return PlanOutcome(
            name=name,
            machines=change.after,
            hourly=change.hourly_after,
            new=len(decision.plan.new_nodes),
            removed=len(gone) + len(change.going),
            evicted=evicted + change.evicted,
            refusals=decision.plan.refusals,
            change=change,
        )
    stay = [node for node in nodes if node.name not in gone]
    new = [*decision.plan.new_nodes, *(node for each in commands for node in each.replacements)]
    return PlanOutcome(
        name=name,
        machines=machines(stay, new),
        hourly=hourly(stay, priced) + sum(node.purchase.price for node in new),
        new=len(decision.plan.new_nodes),
        removed=len(gone),
        evicted=evicted,
        refusals=decision.plan.refusals,
    )
