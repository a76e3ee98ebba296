"""
A plan as plain data: the JSON of the public contract.

Field names and their order are an interface; see docs/reference/plan.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.core.model.pricing import LIST
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.node import Taint
    from karpenter.cli.planning.comparison import PlanComparison, PlanOutcome
    from karpenter.cli.planning.decision import PlanDecision
    from karpenter.cli.planning.rollout import DriftRollout
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.requirement import RequirementTerm
    from karpenter.core.scheduling.problem import NewNode, Plan, Purchase, Refusal

_DIGITS = 10


def plan_data(decision: PlanDecision, remarks: Iterable[str] = ()) -> dict[str, Any]:
    """Return what the operator would decide, and remarks about it, as plain data."""
    plan, names = decision.plan, decision.names
    return {
        "kind": "Plan",
        "newNodes": [new_node_data(node, names) for node in plan.new_nodes],
        "existingNodes": [
            {"name": node, "pods": [names.get(pod, pod) for pod in pods]}
            for node, pods in plan.placed.items()
        ],
        "unscheduled": [_refusal(refusal, names) for refusal in plan.refusals],
        "skipped": [{"pod": refusal.pod, "message": refusal.message} for refusal in decision.skipped],
        "cost": {
            "hourly": round(plan.cost.hourly, _DIGITS),
            "lowerBound": round(plan.cost.lower_bound, _DIGITS),
            "gap": round(plan.cost.gap, _DIGITS),
            "gapParts": {name: round(part, _DIGITS) for name, part in plan.cost.gap_parts},
            "added": round(plan.cost.added, _DIGITS),
            "parts": {name: round(amount, _DIGITS) for name, amount in bill(plan).items()},
        },
        "notes": list(remarks),
    }


def bill(plan: Plan) -> dict[str, float]:
    """Return what the new nodes cost per hour by parts of their prices; they add up to the whole."""
    parts: dict[str, float] = {}
    for node in plan.new_nodes:
        bought = node.purchase
        for name, amount in bought.parts or ((LIST, bought.price),):
            parts[name] = parts.get(name, 0.0) + amount
    return parts


def money(amount: float) -> str:
    return f"${amount:,.4f}" if amount < 1 else f"${amount:,.2f}"


def counted(number: int, noun: str) -> str:
    """Return how many there are of something."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def why_data(plan: Plan, names: Mapping[str, str]) -> dict[str, Any]:
    """Return as plain data why each placed pod goes where it goes."""
    return {"why": {names.get(pod, pod): reason for pod, reason in sorted(plan.because.items())}}


def disruption_data(decision: DisruptionDecision, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what disruption decides as plain data."""
    return {
        "commands": [
            {
                "reason": command.reason,
                "decision": command.decision,
                "candidates": list(command.candidates),
                "replacements": [new_node_data(node, names) for node in command.replacements],
                "moves": dict(sorted(command.moves.items())),
                "hourlyBefore": round(command.hourly_before, _DIGITS),
                "hourlyAfter": round(command.hourly_after, _DIGITS),
                "podsMoved": command.pods_moved,
                **({"backTo": list(command.preferred)} if command.preferred else {}),
            }
            for command in decision.commands
        ],
        "kept": [{"node": kept.node, "code": kept.code, "message": kept.message} for kept in decision.kept],
    }


def rollout_data(rollout: DriftRollout) -> dict[str, Any]:
    """Return the end of a change of NodePools as plain data."""
    return {
        "rollout": {
            "drifted": [
                {
                    "node": each.name,
                    "nodePool": each.pool,
                    "reason": each.reason,
                    "hourly": round(each.hourly, _DIGITS),
                    "pods": each.pods,
                    **({"held": each.held} if each.held else {}),
                }
                for each in rollout.drifted
            ],
            "atOnce": dict(rollout.at_once),
            "machinesBefore": dict(rollout.before),
            "machinesAfter": dict(rollout.after),
            "hourlyBefore": round(rollout.hourly_before, _DIGITS),
            "hourlyAfter": round(rollout.hourly_after, _DIGITS),
            "podsEvicted": rollout.evicted,
            "unscheduled": list(rollout.unscheduled),
        }
    }


def comparison_data(comparison: PlanComparison) -> dict[str, Any]:
    """Return two plans side by side as plain data."""
    return {
        "kind": "PlanComparison",
        "before": _outcome(comparison.before),
        "after": _outcome(comparison.after),
        "changes": {
            "hourly": round(comparison.hourly, _DIGITS),
            "machines": [
                {"type": name, "before": before, "after": after}
                for name, (before, after) in comparison.machines.items()
                if before != after
            ],
            "stranded": list(comparison.stranded),
            "rescued": list(comparison.rescued),
        },
    }


def _outcome(outcome: PlanOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "hourly": round(outcome.hourly, _DIGITS),
        "machines": dict(outcome.machines),
        "newMachines": outcome.new,
        "removedMachines": outcome.removed,
        "podsEvicted": outcome.evicted,
        "unscheduled": sorted(outcome.unscheduled),
        **(rollout_data(outcome.change) if outcome.change is not None else {}),
    }


def new_node_data(node: NewNode, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "nodePool": node.pool,
        "requirements": [_term(term) for term in node.requirements.terms()],
        "labels": dict(sorted(node.labels.items())),
        "annotations": dict(sorted(node.annotations.items())),
        "startupTaints": [_taint(taint) for taint in node.startup_taints],
        "taints": [_taint(taint) for taint in node.taints],
        "instanceTypes": list(node.instance_types),
        "offering": _purchase(node.purchase),
        "requests": render_resources(node.requests),
        "pods": [names.get(pod, pod) for pod in node.pods],
    }


def _term(term: RequirementTerm) -> dict[str, Any]:
    found: dict[str, Any] = {"key": term.key, "operator": term.operator}
    if term.values:
        found["values"] = list(term.values)
    if term.min_values is not None:
        found["minValues"] = term.min_values
    return found


def _taint(taint: Taint) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(taint)
    return plain


def _purchase(purchase: Purchase) -> dict[str, Any]:
    found: dict[str, Any] = {
        "instanceType": purchase.instance_type,
        "zone": purchase.zone,
        "capacityType": purchase.capacity_type,
        "price": round(purchase.price, _DIGITS),
    }
    if purchase.reservation_id:
        found["reservationId"] = purchase.reservation_id
    if purchase.parts:
        found["parts"] = {name: round(amount, _DIGITS) for name, amount in purchase.parts}
    return found


def _refusal(refusal: Refusal, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "pod": names.get(refusal.pod, refusal.pod),
        "message": refusal.message,
        "reasons": [{"nodePool": r.pool, "code": r.code, "message": r.message} for r in refusal.reasons],
    }
