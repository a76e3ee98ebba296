"""
Which single change would let a node go that is held.

Each is tried: the same decision about disruption is made again with it, and only one after which the node
goes is returned. Of a node whose pods have no other place, it is what would give them one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.nodepool import Budget
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.state.pdb import PdbLimits
from karpenter.why.answer import HelpfulChange, place_of, with_pod, with_pool, without_pods
from karpenter.why.changes import found_changes
from karpenter.why.options import demand_of
from karpenter.why.refused import RefusedPods, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.api.meta import ObjectMeta
    from karpenter.core.disruption.command import KeptNode
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode
    from karpenter.why.answer import Inquiry

_MOST_TRIES: Final = 6


def node_changes(
    inquiry: Inquiry,
    node: StateNode,
    kept: KeptNode,
    goes: Callable[[DisruptionDecision], str],
) -> tuple[HelpfulChange, ...]:
    """Return every single change after which a node goes; `goes` says how it does, empty where it stays."""
    if kept.code is DisruptionCode.CANNOT_MOVE:
        return tuple(_places(inquiry, node, kept))
    found = []
    for number, trial in enumerate(_trials(inquiry.view, node, kept.code)):
        if number < _MOST_TRIES and (result := goes(inquiry.ask_disrupt(trial.view))):
            found.append(HelpfulChange(change=trial.change, result=result))
    return tuple(found)


def _trials(view: ClusterView, node: StateNode, code: DisruptionCode) -> Iterator[Trial]:
    match code:
        case DisruptionCode.BUDGET | DisruptionCode.WHEN_EMPTY | DisruptionCode.CONSOLIDATE_AFTER:
            yield from _of_pool(view, node, code)
        case DisruptionCode.POD_DO_NOT_DISRUPT:
            yield from _unprotected_pods(view, node)
        case DisruptionCode.NODE_DO_NOT_DISRUPT:
            yield from _unprotected_node(view, node)
        case DisruptionCode.POD_DISRUPTION_BUDGET:
            yield from _disruption_budgets(view, node)
        case _:
            return


def _of_pool(view: ClusterView, node: StateNode, code: DisruptionCode) -> Iterator[Trial]:
    pool = view.pools[node.pool]
    rules = pool.spec.disruption
    if code is DisruptionCode.BUDGET:
        text = f"let a disruption budget of NodePool {pool.name} allow more now, such as nodes: 100%"
        rules = msgspec.structs.replace(rules, budgets=(Budget(nodes="100%"),))
    elif code is DisruptionCode.WHEN_EMPTY:
        text = f"set consolidationPolicy of NodePool {pool.name} to WhenEmptyOrUnderutilized"
        rules = msgspec.structs.replace(rules, consolidation_policy="WhenEmptyOrUnderutilized")
    else:
        text = f"lower consolidateAfter of NodePool {pool.name} from {rules.consolidate_after} to 0s"
        rules = msgspec.structs.replace(rules, consolidate_after="0s")
    changed = msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, disruption=rules))
    yield Trial(text, with_pool(view, changed), pool.name)


def _unprotected_pods(view: ClusterView, node: StateNode) -> Iterator[Trial]:
    held = [pod for pod in node.pods if DO_NOT_DISRUPT in pod.metadata.annotations]
    names = ", ".join(pod.key for pod in held)
    changed = view
    for pod in held:
        changed = with_pod(changed, msgspec.structs.replace(pod, metadata=_unprotected(pod.metadata)))
    yield Trial(f"take the annotation {DO_NOT_DISRUPT} off pod {names}, when it may be disturbed", changed)


def _unprotected_node(view: ClusterView, node: StateNode) -> Iterator[Trial]:
    changed = view
    if node.node is not None:
        plain = msgspec.structs.replace(node.node, metadata=_unprotected(node.node.metadata))
        changed = msgspec.structs.replace(changed, nodes={**changed.nodes, plain.name: plain})
    if node.claim is not None:
        claim = msgspec.structs.replace(node.claim, metadata=_unprotected(node.claim.metadata))
        changed = msgspec.structs.replace(changed, claims={**changed.claims, claim.name: claim})
    yield Trial(f"take the annotation {DO_NOT_DISRUPT} off node {node.name} and its NodeClaim", changed)


def _unprotected(meta: ObjectMeta) -> ObjectMeta:
    kept = {key: value for key, value in meta.annotations.items() if key != DO_NOT_DISRUPT}
    return msgspec.structs.replace(meta, annotations=kept)


def _disruption_budgets(view: ClusterView, node: StateNode) -> Iterator[Trial]:
    """Yield each PodDisruptionBudget that covers pods of a node as if it allowed them to be evicted."""
    limits = PdbLimits(view)
    covering = [item.budget for pod in node.pods for item in limits.covering(pod)]
    for budget in {each.key: each for each in covering}.values():
        count = sum(each.key == budget.key for each in covering)
        spec = msgspec.structs.replace(budget.spec, min_available=None, max_unavailable="100%")
        freed = msgspec.structs.replace(budget, spec=spec, status=type(budget.status)())
        text = f"let PodDisruptionBudget {budget.key} allow {count} of its pods to be evicted"
        budgets = {**view.disruption_budgets, budget.key: freed}
        yield Trial(
            f"{text}, by more replicas or a larger maxUnavailable",
            msgspec.structs.replace(view, disruption_budgets=budgets),
        )


def _places(inquiry: Inquiry, node: StateNode, kept: KeptNode) -> Iterator[HelpfulChange]:
    """Yield what would give the pod another place that would have none if the node went."""
    pod = next((each for each in node.pods if f"pod {each.key} " in kept.message), None)
    if pod is None:
        return
    spec = msgspec.structs.replace(pod.spec, node_name="")
    pod = msgspec.structs.replace(pod, spec=spec)
    view = without_pods(inquiry.view, [each.key for each in node.pods])
    view = with_pod(_without(view, node), pod)
    decision = inquiry.ask(view)
    refusal = next((each for each in decision.plan.refusals if each.pod == pod.key), None)
    if refusal is None or place_of(decision, pod.key):
        return
    refused = RefusedPods(
        inquiry=inquiry,
        pods=(pod,),
        view=view,
        decision=decision,
        reasons=refusal.reasons,
        demand=demand_of(pod, view, inquiry.catalog),
    )
    for each in found_changes(refused).changes:
        yield HelpfulChange(
            change=each.change, result=f"pod {pod.key} would have another place, {each.result}"
        )


def _without(view: ClusterView, node: StateNode) -> ClusterView:
    """Return the view without a node and its NodeClaim."""
    nodes = {name: each for name, each in view.nodes.items() if name != node.name}
    gone = node.claim.name if node.claim is not None else ""
    claims = {name: each for name, each in view.claims.items() if name != gone}
    return msgspec.structs.replace(view, nodes=nodes, claims=claims)
