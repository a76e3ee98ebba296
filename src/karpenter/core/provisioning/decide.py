"""
One decision of the provisioner: claims to create, nodes to promise, and what to tell.

``provision`` is the whole of it and runs wherever the caller likes, since it only computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import BUFFER_NAME, BUFFER_NAMESPACE
from karpenter.core.announcements import failed_scheduling, no_compatible_types, nominated
from karpenter.core.effects import CreateClaim, Effect, Nominate
from karpenter.core.provisioning.claims import create
from karpenter.core.provisioning.demand import demand
from karpenter.core.provisioning.promises import is_coming, keep
from karpenter.core.provisioning.zones import pods_by_zone
from karpenter.core.scheduling.intake.buffers import is_virtual
from karpenter.core.scheduling.intake.intake import assemble
from karpenter.core.scheduling.plan import Plan
from karpenter.core.scheduling.solve import solve
from karpenter.core.state.nodes import state_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.model.catalog import Catalog, InstanceType
    from karpenter.core.provisioning.promises import Promise
    from karpenter.core.scheduling.intake.intake import Intake, Policy
    from karpenter.core.scheduling.problem import Options, Pool
    from karpenter.core.state.view import ClusterView

NO_PROMISES: Final[Mapping[str, Promise]] = MappingProxyType({})


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done for the pods that wait."""

    plan: Plan = Plan()
    claims: tuple[CreateClaim, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Promises and announcements."""

    considered: int = 0
    """Pods that a place was looked for."""

    ignored: int = 0
    """Pods that were turned away before."""

    buffered: frozenset[str] = frozenset()
    """Names of nodes that hold room for a buffer."""

    places: Mapping[str, str] = {}
    """Of each waiting pod that has a place, the pool of its node; empty for nodes that are nobody's."""

    refused: frozenset[str] = frozenset()
    """Waiting pods that have none."""

    coming: Mapping[str, str] = {}
    """Of each pod that was given a place on a machine that is on its way already, the claim."""

    zones: Mapping[str, int] = {}
    """How many waiting pods can only be in each zone."""

    buffers: Mapping[str, bool] = {}
    """Of each buffer that asks for room, whether all of it is on nodes that exist."""


NOTHING_TO_DO: Final = Decision()


def provision(
    view: ClusterView,
    catalog: Catalog,
    *,
    now: datetime,
    options: Options,
    policy: Policy,
    promised_until: datetime,
    promises: Mapping[str, Promise] = NO_PROMISES,
) -> Decision:
    """
    Decide where every waiting pod goes, and which machines to launch for them.

    `promises` are the places that pods were given before, by the keys of the pods.
    """
    wanted = demand(view, now, policy)
    kept = keep(view, state_nodes(view), wanted, promises, now)
    pods = tuple(pod for pod in wanted if pod.key not in kept.pods)
    zones = pods_by_zone(filter(_waits_for_real, wanted), view, catalog)
    if not pods:
        return Decision(zones=zones) if wanted else NOTHING_TO_DO
    intake = assemble(kept.view, catalog, nodes=kept.nodes, pods=pods, options=options, policy=policy)
    plan = solve(intake.problem)
    known = {pod.key: pod for pod in pods}
    rules = catalog.label_rules
    because = "pods wait for it"
    return Decision(
        plan=plan,
        claims=tuple(create(node, view.pools[node.pool], rules, because) for node in plan.new_nodes),
        effects=(
            *_promises(plan, view, known, promised_until),
            *_refusals(intake, plan, known),
            *_empty_pools(intake, plan, view.pools),
        ),
        considered=len(intake.problem.pods),
        ignored=len(intake.turned_away),
        buffered=frozenset(
            name for name, keys in plan.placed.items() if any(is_virtual(known[key]) for key in keys)
        ),
        buffers=_buffers(plan, known),
        places=_places(plan, view, known),
        zones=zones,
        coming=_coming(plan, view, known),
        refused=frozenset(
            each.pod for each in (*intake.turned_away, *plan.refusals) if _waits_for_real(known[each.pod])
        ),
    )


def told(claim: NodeClaim, pods: Mapping[str, Pod]) -> tuple[Effect, ...]:
    """Return what to tell pods for which a claim was created."""
    return tuple(nominated(pod, claim=claim.name) for pod in pods.values() if not is_virtual(pod))


def _places(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each waiting pod that has a place the pool of its node."""
    pools = {node.name: node.pool for node in state_nodes(view)}
    found = {key: pools[name] for name, keys in plan.placed.items() for key in keys}
    found |= {key: node.pool for node in plan.new_nodes for key in node.pods}
    return {key: pool for key, pool in found.items() if _waits_for_real(pods[key])}


def _coming(plan: Plan, view: ClusterView, pods: Mapping[str, Pod]) -> dict[str, str]:
    """Return of each pod that was given a place on a machine that is on its way the claim."""
    claims = {
        node.name: node.claim.name for node in state_nodes(view) if node.claim is not None and is_coming(node)
    }
    return {
        key: claims[name]
        for name, keys in plan.placed.items()
        if name in claims
        for key in keys
        if not is_virtual(pods[key])
    }


def _waits_for_real(pod: Pod) -> bool:
    """Whether a pod exists and has no node; others are looked after for their node's or a buffer's sake."""
    return not pod.spec.node_name and not is_virtual(pod)


def _buffers(plan: Plan, pods: Mapping[str, Pod]) -> dict[str, bool]:
    """Return of each buffer that asks for room whether all of it was found on nodes that exist."""
    there = {key for keys in plan.placed.values() for key in keys}
    found: dict[str, bool] = {}
    for pod in pods.values():
        if is_virtual(pod):
            notes = pod.metadata.annotations
            buffer = f"{notes[BUFFER_NAMESPACE]}/{notes[BUFFER_NAME]}"
            found[buffer] = found.get(buffer, True) and pod.key in there
    return found


def _promises(plan: Plan, view: ClusterView, pods: Mapping[str, Pod], until: datetime) -> Iterator[Effect]:
    by_name = {node.name: node for node in state_nodes(view)}
    for name, keys in plan.placed.items():
        real = [pods[key] for key in keys if not is_virtual(pods[key])]
        if not real:
            continue
        node = by_name[name]
        claim = node.claim.name if node.claim is not None else ""
        yield Nominate(node=claim or name, until=until, because=f"{len(real)} pods that wait fit on it")
        for pod in real:
            yield nominated(pod, claim=claim, node=node.node.name if node.node is not None else "")


def _refusals(intake: Intake, plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Effect]:
    for refusal in (*intake.turned_away, *(plan.refusals if intake.problem.pools else ())):
        pod = pods[refusal.pod]
        if not is_virtual(pod):
            yield failed_scheduling(pod, refusal.message)


def _empty_pools(intake: Intake, plan: Plan, pools: Mapping[str, NodePool]) -> Iterator[Effect]:
    if not plan.refusals:
        return
    strict = intake.problem.options.min_values == "Strict"
    for pool in intake.problem.pools:
        sold = _sold(pool)
        if not sold:
            problem = "nothing that can be bought at this moment satisfies its requirements"
            yield no_compatible_types(pools[pool.name], problem)
        elif strict and (short := _too_few(pool, sold)):
            problem = f"what can be bought at this moment does not satisfy its minValues: {short}"
            yield no_compatible_types(pools[pool.name], problem)


def _sold(pool: Pool) -> list[InstanceType]:
    """Return what can be bought for a pool, whatever its pods want."""
    return [
        kind
        for kind in pool.types
        if pool.requirements.conflict(kind.requirements) is None
        and any(pool.requirements.conflict(offering.requirements) is None for offering in kind.available)
    ]


def _too_few(pool: Pool, sold: list[InstanceType]) -> str:
    """Return of which labels a pool wants more values than can be bought."""
    found = []
    for each in pool.requirements:
        values = {
            value for kind in sold for value in kind.requirements[each.key].values if each.allows(value)
        }
        if each.min_values is not None and len(values) < each.min_values:
            found.append(f"{each.key} has {len(values)} of {each.min_values}")
    return ", ".join(found)
