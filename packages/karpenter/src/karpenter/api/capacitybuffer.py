"""
CapacityBuffer: capacity kept free for pods that do not exist yet.

The API is that of the cluster autoscaler: https://github.com/kubernetes/autoscaler
"""

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.constraints import constraint, rule
from karpenter.api.meta import Condition, Resource, ResourceList, Timestamp, Wire, always

# The API of cluster-autoscaler that Karpenter takes part in:
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/proposals/buffers.md
ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"
"""The strategy that keeps nodes running."""


class PodTemplateReference(Wire, frozen=True, kw_only=True):
    """A PodTemplate of the same namespace."""

    name: Annotated[str, constraint(min_length=1)]
    """The name of the PodTemplate."""


class ScalableReference(Wire, frozen=True, kw_only=True):
    """A workload of the same namespace whose pod template is the unit of the buffer."""

    api_group: str = ""
    """The API group of the workload."""

    kind: Annotated[str, constraint(min_length=1)]
    """The kind of the workload: Deployment, ReplicaSet or StatefulSet."""

    name: Annotated[str, constraint(min_length=1)]
    """The name of the workload."""


# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/proposals/buffers.md
class CapacityBufferSpec(Wire, frozen=True, kw_only=True):
    """Capacity to keep free, counted in pods of a template."""

    provisioning_strategy: Annotated[str, constraint(default=ACTIVE_CAPACITY)] = ACTIVE_CAPACITY
    """How the capacity is kept free."""

    pod_template_ref: PodTemplateReference | None = None
    """The PodTemplate that is the unit of the buffer. Needs replicas or limits."""

    scalable_ref: ScalableReference | None = None
    """The workload whose pod template is the unit of the buffer."""

    replicas: Annotated[int | None, constraint(format="int32", minimum=0)] = None
    """For how many pods to keep capacity free."""

    percentage: Annotated[int | None, constraint(format="int32", minimum=0)] = None
    """For what share of the workload's replicas to keep capacity free, in percent."""

    limits: ResourceList = field(default_factory=dict)
    """The most that the pods of the buffer may request together."""


class BufferCondition(Condition, frozen=True, kw_only=True):
    """One condition of a buffer; this API requires every part of it."""

    reason: Annotated[
        str,
        constraint(
            min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", required=True
        ),
    ]
    """Why, in one word, for programs."""

    message: Annotated[str, constraint(max_length=32768, required=True)]
    """Why, in a sentence, for people."""

    last_transition_time: Annotated[Timestamp | None, constraint(required=True)]
    """When the status changed last."""


class CapacityBufferStatus(Wire, frozen=True, kw_only=True):
    """Template and number of pods that the buffer was resolved to."""

    pod_template_ref: PodTemplateReference | None = None
    """The pod template that was found."""

    replicas: Annotated[int | None, constraint(format="int32")] = None
    """For how many pods capacity is kept free."""

    pod_template_generation: int | None = None
    """The generation of the pod template that was read."""

    provisioning_strategy: str | None = None
    """How the capacity is kept free."""

    conditions: Annotated[tuple[BufferCondition, ...], constraint(list_type="map", list_keys=("type",))] = ()
    """Whether the buffer can be provisioned, and whether its capacity exists."""


class CapacityBuffer(Resource, frozen=True, kw_only=True):
    """Capacity kept free for pods that do not exist yet."""

    api_version: ClassVar[str] = "autoscaling.x-k8s.io/v1beta1"
    kind: ClassVar[str] = "CapacityBuffer"

    spec: Annotated[
        CapacityBufferSpec,
        constraint(
            required=True,
            rules=(
                rule(
                    "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
                    "'podTemplateRef' needs 'replicas' or 'limits'",
                ),
                rule(
                    "!has(self.podTemplateRef) || !has(self.scalableRef)",
                    "'podTemplateRef' and 'scalableRef' may not both be set",
                ),
            ),
        ),
    ] = always(CapacityBufferSpec())
    """How much capacity to keep free, counted in pods of which template."""

    status: CapacityBufferStatus = CapacityBufferStatus()
    """What the buffer was resolved to."""
