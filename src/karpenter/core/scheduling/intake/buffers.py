"""
Capacity buffers: room that is kept for pods which do not exist yet, as pods that pretend to.

A virtual pod looks like the pods of the buffer's template, without volumes, with the lowest
priority there is. It takes room when nodes are planned and gives way to everything real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import BUFFER_FAKE_POD, BUFFER_NAME, BUFFER_NAMESPACE
from karpenter.api.meta import ObjectMeta
from karpenter.api.pod import Pod
from karpenter.core.model.resources import parse_resources, pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karpenter.api.buffer import CapacityBuffer
    from karpenter.api.pod import PodTemplateSpec
    from karpenter.core.state.view import ClusterView

_LOWEST_PRIORITY: Final = -(2**31)
_MOST: Final = 100_000


def virtual_pods(view: ClusterView) -> tuple[Pod, ...]:
    """Return the pods that stand for every buffer of a view."""
    return tuple(pod for buffer in view.buffers.values() for pod in _pods(buffer, view))


def is_virtual(pod: Pod) -> bool:
    """Whether a pod only stands for room."""
    return pod.metadata.annotations.get(BUFFER_FAKE_POD) == "true"


def replicas(buffer: CapacityBuffer, template: PodTemplateSpec, workload: int | None) -> int:
    """Return how many pods a buffer keeps room for; `workload` is the size of what it is measured by."""
    spec = buffer.spec
    wanted = []
    if spec.replicas is not None:
        wanted.append(spec.replicas)
    if spec.percentage and workload:
        wanted.append(max(1, -(-workload * spec.percentage // 100)))
    limits = parse_resources(spec.limits)
    asked = pod_requests(Pod(spec=template.spec))
    ceilings = [limits[name] // amount for name, amount in asked.items() if amount and name in limits]
    if not wanted:
        return min(ceilings, default=0)
    return min([max(wanted), *ceilings])


def _pods(buffer: CapacityBuffer, view: ClusterView) -> Iterator[Pod]:
    template, workload = _template(buffer, view)
    if template is None:
        return
    spec = msgspec.structs.replace(template.spec, node_name="", volumes=(), priority=_LOWEST_PRIORITY)
    for number in range(min(replicas(buffer, template, workload), _MOST)):
        yield Pod(
            metadata=ObjectMeta(
                name=f"capacity-buffer-{buffer.name}-{number + 1}",
                namespace=buffer.namespace,
                uid=f"{buffer.metadata.uid}-{number + 1}",
                labels=template.metadata.labels,
                annotations={
                    BUFFER_FAKE_POD: "true",
                    BUFFER_NAME: buffer.name,
                    BUFFER_NAMESPACE: buffer.namespace,
                },
            ),
            spec=spec,
        )


def _template(buffer: CapacityBuffer, view: ClusterView) -> tuple[PodTemplateSpec | None, int | None]:
    """Return the template of a buffer's pods, and how many the workload has it is measured by."""
    spec, namespace = buffer.spec, buffer.namespace
    if spec.pod_template_ref is not None:
        found = view.pod_templates.get(f"{namespace}/{spec.pod_template_ref.name}")
        return (found.template if found is not None else None), None
    if spec.scalable_ref is None or spec.scalable_ref.api_group not in {"", "apps"}:
        return None, None
    key = f"{namespace}/{spec.scalable_ref.name}"
    match spec.scalable_ref.kind:
        case "Deployment":
            workload = view.deployments.get(key)
        case "StatefulSet":
            workload = view.stateful_sets.get(key)
        case "ReplicaSet":
            workload = view.replica_sets.get(key)
        case _:
            workload = None
    if workload is None:
        return None, None
    count = workload.spec.replicas
    return workload.spec.template, 1 if count is None else count
