"""
The cloud of a shadow: machines that are launched in thought, at the prices of the real cloud.

Instance types, prices and what is sold out are read from the real provider. A launch takes the cheapest
offering that satisfies the claim and never fails for want of capacity, unless the provider says so
beforehand; the machine joins after the time that machines were observed to take. Machines that the real
operator has launched are known from their claims. Nothing is launched or terminated anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import HOSTNAME, NO_EXECUTE, NODEPOOL, UNREGISTERED
from karpenter.api.meta import ObjectMeta
from karpenter.api.node import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from karpenter.base.quantity import QuantityError
from karpenter.cloud.cloudprovider import Machine
from karpenter.cloud.errors import InsufficientCapacity, LaunchRefused, MachineNotFound
from karpenter.cloud.offerings import choices, labels_of
from karpenter.core.model.requirement import RequirementError
from karpenter.core.model.resources import parse_resources, render_resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.base.clock import Clock
    from karpenter.cloud.cloudprovider import CloudProvider, NodeClassKind, RepairPolicy
    from karpenter.core.model.catalog import Catalog

SCHEME: Final = "shadow:///"
"""How the provider ids of machines begin that exist in thought only."""


class ShadowCloud:
    """A provider whose machines exist in thought only."""

    def __init__(
        self,
        provider: CloudProvider,
        *,
        clock: Clock,
        pool: Callable[[str], NodePool | None],
        launched: Callable[[Machine, NodeClaim], None],
    ) -> None:
        """`pool` finds a NodePool; `launched` is told of every machine, so that its node joins later."""
        self._provider = provider
        self._clock = clock
        self._pool = pool
        self._launched = launched
        self._machines: dict[str, Machine] = {}

    @property
    def name(self) -> str:
        """The name of the real provider."""
        return self._provider.name

    @property
    def node_classes(self) -> tuple[NodeClassKind, ...]:
        """The kinds of node class of the real provider."""
        return self._provider.node_classes

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """None: nodes that exist in thought do not break."""
        return ()

    def adopt(self, claim: NodeClaim) -> None:
        """Take over a machine that the real operator has launched."""
        self._machines[claim.status.provider_id] = Machine(
            provider_id=claim.status.provider_id,
            claim_uid=claim.metadata.uid,
            labels=claim.metadata.labels,
            capacity=parse_resources(claim.status.capacity),
            allocatable=parse_resources(claim.status.allocatable),
            image_id=claim.status.image_id,
            created=claim.metadata.creation_timestamp,
        )

    async def launch(self, claim: NodeClaim) -> Machine:
        """Return a machine of the cheapest offering that satisfies a claim."""
        provider_id = f"{SCHEME}{claim.name}"
        if provider_id in self._machines:
            return self._machines[provider_id]
        pool = self._pool(claim.metadata.labels.get(NODEPOOL, ""))
        if pool is None:
            raise LaunchRefused(reason="NodePoolNotFound", message="its NodePool is gone")
        try:
            found = choices(await self._provider.catalog(pool), claim)
        except (RequirementError, QuantityError) as error:
            raise LaunchRefused(reason="InvalidClaim", message=str(error)) from error
        if not found:
            raise InsufficientCapacity(offerings=())
        choice = found[0]
        machine = Machine(
            provider_id=provider_id,
            claim_uid=claim.metadata.uid,
            labels=labels_of(choice, claim),
            capacity=choice.kind.capacity,
            allocatable=choice.kind.allocatable,
            created=self._clock.now(),
        )
        self._machines[provider_id] = machine
        self._launched(machine, claim)
        return machine

    async def terminate(self, provider_id: str) -> None:
        """Forget a machine; the second call says that it is gone."""
        if self._machines.pop(provider_id, None) is None:
            raise MachineNotFound(provider_id)

    async def get(self, provider_id: str) -> Machine:
        """Return a machine."""
        if provider_id not in self._machines:
            raise MachineNotFound(provider_id)
        return self._machines[provider_id]

    async def list(self) -> tuple[Machine, ...]:
        """Return all machines of the shadow."""
        return tuple(self._machines.values())

    async def catalog(self, pool: NodePool) -> Catalog:
        """Return what the real provider sells."""
        return await self._provider.catalog(pool)

    async def drift(self, claim: NodeClaim) -> str:
        """Return why a machine of the real operator has drifted; those of the shadow are of today."""
        if claim.status.provider_id.startswith(SCHEME):
            return ""
        return await self._provider.drift(claim)


def node_of(machine: Machine, claim: NodeClaim, clock: Clock) -> Node:
    """Return the node of a machine as its kubelet registers it, ready."""
    now = clock.now()
    return Node(
        metadata=ObjectMeta(
            name=claim.name,
            uid=f"node-{claim.metadata.uid}",
            labels={**machine.labels, **claim.metadata.labels, HOSTNAME: claim.name},
            creation_timestamp=now,
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(Taint(key=UNREGISTERED, effect=NO_EXECUTE),)),
        status=NodeStatus(
            capacity={**render_resources(machine.capacity)},
            allocatable={**render_resources(machine.allocatable)},
            conditions=(NodeCondition(type="Ready", status="True", last_transition_time=now),),
        ),
    )


def without_startup_taints(node: Node, claim: NodeClaim | None) -> Node:
    """Return a node as it is once its daemons have removed the startup taints, which they do at once."""
    temporary = (
        {(each.key, each.effect) for each in claim.spec.startup_taints} if claim is not None else set()
    )
    left = tuple(each for each in node.spec.taints if (each.key, each.effect) not in temporary)
    if left == node.spec.taints:
        return node
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=left))
