"""
Which nodes drift once this operator leads, and why.

Hashes of NodePools and EC2NodeClasses are computed here and held against the annotations that Karpenter has
written on claims. What Karpenter itself has marked as Drifted is not a consequence of the switch and is told
apart. Subnets and security groups of instances are not known without an account; images are, from the
status of the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL, NODEPOOL_HASH, NODEPOOL_HASH_VERSION
from karpenter.api.meta import Condition, InvalidObject, convert, find_status_condition
from karpenter.cloud.aws.drift import CLASS, IMAGE
from karpenter.cloud.aws.labels import CLASS_HASH, CLASS_HASH_VERSION
from karpenter.cloud.aws.nodeclass.hash import CLASS_HASH_VERSION as VERSION
from karpenter.cloud.aws.nodeclass.hash import class_hash
from karpenter.core.lifecycle.disruption_conditions import drift_reason
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION, pool_hash_annotations, with_pool_hash
from karpenter.core.state.cluster import ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.model.catalog import Catalog

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
    """Return the hash that a class will carry."""
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
    """Return why a claim has drifted from its class."""
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
