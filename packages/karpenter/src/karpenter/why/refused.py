"""
Pods that are alike and have no place, and a change that may give them one.

Changes of NodePools are in :mod:`.pool_changes`, those of pods in :mod:`.pod_changes`; :mod:`.changes` tries
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.api.pod import Pod
from karpenter.core.provisioning.provisioner import ProvisioningDecision
from karpenter.core.scheduling.problem import Reason
from karpenter.core.state.cluster import ClusterView
from karpenter.why.answer import Inquiry
from karpenter.why.options import PodDemand, required_labels

if TYPE_CHECKING:
    from karpenter.api.nodepool import NodePool

LimitNeeds: TypeAlias = Mapping[str, Mapping[str, int]]
"""The limits with which NodePools would take a pod, by NodePool and resource."""


class Trial(NamedTuple):
    """One change, the cluster with it, and the NodePool that it opens to the pods."""

    change: str
    view: ClusterView
    pool: str = ""


def alike(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return the pods that ask the same as the first of them."""
    first = pods[0].spec
    return tuple(
        pod
        for pod in pods
        if pod.spec.containers == first.containers and pod.spec.node_selector == first.node_selector
    )


class RefusedPods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are alike and have no place, and why."""

    inquiry: Inquiry
    pods: tuple[Pod, ...]
    view: ClusterView
    """The cluster without what else has no place."""

    decision: ProvisioningDecision
    reasons: tuple[Reason, ...] = ()
    demand: PodDemand | None = None
    """What one of them asks of a machine; None where that cannot be read."""

    @property
    def pod(self) -> Pod:
        """One of them: they differ in their names."""
        return self.pods[0]

    def selects(self, pool: NodePool) -> bool:
        """Whether the pods select this NodePool, by its name or by a label of its template."""
        labels = {**pool.spec.template.metadata.labels, NODEPOOL: pool.name}
        return any(
            not each[key].complement and each[key].allows(value)
            for each in required_labels(self.pod)
            for key, value in labels.items()
            if key in each
        )

    def reason(self, pool: str) -> Reason | None:
        return next((each for each in self.reasons if each.pool == pool), None)
