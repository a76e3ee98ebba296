"""
What pods ask of a place, their size aside.

Pods of many sizes often ask for the same labels, tolerations and company. What follows from
that is worked out once for all of them, so that it costs next to nothing when every pod
requests something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.core.scheduling.relax import ladder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.placement import TopologySpreadConstraint
    from karpenter.api.pod import Pod
    from karpenter.core.model.requirements import Requirements
    from karpenter.core.scheduling.problem import PodVolumes
    from karpenter.core.scheduling.relax import Rung


class Manner:
    """The wishes of pods that differ in nothing but their containers."""

    __slots__ = ("example", "labels", "number", "rungs", "volumes")

    def __init__(
        self, number: int, example: Pod, labels: dict[str, str], rungs: tuple[Rung, ...], volumes: PodVolumes
    ) -> None:
        self.number = number
        self.example = example
        self.labels = labels
        """Those that some selector of the problem asks for."""

        self.rungs = rungs
        """Every reading of the wishes, most demanding first."""

        self.volumes: tuple[Requirements, ...] = volumes.alternatives
        """Where the volumes are, one of which must do."""

    @property
    def namespace(self) -> str:
        """The namespace of all its pods."""
        return self.example.metadata.namespace


class Manners:
    """All manners of a problem's pods."""

    def __init__(self, *, respect: bool, avoidance: bool) -> None:
        """
        Begin without any.

        `respect` takes preferences for requirements until they are given up; `avoidance` says
        that some pool has a PreferNoSchedule taint.
        """
        self._respect = respect
        self._avoidance = avoidance
        self._known: dict[tuple[object, ...], Manner] = {}
        self._encode = msgspec.json.Encoder().encode

    def of(
        self,
        pod: Pod,
        labels: tuple[tuple[str, str], ...],
        spreads: Sequence[TopologySpreadConstraint],
        volumes: PodVolumes,
    ) -> Manner:
        """Return the manner of a pod; pods with volumes have one each, since their claims differ."""
        spec, namespace = pod.spec, pod.metadata.namespace
        asked = self._encode((spec.node_selector, spec.affinity, spec.tolerations, spreads))
        identity = (asked, namespace, labels, pod.key if volumes.claims or volumes.alternatives else None)
        found = self._known.get(identity)
        if found is None:
            rungs = ladder(spec, spreads, respect=self._respect, avoidance=self._avoidance)
            found = Manner(len(self._known), pod, dict(labels), tuple(rungs), volumes)
            self._known[identity] = found
        return found
