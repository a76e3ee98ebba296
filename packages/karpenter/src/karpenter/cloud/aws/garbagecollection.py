"""
Deletes what is no longer used: instances without a NodeClaim, instance profiles without a node, launch
templates that no launch uses.

Instances are compared with NodeClaims often after a start, when a launch of the process before may have been
left behind, and rarely later.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.labels import PROFILE_NAME
from karpenter.cloud.errors import CloudError, MachineNotFound
from karpenter.core.effects import DeleteObject, Step
from karpenter.core.lifecycle.garbagecollection import machines_without_claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.base.clock import Clock
    from karpenter.cloud.aws.instanceprofile import InstanceProfileProvider
    from karpenter.cloud.aws.launchtemplate import LaunchTemplateProvider
    from karpenter.cloud.cloudprovider import CloudProvider, ClusterObjects
    from karpenter.core.state.cluster import ClusterView

log = structlog.stdlib.get_logger(__name__)

# The intervals of Karpenter: frequent for the first rounds after a start, every two minutes later.
OFTEN: Final = 10.0
RARELY: Final = 120.0
FIRST_ROUNDS: Final = 20
YOUNG: Final = timedelta(seconds=30)
"""Younger instances are left alone: the status of their claim may not name them yet."""

# IAM has low rate limits, and an unused profile costs nothing.
PROFILES_EVERY: Final = 30 * 60.0
TEMPLATES_EVERY: Final = 60.0
_AT_ONCE: Final = 100


class InstanceGarbageCollection:
    """Terminates instances that belong to no NodeClaim, and deletes their nodes."""

    name = "instance.garbagecollection"

    def __init__(self, *, provider: CloudProvider, view: Callable[[], ClusterView], clock: Clock) -> None:
        self._provider = provider
        self._view = view
        self._clock = clock
        self._rounds = 0
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def look(self) -> Step:
        """Compare instances with NodeClaims."""
        machines = await self._provider.list()
        view = self._view()
        due = machines_without_claim(machines, view.claims.values(), self._clock.now(), min_age=YOUNG)
        ids = {each.provider_id for each in due}
        failed = [
            each for each in await asyncio.gather(*map(self._terminate, sorted(ids))) if each is not None
        ]
        nodes = tuple(
            DeleteObject(
                kind=node.kind, name=node.name, uid=node.metadata.uid, because="its instance has no NodeClaim"
            )
            for node in view.nodes.values()
            if node.spec.provider_id in ids and node.metadata.deletion_timestamp is None
        )
        if failed:
            log.warning("instances.not_collected", count=len(failed), error=str(failed[0]))
        else:
            self._rounds += 1
        return Step(effects=nodes, again=OFTEN if self._rounds <= FIRST_ROUNDS else RARELY)

    async def _terminate(self, provider_id: str) -> CloudError | None:
        async with self._turn:
            try:
                await self._provider.terminate(provider_id)
            except MachineNotFound:
                return None
            except CloudError as error:
                return error
        log.info("instance.collected", provider_id=provider_id, because="it has no NodeClaim")
        return None


class InstanceProfileGarbageCollection:
    """Deletes instance profiles that no node class names and no node uses."""

    name = "instanceprofile.garbagecollection"

    def __init__(
        self, *, profiles: InstanceProfileProvider, objects: ClusterObjects, view: Callable[[], ClusterView]
    ) -> None:
        self._profiles = profiles
        self._objects = objects
        self._view = view

    async def look(self) -> Step:
        """Compare the profiles of the cluster with those in use."""
        found = await self._profiles.list()
        used = {each.status.instance_profile for each in await self._objects.list(EC2NodeClass)}
        used |= {each.metadata.annotations.get(PROFILE_NAME, "") for each in self._view().claims.values()}
        for name in found:
            if name in used or self._profiles.is_protected(name):
                continue
            await self._profiles.delete(name)
            log.info("instance_profile.collected", profile=name)
        return Step(again=PROFILES_EVERY)


class LaunchTemplateGarbageCollection:
    """Deletes launch templates that have not been used for a while."""

    name = "launchtemplate.garbagecollection"

    def __init__(self, templates: LaunchTemplateProvider) -> None:
        self._templates = templates
        self._loaded = False

    async def look(self) -> Step:
        """List the templates of an earlier process, once; then delete the unused ones."""
        if not self._loaded:
            await self._templates.load_existing()
            self._loaded = True
        await self._templates.delete_unused()
        return Step(again=TEMPLATES_EVERY)
