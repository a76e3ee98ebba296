"""The life of claims, one at a time: look, ask the core what is due, do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.dra import ResourceSlice
from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.interface import HoldsRegistration
from karpenter.controllers.patience import answer
from karpenter.core.lifecycle.finalize import finalize
from karpenter.core.lifecycle.step import step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karpenter.api.meta import Resource
    from karpenter.base.clock import Clock
    from karpenter.cloud.interface import CloudProvider, Hold
    from karpenter.controllers.perform import Performer
    from karpenter.core.state.store import Event, Store
    from karpenter.core.state.view import NodeClass


class ClaimLifecycle:
    """Brings claims to life, and to their end."""

    name = "nodeclaim.lifecycle"

    def __init__(
        self,
        store: Store,
        performer: Performer,
        cloud: CloudProvider,
        clock: Clock,
        *,
        devices: bool = False,
    ) -> None:
        """`devices` says whether nodes must show the devices that their pods claim."""
        self._store = store
        self._performer = performer
        self._cloud = cloud
        self._clock = clock
        self._devices = devices

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the claims that an event is about."""
        if isinstance(event.object, NodeClaim):
            yield event.object.name
        elif isinstance(event.object, Node):
            ids = {each.spec.provider_id for each in (event.object, before) if isinstance(each, Node)}
            for provider_id in sorted(ids):
                for claim in self._store.claims_of(provider_id):
                    yield claim.name
        elif isinstance(event.object, ResourceSlice):
            node = self._store.node(event.object.spec.node_name or "")
            for claim in self._store.claims_of(node.spec.provider_id) if node is not None else ():
                yield claim.name

    async def reconcile(self, key: str) -> float | None:
        """Do what is due for one claim."""
        claim = self._store.claim(key)
        if claim is None:
            return None
        nodes = self._store.nodes_of(claim.status.provider_id)
        if claim.metadata.deletion_timestamp is not None:
            due = finalize(claim, nodes, self._clock.now())
            await self._performer.perform(due.effects)
            return due.again
        holds = await self._holds(claim, nodes)
        slices = self._store.view().resource_slices.values() if self._devices else None
        due = step(claim, nodes, self._clock.now(), holds=[hold.because for hold in holds], slices=slices)
        await self._performer.perform(due.effects)
        waits = [hold.look_again for hold in holds] + ([due.again] if due.again is not None else [])
        return min(waits, default=None)

    async def _holds(self, claim: NodeClaim, nodes: Sequence[Node]) -> tuple[Hold, ...]:
        if len(nodes) != 1 or not isinstance(self._cloud, HoldsRegistration):
            return ()
        return await answer(self._cloud.registration_holds(claim, nodes[0]))
