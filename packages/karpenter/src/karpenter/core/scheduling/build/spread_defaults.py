"""
The default topology spread constraints of the cluster, for pods that have none.

Their selector is deduced as kube-scheduler does it, from the services that select the pod and the controller
that owns it (https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/). A
selector that cannot be read spreads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.core.model.selectors import SelectorError, parse_selector
from karpenter.core.state.pod import controller_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.pod import Pod, TopologySpreadConstraint
    from karpenter.core.state.cluster import ClusterView


SpreadConstraints: TypeAlias = "tuple[TopologySpreadConstraint, ...]"


def spread_defaults(
    pods: Iterable[Pod], defaults: SpreadConstraints, view: ClusterView
) -> dict[str, SpreadConstraints]:
    """Return the default topology spread constraints of every pod that has none, by pod key."""
    if not defaults:
        return {}
    known: dict[object, SpreadConstraints] = {}
    found: dict[str, SpreadConstraints] = {}
    for pod in pods:
        if pod.spec.topology_spread_constraints:
            continue
        meta, owner = pod.metadata, controller_of(pod)
        owned_by = (owner.kind, owner.uid, owner.name) if owner is not None else None
        identity = (meta.namespace, owned_by, frozenset(meta.labels.items()))
        if identity not in known:
            known[identity] = _constraints(pod, defaults, view)
        if known[identity]:
            found[pod.key] = known[identity]
    return found


def _constraints(pod: Pod, defaults: SpreadConstraints, view: ClusterView) -> SpreadConstraints:
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
    # helper.DefaultSelector of kube-scheduler: services first, then the controller.
    # https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/framework/plugins/helper/spread.go
    for service in view.services.values():
        wanted = service.spec.selector
        if service.namespace == namespace and wanted and wanted.items() <= pod.metadata.labels.items():
            labels |= wanted
    owner = controller_of(pod)
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
    """Return the selector of the owner of a pod; a Deployment owns only pods that do not exist yet."""
    match kind:
        case "ReplicaSet" if key in view.replica_sets:
            return view.replica_sets[key].spec.selector
        case "StatefulSet" if key in view.stateful_sets:
            return view.stateful_sets[key].spec.selector
        case "Deployment" if key in view.deployments:
            return view.deployments[key].spec.selector
        case _:
            return None
