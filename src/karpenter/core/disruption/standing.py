"""
The cluster as a question finds it: what is free, who runs where, and what has been promised before.

A wave of commands is decided one command after the other. Each takes the cluster as it will
be once those before it are carried out: their machines gone, their pods in their new places.
New machines are there for their pods alone; what they have left is nobody's yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import HOSTNAME, NODES, ZONE
from karpenter.api.pod import Pod
from karpenter.core.disruption.company import Company
from karpenter.core.disruption.rooms import Rooms
from karpenter.core.model.ports import host_ports
from karpenter.core.model.resources import merge, pod_requests, subtract
from karpenter.core.scheduling.problem import NO_VOLUMES, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.core.disruption.command import Command
    from karpenter.core.scheduling.plan import NewNode
    from karpenter.core.scheduling.problem import Existing, PodVolumes, Pool


class Standing(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a question needs to know of the cluster."""

    problem: Problem
    """The whole cluster; its pods are those that wait and those that could move."""

    moving: dict[str, Pod]
    """The pods that could move, by key."""

    waiting: tuple[Pod, ...]
    company: Company
    """Everybody who runs, where they were at first."""

    homes: Mapping[str, str] = {}
    """Where earlier commands put pods, by key."""

    gone: frozenset[str] = frozenset()
    """Machines that earlier commands remove."""

    @cached_property
    def rooms(self) -> Rooms:
        """What is free where."""
        return Rooms(self.problem.nodes)

    def foretells(self, command: Command) -> bool:
        """Whether the cluster after a command can be foretold: nobody else waits for what it may change."""
        reserved = any(node.purchase.reservation_id for node in command.replacements)
        return not (self.waiting or reserved or self.problem.devices is not None)

    def after(self, command: Command) -> Standing:
        """Return the cluster as it will be once a command is carried out."""
        problem, gone = self.problem, frozenset(command.candidates)
        homes = dict(command.moves)
        places = [place for place in problem.places if place.name not in gone]
        for node in command.replacements:
            name = f"{len(places)}/{node.name}"  # no node can be called that
            homes.update(dict.fromkeys(node.pods, name))
            labels = {**node.labels, ZONE: node.purchase.zone, HOSTNAME: name}
            places.append(Place(name=name, labels=labels, taints=node.taints))
        nodes = filled(problem, ((self.moving[key], name) for key, name in command.moves.items()))
        pools = tuple(_bought(pool, command.replacements) for pool in problem.pools)
        return msgspec.structs.replace(
            self,
            problem=msgspec.structs.replace(problem, nodes=nodes, places=tuple(places), pools=pools),
            homes={**self.homes, **homes},
            gone=self.gone | gone,
        )


def filled(problem: Problem, arriving: Iterable[tuple[Pod, str]]) -> tuple[Existing, ...]:
    """Return the nodes of a problem with what is left once some pods have arrived."""
    by_node: dict[str, list[Pod]] = {}
    for pod, name in arriving:
        by_node.setdefault(name, []).append(pod)
    return tuple(
        _filled(node, by_node[node.name], problem.volumes) if node.name in by_node else node
        for node in problem.nodes
    )


def _filled(node: Existing, pods: Sequence[Pod], volumes: Mapping[str, PodVolumes]) -> Existing:
    """Return a node with what is left once some pods have arrived."""
    held = dict(node.volumes)
    for pod in pods:
        for driver, claims in volumes.get(pod.key, NO_VOLUMES).claims.items():
            held[driver] = held.get(driver, frozenset()) | claims
    return msgspec.structs.replace(
        node,
        free=subtract(node.free, merge(map(pod_requests, pods))),
        ports=(*node.ports, *(port for pod in pods for port in host_ports(pod))),
        volumes=held,
    )


def _bought(pool: Pool, nodes: Sequence[NewNode]) -> Pool:
    """Return a pool with what its limits leave once some machines are bought."""
    mine = [node.purchase.instance_type for node in nodes if node.pool == pool.name]
    if not pool.limits or not mine:
        return pool
    sizes = {kind.name: {**kind.capacity, NODES: 1} for kind in pool.types if kind.name in mine}
    taken = merge(sizes[name] for name in mine)
    left = {name: amount - taken.get(name, 0) for name, amount in pool.limits.items()}
    return msgspec.structs.replace(pool, limits=left)
