"""
Why a pod is where it is, where it will be, or what keeps each NodePool from serving it.

It knows the decisions of the provisioner. It does not know kube-scheduler's own reasons for a pod that is
bound already: of that it says where the pod runs and where it would go if it were evicted now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, SPOT, ZONE
from karpenter.core.model.resources import parse_resources
from karpenter.core.scheduling.build.nodepools import as_pool, pool_usage
from karpenter.core.scheduling.encode.preferences import relaxations
from karpenter.core.scheduling.solve import limit_sentence
from karpenter.core.state.statenode import state_nodes
from karpenter.why.answer import Explanation, Inquiry, place_of, with_pods, with_pools, without_pods
from karpenter.why.causes import causes, failure_sentences
from karpenter.why.changes import found_changes
from karpenter.why.classes import missing_class
from karpenter.why.failures import launches_fail
from karpenter.why.options import demand_of
from karpenter.why.refused import RefusedPods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView


def explain_pod(inquiry: Inquiry, pod: Pod) -> Explanation:
    """Return why a pod is where it is, or what stands in its way."""
    if pod.spec.node_name:
        return _bound(inquiry, pod)
    name = f"pod/{pod.key}"
    # Nothing is decided about a pod that is gated, so nothing need be asked.
    decision = inquiry.ask(inquiry.view) if not pod.spec.scheduling_gates else None
    place = place_of(decision, pod.key) if decision is not None else ""
    if decision is None or not place:
        return refusal_of(inquiry, name, (pod,), decision)
    doubt = capacity_doubt(inquiry, pod, decision)
    return Explanation(
        object=name,
        placed=not doubt,
        answer=doubt or f"It will run on {place}.",
        because=(*_because(inquiry, pod, decision), *failure_sentences(inquiry)),
    )


def capacity_doubt(inquiry: Inquiry, pod: Pod, decision: ProvisioningDecision) -> str:
    """Return what is to be said instead of a place on a machine that may be sold out; empty for another."""
    claim = inquiry.view.claims.get(decision.starting.get(pod.key, ""))
    if claim is not None and claim.status.provider_id:
        return ""
    pool = next((node.pool for node in decision.plan.new_nodes if pod.key in node.pods), "")
    if claim is not None:
        pool = claim.metadata.labels.get(NODEPOOL, "")
    if not launches_fail(inquiry, pool):
        return ""
    if claim is not None:
        return f"It waits: launches fail for want of capacity. NodeClaim {claim.name} is tried now."
    place = place_of(decision, pod.key)
    return f"It waits: launches fail for want of capacity. {place[0].upper()}{place[1:]} is tried next."


def why_not_decided(pod: Pod, decision: ProvisioningDecision | None) -> str:
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
    reason = why_not_decided(pod, decision)
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


def _bound(inquiry: Inquiry, pod: Pod) -> Explanation:
    node = inquiry.node(pod.spec.node_name)
    about = ""
    if node is not None:
        words = [node.labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)]
        told = [*(word for word in words if word), *([f"NodePool {node.pool}"] if node.pool else [])]
        about = f" ({', '.join(told)})" if told else ""
    spec = msgspec.structs.replace(pod.spec, node_name="")
    evicted = inquiry.ask(with_pods(inquiry.view, [msgspec.structs.replace(pod, spec=spec)]))
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
    if told := missing_class(inquiry.view.pools[new.pool], inquiry.view, inquiry.catalog):
        yield told
    if new.purchase.capacity_type == ON_DEMAND:
        yield why_on_demand(inquiry, pod, new)


def _passed_over(inquiry: Inquiry, pod: Pod, decision: ProvisioningDecision, chosen: str) -> Iterator[str]:
    """Yield why each NodePool that is tried before the chosen one does not serve the pod."""
    names = [state.pool.name for state in decision.pools]
    before = decision.pools[: names.index(chosen)]
    ready = [state.pool.name for state in before if not state.obstacle]
    asked = inquiry.ask(with_pools(inquiry.view, ready)) if ready else None
    refusals = asked.plan.refusals if asked is not None else ()
    reasons = {
        each.pool: each.message for refusal in refusals if refusal.pod == pod.key for each in refusal.reasons
    }
    for state in before:
        reason = state.obstacle or reasons.get(state.pool.name)
        if reason:
            yield f"NodePool {state.pool.name} is passed over: {reason}"


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


def refusal_of(
    inquiry: Inquiry,
    name: str,
    pods: tuple[Pod, ...],
    decision: ProvisioningDecision | None,
    *,
    answer: str = "It waits and has no place.",
) -> Explanation:
    """Return what keeps pods that are alike from having a place, and what would help."""
    reason = why_not_decided(pods[0], decision)
    because = (reason,) if reason else ()
    if decision is None or pods[0].spec.scheduling_gates or pods[0].key in decision.skipped:
        return Explanation(object=name, placed=False, answer=answer, because=because)
    keys = {pod.key for pod in pods}
    refusal = next((each for each in decision.plan.refusals if each.pod in keys), None)
    others = [each.pod for each in decision.plan.refusals if each.pod not in keys]
    view = without_pods(inquiry.view, others)
    refused = RefusedPods(
        inquiry=inquiry,
        pods=pods,
        view=view,
        decision=decision,
        reasons=refusal.reasons if refusal is not None and not because else (),
        demand=demand_of(pods[0], view, inquiry.catalog),
    )
    found = found_changes(refused)
    if not because and not found.misses:
        because = (refusal.message if refusal is not None else "no NodePool is there",)
    remarks = [told for miss in found.misses for told in inquiry.remarks_about(miss.node_pool)]
    return Explanation(
        object=name,
        placed=False,
        answer=answer,
        because=tuple(dict.fromkeys((*because, *causes(refused), *remarks))),
        node_pools=found.misses,
        changes=found.changes,
    )
