"""Labels that claims and nodes of older versions lack: the name of their node class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import REGISTERED, node_class_label
from karpenter.core.effects import Amend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import Effect


def hydrate(claim: NodeClaim, nodes: Sequence[Node]) -> tuple[Effect, ...]:
    """Return the writes that name the class of a claim on itself and on its registered nodes."""
    ref = claim.spec.node_class_ref
    key = node_class_label(ref.group, ref.kind)
    registered = [node for node in nodes if node.metadata.labels.get(REGISTERED) == "true"]
    return tuple(
        Amend(
            kind=item.kind,
            name=item.name,
            changes={"metadata": {"labels": {key: ref.name}}},
            because="it does not name its node class",
        )
        for item in (claim, *registered)
        if item.metadata.labels.get(key) != ref.name
    )
