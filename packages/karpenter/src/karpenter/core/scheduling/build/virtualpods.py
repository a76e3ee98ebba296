"""
Capacity buffers: virtual pods that reserve capacity for pods which do not exist yet.

A virtual pod looks like the pods of the buffer's template, without volumes, with the lowest priority there
is. It requests room when nodes are planned; every real pod comes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import BUFFER_FAKE_POD, BUFFER_NAME, BUFFER_NAMESPACE
from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import Pod, PodTemplateSpec
from karpenter.base.quantity import QuantityError
from karpenter.core.model.resources import parse_resources, pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.api.capacitybuffer import CapacityBuffer
    from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet
    from karpenter.core.state.cluster import ClusterView

MAX_BUFFER_PODS: Final = 100_000
"""For how many pods one buffer may reserve capacity."""

_LOWEST_PRIORITY: Final = -(2**31)


class BufferProblem(Exception):  # noqa: N818  it is a finding about the buffer, not a fault of ours
    """Why a buffer reserves no capacity; the text is one sentence, the reason is one word."""

    def __init__(self, problem: str, reason: str = "ResolutionFailed") -> None:
        super().__init__(problem)
        self.reason = reason


class BufferTarget(msgspec.Struct, frozen=True):
    """The pod template of a buffer, and the replicas of the workload that it refers to."""

    template: PodTemplateSpec
    workload: int | None = None
    generation: int | None = None
    """Of the PodTemplate, if it is one."""


def virtual_pods(view: ClusterView) -> tuple[Pod, ...]:
    """Return the virtual pods of every buffer of a view that can be resolved."""
    return tuple(pod for buffer in view.buffers.values() for pod in _pods(buffer, view))


def is_virtual(pod: Pod) -> bool:
    return pod.metadata.annotations.get(BUFFER_FAKE_POD) == "true"


def buffer_problem(buffer: CapacityBuffer, view: ClusterView) -> str:
    """Return why a buffer reserves no capacity, as a sentence; nothing when it does."""
    try:
        target = resolve_buffer(buffer, view)
        buffer_replicas(buffer, target.template, target.workload)
    except BufferProblem as problem:
        return str(problem)
    return ""


def resolve_buffer(buffer: CapacityBuffer, view: ClusterView) -> BufferTarget:
    """
    Return the pod template and the workload that a buffer refers to.

    Raises:
        BufferProblem: when it does not exist.
    """
    spec, namespace = buffer.spec, buffer.namespace
    if spec.pod_template_ref is not None:
        key = f"{namespace}/{spec.pod_template_ref.name}"
        if key not in view.pod_templates:
            raise BufferProblem(f"PodTemplate {key} does not exist", "PodTemplateNotFound")
        found = view.pod_templates[key]
        return BufferTarget(found.template, generation=found.metadata.generation)
    ref = spec.scalable_ref
    if ref is None:
        raise BufferProblem("it names neither a podTemplateRef nor a scalableRef")
    key = f"{namespace}/{ref.name}"
    known: dict[str, Mapping[str, Deployment | StatefulSet | ReplicaSet]] = {
        "Deployment": view.deployments,
        "StatefulSet": view.stateful_sets,
        "ReplicaSet": view.replica_sets,
    }
    if ref.kind not in known or ref.api_group not in {"", "apps"}:
        raise BufferProblem(
            f"{ref.api_group}/{ref.kind} is no workload: expected one of {', '.join(known)} of apps"
        )
    workload = known[ref.kind].get(key)
    if workload is None:
        raise BufferProblem(f"{ref.kind} {key} does not exist", "ScalableRefNotFound")
    return BufferTarget(
        workload.spec.template, 1 if workload.spec.replicas is None else workload.spec.replicas
    )


def buffer_replicas(buffer: CapacityBuffer, template: PodTemplateSpec, workload: int | None) -> int:
    """
    Return how many pods a buffer reserves capacity for; `workload` is the replicas of its workload.

    Raises:
        BufferProblem: when it cannot be worked out, or is more than a buffer may have.
    """
    spec = buffer.spec
    wanted = []
    if spec.replicas is not None:
        wanted.append(spec.replicas)
    # A percentage of the workload rounds up and is at least one pod.
    if spec.percentage and workload:
        wanted.append(max(1, -(-workload * spec.percentage // 100)))
    ceilings = _ceilings(buffer, template)
    count = min([max(wanted), *ceilings]) if wanted else min(ceilings, default=0)
    if count > MAX_BUFFER_PODS:
        raise BufferProblem(f"it asks for room for {count} pods: expected at most {MAX_BUFFER_PODS}")
    return max(0, count)


def _ceilings(buffer: CapacityBuffer, template: PodTemplateSpec) -> list[int]:
    """Return how often the pod fits into the buffer's limits, resource by resource."""
    try:
        limits = parse_resources(buffer.spec.limits)
        asked = pod_requests(Pod(spec=template.spec))
    except QuantityError as error:
        raise BufferProblem(str(error)) from None
    return [limits[name] // amount for name, amount in asked.items() if amount > 0 and name in limits]


def _pods(buffer: CapacityBuffer, view: ClusterView) -> Iterator[Pod]:
    try:
        target = resolve_buffer(buffer, view)
        count = buffer_replicas(buffer, target.template, target.workload)
    except BufferProblem:
        return
    template = target.template
    spec = msgspec.structs.replace(template.spec, node_name="", volumes=(), priority=_LOWEST_PRIORITY)
    for number in range(1, count + 1):
        yield Pod(
            metadata=ObjectMeta(
                name=f"capacity-buffer-{buffer.name}-{number}",
                namespace=buffer.namespace,
                uid=f"{buffer.metadata.uid}-{number}",
                labels=template.metadata.labels,
                annotations={
                    BUFFER_FAKE_POD: "true",
                    BUFFER_NAME: buffer.name,
                    BUFFER_NAMESPACE: buffer.namespace,
                },
            ),
            spec=spec,
        )
