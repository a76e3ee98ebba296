"""CapacityBuffer: room kept free for pods that do not exist yet."""

from typing import ClassVar

from msgspec import field

from karpenter.api.meta import Condition, LocalReference, Resource
from karpenter.api.wire import ResourceList, Wire


class ScalableReference(Wire, frozen=True, kw_only=True):
    """A workload of the same namespace whose pods are the measure."""

    api_group: str = ""
    kind: str
    name: str


class CapacityBufferSpec(Wire, frozen=True, kw_only=True):
    """How much room to keep, measured in which pods."""

    provisioning_strategy: str = "buffer.x-k8s.io/active-capacity"
    pod_template_ref: LocalReference | None = None
    scalable_ref: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    limits: ResourceList = field(default_factory=dict)


class CapacityBufferStatus(Wire, frozen=True, kw_only=True):
    """What the buffer came down to."""

    pod_template_ref: LocalReference | None = None
    replicas: int | None = None
    pod_template_generation: int | None = None
    provisioning_strategy: str | None = None
    conditions: tuple[Condition, ...] = ()


class CapacityBuffer(Resource, frozen=True, kw_only=True):
    """Room kept free for pods to come."""

    api_version: ClassVar[str] = "autoscaling.x-k8s.io/v1beta1"
    kind: ClassVar[str] = "CapacityBuffer"

    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus = CapacityBufferStatus()
