"""
The status of a CapacityBuffer: its resolved pod template, its replicas, and whether its capacity exists.

Whether the spec can be resolved is decided here. Whether the virtual pods of the buffer fit existing nodes
is a result of the last scheduling run and is an argument. The conditions of a buffer have no root
condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.capacitybuffer import BufferCondition, CapacityBuffer
from karpenter.core.effects import Amend, Effect, Step
from karpenter.core.lifecycle.conditions import render_conditions
from karpenter.core.scheduling.build.virtualpods import BufferProblem, buffer_replicas, resolve_buffer

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.core.state.cluster import ClusterView

PERIOD: Final = 30.0

# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/proposals/buffers.md
READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"


def buffer_status(buffer: CapacityBuffer, view: ClusterView, now: datetime, *, fits: bool | None) -> Step:
    """Return the status write of a buffer; `fits` says whether its virtual pods fit existing nodes."""
    status: dict[str, Any] = {
        "podTemplateRef": None,
        "podTemplateGeneration": None,
        "replicas": None,
        "provisioningStrategy": buffer.spec.provisioning_strategy,
    }
    condition_set = _BufferConditions(buffer, now)
    try:
        resolved = resolve_buffer(buffer, view)
        count = buffer_replicas(buffer, resolved.template, resolved.workload)
    except BufferProblem as problem:
        condition_set.set(READY, "False", problem.reason, str(problem))
        condition_set.set(PROVISIONING, "False", "NotReadyForProvisioning", "The buffer cannot be resolved.")
        return Step(effects=_status_patch(buffer, status, condition_set), again=PERIOD)
    if buffer.spec.pod_template_ref is not None:
        status["podTemplateRef"] = {"name": buffer.spec.pod_template_ref.name}
        status["podTemplateGeneration"] = resolved.generation
    status["replicas"] = count
    condition_set.set(READY, "True", "Resolved", f"The buffer resolves to {count} pods.")
    if not count:
        condition_set.set(PROVISIONING, "False", "BufferEmpty", "The buffer resolves to no pods.")
    elif fits:
        condition_set.set(
            PROVISIONING, "True", "FitsExistingCapacity", "All pods of the buffer fit existing nodes."
        )
    elif fits is not None:
        condition_set.set(
            PROVISIONING, "False", "RequiresNewCapacity", "Some pods of the buffer need new nodes."
        )
    return Step(effects=_status_patch(buffer, status, condition_set), again=PERIOD)


class _BufferConditions:
    """The conditions of one buffer."""

    def __init__(self, buffer: CapacityBuffer, now: datetime) -> None:
        self.held = {each.type: each for each in buffer.status.conditions}
        self._generation = buffer.metadata.generation
        self._now = now.replace(microsecond=0)

    def set(self, kind: str, status: str, reason: str, message: str) -> None:
        before = self.held.get(kind)
        same = before is not None and before.status == status
        self.held[kind] = BufferCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=before.last_transition_time if before is not None and same else self._now,
            observed_generation=self._generation,
        )


def _status_patch(
    buffer: CapacityBuffer, status: dict[str, Any], condition_set: _BufferConditions
) -> tuple[Effect, ...]:
    """Return the write of a buffer's status; empty if nothing differs."""
    current = buffer.status
    ref = {"name": current.pod_template_ref.name} if current.pod_template_ref is not None else None
    before = {
        "podTemplateRef": ref,
        "podTemplateGeneration": current.pod_template_generation,
        "replicas": current.replicas,
        "provisioningStrategy": current.provisioning_strategy,
    }
    held = tuple(condition_set.held.values())
    if before == status and current.conditions == held:
        return ()
    return (
        Amend(
            kind=buffer.kind,
            name=buffer.name,
            namespace=buffer.namespace,
            status={**status, "conditions": render_conditions(held)},
            version=buffer.metadata.resource_version,
            because="the buffer, its pod template or its capacity has changed",
        ),
    )
