"""
Machines remembered by the cluster, for a cloud that has lost its memory.

A cloud in memory dies with its process; Kubernetes does not. When the process starts again, the claims that
have a machine, and the nodes, tell which machines there were. A machine that had not joined yet joins now;
one whose node was registered and is gone is gone, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.cloud.interface import Machine
from karpenter.cloud.kwok.cloud import Instance
from karpenter.cloud.kwok.joining import SCHEME, node_of
from karpenter.core.model.resources import parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.kwok.cloud import KwokCloud


def recall(cloud: KwokCloud, cluster: str, claims: Iterable[NodeClaim], nodes: Iterable[Node]) -> None:
    """Take into the world what the claims and nodes of a cluster tell of its machines."""
    by_id = {node.spec.provider_id: node for node in nodes if node.spec.provider_id.startswith(SCHEME)}
    for claim in claims:
        if not claim.status.provider_id.startswith(SCHEME):
            continue
        node = by_id.pop(claim.status.provider_id, None)
        if node is not None:
            _add(cloud, cluster, _machine_of_claim(claim), node)
        elif not _was_registered(claim):
            machine = _machine_of_claim(claim)
            _add(cloud, cluster, machine, node_of(machine, claim, _price(cloud, machine)), joins_after=0.0)
    for node in by_id.values():
        _add(cloud, cluster, _machine_of_node(node), node)


def _add(
    cloud: KwokCloud, cluster: str, machine: Machine, node: Node, *, joins_after: float | None = None
) -> None:
    reservation = machine.labels.get(cloud.stock.catalog().reservation_label, "")
    instance = Instance(machine=machine, cluster=cluster, node=node, reservation=reservation)
    cloud.add(instance, joins_after=joins_after)


def _machine_of_claim(claim: NodeClaim) -> Machine:
    return Machine(
        provider_id=claim.status.provider_id,
        claim_uid=claim.metadata.uid,
        labels=claim.metadata.labels,
        capacity=parse_resources(claim.status.capacity),
        allocatable=parse_resources(claim.status.allocatable),
        image_id=claim.status.image_id,
        created=claim.metadata.creation_timestamp,
    )


def _machine_of_node(node: Node) -> Machine:
    owners = [owner.uid for owner in node.metadata.owner_references if owner.kind == "NodeClaim"]
    return Machine(
        provider_id=node.spec.provider_id,
        claim_uid=owners[0] if owners else "",
        labels=node.metadata.labels,
        capacity=parse_resources(node.status.capacity),
        allocatable=parse_resources(node.status.allocatable),
        created=node.metadata.creation_timestamp,
    )


def _price(cloud: KwokCloud, machine: Machine) -> float:
    """Return what a machine costs today; nothing if it is not sold any longer."""
    kind = cloud.stock.catalog().by_name.get(machine.labels.get(INSTANCE_TYPE, ""))
    place = (machine.labels.get(ZONE), machine.labels.get(CAPACITY_TYPE))
    sold = kind.offerings if kind else ()
    return next((each.price for each in sold if (each.zone, each.capacity_type) == place), 0.0)


def _was_registered(claim: NodeClaim) -> bool:
    return any(each.type == "Registered" and each.status == "True" for each in claim.status.conditions)
