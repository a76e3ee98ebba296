"""
The first hour after the switch: what disruption would do on this cluster, command after command.

Each pass decides about the cluster as the commands before have left it: their nodes are gone, replacements
run, pods are where the command puts them. Between passes time goes on, so that nodes become consolidatable,
budgets open and claims expire within the hour. Workloads do not change meanwhile, and no launch fails.

Pure: a decision is a function that the caller hands in, so that it is the one of ``karpenter plan``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    REGISTERED,
    ZONE,
)
from karpenter.api.meta import Condition
from karpenter.api.node import Node, NodeCondition, NodeSpec, NodeStatus
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.disrupt import next_moment
from karpenter.core.disruption.validation import WAIT
from karpenter.core.model.resources import render_resources
from karpenter.core.provisioning.provisioner import claim_for
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.disruption.command import Command
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode
    from karpenter.core.state.cluster import ClusterView

HOUR: Final = timedelta(hours=1)
START_UP: Final = timedelta(seconds=60)
"""How long a replacement is taken to need until its node is initialized."""

_QUIET: Final = timedelta(minutes=5)
_STEP: Final = timedelta(seconds=10)
MOST_PASSES: Final = 60
_DONE: Final = ("Launched", "Registered", "Initialized", "Consolidatable")


class HourCommand(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A command of the first hour."""

    after: int
    """Seconds after the switch."""

    reason: str
    decision: str
    nodes: tuple[str, ...]
    replacements: tuple[str, ...] = ()
    pods_moved: int = 0
    hourly_before: float = 0.0
    hourly_after: float = 0.0


class FirstHour(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the first hour brings."""

    commands: tuple[HourCommand, ...] = ()
    machines: int = 0
    """How many machines Karpenter has launched that run now."""

    hourly_before: float = 0.0
    hourly_after: float = 0.0
    pods_moved: int = 0
    complete: bool = True
    """Whether the hour was followed to its end."""


def first_hour(
    view: ClusterView,
    catalog: Catalog,
    now: datetime,
    decide: Callable[[ClusterView, datetime], DisruptionDecision],
    progress: Callable[[int], None] = lambda _: None,
) -> FirstHour:
    """Return what disruption does within an hour; `decide` decides about a cluster at a moment."""
    begin, end = now, now + HOUR
    before = _hourly(view, catalog)
    found: list[HourCommand] = []
    passes = 0
    while now < end and passes < MOST_PASSES:
        passes += 1
        progress(passes)
        decision = decide(view, now)
        if not decision.commands:
            coming = next_moment(view, now)
            now = max(now + _STEP, min(coming or now + _QUIET, now + _QUIET))
            continue
        for number, command in enumerate(decision.commands):
            found.append(_told(command, now - begin))
            view = after_command(view, command, catalog, now, tag=f"{passes}-{number}")
        launched = any(command.replacements for command in decision.commands)
        now += timedelta(seconds=WAIT) + (START_UP if launched else _STEP)
    return FirstHour(
        commands=tuple(found),
        machines=sum(node.is_managed for node in state_nodes(view)),
        hourly_before=before,
        hourly_after=_hourly(view, catalog),
        pods_moved=sum(each.pods_moved for each in found),
        complete=now >= end,
    )


def after_command(
    view: ClusterView, command: Command, catalog: Catalog, now: datetime, *, tag: str
) -> ClusterView:
    """Return the cluster once a command was carried out; `tag` makes the names of new nodes unique."""
    gone = {node.name: node for node in state_nodes(view) if node.name in command.candidates}
    claims = {each.claim.name for each in gone.values() if each.claim is not None}
    nodes = {name: node for name, node in view.nodes.items() if name not in gone}
    left = {name: claim for name, claim in view.claims.items() if name not in claims}
    homes = dict(command.moves)
    for number, new in enumerate(command.replacements):
        claim, node = _machine(new, view, catalog, now, f"new-{tag}-{number}")
        left[claim.name], nodes[node.name] = claim, node
        homes |= dict.fromkeys(new.pods, node.name)
    pods = dict(view.pods)
    for key, pod in view.pods.items():
        if pod.spec.node_name not in gone:
            continue
        if key in homes:
            pods[key] = msgspec.structs.replace(
                pod, spec=msgspec.structs.replace(pod.spec, node_name=homes[key])
            )
        else:
            del pods[key]  # of a DaemonSet, or finished: it goes with its node
    return msgspec.structs.replace(view, pods=pods, nodes=nodes, claims=left)


def _machine(
    new: NewNode, view: ClusterView, catalog: Catalog, now: datetime, name: str
) -> tuple[NodeClaim, Node]:
    """Return the claim and the node of a replacement that runs."""
    bought = new.purchase
    kind = catalog.find(new.pool, bought.instance_type)
    capacity = render_resources(kind.capacity if kind is not None else new.allocatable)
    allocatable = render_resources(new.allocatable)
    claim = claim_for(new, view.pools[new.pool], catalog.label_rules)
    settled = {term.key: min(term.values) for term in kind.requirements if _is_single(term)} if kind else {}
    labels = {
        **settled,
        **new.labels,
        **claim.metadata.labels,
        INSTANCE_TYPE: bought.instance_type,
        ZONE: bought.zone,
        CAPACITY_TYPE: bought.capacity_type,
    }
    done = tuple(Condition(type=each, status="True", reason=each, last_transition_time=now) for each in _DONE)
    provider_id = f"changeover:///{name}"
    claim = msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(
            claim.metadata, name=name, uid=name, generate_name="", labels=labels, creation_timestamp=now
        ),
        status=msgspec.structs.replace(
            claim.status,
            node_name=name,
            provider_id=provider_id,
            capacity=capacity,
            allocatable=allocatable,
            last_pod_event_time=now,
            conditions=done,
        ),
    )
    node = Node(
        metadata=msgspec.structs.replace(
            claim.metadata,
            labels={**labels, HOSTNAME: name, REGISTERED: "true", INITIALIZED: "true"},
            owner_references=(),
        ),
        spec=NodeSpec(provider_id=provider_id, taints=new.taints),
        status=NodeStatus(
            capacity={**capacity},
            allocatable={**allocatable},
            conditions=(NodeCondition(type="Ready", status="True", last_transition_time=now),),
        ),
    )
    return claim, node


def _is_single(term: object) -> bool:
    return not getattr(term, "complement", True) and len(getattr(term, "values", ())) == 1


def _told(command: Command, after: timedelta) -> HourCommand:
    return HourCommand(
        after=int(after.total_seconds()),
        reason=command.reason,
        decision=command.decision,
        nodes=command.candidates,
        replacements=tuple(
            f"{each.purchase.instance_type} {each.purchase.zone} {each.purchase.capacity_type}"
            for each in command.replacements
        ),
        pods_moved=command.pods_moved,
        hourly_before=command.hourly_before,
        hourly_after=command.hourly_after,
    )


def _hourly(view: ClusterView, catalog: Catalog) -> float:
    return sum(price_of(node, catalog) or 0.0 for node in state_nodes(view) if node.is_managed)
