"""
What would become of the nodes, and what Karpenter did last; pods that wait are in :mod:`.pending`.

The decisions are those of ``karpenter plan --disruption`` about the same view; the sentences are those of
``karpenter why``. What Karpenter did last is read from its Events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.core.state.statenode import state_nodes
from karpenter.top.pending import PendingPod, pending_pods
from karpenter.why.nodes import node_sentence

if TYPE_CHECKING:
    from karpenter.api.cluster import Event
    from karpenter.core.disruption.disrupt import DisruptionDecision
    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.state.cluster import ClusterView

KARPENTER: Final = "karpenter"
"""The component that Karpenter's Events name."""

_OLD: Final = datetime.min.replace(tzinfo=UTC)


class NodeAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a node would go now, and why or why not."""

    goes: bool
    code: str
    """The reason of the command, or what holds the node; empty for nodes that are not Karpenter's."""

    sentence: str


class LastDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Something that Karpenter did or refused, as an Event says it."""

    at: datetime | None
    reason: str
    object: str
    message: str
    warning: bool = False


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator would decide about a cluster."""

    nodes: Mapping[str, NodeAdvice] = {}
    pending: tuple[PendingPod, ...] = ()
    saving: float = 0.0
    """Dollars per hour that go with the nodes that would go now."""

    least: float | None = None
    """Dollars per hour below which no plan for the pods of the nodes that may go can fall, where proven."""

    held: float = 0.0
    """Dollars per hour of the nodes that may go."""

    @property
    def going(self) -> int:
        return sum(each.goes for each in self.nodes.values())


def advise(
    view: ClusterView, provisioning: ProvisioningDecision, disruption: DisruptionDecision | None
) -> Advice:
    """Return what becomes of each node and of each pod that waits."""
    nodes: dict[str, NodeAdvice] = {}
    commands = disruption.commands if disruption is not None else ()
    by_name = {name: command for command in commands for name in command.candidates}
    kept = {each.node: each for each in disruption.kept} if disruption is not None else {}
    for node in state_nodes(view):
        command, held = by_name.get(node.name), kept.get(node.name)
        code = str(command.reason if command is not None else held.code if held is not None else "")
        nodes[node.name] = NodeAdvice(
            goes=command is not None and node.is_managed,
            code=code if node.is_managed else "",
            sentence=node_sentence(node.is_managed, command, held),
        )
    bound = disruption.bound if disruption is not None else None
    return Advice(
        nodes=nodes,
        pending=pending_pods(view, provisioning),
        saving=sum(command.saving for command in commands),
        least=min(bound.least, bound.hourly) if bound is not None and bound.nodes else None,
        held=bound.hourly if bound is not None else 0.0,
    )


def last_decisions(events: Iterable[Event]) -> tuple[LastDecision, ...]:
    """Return what Karpenter said last, the newest first, each once."""
    found = sorted(_decisions(events), key=lambda each: each.at or _OLD, reverse=True)
    # What is said of a node is said of its NodeClaim as well.
    return tuple({(each.reason, each.message): each for each in reversed(found)}.values())[::-1]


def _decisions(events: Iterable[Event]) -> Iterator[LastDecision]:
    for event in events:
        if KARPENTER not in (event.source.component, event.reporting_component):
            continue
        about = event.involved_object
        seen = event.series.last_observed_time if event.series is not None else None
        yield LastDecision(
            at=seen or event.last_timestamp or event.event_time or event.first_timestamp,
            reason=event.reason,
            object=f"{about.kind.lower()}/{about.name}",
            message=event.message,
            warning=event.type == "Warning",
        )
