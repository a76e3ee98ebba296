"""
Which machine is that of which claim, also when an answer was lost or this process was started anew.

While it runs, a process knows what it launched. What it does not know stands in the tags of instances; see
:mod:`.tickets`. They are read once after a start, and again after an answer was lost; a claim that was made
later cannot have a machine that we do not know of.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.instances import instance_id
from karpenter.cloud.aws.launch.tickets import is_for
from karpenter.cloud.errors import LaunchFailed, MachineNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.cloud.aws.instances import Instance, Instances
    from karpenter.cloud.surroundings import ClusterObjects

log = structlog.stdlib.get_logger(__name__)

SETTLING: Final = 5.0
"""Seconds after which EC2 shows what it has launched: until then a lost answer is not taken for a failure."""


class Ledger:
    """Knows the machines of claims."""

    def __init__(
        self, instances: Instances, objects: ClusterObjects, *, monotonic: Callable[[], float]
    ) -> None:
        self._instances = instances
        self._objects = objects
        self._monotonic = monotonic
        self._of_claim: dict[str, str] = {}
        self._of_instance: dict[str, str] = {}
        self._lost: dict[str, float] = {}
        self._seen: dict[str, Instance] | None = None
        self._reading = asyncio.Lock()

    async def find(self, uid: str) -> Instance | None:
        """
        Return the machine that a claim has; None when it has none.

        Raises:
            LaunchFailed: its launch was not answered, and it is too early to tell.
            CloudError: EC2 does not tell.
        """
        number = self._of_claim.get(uid) or await self._adopt(uid)
        if number is None:
            self._too_early(uid)
            return None
        try:
            found = await self._instances.get(number)
        except MachineNotFound:
            found = None
        if found is None or found.leaving:
            self.forget(number)
            return None
        return found

    def claim_of(self, instance: str) -> str:
        """Return the uid of the claim whose machine an instance is; empty when nobody knows."""
        return self._of_instance.get(instance, "")

    def note(self, uid: str, instance: str) -> None:
        """Remember the machine of a claim."""
        self._of_claim[uid] = instance
        self._of_instance[instance] = uid
        self._lost.pop(uid, None)

    def lost(self, uid: str) -> None:
        """Note that the launch for a claim was not answered."""
        self._lost[uid] = self._monotonic()
        self._seen = None

    def forget(self, instance: str) -> None:
        """Forget a machine that is gone."""
        uid = self._of_instance.pop(instance, None)
        if uid is not None:
            self._of_claim.pop(uid, None)

    async def _adopt(self, uid: str) -> str | None:
        """Return a machine that was launched for a claim, perhaps among others, and that nobody else has."""
        async with self._reading:
            if self._seen is None or uid in self._lost:
                self._seen = await self._read()
            candidates = [
                each.id
                for each in self._seen.values()
                if each.id not in self._of_instance and not each.leaving and is_for(each.tags, uid)
            ]
            if not candidates:
                return None
            chosen = min(candidates)
            log.info("machine.found_again", instance=chosen, claim=uid)
            self.note(uid, chosen)
            return chosen

    async def _read(self) -> dict[str, Instance]:
        """Return the instances that no claim says are its own."""
        found = {each.id: each for each in await self._instances.all()}
        for claim in await self._objects.list(NodeClaim):
            if claim.status.provider_id:
                try:
                    number = instance_id(claim.status.provider_id)
                except MachineNotFound:
                    continue
                if number in found:
                    self.note(claim.metadata.uid, number)
        return found

    def _too_early(self, uid: str) -> None:
        since = self._lost.get(uid)
        if since is None:
            return
        if self._monotonic() - since < SETTLING:
            raise LaunchFailed(
                "the launch before was not answered, and EC2 does not show yet what came of it"
            )
        del self._lost[uid]
