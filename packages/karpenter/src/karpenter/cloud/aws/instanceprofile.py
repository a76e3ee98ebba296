"""
Instance profiles: how instances get the IAM role that their node class names.

A node class with a role has an instance profile that is created for it and never changed: when the role
changes, a new profile is created, and the old one is deleted once no node uses it. A node class that names an
instance profile uses that one; it is neither changed nor deleted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.labels import REGION
from karpenter.base.hashstructure import hash_text
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.aws.errors import AwsApiError, ResourceNotFound
from karpenter.cloud.aws.labels import CLUSTER_TAG, NODE_CLASS_LABEL, owned_tag
from karpenter.cloud.errors import CloudError, CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi

log = structlog.stdlib.get_logger(__name__)

# IAM has one endpoint for all regions of a partition, low rate limits, and changes that take a while to be
# seen everywhere: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html
_KNOWN_SECONDS: Final = 15 * 60.0
# A role that was just created may not be seen by IAM yet, so it is asked for again soon:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html
_ROLE_MISSING_SECONDS: Final = 60.0
_JUST_CREATED_SECONDS: Final = 60.0
_PROTECTED_SECONDS: Final = 3600.0
"""Seconds for which a new profile is not garbage collected: nodes that use it may not be registered yet."""

_EXISTS: Final = "EntityAlreadyExists"
# https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateInstanceProfile.html
_VALID_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)


class RoleMissing(CloudUnreachable):
    """The role that a node class names does not exist."""

    def __init__(self, role: str) -> None:
        super().__init__(f"IAM has no role {role}")
        self.role = role


class InstanceProfileProvider:
    """Creates and deletes instance profiles."""

    def __init__(self, aws: AwsApi, *, cluster: str, chance: Random, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._cluster = cluster
        self._chance = chance
        self._known: TTLCache[str, ApiResponse] = TTLCache(seconds=_KNOWN_SECONDS, monotonic=monotonic)
        self._roles_missing: TTLCache[str, bool] = TTLCache(
            seconds=_ROLE_MISSING_SECONDS, monotonic=monotonic
        )
        self._just_created: TTLCache[tuple[str, str], str] = TTLCache(
            seconds=_JUST_CREATED_SECONDS, monotonic=monotonic
        )
        self._protected: TTLCache[str, bool] = TTLCache(seconds=_PROTECTED_SECONDS, monotonic=monotonic)

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """
        Return the name of the instance profile of a node class, and create it if it does not exist.

        Raises:
            RoleMissing: there is no such role.
            CloudError: IAM does not do what it is asked.
        """
        current = node_class.status.instance_profile
        if node_class.spec.instance_profile:
            if current and current != node_class.spec.instance_profile:
                self._protected.put(current, True)
            return node_class.spec.instance_profile
        role, uid = role_name(node_class.spec.role), node_class.metadata.uid
        # IAM is eventually consistent: a profile that was created just now may not be found:
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_general.html
        created = self._just_created.peek((role, uid))
        if created is not None:
            return created
        if current and await self._role_of(current) == role:
            return current
        # A random part, since a node class gets another profile whenever its role changes.
        chance = f"{self._chance.getrandbits(128):032x}"
        name = f"{self._cluster}_{hash_text(self._aws.region + node_class.name + chance)}"
        try:
            await self._create(name, role, node_class)
        except CloudError:
            try:
                await self.delete(name)
            except CloudError as error:
                log.warning("instance_profile.left_behind", profile=name, error=str(error))
            raise
        self._just_created.put((role, uid), name)
        for each in filter(None, (name, current)):
            self._protected.put(each, True)
        return name

    def is_protected(self, name: str) -> bool:
        """Return whether a profile was created or replaced so lately that an instance may start with it."""
        return self._protected.peek(name) is not None

    async def list(self, *, uid: str = "") -> tuple[str, ...]:
        """Return the names of the profiles of the cluster: of all node classes, or of the one with a uid."""
        prefix = self.path(uid)
        found = [
            item
            async for page in self._aws.pages(
                "iam",
                "ListInstanceProfiles",
                marker="Marker",
                PathPrefix=prefix,
            )
            for item in page["InstanceProfiles"]
        ]
        return tuple(sorted(each["InstanceProfileName"] for each in found if each["Path"].startswith(prefix)))

    async def delete(self, name: str) -> None:
        """Delete a profile, its role first, as IAM demands. A missing one counts as deleted."""
        try:
            found = await self._call("GetInstanceProfile", name)
            # IAM refuses to delete a profile that has a role:
            # https://docs.aws.amazon.com/IAM/latest/APIReference/API_DeleteInstanceProfile.html
            for role in found["InstanceProfile"]["Roles"]:
                await self._call("RemoveRoleFromInstanceProfile", name, RoleName=role["RoleName"])
            await self._call("DeleteInstanceProfile", name)
        except ResourceNotFound:
            return
        finally:
            self._known.forget(name)

    async def delete_all(self, node_class: EC2NodeClass) -> None:
        """Delete all profiles of a node class, the one that old versions of Karpenter created included."""
        for name in await self.list(uid=node_class.metadata.uid):
            await self.delete(name)
        legacy = self.legacy_name(node_class.name)
        if _VALID_NAME.fullmatch(legacy):
            await self.delete(legacy)

    def path(self, uid: str = "") -> str:
        """Return the IAM path of the profiles of a node class; without a uid, of the whole cluster."""
        return f"/karpenter/{self._aws.region}/{self._cluster}/" + (f"{uid}/" if uid else "")

    def legacy_name(self, node_class: str) -> str:
        """Return the name that the profile of a node class had when it was changed in place."""
        return f"{self._cluster}_{hash_text(self._aws.region + node_class)}"

    def tags(self, node_class: EC2NodeClass) -> dict[str, str]:
        return {
            **node_class.spec.tags,
            owned_tag(self._cluster): "owned",
            CLUSTER_TAG: self._cluster,
            NODE_CLASS_LABEL: node_class.name,
            REGION: self._aws.region,
        }

    async def _create(self, name: str, role: str, node_class: EC2NodeClass) -> None:
        if self._roles_missing.peek(role):
            raise RoleMissing(node_class.spec.role)
        try:
            profile = (await self._call("GetInstanceProfile", name))["InstanceProfile"]
        except ResourceNotFound:
            tags = [{"Key": key, "Value": value} for key, value in self.tags(node_class).items()]
            created = await self._call(
                "CreateInstanceProfile", name, Path=self.path(node_class.metadata.uid), Tags=tags
            )
            profile = created["InstanceProfile"]
        # An instance profile takes one role:
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_switch-role-ec2_instance-profiles.html
        attached = [each["RoleName"] for each in profile.get("Roles", ())]
        if attached == [role]:
            return
        for other in attached:
            await self._call("RemoveRoleFromInstanceProfile", name, RoleName=other)
        try:
            await self._call("AddRoleToInstanceProfile", name, RoleName=role)
        except ResourceNotFound as error:
            if "role" not in error.message.lower():
                raise
            self._roles_missing.put(role, True)
            raise RoleMissing(node_class.spec.role) from error

    async def _role_of(self, name: str) -> str | None:
        """Return the role of a profile; None when there is no such profile, or it has no role."""
        try:
            profile = await self._known.get(name, lambda: self._call("GetInstanceProfile", name))
        except ResourceNotFound:
            return None
        roles = profile["InstanceProfile"].get("Roles", ())
        return str(roles[0]["RoleName"]) if roles else None

    async def _call(self, operation: str, name: str, **more: object) -> ApiResponse:
        try:
            return await self._aws.call("iam", operation, InstanceProfileName=name, **more)
        except AwsApiError as error:
            # CreateInstanceProfile of an earlier attempt, or AddRole, may have succeeded without a response.
            if error.code != _EXISTS:
                raise
            return await self._aws.call("iam", "GetInstanceProfile", InstanceProfileName=name)


def role_name(role: str) -> str:
    """Return the name of a role that may be written with its path."""
    # The IAM API takes the name of a role without its path:
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    return role.rpartition("/")[2]
