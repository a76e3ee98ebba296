"""
Which nodes drift once this operator leads, and why.

Hashes of NodePools and EC2NodeClasses are computed here and held against the annotations that Karpenter has
written on claims. What Karpenter itself has marked as Drifted is not a consequence of the switch and is told
apart. Subnets and security groups of instances are not known without an account; images are, from the
status of the class.

The first hour after the switch is what disruption would do on this cluster, command after command. Each pass
decides about the cluster as the commands before have left it: their nodes are gone, replacements run, pods
are where the command puts them. Between passes time goes on, so that nodes become consolidatable, budgets
open and claims expire within the hour. Workloads do not change meanwhile, and no launch fails. A decision is
a function that the caller hands in, so that it is the one of ``karpenter plan``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    REGISTERED,
    ZONE,
)
from karpenter.api.meta import Condition, InvalidObject, convert, find_status_condition
from karpenter.api.node import Node, NodeCondition, NodeSpec, NodeStatus
from karpenter.cloud.aws.drift import CLASS, IMAGE
from karpenter.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION as VERSION
from karpenter.cloud.aws.nodeclass.hash import class_hash
from karpenter.core.disruption.cost import price_of
from karpenter.core.disruption.disrupt import DisruptionDecision, next_moment
from karpenter.core.disruption.validation import WAIT
from karpenter.core.lifecycle.disruption_conditions import drift_reason
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash_annotations, with_pool_hash
from karpenter.core.model.resources import render_resources
from karpenter.core.provisioning.provisioner import claim_for
from karpenter.core.state.cluster import ClusterView
from karpenter.core.state.statenode import state_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.disruption.command import Command
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.scheduling.problem import NewNode

_DRIFTED: Final = "Drifted"


class DriftedMachine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine that drifts once this operator leads."""

    claim: str
    node: str
    pool: str
    reason: str
    message: str
    already: bool = False
    """Whether Karpenter has marked it as drifted, so that it would replace it, too."""


class SwitchedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as this operator finds it once it has looked at every object."""

    view: ClusterView
    drifted: tuple[DriftedMachine, ...] = ()
    remarks: tuple[str, ...] = ()


def switch_over(
    view: ClusterView,
    classes: Iterable[Mapping[str, Any]],
    catalog: Catalog,
    now: datetime,
    *,
    ca_bundle: str | None,
) -> SwitchedCluster:
    """
    Return the cluster with our hashes, and the machines that have drifted by them.

    `classes` are EC2NodeClasses as the API server holds them. Where the CA bundle of the cluster is not
    known, the hash that Karpenter has written on a class counts.
    """
    pools = {name: with_pool_hash(pool) for name, pool in view.pools.items()}
    remarks = list(_changed_pools(view))
    found = _read_classes(classes, remarks)
    hashes = {name: _hash(each, ca_bundle, remarks) for name, each in found.items()}
    claims, drifted = {}, []
    for name, claim in view.claims.items():
        claims[name] = claim
        pool = pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        if pool is None or claim.metadata.deletion_timestamp is not None:
            continue
        reason = _class_reason(claim, found, hashes)
        if reason:
            claims[name] = _marked(claim, reason, now)
        told = drift_reason(claims[name], pool, catalog, now)
        if told:
            claims[name] = _marked(claim, told, now)
            drifted.append(_told(claim, told, pools[pool.name].metadata.annotations, hashes))
    switched = msgspec.structs.replace(view, pools=pools, claims=claims)
    return SwitchedCluster(view=switched, drifted=tuple(drifted), remarks=tuple(remarks))


def _changed_pools(view: ClusterView) -> Iterator[str]:
    for name, pool in sorted(view.pools.items()):
        held, ours = pool.metadata.annotations, pool_hash_annotations(pool)
        if NODEPOOL_HASH not in held:
            continue  # it is written at the switch
        if held.get(NODEPOOL_HASH_VERSION) != POOL_HASH_VERSION:
            yield (
                f"NodePool {name} has a hash of version {held.get(NODEPOOL_HASH_VERSION, 'none')}: its claims"
                f" are stamped anew with {POOL_HASH_VERSION}, and nothing drifts by it"
            )
        elif ours and held[NODEPOOL_HASH] != ours[NODEPOOL_HASH]:
            yield (
                f"NodePool {name} was changed, and Karpenter has not written its hash since: "
                f"{held[NODEPOOL_HASH]} becomes {ours[NODEPOOL_HASH]}"
            )


def _read_classes(classes: Iterable[Mapping[str, Any]], remarks: list[str]) -> dict[str, EC2NodeClass]:
    found = {}
    for plain in classes:
        name = str((plain.get("metadata") or {}).get("name", ""))
        try:
            found[name] = convert(plain, EC2NodeClass)
        except InvalidObject as error:
            remarks.append(f"EC2NodeClass {name} cannot be read: {error}")
    return found


def _hash(node_class: EC2NodeClass, ca_bundle: str | None, remarks: list[str]) -> str:
    held = node_class.metadata.annotations
    if held.get(CLASS_HASH_VERSION) != VERSION or CLASS_HASH not in held:
        remarks.append(f"EC2NodeClass {node_class.name} is stamped anew with {VERSION}; nothing drifts by it")
        return ""
    ours = class_hash(node_class, ca_bundle=ca_bundle or "")
    if ours == held[CLASS_HASH]:
        return ours
    if ca_bundle is None:
        remarks.append(
            f"the hash of EC2NodeClass {node_class.name} is taken from its annotation, because the CA bundle"
            " of the cluster is not known; --ca-bundle gives it"
        )
        return held[CLASS_HASH]
    remarks.append(
        f"EC2NodeClass {node_class.name}: Karpenter has written {held[CLASS_HASH]}, and the hash is {ours}"
    )
    return ours


def _class_reason(claim: NodeClaim, classes: Mapping[str, EC2NodeClass], hashes: Mapping[str, str]) -> str:
    name = claim.spec.node_class_ref.name
    node_class, held = classes.get(name), claim.metadata.annotations
    if node_class is None or not claim.status.provider_id:
        return ""
    ours = hashes[name]
    if ours and held.get(CLASS_HASH_VERSION) == VERSION and held.get(CLASS_HASH, ours) != ours:
        return CLASS
    images = {each.id for each in node_class.status.amis}
    return IMAGE if images and claim.status.image_id and claim.status.image_id not in images else ""


def _marked(claim: NodeClaim, reason: str, now: datetime) -> NodeClaim:
    held = find_status_condition(claim.status.conditions, _DRIFTED)
    if held is not None and held.status == "True":
        return claim  # it has drifted before, and keeps its turn
    others = tuple(each for each in claim.status.conditions if each.type != _DRIFTED)
    mark = Condition(type=_DRIFTED, status="True", reason=reason, last_transition_time=now)
    status = msgspec.structs.replace(claim.status, conditions=(*others, mark))
    return msgspec.structs.replace(claim, status=status)


def _told(
    claim: NodeClaim, reason: str, pool: Mapping[str, str], hashes: Mapping[str, str]
) -> DriftedMachine:
    held = claim.metadata.annotations
    before = find_status_condition(claim.status.conditions, _DRIFTED)
    match reason:
        case "NodePoolDrifted":
            message = f"its NodePool hash is {held.get(NODEPOOL_HASH)}, the pool's {pool.get(NODEPOOL_HASH)}"
        case "NodeClassDrift":
            ours = hashes.get(claim.spec.node_class_ref.name, "")
            message = f"its EC2NodeClass hash is {held.get(CLASS_HASH)}, the class's {ours}"
        case "AMIDrift":
            message = f"its image {claim.status.image_id} is none of the class any longer"
        case "RequirementsDrifted":
            message = "its labels no longer satisfy the requirements of the NodePool"
        case "InstanceTypeNotFound":
            message = "its instance type is not sold any longer"
        case _:
            message = before.message if before is not None and before.message else "the provider says so"
    return DriftedMachine(
        claim=claim.name,
        node=claim.status.node_name,
        pool=claim.metadata.labels.get(NODEPOOL, ""),
        reason=reason,
        message=message,
        already=before is not None and before.status == "True",
    )


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
            found.append(_told_of(command, now - begin))
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


def _told_of(command: Command, after: timedelta) -> HourCommand:
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
