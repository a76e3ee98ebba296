"""
Builders of pods and of their constraints.

Amounts are written as manifests write them (``"500m"``, ``"2Gi"``), label keys in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api import labels
from karpenter.api.meta import LabelSelector, ObjectMeta
from karpenter.api.node import Taint
from karpenter.api.pod import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

if TYPE_CHECKING:
    from datetime import datetime


def need(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def only(key: str, *values: str) -> NodeSelectorRequirement:
    return need(key, "In", *values)


def selecting(*, app: str) -> LabelSelector:
    """Return the selector of pods with the label ``app``."""
    return LabelSelector(match_labels={"app": app})


def spread(
    key: str,
    *,
    app: str,
    skew: int = 1,
    anyway: bool = False,
    min_domains: int | None = None,
    affinity_policy: str | None = None,
    taints_policy: str | None = None,
    match_label_keys: tuple[str, ...] = (),
) -> TopologySpreadConstraint:
    """Return a topology spread constraint for pods labelled `app` over the values of `key`."""
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if anyway else "DoNotSchedule",
        label_selector=selecting(app=app),
        min_domains=min_domains,
        node_affinity_policy=affinity_policy,
        node_taints_policy=taints_policy,
        match_label_keys=match_label_keys,
    )


def affinity_term(
    key: str,
    *,
    app: str,
    namespaces: tuple[str, ...] = (),
    namespace_selector: LabelSelector | None = None,
    match_label_keys: tuple[str, ...] = (),
) -> PodAffinityTerm:
    """Return an affinity term that selects pods labelled `app` in the same domain of `key`."""
    return PodAffinityTerm(
        topology_key=key,
        label_selector=selecting(app=app),
        namespaces=namespaces,
        namespace_selector=namespace_selector,
        match_label_keys=match_label_keys,
    )


def tolerate(key: str = "", *, effect: str = "") -> Toleration:
    """Return the toleration of a taint, whatever its value; of every taint when no key is given."""
    return Toleration(key=key, operator="Exists", effect=effect)


def taint(key: str, effect: str = labels.NO_SCHEDULE) -> Taint:
    return Taint(key=key, effect=effect)


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """The preferences of a pod, each with its weight."""

    nodes: tuple[tuple[int, Sequence[NodeSelectorRequirement]], ...] = ()
    near: tuple[tuple[int, PodAffinityTerm], ...] = ()
    apart: tuple[tuple[int, PodAffinityTerm], ...] = ()


NO_PREFERENCES: Final = Preferences()


def pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "128Mi",
    resources: Mapping[str, str] | None = None,
    app: str = "",
    pod_labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    created: datetime | None = None,
    on: Mapping[str, str] | None = None,
    terms: Sequence[Sequence[NodeSelectorRequirement]] = (),
    near: Sequence[PodAffinityTerm] = (),
    apart: Sequence[PodAffinityTerm] = (),
    prefers: Preferences = NO_PREFERENCES,
    tolerations: Iterable[Toleration] = (),
    spreads: Iterable[TopologySpreadConstraint] = (),
    ports: Iterable[int] = (),
) -> Pod:
    """Return a pod: `on` is its node selector, `terms` the alternatives of its required node affinity."""
    own = {"app": app} if app else {}
    requests = {"cpu": cpu, "memory": memory, **(resources or {})}
    container = Container(
        name="main",
        resources=ResourceRequirements(requests=dict(requests)),
        ports=tuple(ContainerPort(host_port=port) for port in ports),
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            labels={**own, **(pod_labels or {})},
            creation_timestamp=created,
        ),
        spec=PodSpec(
            node_selector=dict(on or {}),
            affinity=_affinity(terms, near, apart, prefers),
            tolerations=tuple(tolerations),
            topology_spread_constraints=tuple(spreads),
            containers=(container,),
        ),
    )


def replicas(example: Pod, count: int) -> tuple[Pod, ...]:
    """Return so many copies of a pod, named and numbered after it, sharing one spec."""
    return tuple(_numbered(example, number) for number in range(count))


def _numbered(example: Pod, number: int) -> Pod:
    name = f"{example.metadata.name}-{number:03d}"
    meta = msgspec.structs.replace(
        example.metadata, name=name, uid=f"uid-{example.metadata.namespace}-{name}"
    )
    return msgspec.structs.replace(example, metadata=meta)


def _affinity(
    terms: Sequence[Sequence[NodeSelectorRequirement]],
    near: Sequence[PodAffinityTerm],
    apart: Sequence[PodAffinityTerm],
    prefers: Preferences,
) -> Affinity | None:
    required = NodeSelector(node_selector_terms=tuple(map(_term, terms))) if terms else None
    preferred = tuple(PreferredSchedulingTerm(weight=w, preference=_term(t)) for w, t in prefers.nodes)
    sides = NodeAffinity(
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=preferred,
    )
    if not (terms or near or apart or prefers != NO_PREFERENCES):
        return None
    return Affinity(
        node_affinity=sides if terms or prefers.nodes else None,
        pod_affinity=_companions(near, prefers.near),
        pod_anti_affinity=_companions(apart, prefers.apart),
    )


def _term(conditions: Sequence[NodeSelectorRequirement]) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=tuple(conditions))


def _companions(
    required: Sequence[PodAffinityTerm], preferred: Sequence[tuple[int, PodAffinityTerm]]
) -> PodAffinity | None:
    if not required and not preferred:
        return None
    return PodAffinity(
        required_during_scheduling_ignored_during_execution=tuple(required),
        preferred_during_scheduling_ignored_during_execution=tuple(
            WeightedPodAffinityTerm(weight=w, pod_affinity_term=t) for w, t in preferred
        ),
    )
