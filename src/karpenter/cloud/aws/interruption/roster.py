"""Which claim has which instance, as the operator knows it at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.aws.instances import instance_id
from karpenter.cloud.errors import MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.state.view import ClusterView


class Roster:
    """Finds claims and nodes by the ids of their instances."""

    def __init__(self, view: Callable[[], ClusterView]) -> None:
        self._view = view
        self._claims: tuple[Mapping[str, NodeClaim], dict[str, NodeClaim]] | None = None

    def claim_of(self, instance: str) -> NodeClaim | None:
        """Return the claim of an instance; None when it is none of ours."""
        claims = self._view().claims
        if self._claims is None or self._claims[0] is not claims:
            self._claims = (claims, {number: each for each in claims.values() if (number := _number(each))})
        return self._claims[1].get(instance)

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Return the nodes that say that they are the machine of a claim."""
        wanted = claim.status.provider_id
        return tuple(each for each in self._view().nodes.values() if each.spec.provider_id == wanted)


def _number(claim: NodeClaim) -> str:
    try:
        return instance_id(claim.status.provider_id)
    except MachineNotFound:
        return ""
