"""
Why a node was bought and is still there, how far a NodeClaim is, and why a NodePool is not used.

What holds a node is what disruption says of it. When a budget lets it go next is found by trying the moments
at which windows of its NodePool open or close, at most a year ahead.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.api.meta import find_status_condition
from karpenter.core.disruption.budgets import BudgetWindow, budget_usage, headroom, read_budgets
from karpenter.core.disruption.codes import DisruptionCode
from karpenter.core.disruption.cost import price_of
from karpenter.core.effects import CreateClaim
from karpenter.core.lifecycle.conditions import INITIALIZED, LAUNCHED, REGISTERED
from karpenter.core.lifecycle.liveness import REGISTRATION_TIMEOUT
from karpenter.core.model.pricing import HOURS_A_MONTH
from karpenter.core.state.pod import is_unscheduled
from karpenter.core.state.statenode import StateNode, state_nodes
from karpenter.why.answer import (
    Explanation,
    HelpfulChange,
    Inquiry,
    PoolMiss,
    counted,
    place_of,
    with_pools,
    without_pods,
)
from karpenter.why.causes import failure_sentences
from karpenter.why.changes import found_changes
from karpenter.why.failures import launches_fail
from karpenter.why.node_changes import node_changes
from karpenter.why.options import demand_of
from karpenter.why.refused import RefusedPods, alike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.api.pod import Pod
    from karpenter.core.disruption.command import Command, KeptNode
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.replay.record import Done

_AHEAD: Final = timedelta(days=366)
_MOST_MOMENTS: Final = 2000
_SHOWN: Final = 6
_NAMED_WITHIN: Final = timedelta(seconds=5)


def explain_node(inquiry: Inquiry, node: StateNode) -> Explanation:
    """Return why a node was bought, what runs on it for whom, and what holds it."""
    decision = inquiry.ask_disrupt(inquiry.view)
    words = [node.labels.get(key, "") for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)]
    about = ", ".join(word for word in words if word)
    because = [*([f"it is {about}"] if about else []), *_bought(inquiry, node), *_runs(node)]
    price = price_of(node, inquiry.priced)
    kept = next((each for each in decision.kept if each.node == node.name), None)
    command = next((each for each in decision.commands if node.name in each.candidates), None)
    if command is None and kept is not None and node.is_managed:
        if kept.code is DisruptionCode.BUDGET:
            because.append(_next_opening(inquiry, node))
        price = kept.hourly or price
    if price:
        because.append(f"as long as it stays it costs ${price * HOURS_A_MONTH:,.2f} a month")
    return Explanation(
        object=f"node/{node.name}",
        placed=True,
        answer=node_sentence(node.is_managed, command, kept),
        because=tuple(because),
        changes=node_changes(inquiry, node, kept, partial(_goes, node)) if kept and not command else (),
        monthly=round(price * HOURS_A_MONTH, 2) if price else None,
    )


def _goes(node: StateNode, decision: DisruptionDecision) -> str:
    """Return how a decision lets a node go; empty where it keeps it."""
    command = next((each for each in decision.commands if node.name in each.candidates), None)
    told = node_sentence(node.is_managed, command, None) if command is not None else ""
    return f"{told[:1].lower()}{told[1:].rstrip('.')}"


def node_sentence(is_managed: bool, command: Command | None, kept: KeptNode | None) -> str:
    """Return whether a node goes or stays, given the command that removes it or what keeps it."""
    if not is_managed:
        return "It stays: it has no NodeClaim, so Karpenter neither bought it nor removes it."
    if command is not None:
        saved = (command.hourly_before - command.hourly_after) * HOURS_A_MONTH
        if command.preferred:
            cost = f"saves ${saved:,.2f}" if saved >= 0 else f"costs ${-saved:,.2f}"
            back = f"its pods go back to NodePool {command.destinations}, which has a higher weight"
            return f"It would go now ({command.reason}): {back}; that {cost} a month."
        return f"It would go now ({command.reason}), which saves ${saved:,.2f} a month."
    if kept is not None:
        return f"It stays: {kept.message}."
    return "It stays: disruption does not look at it."


def _bought(inquiry: Inquiry, node: StateNode) -> Iterator[str]:
    claim = node.claim
    if claim is None:
        return
    wanted = claim.spec.resources.requests
    if wanted:
        text = ", ".join(f"{name} {amount}" for name, amount in sorted(wanted.items()))
        yield f"NodePool {node.pool} bought it as NodeClaim {claim.name} for pods that requested {text}"
    elif node.pool:
        yield f"NodePool {node.pool} bought it as NodeClaim {claim.name}"
    for each in inquiry.done:
        if each.effect == CreateClaim.__name__ and _is_creation(each, claim):
            yield f"its NodeClaim was created at {each.at:%Y-%m-%dT%H:%M:%SZ}: {each.because}"
            return  # others that were created with it have the same prefix


def _is_creation(done: Done, claim: NodeClaim) -> bool:
    name = done.about.partition("/")[2]
    if name == claim.name:
        return True
    # The API server names a NodeClaim when it is created, so its creation is recorded under generateName.
    created = claim.metadata.creation_timestamp
    is_prefix = name.endswith("-") and claim.name.startswith(name)
    return is_prefix and created is not None and abs(done.at - created) <= _NAMED_WITHIN


def _runs(node: StateNode) -> Iterator[str]:
    if not node.pods:
        yield "no pod runs on it"
        return
    owners = Counter(_owner(pod) for pod in node.pods)
    told = [f"{name} x {count}" if count > 1 else name for name, count in owners.most_common()]
    others = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    count = "1 pod runs" if len(node.pods) == 1 else f"{len(node.pods)} pods run"
    yield f"{count} on it: {', '.join(told[:_SHOWN])}{others}"


def _owner(pod: Pod) -> str:
    for each in pod.metadata.owner_references:
        if each.controller:
            return f"{each.kind} {pod.namespace}/{each.name}"
    return f"pod {pod.key}"


def _next_opening(inquiry: Inquiry, node: StateNode) -> str:
    """Return when the budgets of a node's NodePool let a node go next."""
    pool = inquiry.view.pools[node.pool]
    found = next_opening(inquiry, pool)
    if found is None:
        return f"the budgets of NodePool {pool.name} do not open by themselves"
    return f"the budgets of NodePool {pool.name} let a node go next at {found:%Y-%m-%dT%H:%M:%SZ}"


def next_opening(inquiry: Inquiry, pool: NodePool) -> datetime | None:
    """Return when the budgets of a NodePool next let a node go for a reason that they hold back now."""
    budgets = read_budgets(pool.spec.disruption.budgets)
    size, leaving = budget_usage(state_nodes(inquiry.view))
    count, going = size.get(pool.name, 0), leaving.get(pool.name, 0)
    shut = [
        reason
        for reason in ("Underutilized", "Empty", "Drifted")
        if not headroom(budgets, reason=reason, pool_size=count, disrupting=going, now=inquiry.now)
    ]
    moment = inquiry.now
    for _ in range(_MOST_MOMENTS):
        turns = [turn for budget in budgets if budget.window for turn in _turns(budget.window, moment)]
        if not shut or not turns or min(turns) > inquiry.now + _AHEAD:
            return None
        moment = min(turns)
        if any(
            headroom(budgets, reason=each, pool_size=count, disrupting=going, now=moment) for each in shut
        ):
            return moment
    return None


def _turns(window: BudgetWindow, after: datetime) -> Iterator[datetime]:
    """Yield when a window opens next after a moment, and when it closes if it is open then."""
    opens = window.schedule.next_after(after)
    if opens is not None:
        yield opens
    begun = window.schedule.next_after(after - window.duration)
    if begun is not None and begun <= after:
        yield begun + window.duration


def explain_claim(inquiry: Inquiry, claim: NodeClaim) -> Explanation:
    """Return how far a NodeClaim is and what it waits for."""
    name = f"nodeclaim/{claim.name}"
    node = inquiry.node(claim.name)
    if claim.metadata.deletion_timestamp is not None:
        pods = ", ".join(pod.key for pod in node.pods[:_SHOWN]) if node is not None else ""
        drains = (
            (f"these pods are still on its node: {pods}",) if pods else ("no pod is on its node any more",)
        )
        return Explanation(object=name, placed=False, answer="It is being deleted.", because=drains)
    for step, waits in ((LAUNCHED, _launch), (REGISTERED, _registration), (INITIALIZED, _initialization)):
        condition = find_status_condition(claim.status.conditions, step)
        if condition is None or condition.status != "True":
            told = condition.message if condition is not None else ""
            because = tuple(filter(None, (*waits(inquiry, claim, node), told)))
            return Explanation(
                object=name, placed=False, answer=f"It is not {step.lower()} yet.", because=because
            )
    where = claim.status.node_name or "its node"
    return Explanation(object=name, placed=True, answer=f"It is initialized; it is node {where}.")


def _launch(inquiry: Inquiry, claim: NodeClaim, node: StateNode | None) -> Iterator[str]:
    del inquiry, node
    yield f"it waits for the provider to launch an instance for {_requests(claim)}"


def _registration(inquiry: Inquiry, claim: NodeClaim, node: StateNode | None) -> Iterator[str]:
    del node
    instance = claim.status.provider_id or "(no provider ID)"
    yield f"its instance {instance} has not joined the cluster as a node"
    begun = find_status_condition(claim.status.conditions, LAUNCHED)
    if begun is not None and begun.last_transition_time is not None:
        left = begun.last_transition_time + REGISTRATION_TIMEOUT - inquiry.now
        yield f"it is deleted and bought again in {max(round(left.total_seconds()), 0)} s if it does not join"


def _initialization(inquiry: Inquiry, claim: NodeClaim, node: StateNode | None) -> Iterator[str]:
    del inquiry
    if node is None or node.node is None:
        yield "its node is not there"
        return
    if not node.is_ready:
        yield f"node {node.name} is not Ready"
    startup = {(each.key, each.effect) for each in claim.spec.startup_taints}
    for taint in node.node.spec.taints:
        if (taint.key, taint.effect) in startup:
            yield f"the startup taint {taint.key}:{taint.effect} is still on node {node.name}"
    for resource in claim.spec.resources.requests:
        if resource not in node.node.status.allocatable:
            yield f"node {node.name} does not report {resource} yet"


def _requests(claim: NodeClaim) -> str:
    wanted = claim.spec.resources.requests
    return ", ".join(f"{name} {amount}" for name, amount in sorted(wanted.items())) or "its requirements"


def explain_pool(inquiry: Inquiry, pool: NodePool) -> Explanation:
    """Return what a NodePool is used for, or why it is not."""
    name = f"nodepool/{pool.name}"
    view = inquiry.view
    decision = inquiry.ask(view)
    nodes = [node for node in state_nodes(view) if node.pool == pool.name]
    new = [node for node in decision.plan.new_nodes if node.pool == pool.name]
    because = [f"it has {counted(len(nodes), 'node')} now", *inquiry.remarks_about(pool.name)]
    obstacle = next((each.obstacle for each in decision.pools if each.pool.name == pool.name), "")
    if pool.spec.replicas is not None:
        because.append(f"it keeps {pool.spec.replicas}, where the feature gate StaticCapacity is enabled")
    if obstacle and not new:
        return Explanation(
            object=name, placed=False, answer=f"It is not used: {obstacle}.", because=tuple(because)
        )
    if new and pool.spec.replicas is not None:
        hourly = sum(node.purchase.price for node in new)
        answer = (
            f"It would launch {counted(len(new), 'node')} now, for ${hourly * HOURS_A_MONTH:,.2f} a month."
        )
        return Explanation(object=name, placed=True, answer=answer, because=tuple(because))
    if new:
        pods = sum(len(node.pods) for node in new)
        hourly = sum(node.purchase.price for node in new)
        bought = f"{counted(len(new), 'node')} for {counted(pods, 'pod')}"
        if launches_fail(inquiry, pool.name):
            answer = f"It would buy {bought}, but its launches fail for want of capacity."
            because += failure_sentences(inquiry)
            return Explanation(object=name, placed=False, answer=answer, because=tuple(because))
        answer = f"It would buy {bought} now, for ${hourly * HOURS_A_MONTH:,.2f} a month."
        return Explanation(object=name, placed=True, answer=answer, because=tuple(because))
    waiting = [key for key, pod in view.pods.items() if is_unscheduled(pod)]
    if not waiting:
        answer = (
            "It is used, and buys nothing now: no pod waits." if nodes else "It is not used: no pod waits."
        )
        return Explanation(object=name, placed=bool(nodes), answer=answer, because=tuple(because))
    asked = inquiry.ask(with_pools(view, [pool.name]))
    misses, used = tuple(_misses(asked, pool, waiting)), False
    changes: tuple[HelpfulChange, ...] = ()
    if misses:
        answer = "It buys nothing now: it cannot serve the pods that wait."
        changes = _changes(inquiry, pool, asked)
    else:
        answer, used = "It buys nothing now: the pods that wait go elsewhere.", bool(nodes)
        places = ((key, place_of(decision, key)) for key in waiting[:_SHOWN])
        because += [f"{key} goes to {place}" for key, place in places if place]
    return Explanation(
        object=name,
        placed=used,
        answer=answer,
        because=tuple(because),
        node_pools=misses,
        changes=changes,
    )


def _changes(inquiry: Inquiry, pool: NodePool, asked: ProvisioningDecision) -> tuple[HelpfulChange, ...]:
    """Return what would let the first of the pods that a NodePool refuses in, with those that are alike."""
    pods = [inquiry.view.pods[each.pod] for each in asked.plan.refusals if each.pod in inquiry.view.pods]
    first = alike(pods)
    keys = {pod.key for pod in first}
    others = [each.pod for each in asked.plan.refusals if each.pod not in keys]
    view = without_pods(with_pools(inquiry.view, [pool.name]), others)
    reasons = next(each.reasons for each in asked.plan.refusals if each.pod == first[0].key)
    demand = demand_of(first[0], view, inquiry.catalog)
    refused = RefusedPods(
        inquiry=inquiry, pods=first, view=view, decision=asked, reasons=reasons, demand=demand
    )
    return found_changes(refused).changes


def _misses(asked: ProvisioningDecision, pool: NodePool, waiting: list[str]) -> Iterator[PoolMiss]:
    """Yield each reason once, with how many pods it keeps out."""
    wanted = set(waiting)
    reasons = Counter(
        reason for refusal in asked.plan.refusals if refusal.pod in wanted for reason in refusal.reasons
    )
    for reason, count in reasons.most_common():
        text = f"{counted(count, 'pod')}: {reason.message}"
        yield PoolMiss(node_pool=pool.name, code=reason.code, message=text)
