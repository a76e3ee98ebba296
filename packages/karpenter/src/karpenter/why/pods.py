"""
Why a pod is where it is, where it will be, or what keeps each NodePool from serving it.

It knows the decisions of the provisioner. It does not know kube-scheduler's own reasons for a pod that is
bound already: of that it says where the pod runs and where it would go if it were evicted now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.build.build import as_pool, pool_usage
from karpenter.core.scheduling.encode.preferences import relaxations
from karpenter.core.scheduling.solve import limit_sentence
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import Explanation, Inquiry, PoolMiss, place_of, with_pod, with_pools, without_pods
from karpenter.why.changes import changes, limit_needed, nearest_miss

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.scheduling.problem import NewNode, Reason
    from karpenter.core.state.cluster import ClusterView


def explain_pod(inquiry: Inquiry, pod: Pod) -> Explanation:
    """Return why a pod is where it is, or what stands in its way."""
    if pod.spec.node_name:
        return _bound(inquiry, pod)
    # Nothing is decided about a pod that is gated, so nothing need be asked.
    decision = inquiry.provision(inquiry.view) if not pod.spec.scheduling_gates else None
    reason = _why_not_decided(pod, decision)
    if reason or decision is None:
        return _not_decided(pod, reason)
    place = place_of(decision, pod.key)
    if place:
        return Explanation(
            object=f"pod/{pod.key}",
            placed=True,
            answer=f"It will run on {place}.",
            because=tuple(_because(inquiry, pod, decision)),
        )
    return _refused(inquiry, pod, decision)


def _why_not_decided(pod: Pod, decision: ProvisioningDecision | None) -> str:
    """Return why the provisioner makes no decision about a pod; empty where it does."""
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"kube-scheduler does not look at it before its scheduling gates go: {gates}"
    if decision is None:
        return ""
    if pod.key in decision.skipped:
        return "it requires a node without a NodePool, so no NodePool may serve it"
    return next((each.message for each in decision.ignored if each.pod == pod.key), "")


def waiting_sentence(pod: Pod, decision: ProvisioningDecision) -> str:
    """Return where a pod that waits will run, or what keeps each NodePool from serving it."""
    reason = _why_not_decided(pod, decision)
    if reason:
        return f"It waits and has no place: {reason}."
    place = place_of(decision, pod.key)
    if place:
        return f"It will run on {place}."
    refusal = next((each for each in decision.plan.refusals if each.pod == pod.key), None)
    reasons = [f"NodePool {each.pool}: {each.message}" for each in (refusal.reasons if refusal else ())]
    reasons += [f"NodePool {each.pool.name}: {each.obstacle}" for each in decision.pools if each.obstacle]
    told = "; ".join(reasons) or (refusal.message if refusal is not None else "no NodePool is there")
    return f"It waits and has no place: {told}."


def _not_decided(pod: Pod, reason: str) -> Explanation:
    return Explanation(
        object=f"pod/{pod.key}", placed=False, answer="It waits and has no place.", because=(reason,)
    )


def _bound(inquiry: Inquiry, pod: Pod) -> Explanation:
    node = inquiry.node(pod.spec.node_name)
    about = ""
    if node is not None:
        words = [node.labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)]
        told = [*(word for word in words if word), *([f"NodePool {node.pool}"] if node.pool else [])]
        about = f" ({', '.join(told)})" if told else ""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    evicted = inquiry.provision(with_pod(inquiry.view, msgspec.structs.replace(pod, spec=spec)))
    place = place_of(evicted, pod.key)
    then = f"evicted now, it would go to {place}" if place else "evicted now, it would have no place"
    refusal = next((each.message for each in evicted.plan.refusals if each.pod == pod.key), "")
    return Explanation(
        object=f"pod/{pod.key}",
        placed=True,
        answer=f"It runs on node {pod.spec.node_name}{about}.",
        because=(f"{then}: {evicted.plan.because[pod.key] if place else refusal}",)
        if place or refusal
        else (then,),
    )


def _because(inquiry: Inquiry, pod: Pod, decision: ProvisioningDecision) -> Iterator[str]:
    yield decision.plan.because[pod.key]
    new = next((node for node in decision.plan.new_nodes if pod.key in node.pods), None)
    if new is None:
        return
    yield from _passed_over(inquiry, pod, decision, new.pool)
    if new.purchase.capacity_type == ON_DEMAND:
        yield why_on_demand(inquiry, pod, new)


def _passed_over(inquiry: Inquiry, pod: Pod, decision: ProvisioningDecision, chosen: str) -> Iterator[str]:
    """Yield why each NodePool that is tried before the chosen one does not serve the pod."""
    for state in decision.pools:
        name = state.pool.name
        if name == chosen:
            return
        if state.obstacle:
            yield f"NodePool {name} is passed over: {state.obstacle}"
            continue
        asked = inquiry.provision(with_pools(inquiry.view, [name]))
        reason = _reason(asked, pod.key, name)
        if reason is not None:
            yield f"NodePool {name} is passed over: {reason.message}"


def _reason(decision: ProvisioningDecision, key: str, pool: str) -> Reason | None:
    return next(
        (
            reason
            for refusal in decision.plan.refusals
            if refusal.pod == key
            for reason in refusal.reasons
            if reason.pool == pool
        ),
        None,
    )


def full_pools(view: ClusterView) -> tuple[str, ...]:
    """Return which NodePools are at their limits, one sentence each."""
    used = pool_usage(state_nodes(view))
    told = (_full(pool, used.get(name, {})) for name, pool in sorted(view.pools.items()))
    return tuple(f"{each}." for each in told if each)


def _full(pool: NodePool, used: Mapping[str, int]) -> str:
    limits = parse_resources(pool.spec.limits)
    return limit_sentence(
        pool.name, limits, {name: most - used.get(name, 0) for name, most in limits.items()}
    )


def why_on_demand(inquiry: Inquiry, pod: Pod, node: NewNode) -> str:
    """Return why a machine is not bought as spot."""
    pool = as_pool(inquiry.view.pools[node.pool], inquiry.catalog, {})
    if not pool.requirements[CAPACITY_TYPE].allows(SPOT):
        return f"on-demand, because NodePool {node.pool} does not allow spot"
    *_, last = relaxations(pod.spec, (), respect=False)
    if not last.requirements[CAPACITY_TYPE].allows(SPOT):
        return f"on-demand, because the pod requires {last.requirements[CAPACITY_TYPE]}"
    kinds = [inquiry.catalog.find(node.pool, name) for name in node.instance_types]
    if not any(each.capacity_type == SPOT for kind in kinds if kind is not None for each in kind.available):
        return "on-demand, because no spot offering of a type that fits is available"
    return "on-demand, because no spot offering that the node may use is cheaper"


def _refused(inquiry: Inquiry, pod: Pod, decision: ProvisioningDecision) -> Explanation:
    refusal = next((each for each in decision.plan.refusals if each.pod == pod.key), None)
    reasons = refusal.reasons if refusal is not None else ()
    view = without_pods(inquiry.view, [each.pod for each in decision.plan.refusals if each.pod != pod.key])
    needs = {
        reason.pool: limit_needed(inquiry, pod, view, view.pools[reason.pool])
        for reason in reasons
        if reason.code == "LimitReached"
    }
    misses = [
        PoolMiss(
            node_pool=reason.pool,
            code=reason.code,
            message=reason.message,
            nearest=nearest_miss(inquiry, pod, reason, needs.get(reason.pool, {})),
        )
        for reason in reasons
    ]
    misses += [
        PoolMiss(node_pool=state.pool.name, code="NotReady", message=state.obstacle)
        for state in decision.pools
        if state.obstacle
    ]
    because = () if misses else (refusal.message if refusal is not None else "no NodePool is there",)
    return Explanation(
        object=f"pod/{pod.key}",
        placed=False,
        answer="It waits and has no place.",
        because=because,
        node_pools=tuple(misses),
        changes=changes(inquiry, pod, view, reasons, needs),
    )
