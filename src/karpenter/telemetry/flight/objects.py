"""
Objects of the cluster as lines.

What is written is what the operator holds, which is what decisions read and little more. Of annotations only
those of Kubernetes and Karpenter are written: people put anything into theirs, and ``kubectl apply`` puts a
copy of the whole object there, with whatever its environment holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.kinds import ALL_KINDS
from karpenter.core.state.store import Gone, Put
from karpenter.core.state.view import NodeClass
from karpenter.telemetry.flight.lines import Classified, Lost, Seen, Unclassified

if TYPE_CHECKING:
    from karpenter.api.meta import Resource
    from karpenter.core.state.store import Event

KINDS: Final = {kind.name: kind.struct for kind in ALL_KINDS}
"""What objects are read as, by kind."""

_KEPT: Final = ("kubernetes.io", "karpenter.sh", "k8s.aws", "kwok.sh", "x-k8s.io")
_COPIES: Final = "kubectl.kubernetes.io"

_encode = msgspec.json.Encoder().encode


def line_of(event: Event) -> Seen | Lost | Classified | Unclassified:
    """Return the line that tells of an event."""
    item, there = event.object, isinstance(event, Put)
    if isinstance(item, NodeClass):
        return Classified(node_class=item) if there else Unclassified(node_class=item)
    raw = msgspec.Raw(_encode(_without_private(item)))
    return Seen(kind=item.kind, object=raw) if there else Lost(kind=item.kind, object=raw)


def event_of(line: Seen | Lost | Classified | Unclassified) -> Event:
    """Return the event that a line tells of.

    Raises:
        KeyError: nobody knows the kind.
        msgspec.DecodeError: it is no such object.
    """
    match line:
        case Classified(node_class=found):
            return Put(found)
        case Unclassified(node_class=found):
            return Gone(found)
        case _:
            item = msgspec.json.decode(line.object, type=KINDS[line.kind])
            return Put(item) if isinstance(line, Seen) else Gone(item)


def _without_private(item: Resource) -> Resource:
    notes = item.metadata.annotations
    kept = {key: value for key, value in notes.items() if _is_kept(key)}
    if len(kept) == len(notes):
        return item
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=kept))


def _is_kept(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain != _COPIES and any(domain == each or domain.endswith(f".{each}") for each in _KEPT)
