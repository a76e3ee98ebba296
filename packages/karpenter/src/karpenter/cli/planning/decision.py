"""Asking the solver on behalf of ``karpenter plan``: the operator's own functions, with settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import BUFFER_NAME, BUFFER_NAMESPACE
from karpenter.core.disruption.command import DisruptionDecision
from karpenter.core.disruption.disrupt import expired, propose
from karpenter.core.scheduling.build.build import BuiltProblem, build_problem
from karpenter.core.scheduling.build.virtualpods import is_virtual
from karpenter.core.scheduling.problem import Plan
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.statenode import state_nodes
from karpenter.operator.options import options_of, policy_of, rules_of

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.view import ClusterView
    from karpenter.operator.options import Settings


class PlanDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and what is needed to show it."""

    plan: Plan
    intake: BuiltProblem
    names: dict[str, str] = {}
    """Names of pods that only stand for room."""

    verdict: DisruptionDecision | None = None
    """What disruption would do, if that was asked."""


def decide(
    view: ClusterView, catalog: Catalog, settings: Settings, now: datetime, *, disruption: bool = False
) -> PlanDecision:
    """Return what the operator would do with a cluster at one moment."""
    options, policy = options_of(settings), policy_of(settings)
    aged: list[Command] = []
    if disruption:
        aged = expired(view, catalog, now)
        view = _leaving(view, {name for command in aged for name in command.candidates}, now)
    intake = build_problem(view, catalog, now=now, options=options, policy=policy)
    plan = solve(intake.problem)
    names = {}
    for pod in intake.problem.pods:
        if is_virtual(pod):
            notes, number = pod.metadata.annotations, int(pod.name.rpartition("-")[2]) - 1
            names[pod.key] = f"buffer:{notes[BUFFER_NAMESPACE]}/{notes[BUFFER_NAME]}-{number}"
    whole = msgspec.structs.replace(plan, refusals=(*intake.turned_away, *plan.refusals))
    verdict = None
    if disruption:
        verdict = propose(
            view,
            catalog,
            now=now,
            options=options,
            policy=policy,
            rules=msgspec.structs.replace(rules_of(settings), prove=True),
            nominated=frozenset(n for n, pods in plan.placed.items() if any(p not in names for p in pods)),
            buffered=frozenset(plan.placed),
        )
        gone = {name for command in aged for name in command.candidates}
        verdict = DisruptionDecision(
            commands=(*aged, *verdict.commands),
            kept=tuple(k for k in verdict.kept if k.node not in gone),
            reach=verdict.reach,
        )
    return PlanDecision(plan=whole, intake=intake, names=names, verdict=verdict)


def _leaving(view: ClusterView, names: set[str], now: datetime) -> ClusterView:
    """Return the view with the claims behind these nodes being deleted."""
    if not names:
        return view
    claims = dict(view.claims)
    for node in state_nodes(view):
        if node.name in names and node.claim is not None:
            meta = msgspec.structs.replace(node.claim.metadata, deletion_timestamp=now)
            claims[node.claim.name] = msgspec.structs.replace(node.claim, metadata=meta)
    return msgspec.structs.replace(view, claims=claims)
