"""
How many replicas autoscalers of pods would ask for: HorizontalPodAutoscalers and ScaledObjects of KEDA.

A plan knows no metrics. A workload has the replicas that its manifest asks for (one if it names none), within
the bounds of its autoscaler; or as many as the autoscaler may ask for, to see what the most would cost.

https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/,
https://keda.sh/docs/latest/reference/scaledobject-spec/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from karpenter.api.manifests import DEFAULT_NAMESPACE
from karpenter.api.meta import InvalidObject, Resource
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.manifests import Document

Bound: TypeAlias = Literal["min", "max"]

Scalable: TypeAlias = Deployment | ReplicaSet | StatefulSet

_KEDA_MOST: Final = 100
"""The maxReplicaCount of a ScaledObject that names none."""


class PodAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """The workload that an autoscaler scales, and between which bounds."""

    subject: str
    """Kind and name of the autoscaler."""

    namespace: str
    kind: str
    name: str
    least: int
    most: int

    def replicas(self, asked: int | None, bound: Bound) -> int:
        """Return how many replicas a workload has whose manifest asks for `asked`."""
        # Zero replicas switch a HorizontalPodAutoscaler off:
        # https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#implicit-maintenance-mode-deactivation
        if asked == 0 and self.least > 0:
            return 0
        return self.most if bound == "max" else min(max(1 if asked is None else asked, self.least), self.most)


def read_autoscaler(document: Document) -> PodAutoscaler | None:
    """
    Return the autoscaler that a document is; None if it is none.

    Raises:
        InvalidObject: naming the field that says no target or no number.
    """
    version, kind = document.identity
    group = version.partition("/")[0]
    if (group, kind) == ("autoscaling", "HorizontalPodAutoscaler"):
        return _autoscaler(document, least=("minReplicas", 1), most=("maxReplicas", None), kind="")
    if (group, kind) == ("keda.sh", "ScaledObject"):
        return _autoscaler(
            document, least=("minReplicaCount", 0), most=("maxReplicaCount", _KEDA_MOST), kind=Deployment.kind
        )
    return None


def scaled(objects: Iterable[Resource], autoscalers: Sequence[PodAutoscaler], bound: Bound) -> list[Resource]:
    """Return the objects with the replicas that autoscalers would ask for."""
    by_target = {(each.namespace, each.kind, each.name): each for each in autoscalers}
    return [_scaled(each, by_target, bound) if isinstance(each, Scalable) else each for each in objects]


def without_target(objects: Iterable[Resource], autoscalers: Iterable[PodAutoscaler]) -> list[str]:
    """Return a sentence for every autoscaler whose workload is not among the objects."""
    there = {(each.namespace, type(each).kind, each.name) for each in objects}
    return [
        f"{each.subject} scales {each.kind} {each.namespace}/{each.name}, which is not here, and is left out"
        for each in autoscalers
        if (each.namespace, each.kind, each.name) not in there
    ]


def _autoscaler(
    document: Document, *, least: tuple[str, int], most: tuple[str, int | None], kind: str
) -> PodAutoscaler:
    spec = document.plain.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    target = spec.get("scaleTargetRef")
    target = target if isinstance(target, dict) else {}
    name, wanted = target.get("name"), target.get("kind") or kind
    if not isinstance(name, str) or not name or not isinstance(wanted, str) or not wanted:
        problem = "must name the kind and the name of a workload"
        raise InvalidObject(subject=document.subject, field="spec.scaleTargetRef", problem=problem)
    bounds = [_whole(document, spec, field, default) for field, default in (least, most)]
    if bounds[0] > bounds[1]:
        problem = f"must not be less than {least[0]} ({bounds[0]})"
        raise InvalidObject(subject=document.subject, field=f"spec.{most[0]}", problem=problem)
    meta = document.plain.get("metadata")
    namespace = meta.get("namespace") if isinstance(meta, dict) else None
    return PodAutoscaler(
        subject=document.subject,
        namespace=namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE,
        kind=wanted,
        name=name,
        least=bounds[0],
        most=bounds[1],
    )


def _whole(document: Document, spec: dict[str, Any], field: str, default: int | None) -> int:
    found = spec.get(field, default)
    if found is None and default is not None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        problem = "is required" if found is None else f"must be a whole number from 0 on, not {found!r}"
        raise InvalidObject(subject=document.subject, field=f"spec.{field}", problem=problem)
    return found


def _scaled(
    workload: Scalable, by_target: dict[tuple[str, str, str], PodAutoscaler], bound: Bound
) -> Resource:
    found = by_target.get((workload.namespace, type(workload).kind, workload.name))
    if found is None:
        return workload
    spec = workload.spec
    count = found.replicas(spec.replicas, bound)
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(spec, replicas=count))
