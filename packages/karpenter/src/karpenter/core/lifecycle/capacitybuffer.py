"""
What buffers say about themselves: for how many pods of which template they keep room, and if it exists.

Whether a buffer can be understood is worked out here; whether its room exists is known only to whoever placed
its pods last, and is handed in. These conditions are plain: nothing depends on them and nothing follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.capacitybuffer import BufferCondition
from karpenter.core.effects import Amend, Step
from karpenter.core.lifecycle.conditions import render_conditions
from karpenter.core.scheduling.build.virtualpods import BufferProblem, buffer_replicas, resolve_buffer

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.capacitybuffer import CapacityBuffer
    from karpenter.core.effects import Effect
    from karpenter.core.state.cluster import ClusterView

PERIOD: Final = 30.0

READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"


def buffer_status(buffer: CapacityBuffer, view: ClusterView, now: datetime, *, fits: bool | None) -> Step:
    """Return what to write on a buffer; `fits` says if its room was found on nodes that exist, if known."""
    status: dict[str, Any] = {
        "podTemplateRef": None,
        "podTemplateGeneration": None,
        "replicas": None,
        "provisioningStrategy": buffer.spec.provisioning_strategy,
    }
    board = _Board(buffer, now)
    try:
        measure = resolve_buffer(buffer, view)
        count = buffer_replicas(buffer, measure.template, measure.workload)
    except BufferProblem as problem:
        board.set(READY, "False", problem.reason, str(problem))
        board.set(PROVISIONING, "False", "NotReadyForProvisioning", "It is not known what room to keep.")
        return Step(effects=_written(buffer, status, board), again=PERIOD)
    if buffer.spec.pod_template_ref is not None:
        status["podTemplateRef"] = {"name": buffer.spec.pod_template_ref.name}
        status["podTemplateGeneration"] = measure.generation
    status["replicas"] = count
    board.set(READY, "True", "Resolved", f"Room for {count} pods is kept.")
    if not count:
        board.set(PROVISIONING, "False", "BufferEmpty", "Room for no pods is asked for.")
    elif fits:
        board.set(PROVISIONING, "True", "FitsExistingCapacity", "All of the room is on nodes that exist.")
    elif fits is not None:
        board.set(PROVISIONING, "False", "RequiresNewCapacity", "Some of the room is still to be made.")
    return Step(effects=_written(buffer, status, board), again=PERIOD)


class _Board:
    """The conditions of one buffer, as they are being restated."""

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


def _written(buffer: CapacityBuffer, status: dict[str, Any], board: _Board) -> tuple[Effect, ...]:
    """Return the write that makes a buffer's status this one; nothing if it is."""
    said = buffer.status
    ref = {"name": said.pod_template_ref.name} if said.pod_template_ref is not None else None
    before = {
        "podTemplateRef": ref,
        "podTemplateGeneration": said.pod_template_generation,
        "replicas": said.replicas,
        "provisioningStrategy": said.provisioning_strategy,
    }
    held = tuple(board.held.values())
    if before == status and said.conditions == held:
        return ()
    return (
        Amend(
            kind=buffer.kind,
            name=buffer.name,
            namespace=buffer.namespace,
            status={**status, "conditions": render_conditions(held)},
            version=buffer.metadata.resource_version,
            because="the buffer, what it is measured by, or its room has changed",
        ),
    )
