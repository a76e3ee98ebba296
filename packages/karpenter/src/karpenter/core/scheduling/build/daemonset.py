"""
Daemons: the pods of DaemonSets, which every new node runs beside the pods that it is launched for.

The newest live pod of a DaemonSet says best what the daemon requests (a webhook may have changed it); where
none runs yet its template counts. Either way the node that the pod is pinned to is dropped and the node
affinity of the template counts: the DaemonSet controller binds each pod to its node by a node affinity on
the node name (https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/).

A DaemonSet that cannot be read is not counted, and is named.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import Affinity, NodeAffinity, Pod
from karpenter.base.quantity import QuantityError
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import add, impossible, merge, uncountable
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.encode.nodeclaimtemplate import DaemonPod, daemon_pod
from karpenter.core.state.pod import has_dra_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karpenter.api.workloads import DaemonSet
    from karpenter.core.state.cluster import ClusterView
    from karpenter.core.state.statenode import StateNode

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ExpectedDaemons(msgspec.Struct, frozen=True):
    """The daemons that count as overhead of nodes."""

    pods: tuple[Pod, ...]
    daemons: tuple[DaemonPod, ...]
    left_out: tuple[str, ...] = ()
    """Which DaemonSets are not counted, and why, one sentence each."""


def daemonset_pods(view: ClusterView) -> tuple[Pod, ...]:
    """Return one pod per DaemonSet, as it would run on a new node."""
    newest: dict[str, Pod] = {}
    for pod in view.pods.values():
        for owner in pod.metadata.owner_references:
            key = f"{pod.metadata.namespace}/{owner.name}"
            if owner.kind == "DaemonSet" and (key not in newest or _created(pod) >= _created(newest[key])):
                newest[key] = pod
    return tuple(_as_new(each, newest.get(each.key)) for each in view.daemon_sets.values())


def expected_daemons(pods: Iterable[Pod], *, ignore_device_claims: bool) -> ExpectedDaemons:
    """Return the daemons that count; those whose device claims are ignored do not."""
    kept: list[Pod] = []
    found: list[DaemonPod] = []
    left_out: list[str] = []
    total: Mapping[str, int] = {}
    for pod in pods:
        if ignore_device_claims and has_dra_requirements(pod):
            continue
        try:
            daemon = daemon_pod(pod)
        except (QuantityError, RequirementError) as error:
            left_out.append(f"DaemonSet {pod.key} is not counted: {error}")
            continue
        together = add(total, daemon.requests)
        if problem := impossible(daemon.requests) or uncountable(together):
            left_out.append(f"DaemonSet {pod.key} is not counted: {problem}")
            continue
        total = together
        kept.append(pod)
        found.append(daemon)
    return ExpectedDaemons(tuple(kept), tuple(found), tuple(left_out))


def remaining_daemon_resources(node: StateNode, expected: Sequence[DaemonPod]) -> Mapping[str, int]:
    """Return what daemons will request on an existing node beyond what those on it request already."""
    labels = Requirements.from_labels(node.labels)
    # Pods of a DaemonSet that run already are part of the node's requests; only the difference is still to
    # come.
    coming = merge(
        daemon.requests
        for daemon in expected
        if tolerates(daemon.tolerations, node.taints)
        and any(labels.accepts(each) for each in daemon.alternatives)
    )
    here = node.daemon_requests
    return {name: max(0, amount - here.get(name, 0)) for name, amount in coming.items()}


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _EPOCH


def _as_new(daemon_set: DaemonSet, live: Pod | None) -> Pod:
    template = daemon_set.spec.template
    spec = template.spec if live is None else live.spec
    required = _node_affinity(template.spec.affinity)
    if _node_affinity(spec.affinity) is not required:
        pinned = spec.affinity if spec.affinity is not None else Affinity()
        spec = msgspec.structs.replace(spec, affinity=msgspec.structs.replace(pinned, node_affinity=required))
    meta = ObjectMeta(name=daemon_set.name, namespace=daemon_set.namespace, labels=template.metadata.labels)
    return Pod(metadata=meta, spec=msgspec.structs.replace(spec, node_name=""))


def _node_affinity(affinity: Affinity | None) -> NodeAffinity | None:
    return affinity.node_affinity if affinity is not None else None
