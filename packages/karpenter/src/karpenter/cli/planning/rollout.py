"""
A change of NodePools to its end: everything that has drifted, in which order it goes, and the last bill.

One command of disruption replaces one drifted node, so a plan shows the first. What the cluster has when all
of them are replaced is found with one more decision, in which the drifted nodes that may go are gone. Prices
and pods stay as they are meanwhile, which no real change grants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE
from karpenter.cli.planning.decision import DecisionSettings, PlanDecision, decide, leaving
from karpenter.core.disruption.budgets import budget_usage, read_budgets, tightest_budget
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.command import DRIFTED
from karpenter.core.disruption.cost import price_of
from karpenter.core.lifecycle.disruption_conditions import drifted_since, known_drift
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.state.pod import is_reschedulable
from karpenter.core.state.statenode import StateNode, state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode, Plan
    from karpenter.core.state.cluster import ClusterView

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_HOLDING: Final = frozenset(
    {
        DisruptionCode.NODE_DO_NOT_DISRUPT,
        DisruptionCode.NODE_LIMIT,
        DisruptionCode.NO_INSTANCE_TYPES,
        DisruptionCode.POD_DISRUPTION_BUDGET,
        DisruptionCode.POD_DO_NOT_DISRUPT,
        DisruptionCode.STATIC_CAPACITY,
    }
)
"""What keeps a drifted node until something else changes; it waits for its turn, or a budget, otherwise."""


class DriftedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that has drifted."""

    name: str
    pool: str
    reason: str
    hourly: float
    pods: int
    """How many pods it would evict."""

    held: str = ""
    """What keeps it until that is changed; empty for a node that goes."""


class DriftRollout(msgspec.Struct, frozen=True, kw_only=True):
    """What a change of NodePools comes to."""

    drifted: tuple[DriftedNode, ...]
    """In the order in which they go."""

    at_once: Mapping[str, int]
    """How many nodes of a NodePool its budgets let go at the same time now."""

    before: Mapping[str, int]
    """The machines of all NodePools, by instance type."""

    after: Mapping[str, int]
    hourly_before: float
    hourly_after: float
    unscheduled: tuple[str, ...] = ()
    """Pods without a place at the end."""

    @property
    def going(self) -> tuple[DriftedNode, ...]:
        return tuple(each for each in self.drifted if not each.held)

    @property
    def evicted(self) -> int:
        return sum(each.pods for each in self.going)


def rollout(
    decision: PlanDecision, view: ClusterView, catalog: Catalog, settings: DecisionSettings, now: datetime
) -> DriftRollout | None:
    """Return what becomes of everything that has drifted; None where nothing has."""
    assert decision.disruption is not None
    priced = overlaid_catalog(view, catalog, settings.disruption.policy.at(now))
    commands = decision.disruption.commands
    removed = {name for each in commands if each.reason != DRIFTED for name in each.candidates}
    nodes = [each for each in state_nodes(view) if each.claim is not None and not each.is_deleting]
    drifted = {
        node.name: (node, reason)
        for node in sorted(nodes, key=_order)
        if (reason := _reason(node, view)) and node.name not in removed
    }
    if not drifted:
        return None
    kept = [each for each in decision.disruption.kept if each.node in drifted]
    held = {each.node: each.message for each in kept if each.code in _HOLDING}

    def end() -> Plan:
        gone = removed | (drifted.keys() - held.keys())
        return decide(leaving(view, gone, now), catalog, settings, now).plan

    plan = end()
    # A pod that has no other place now may have one when others have gone, and the other way round.
    refused = {each.pod: each.message for each in plan.refusals}
    going = {name for each in commands for name in each.candidates}
    stranding = {
        name: f"pod {pod.key} would have no other place: {refused[pod.key]}"
        for name, (node, _) in drifted.items()
        for pod in reversed(node.pods)
        if pod.key in refused and name not in held and name not in going
    }
    if stranding:
        held |= stranding
        plan = end()
    stay = [node for node in nodes if node.name not in removed | (drifted.keys() - held.keys())]
    return DriftRollout(
        drifted=tuple(
            DriftedNode(
                name=node.name,
                pool=node.pool,
                reason=reason,
                hourly=price_of(node, priced) or 0.0,
                pods=sum(is_reschedulable(pod) for pod in node.pods),
                held=held.get(node.name, ""),
            )
            for node, reason in drifted.values()
        ),
        at_once=_at_once({node.pool for node, _ in drifted.values()}, view, now),
        before=machines(nodes, ()),
        after=machines(stay, plan.new_nodes),
        hourly_before=hourly(nodes, priced),
        hourly_after=hourly(stay, priced) + plan.cost.hourly,
        unscheduled=tuple(each.pod for each in plan.refusals),
    )


def machines(nodes: Iterable[StateNode], new: Iterable[NewNode]) -> dict[str, int]:
    """Return how many machines there are, by instance type and how they are bought; the most first."""
    named = Counter(
        f"{each.labels.get(INSTANCE_TYPE, 'unknown type')} {each.labels.get(CAPACITY_TYPE, '')}".strip()
        for each in nodes
    )
    named.update(f"{each.purchase.instance_type} {each.purchase.capacity_type}" for each in new)
    return dict(sorted(named.items(), key=lambda each: (-each[1], each[0])))


def hourly(nodes: Iterable[StateNode], catalog: Catalog) -> float:
    """Return what machines cost per hour, as far as their prices are known."""
    return sum(price_of(each, catalog) or 0.0 for each in nodes)


def _order(node: StateNode) -> tuple[bool, datetime, str]:
    """Return where a node stands in the order of drift, as in core.disruption.drift."""
    since = drifted_since(node.claim) if node.claim is not None else None
    return any(is_reschedulable(pod) for pod in node.pods), since or _NEVER, node.name


def _reason(node: StateNode, view: ClusterView) -> str:
    pool = view.pools.get(node.pool)
    return known_drift(node.claim, pool) if node.claim is not None and pool is not None else ""


def _at_once(pools: Iterable[str], view: ClusterView, now: datetime) -> dict[str, int]:
    size, _ = budget_usage(state_nodes(view))
    found = {}
    for name in sorted(pools):
        budgets = read_budgets(view.pools[name].spec.disruption.budgets)
        tightest = tightest_budget(budgets, reason=DRIFTED, pool_size=size[name], now=now)
        found[name] = tightest.ceiling(size[name])
    return found
