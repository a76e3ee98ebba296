"""
What should not be there any more: claims whose machine is gone, and machines whose claim is.

Looked for once in a while, since both follow from something that was missed: a machine that somebody ended by
hand, an answer that was lost for good. Young machines are left alone: their claim may not say yet that it has
one.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from karpenter.api.meta import is_status_condition_true
from karpenter.core.effects import Terminate
from karpenter.core.lifecycle.conditions import REGISTERED, delete_claim
from karpenter.core.lifecycle.initialization import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod
    from karpenter.core.effects import Effect

PERIOD: Final = 120.0
SETTLING: Final = timedelta(seconds=60)
"""How old a machine must be to be missed by its claim."""


_NOBODY: Final[Mapping[str, Sequence[Pod]]] = MappingProxyType({})


class ListedMachine(Protocol):
    """What a provider says of a machine."""

    @property
    def provider_id(self) -> str:
        """The machine's identity."""

    @property
    def claim_uid(self) -> str:
        """The claim that it was launched for; empty if the cloud cannot tell."""

    @property
    def created(self) -> datetime | None:
        """When it was launched."""

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""


def claims_without_machine(
    claims: Iterable[NodeClaim],
    machines: Iterable[ListedMachine],
    nodes_of: Callable[[str], Sequence[Node]],
    pods: Mapping[str, Sequence[Pod]] = _NOBODY,
) -> tuple[Effect, ...]:
    """
    Return what removes claims whose machine is gone.

    `claims` must have been known before the machines; `pods` are known by the names of their nodes.
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
    machines: Iterable[ListedMachine],
    claims: Iterable[NodeClaim],
    now: datetime,
    *,
    settling: timedelta = SETTLING,
) -> tuple[Terminate, ...]:
    """
    Return what ends machines that no claim is for; `claims` must be known after the machines.

    A claim that names its machine is for no other one: two operators may have launched one each for it.
    """
    uids, ids = set(), set()
    for claim in claims:
        if claim.status.provider_id:
            ids.add(claim.status.provider_id)
        else:
            uids.add(claim.metadata.uid)
    return tuple(
        Terminate(provider_id=machine.provider_id, because="no claim is for this machine")
        for machine in machines
        if not machine.deleting
        and machine.provider_id not in ids
        and machine.claim_uid not in uids
        and machine.created is not None
        and now - machine.created >= settling
    )
