"""Hydration: adds the node class label to NodeClaims and Nodes that an older version created without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import REGISTERED, node_class_label
from karpenter.core.effects import Amend, Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim


def hydrate(claim: NodeClaim, nodes: Sequence[Node]) -> tuple[Effect, ...]:
    """Return the writes that add the node class label to a claim and its registered Nodes."""
    ref = claim.spec.node_class_ref
    key = node_class_label(ref.group, ref.kind)
    registered = [node for node in nodes if node.metadata.labels.get(REGISTERED) == "true"]
    return tuple(
        Amend(
            kind=item.kind,
            name=item.name,
            changes={"metadata": {"labels": {key: ref.name}}},
            because="it lacks the label of its node class",
        )
        for item in (claim, *registered)
        if item.metadata.labels.get(key) != ref.name
    )
