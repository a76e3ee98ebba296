"""
Deletes what is no longer used in AWS: instance profiles without a node, launch templates that no launch uses.

Instances without a NodeClaim are collected for every cloud alike, in ``controllers.nodeclaim``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.labels import PROFILE_NAME
from karpenter.core.effects import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter.cloud.aws.instanceprofile import InstanceProfileProvider
    from karpenter.cloud.aws.launchtemplate import LaunchTemplateProvider
    from karpenter.cloud.cloudprovider import ClusterObjects
    from karpenter.core.state.cluster import ClusterView

log = structlog.stdlib.get_logger(__name__)

# IAM has low rate limits, and an unused profile costs nothing.
PROFILES_SECONDS: Final = 30 * 60.0
# Templates count towards a quota, so they are deleted sooner than profiles.
TEMPLATES_SECONDS: Final = 60.0


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
        unused = [name for name in found if name not in used and not self._profiles.is_protected(name)]
        if unused:
            # The cluster state may lack a claim, and an instance without its profile has no credentials.
            used = {
                each.metadata.annotations.get(PROFILE_NAME, "")
                for each in await self._objects.list(NodeClaim)
            }
        for name in unused:
            if name in used:
                continue
            await self._profiles.delete(name)
            log.info("instance_profile.collected", profile=name)
        return Step(again=PROFILES_SECONDS)


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
        return Step(again=TEMPLATES_SECONDS)
