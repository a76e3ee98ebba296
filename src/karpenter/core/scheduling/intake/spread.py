"""
Spread for pods that ask for none: the cluster's default constraints, with a selector worked out.

What pods belong together is deduced as kube-scheduler does it: by the services that select
the pod and by the controller that owns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.meta import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.placement import TopologySpreadConstraint
    from karpenter.api.pod import Pod
    from karpenter.core.state.view import ClusterView

Constraints = tuple["TopologySpreadConstraint", ...]


def spread_defaults(
    pods: Iterable[Pod], defaults: Constraints, view: ClusterView
) -> dict[str, Constraints]:
    """Return the default constraints of every pod that states none, by pod key."""
    if not defaults:
        return {}
    known: dict[object, Constraints] = {}
    found: dict[str, Constraints] = {}
    for pod in pods:
        if pod.spec.topology_spread_constraints:
            continue
        meta = pod.metadata
        owner = next((o.uid or o.name for o in meta.owner_references if o.controller), "")
        identity = (meta.namespace, owner, frozenset(meta.labels.items()))
        if identity not in known:
            known[identity] = _constraints(pod, defaults, view)
        if known[identity]:
            found[pod.key] = known[identity]
    return found


def _constraints(pod: Pod, defaults: Constraints, view: ClusterView) -> Constraints:
    selector = _selector(pod, view)
    if not selector.match_labels and not selector.match_expressions:
        return ()
    return tuple(msgspec.structs.replace(each, label_selector=selector) for each in defaults)


def _selector(pod: Pod, view: ClusterView) -> LabelSelector:
    labels: dict[str, str] = {}
    namespace = pod.metadata.namespace
    for service in view.services.values():
        wanted = service.spec.selector
        if service.namespace == namespace and wanted and wanted.items() <= pod.metadata.labels.items():
            labels.update(wanted)
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    key = f"{namespace}/{owner.name}" if owner is not None else ""
    expressions = ()
    match owner.kind if owner is not None else "":
        case "ReplicationController":
            controller = view.replication_controllers.get(key)
            labels.update(controller.spec.selector if controller is not None else {})
        case "ReplicaSet" | "StatefulSet" as kind:
            sets = view.replica_sets if kind == "ReplicaSet" else view.stateful_sets
            owned = sets.get(key)  # type: ignore[attr-defined]
            if owned is not None:
                labels.update(owned.spec.selector.match_labels)
                expressions = owned.spec.selector.match_expressions
    return LabelSelector(match_labels=labels, match_expressions=expressions)
