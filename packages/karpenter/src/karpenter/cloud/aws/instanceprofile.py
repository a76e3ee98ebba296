"""
Instance profiles: how machines get the role that their class names.

A class with a role has a profile of its own, which is never changed: when the role changes, a new profile is
made, and the old one goes once no machine has it. A class that names a profile is left alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.api.labels import REGION
from karpenter.base.hashing import hash_text
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

_KNOWN_FOR: Final = 15 * 60.0
_ROLE_MISSING_FOR: Final = 60.0
_JUST_MADE_FOR: Final = 60.0
_PROTECTED_FOR: Final = 3600.0
_EXISTS: Final = "EntityAlreadyExists"
_VALID_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)


class RoleMissing(CloudUnreachable):
    """The role that a class names does not exist."""

    def __init__(self, role: str) -> None:
        super().__init__(f"IAM has no role {role}")
        self.role = role


class InstanceProfileProvider:
    """Makes instance profiles, and takes them away."""

    def __init__(self, aws: AwsApi, *, cluster: str, chance: Random, monotonic: Callable[[], float]) -> None:
        self._aws = aws
        self._cluster = cluster
        self._chance = chance
        self._known: TTLCache[str, ApiResponse] = TTLCache(seconds=_KNOWN_FOR, monotonic=monotonic)
        self._roles_missing: TTLCache[str, bool] = TTLCache(seconds=_ROLE_MISSING_FOR, monotonic=monotonic)
        self._just_made: TTLCache[tuple[str, str], str] = TTLCache(seconds=_JUST_MADE_FOR, monotonic=monotonic)
        self._protected: TTLCache[str, bool] = TTLCache(seconds=_PROTECTED_FOR, monotonic=monotonic)

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """
        Return the name of the profile that machines of a class get, and make it if need be.

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
        made = self._just_made.peek((role, uid))
        if made is not None:
            return made
        if current and await self._role_of(current) == role:
            return current
        name = self._new_name(node_class.name)
        try:
            await self._make(name, role, node_class)
        except CloudError:
            await self._try_to_delete(name)
            raise
        self._just_made.put((role, uid), name)
        for each in filter(None, (name, current)):
            self._protected.put(each, True)
        return name

    def is_protected(self, name: str) -> bool:
        """Say whether a profile was made or replaced so lately that machines may still start with it."""
        return self._protected.peek(name) is not None

    async def list(self, *, uid: str = "") -> tuple[str, ...]:
        """Return the names of the profiles that we have made: for all classes, or for the one of a uid."""
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
        """Take a profile away, its role first. One that does not exist counts as gone."""
        try:
            found = await self._ask("GetInstanceProfile", name)
            for role in found["InstanceProfile"]["Roles"]:
                await self._ask("RemoveRoleFromInstanceProfile", name, RoleName=role["RoleName"])
            await self._ask("DeleteInstanceProfile", name)
        except ResourceNotFound:
            return
        finally:
            self._known.forget(name)

    async def delete_all(self, node_class: EC2NodeClass) -> None:
        """Take all profiles of a class away, the one that old versions made included."""
        for name in await self.list(uid=node_class.metadata.uid):
            await self.delete(name)
        legacy = self.legacy_name(node_class.name)
        if _VALID_NAME.fullmatch(legacy):
            await self.delete(legacy)

    def path(self, uid: str = "") -> str:
        """Return where the profiles of a class are; with no uid, those of the whole cluster."""
        return f"/karpenter/{self._aws.region}/{self._cluster}/" + (f"{uid}/" if uid else "")

    def legacy_name(self, node_class: str) -> str:
        """Return the name that the profile of a class had when there was only ever one."""
        return f"{self._cluster}_{hash_text(self._aws.region + node_class)}"

    def tags(self, node_class: EC2NodeClass) -> dict[str, str]:
        """Return the tags of the profiles of a class."""
        return {
            **node_class.spec.tags,
            owned_tag(self._cluster): "owned",
            CLUSTER_TAG: self._cluster,
            NODE_CLASS_LABEL: node_class.name,
            REGION: self._aws.region,
        }

    def _new_name(self, node_class: str) -> str:
        chance = f"{self._chance.getrandbits(128):032x}"
        return f"{self._cluster}_{hash_text(self._aws.region + node_class + chance)}"

    async def _make(self, name: str, role: str, node_class: EC2NodeClass) -> None:
        if self._roles_missing.peek(role):
            raise RoleMissing(node_class.spec.role)
        try:
            profile = (await self._ask("GetInstanceProfile", name))["InstanceProfile"]
        except ResourceNotFound:
            tags = [{"Key": key, "Value": value} for key, value in self.tags(node_class).items()]
            made = await self._ask(
                "CreateInstanceProfile", name, Path=self.path(node_class.metadata.uid), Tags=tags
            )
            profile = made["InstanceProfile"]
        attached = [each["RoleName"] for each in profile.get("Roles", ())]
        if attached == [role]:
            return
        for other in attached:
            await self._ask("RemoveRoleFromInstanceProfile", name, RoleName=other)
        try:
            await self._ask("AddRoleToInstanceProfile", name, RoleName=role)
        except ResourceNotFound as error:
            if "role" not in error.message.lower():
                raise
            self._roles_missing.put(role, True)
            raise RoleMissing(node_class.spec.role) from error

    async def _role_of(self, name: str) -> str | None:
        """Return the role of a profile; None when there is no such profile, or it has no role."""
        try:
            profile = await self._known.get(name, lambda: self._ask("GetInstanceProfile", name))
        except ResourceNotFound:
            return None
        roles = profile["InstanceProfile"].get("Roles", ())
        return str(roles[0]["RoleName"]) if roles else None

    async def _try_to_delete(self, name: str) -> None:
        try:
            await self.delete(name)
        except CloudError as error:
            log.warning("instance_profile.left_behind", profile=name, error=str(error))

    async def _ask(self, operation: str, name: str, **more: object) -> ApiResponse:
        try:
            return await self._aws.ask("iam", operation, InstanceProfileName=name, **more)
        except AwsApiError as error:
            if error.code != _EXISTS:
                raise
            return await self._aws.ask("iam", "GetInstanceProfile", InstanceProfileName=name)


def role_name(role: str) -> str:
    """Return the name of a role that may be given with its path."""
    return role.rpartition("/")[2]
