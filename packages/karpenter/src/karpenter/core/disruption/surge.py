"""
Surge before evict: starts the successor of a pod first, where its Deployment can do that.

Evicting a single replica is downtime, and a PodDisruptionBudget that allows nothing keeps a node for ever.
A Deployment whose rollout adds a pod before it removes one can be restarted: the successor starts
elsewhere, because the node is tainted, and the old pod goes when the successor is ready. Nothing is
evicted, so no budget is asked.
https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment

All replicas of the Deployment are replaced, not only the pod on the node that goes. A Deployment that is
paused, recreates its pods, may lose one during a rollout, or is in the middle of one is left to ordinary
eviction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.effects import Amend, Effect
from karpenter.core.state.pod import is_active

if TYPE_CHECKING:
    from karpenter.api.meta import IntOrString
    from karpenter.api.pod import Pod
    from karpenter.api.workloads import Deployment
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.pdb import PdbLimits

RESTARTED: Final = "karpenter.sh/restarted-at"
"""Annotation of a pod template whose change makes its Deployment roll out anew."""

SUCCESSOR_TIMEOUT: Final = timedelta(minutes=10)
"""How long successors may take before a command is given up."""

_SHARE: Final = re.compile(r"([0-9]{1,9})(%?)")
# The default of maxSurge and maxUnavailable:
# https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment
_USUAL: Final = "25%"


class SurgeStep(msgspec.Struct, frozen=True):
    """What is due for pods that are to be succeeded before they go."""

    effects: tuple[Effect, ...] = ()
    asked: Mapping[str, datetime] = {}
    """Deployments that were asked to roll out, by key, and when."""

    waits: bool = False
    late: bool = False
    """Whether successors took too long."""


def surging_pods(pods: Iterable[Pod], view: ClusterView, pdbs: PdbLimits, now: datetime) -> frozenset[str]:
    """Return the keys of pods that should be succeeded before they go, and can be."""
    found = set()
    for pod in pods:
        owner = deployment_of(pod, view) if is_active(pod) else None
        if owner is not None and adds_first(owner):
            alone = _replicas(owner) == 1
            if alone or pdbs.eviction_blocked_by(pod, now) or pdbs.is_fully_blocked(pod, now):
                found.add(pod.key)
    return frozenset(found)


def surge_step(
    keys: Iterable[str], node: str, view: ClusterView, asked: Mapping[str, datetime], now: datetime
) -> SurgeStep:
    """Return what is due for the pods of a closed node that are to be succeeded first."""
    here = {pod.key: pod for pod in view.pods_by_node.get(node, ()) if is_active(pod)}
    left = [here[key] for key in keys if key in here]
    owners = {each.key: each for pod in left if (each := deployment_of(pod, view)) is not None}
    fresh = {key: owner for key, owner in owners.items() if key not in asked}
    return SurgeStep(
        effects=tuple(_restart(owner, node, now) for owner in fresh.values()),
        asked={**asked, **dict.fromkeys(fresh, now)},
        waits=bool(owners),
        late=any(now - asked[key] > SUCCESSOR_TIMEOUT for key in owners if key in asked),
    )


def deployment_of(pod: Pod, view: ClusterView) -> Deployment | None:
    space = pod.metadata.namespace
    owned = next((each for each in pod.metadata.owner_references if each.kind == "ReplicaSet"), None)
    replicas = view.replica_sets.get(f"{space}/{owned.name}") if owned is not None else None
    above = replicas.metadata.owner_references if replicas is not None else ()
    owner = next((each for each in above if each.kind == "Deployment"), None)
    return view.deployments.get(f"{space}/{owner.name}") if owner is not None else None


def adds_first(deployment: Deployment) -> bool:
    """Whether a rollout of a Deployment, which is not in one, adds a pod before it takes one away."""
    spec, status = deployment.spec, deployment.status
    rolling = spec.strategy.rolling_update
    wanted = _replicas(deployment)
    surge = rolling.max_surge if rolling is not None else None
    fewer = rolling.max_unavailable if rolling is not None else None
    # In a rollout the status says nothing about the pods that a restart would add.
    settled = status.updated_replicas == status.available_replicas == status.replicas == wanted
    return (
        spec.strategy.type in {"", "RollingUpdate"}
        and not spec.paused
        and wanted > 0
        # A share of surge is rounded up, and one of pods that may be unavailable down:
        # https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable
        and _share(_USUAL if surge is None else surge, wanted) > 0
        and _share(_USUAL if fewer is None else fewer, wanted) < 1
        and settled
        # The status may be older than the spec until the Deployment controller has seen it.
        and status.observed_generation >= deployment.metadata.generation
    )


def _restart(deployment: Deployment, node: str, now: datetime) -> Amend:
    notes = {RESTARTED: now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return Amend(
        kind=deployment.kind,
        name=deployment.name,
        namespace=deployment.namespace,
        changes={"spec": {"template": {"metadata": {"annotations": notes}}}},
        because=f"node {node} goes, and successors of its pods are to be ready first",
    )


def _replicas(deployment: Deployment) -> int:
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def _share(value: IntOrString, total: int) -> float:
    """Return a count, or a percentage of `total`; nothing when it is neither."""
    match = _SHARE.fullmatch(str(value))
    if match is None:
        return 0.0
    return int(match[1]) * total / 100 if match[2] else int(match[1])
