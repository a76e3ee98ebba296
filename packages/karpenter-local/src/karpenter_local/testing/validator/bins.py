"""
A plan as bins: existing nodes and new ones, with the pods on them and what they could become.

A new node is described by its launches: every offering of every listed type that its
requirements allow. What is true of a new node must be true of each of its launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.labels import HOSTNAME
from karpenter.api.pod import Pod
from karpenter.core.model.catalog import InstanceType, Offering
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.problem import ExistingNode, NewNode, Plan, Pool, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.node import Taint


class PossibleLaunch(msgspec.Struct, frozen=True):
    """One way in which a new node could come up."""

    kind: InstanceType
    offering: Offering
    labels: Requirements
    """Everything that would be known of the node's labels."""


class ExistingBin(msgspec.Struct, frozen=True):
    """An existing node and the pods that are to join it."""

    node: ExistingNode
    pods: tuple[Pod, ...]

    @property
    def name(self) -> str:
        return f"node {self.node.name}"

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.taints

    @property
    def possibilities(self) -> list[Requirements]:
        return [Requirements.from_labels(self.node.labels)]

    def domains(self, key: str) -> frozenset[str]:
        value = self.node.name if key == HOSTNAME else self.node.labels.get(key)
        return frozenset() if value is None else frozenset({value})


class NewBin(msgspec.Struct, frozen=True):
    """A new node, the pods on it, and every way it could come up."""

    new: NewNode
    pool: Pool
    pods: tuple[Pod, ...]
    launches: tuple[PossibleLaunch, ...]

    @property
    def name(self) -> str:
        return f"new node {self.new.name}"

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.pool.taints

    @property
    def possibilities(self) -> list[Requirements]:
        """The labels it could have, launch by launch."""
        return [launch.labels for launch in self.launches]

    @property
    def types(self) -> list[InstanceType]:
        """The listed types, as the pool knows them."""
        return [kind for kind in self.pool.types if kind.name in self.new.instance_types]

    def domains(self, key: str) -> frozenset[str]:
        if key == HOSTNAME:
            return frozenset({f"new node {self.new.name}"})
        return frozenset(
            value
            for labels in self.possibilities
            for value in (frozenset() if labels[key].complement else labels[key].values)
        )


Bin = ExistingBin | NewBin


def bins_of(problem: Problem, plan: Plan) -> list[Bin]:
    """Return the bins of a plan; names that the problem does not know are left out."""
    pods = {pod.key: pod for pod in problem.pods}
    pools = {pool.name: pool for pool in problem.pools}
    found: list[Bin] = [
        ExistingBin(node, tuple(pods[key] for key in plan.placed.get(node.name, ()) if key in pods))
        for node in problem.nodes
    ]
    for new in plan.new_nodes:
        if new.pool in pools:
            pool = pools[new.pool]
            mine = tuple(pods[key] for key in new.pods if key in pods)
            found.append(NewBin(new, pool, mine, tuple(_launches(problem, pool, new))))
    return found


def _launches(problem: Problem, pool: Pool, new: NewNode) -> Iterator[PossibleLaunch]:
    settled = Requirements.from_labels(new.labels)
    for kind in pool.types:
        if kind.name not in new.instance_types or kind.requirements.conflict(new.requirements):
            continue
        for offering in kind.offerings:
            if offering.available and new.requirements.accepts(
                offering.requirements, problem.rules.well_known
            ):
                labels = new.requirements.intersect(kind.requirements).intersect(offering.requirements)
                yield PossibleLaunch(kind, offering, labels.intersect(settled))
