"""
Garbage collection: NodeClaims whose machine is gone, and machines whose NodeClaim is gone.

This is the only place that decides what an orphan is; it is the same for every cloud provider. Both kinds
follow from something that no event reported: an instance that was terminated outside Karpenter, or a launch
whose answer was lost. A young machine is kept, because the provider id of its NodeClaim may not be written
yet.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from karpenter.api.meta import is_status_condition_true
from karpenter.core.effects import DeleteObject, Effect, Terminate
from karpenter.core.lifecycle.conditions import REGISTERED, delete_claim
from karpenter.core.lifecycle.initialization import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod

# The list of a cloud costs API calls, and orphans are rare, so they are looked for every two minutes only.
PERIOD: Final = 120.0
# After a start machines are looked for often: the process before may have left a launch behind. The intervals
# and the age are upstream's: https://github.com/aws/karpenter-provider-aws
FIRST_PERIOD: Final = 10.0
FIRST_ROUNDS: Final = 20
# The claim of a machine that was just launched may not carry its provider id yet, and the list of the
# provider may be ahead of the cluster's:
# https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
MIN_MACHINE_AGE: Final = timedelta(seconds=30)
"""The age from which on a machine without a NodeClaim is an orphan."""

_NO_PODS: Final[Mapping[str, Sequence[Pod]]] = MappingProxyType({})


class ListedMachine(Protocol):
    """The fields of a machine in the cloud provider's list."""

    @property
    def provider_id(self) -> str: ...

    @property
    def claim_uid(self) -> str:
        """The uid of the NodeClaim that it was launched for; empty if the provider does not know it."""

    @property
    def created(self) -> datetime | None: ...

    @property
    def deleting(self) -> bool: ...


def claims_without_machine(
    claims: Iterable[NodeClaim],
    machines: Iterable[ListedMachine],
    nodes_of: Callable[[str], Sequence[Node]],
    pods: Mapping[str, Sequence[Pod]] = _NO_PODS,
) -> tuple[Effect, ...]:
    """
    Return the deletion of claims whose machine is gone.

    `claims` must have been read before the `machines` were listed: a claim that was launched in between has a
    machine that the list lacks. A Node that is Ready keeps its claim, since the list of a cloud may be
    eventually consistent. `pods` are keyed by node name.
    """
    known = {machine.provider_id for machine in machines if not machine.deleting}
    effects: list[Effect] = []
    for claim in claims:
        provider_id = claim.status.provider_id
        if (
            claim.metadata.deletion_timestamp is None
            and is_status_condition_true(claim.status.conditions, REGISTERED)
            and provider_id not in known
            and not any(is_ready(node) for node in nodes_of(provider_id))
        ):
            own = pods.get(claim.status.node_name, ())
            effects += delete_claim(claim, "garbage_collected", "its machine is gone", own)
    return tuple(effects)


def machines_without_claim(
    machines: Iterable[ListedMachine], claims: Iterable[NodeClaim], now: datetime
) -> tuple[Terminate, ...]:
    """
    Return the termination of machines without a claim.

    `claims` must be read after the `machines` were listed. A claim with a provider id matches that machine
    only: two leaders may each have launched a machine for it.
    """
    uids, ids = set(), set()
    for claim in claims:
        if claim.status.provider_id:
            ids.add(claim.status.provider_id)
        else:
            uids.add(claim.metadata.uid)
    return tuple(
        Terminate(provider_id=machine.provider_id, because="the machine has no nodeclaim")
        for machine in machines
        if not machine.deleting
        and machine.provider_id not in ids
        and machine.claim_uid not in uids
        and machine.created is not None
        and now - machine.created >= MIN_MACHINE_AGE
    )


def nodes_without_claim(nodes: Iterable[Node], machines: Iterable[Terminate]) -> tuple[DeleteObject, ...]:
    """Return the deletion of the Nodes of machines that are terminated because they have no claim."""
    ids = {machine.provider_id for machine in machines}
    return tuple(
        DeleteObject(
            kind=node.kind, name=node.name, uid=node.metadata.uid, because="its machine has no nodeclaim"
        )
        for node in nodes
        if node.spec.provider_id in ids and node.metadata.deletion_timestamp is None
    )
