"""
Daemons: the pods that every new node will have to carry beside the ones it was bought for.

A live pod says best what a daemon really asks for (a webhook may have changed it); where
none runs yet its template has to do. Either way the node it is pinned to is forgotten and
the template's own node affinity holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import ObjectMeta
from karpenter.api.placement import Affinity
from karpenter.api.pod import Pod
from karpenter.core.model.requirements import Requirements
from karpenter.core.model.resources import merge
from karpenter.core.model.taints import tolerates
from karpenter.core.scheduling.templates import daemon_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karpenter.api.placement import NodeAffinity
    from karpenter.api.workloads import DaemonSet
    from karpenter.core.scheduling.templates import Daemon
    from karpenter.core.state.nodes import StateNode
    from karpenter.core.state.view import ClusterView

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def daemons(view: ClusterView) -> tuple[Pod, ...]:
    """Return one pod per DaemonSet, as it would run on a new node."""
    newest: dict[str, Pod] = {}
    for pod in view.pods.values():
        for owner in pod.metadata.owner_references:
            if owner.kind == "DaemonSet":
                key = f"{pod.metadata.namespace}/{owner.name}"
                if key not in newest or _born(pod) >= _born(newest[key]):
                    newest[key] = pod
    return tuple(_as_new(each, newest.get(each.key)) for each in view.daemon_sets.values())


def _born(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _BEGINNING


def _as_new(daemon_set: DaemonSet, live: Pod | None) -> Pod:
    template = daemon_set.spec.template
    required = _node_affinity(template.spec.affinity)
    spec = template.spec if live is None else live.spec
    own = _node_affinity(spec.affinity)
    if own is not None or required is not None:
        spec = msgspec.structs.replace(spec, affinity=_with_node_affinity(spec.affinity, required))
    meta = ObjectMeta(name=daemon_set.name, namespace=daemon_set.namespace, labels=template.metadata.labels)
    return Pod(metadata=meta, spec=msgspec.structs.replace(spec, node_name=""))


def _node_affinity(affinity: Affinity | None) -> NodeAffinity | None:
    return affinity.node_affinity if affinity is not None else None


def _with_node_affinity(affinity: Affinity | None, node: NodeAffinity | None) -> Affinity:
    return Affinity(node_affinity=node) if affinity is None else msgspec.structs.replace(affinity, node_affinity=node)


def still_to_come(node: StateNode, expected: Sequence[Daemon]) -> Mapping[str, int]:
    """Return what daemons will use on an existing node beyond what they use already."""
    labels = Requirements.from_labels(node.labels)
    coming = merge(
        daemon.requests
        for daemon in expected
        if tolerates(daemon.tolerations, node.taints) and any(labels.accepts(each) for each in daemon.alternatives)
    )
    here = node.daemon_requests
    return {name: max(0, amount - here.get(name, 0)) for name, amount in coming.items()}


def described(pods: Sequence[Pod]) -> list[Daemon]:
    """Return daemons as templates and nodes see them."""
    return [daemon_of(pod) for pod in pods]
