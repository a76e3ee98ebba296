"""
Spread for pods that ask for none: the cluster's default constraints, with a selector worked out.

What pods belong together is deduced as kube-scheduler does it: by the services that select
the pod and by the controller that owns it. A selector that cannot be read spreads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import SelectorError, parse_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import OwnerReference
    from karpenter.api.placement import TopologySpreadConstraint
    from karpenter.api.pod import Pod
    from karpenter.core.state.view import ClusterView

Constraints: TypeAlias = "tuple[TopologySpreadConstraint, ...]"


def spread_defaults(pods: Iterable[Pod], defaults: Constraints, view: ClusterView) -> dict[str, Constraints]:
    """Return the default constraints of every pod that states none, by pod key."""
    if not defaults:
        return {}
    known: dict[object, Constraints] = {}
    found: dict[str, Constraints] = {}
    for pod in pods:
        if pod.spec.topology_spread_constraints:
            continue
        meta, owner = pod.metadata, _owner(pod)
        whose = (owner.kind, owner.uid, owner.name) if owner is not None else None
        identity = (meta.namespace, whose, frozenset(meta.labels.items()))
        if identity not in known:
            known[identity] = _constraints(pod, defaults, view)
        if known[identity]:
            found[pod.key] = known[identity]
    return found


def _constraints(pod: Pod, defaults: Constraints, view: ClusterView) -> Constraints:
    selector = _selector(pod, view)
    try:
        conditions = parse_selector(selector).conditions
    except SelectorError:
        return ()
    if not conditions:
        return ()
    return tuple(msgspec.structs.replace(each, label_selector=selector) for each in defaults)


def _selector(pod: Pod, view: ClusterView) -> LabelSelector:
    labels: dict[str, str] = {}
    namespace = pod.metadata.namespace
    for service in view.services.values():
        wanted = service.spec.selector
        if service.namespace == namespace and wanted and wanted.items() <= pod.metadata.labels.items():
            labels |= wanted
    owner = _owner(pod)
    key = f"{namespace}/{owner.name}" if owner is not None else ""
    if owner is not None and owner.kind == "ReplicationController":
        controller = view.replication_controllers.get(key)
        return LabelSelector(
            match_labels=labels | (controller.spec.selector if controller is not None else {})
        )
    owned = _selector_of_set(owner.kind, key, view) if owner is not None else None
    if owned is None:
        return LabelSelector(match_labels=labels)
    expressions = tuple(
        LabelSelectorRequirement(key=name, operator="In", values=(value,))
        for name, value in owned.match_labels.items()
    )
    return LabelSelector(match_labels=labels, match_expressions=expressions + owned.match_expressions)


def _selector_of_set(kind: str, key: str, view: ClusterView) -> LabelSelector | None:
    """Return the selector of what owns a pod; a Deployment only owns pods that are not made yet."""
    match kind:
        case "ReplicaSet" if key in view.replica_sets:
            return view.replica_sets[key].spec.selector
        case "StatefulSet" if key in view.stateful_sets:
            return view.stateful_sets[key].spec.selector
        case "Deployment" if key in view.deployments:
            return view.deployments[key].spec.selector
        case _:
            return None


def _owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
