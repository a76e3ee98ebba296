"""
The decisions behind ``karpenter plan``: those of the operator, about the cluster as it is given.

``provision`` and ``disrupt`` are called as the operator's controllers call them, with an empty memory. What
happens in a cluster before the operator decides is assumed to have happened: kube-scheduler has looked at
every pending pod, static NodePools have launched what they lack, expired, unhealthy and surplus claims are
deleted, and nodes that pending pods fit on are nominated for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import BUFFER_NAME, BUFFER_NAMESPACE, NODEPOOL
from karpenter.api.pod import Pod, PodCondition
from karpenter.cli.planning.removals import removals
from karpenter.cli.planning.static import (
    StaticCapacity,
    static_capacity,
    with_static_claims,
    with_static_machines,
)
from karpenter.core.disruption.disrupt import DisruptionDecision, disrupt
from karpenter.core.disruption.memory import DisruptionMemory
from karpenter.core.disruption.settings import DisruptionContext
from karpenter.core.effects import Nominate
from karpenter.core.provisioning.provisioner import (
    ProvisioningDecision,
    ProvisioningMemory,
    ProvisioningSettings,
    provision,
)
from karpenter.core.scheduling.build.offered import overlaid_catalog
from karpenter.core.scheduling.problem import Plan, Refusal
from karpenter.core.scheduling.proof.gap import solve_and_explain_gap
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.pod import is_unscheduled
from karpenter.core.state.statenode import state_nodes
from karpenter.operator.options import Settings, disruption_context, provisioning_settings

if TYPE_CHECKING:
    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView

_UNSCHEDULABLE: Final = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
SKIPPED: Final = f"the pod requires a node without {NODEPOOL}, so no NodePool may serve it"


class PlanDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator would decide, and what is needed to show it."""

    provisioning: ProvisioningDecision
    plan: Plan
    """The plan with every pod that stays without a place among its refusals."""

    skipped: tuple[Refusal, ...] = ()
    """Pods that the operator does not decide about, and why."""

    names: dict[str, str] = {}
    """Names of pods that stand for the room of a CapacityBuffer."""

    unsold: Mapping[str, int] = {}
    """How many machines a static NodePool lacks that nothing on sale satisfies."""

    disruption: DisruptionDecision | None = None
    """What disruption would do, if that was asked."""


class DecisionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings of an operator mean for its decisions."""

    provisioning: ProvisioningSettings = ProvisioningSettings()
    disruption: DisruptionContext = DisruptionContext()
    node_repair: bool = False


def decision_settings(settings: Settings) -> DecisionSettings:
    return DecisionSettings(
        provisioning=provisioning_settings(settings),
        disruption=disruption_context(settings),
        node_repair=settings.gate("NodeRepair"),
    )


def decide(
    view: ClusterView,
    catalog: Catalog,
    settings: Settings | DecisionSettings,
    now: datetime,
    *,
    disruption: bool = False,
    prove: bool = True,
) -> PlanDecision:
    """
    Return what the operator would do with a cluster at one moment.

    Without `prove` no bound is worked out.
    """
    if not isinstance(settings, DecisionSettings):
        settings = decision_settings(settings)
    going: list[Command] = []
    view, static = _after_scheduler(view), StaticCapacity()
    priced = overlaid_catalog(view, catalog, settings.disruption.policy.at(now))
    gate = settings.disruption.settings.static_capacity
    if disruption:
        going = removals(view, priced, now, node_repair=settings.node_repair, static_capacity=gate)
        view = leaving(view, {name for command in going for name in command.candidates}, now)
    if gate:
        static = static_capacity(view, priced)
        view = with_static_claims(view, static.machines)
    found = provision(
        view,
        catalog,
        ProvisioningMemory(),
        now=now,
        settings=msgspec.structs.replace(settings.provisioning, report=True),
        solver=solve_and_explain_gap if prove else solve,
    )
    found = msgspec.structs.replace(found, plan=with_static_machines(found.plan, static.machines, view))
    return PlanDecision(
        provisioning=found,
        plan=msgspec.structs.replace(found.plan, refusals=(*found.ignored, *found.plan.refusals)),
        skipped=tuple(Refusal(pod=key, message=SKIPPED) for key in found.skipped),
        names=_buffer_names(found.virtual),
        unsold=static.unsold,
        disruption=_disrupt(view, catalog, settings.disruption, now, found=found, going=going, prove=prove)
        if disruption
        else None,
    )


def _disrupt(
    view: ClusterView,
    catalog: Catalog,
    context: DisruptionContext,
    now: datetime,
    *,
    found: ProvisioningDecision,
    going: list[Command],
    prove: bool,
) -> DisruptionDecision:
    """Return what disruption decides once the provisioner has; the nodes of `going` go in any case."""
    # The provisioner nominates a claim by its name, since its node may have none yet.
    nominated = {effect.node for effect in found.effects if isinstance(effect, Nominate)}
    decided = disrupt(
        view,
        catalog,
        DisruptionMemory(),
        now=now,
        context=msgspec.structs.replace(
            context,
            # A plan has no past in which stock could have come and gone.
            settings=msgspec.structs.replace(context.settings, prove=prove, return_after=timedelta()),
            nominated=frozenset(
                node.name
                for node in state_nodes(view)
                if node.name in nominated or (node.claim is not None and node.claim.name in nominated)
            ),
            buffered=found.memory.buffered,
        ),
    )
    gone = {name for command in going for name in command.candidates}
    gone |= {node.name for node in found.plan.new_nodes}  # machines of static NodePools, which start now
    return msgspec.structs.replace(
        decided,
        commands=(*going, *decided.commands),
        kept=tuple(kept for kept in decided.kept if kept.node not in gone),
    )


def _after_scheduler(view: ClusterView) -> ClusterView:
    """Return the view with every pending pod marked as kube-scheduler marks what it finds no node for."""
    marked = {key: _marked(pod) for key, pod in view.pods.items() if is_unscheduled(pod)}
    return msgspec.structs.replace(view, pods={**view.pods, **marked}) if marked else view


def _marked(pod: Pod) -> Pod:
    others = [each for each in pod.status.conditions if each.type != _UNSCHEDULABLE.type]
    status = msgspec.structs.replace(pod.status, conditions=(*others, _UNSCHEDULABLE))
    return msgspec.structs.replace(pod, status=status)


def leaving(view: ClusterView, names: set[str], now: datetime) -> ClusterView:
    """Return the view with the claims behind these nodes being deleted."""
    if not names:
        return view
    claims = dict(view.claims)
    for node in state_nodes(view):
        if node.name in names and node.claim is not None:
            meta = msgspec.structs.replace(node.claim.metadata, deletion_timestamp=now)
            claims[node.claim.name] = msgspec.structs.replace(node.claim, metadata=meta)
    return msgspec.structs.replace(view, claims=claims)


def _buffer_names(virtual: Mapping[str, Pod]) -> dict[str, str]:
    """Return what pods that stand for the room of a CapacityBuffer are called, by key."""
    names = {}
    for key, pod in virtual.items():
        notes, number = pod.metadata.annotations, int(pod.name.rpartition("-")[2]) - 1
        names[key] = f"buffer:{notes[BUFFER_NAMESPACE]}/{notes[BUFFER_NAME]}-{number}"
    return names
