"""
Launch templates in EC2: made when a launch needs them, and gone soon after the last one did.

A template is named after its recipe, so that whoever needs the same one finds it, also after a restart. One
that nobody has used for a while is deleted; a cluster would otherwise pile them up.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Final

import structlog

from karpenter.cloud.aws.launch.tagging import specification
from karpenter.cloud.aws.metering import USER_DATA_BYTES
from karpenter.cloud.aws.refusals import Missing, Refused
from karpenter.cloud.aws.resolving.selecting import where
from karpenter.cloud.aws.words import CLUSTER_TAG, NODE_CLASS_LABEL
from karpenter.cloud.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter.cloud.aws.calls import Aws
    from karpenter.cloud.aws.launch.recipe import Recipe
    from karpenter.cloud.aws.metering import Meters

log = structlog.stdlib.get_logger(__name__)

KEPT_FOR: Final = 60.0
"""Seconds after its last use for which a template is kept."""

_PAGE: Final = 200
_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"


class Templates:
    """Keeps launch templates."""

    def __init__(
        self,
        aws: Aws,
        *,
        cluster: str,
        meters: Meters,
        monotonic: Callable[[], float],
        kept: float = KEPT_FOR,
    ) -> None:
        self._aws = aws
        self._meters = meters
        self._cluster = cluster
        self._monotonic = monotonic
        self._kept = kept
        self._until: dict[str, float] = {}
        self._making = asyncio.Lock()

    async def ensure(self, recipes: Iterable[Recipe]) -> None:
        """
        See to it that there is a template for each recipe.

        Raises:
            CloudError: EC2 does not make one.
        """
        async with self._making:
            for recipe in recipes:
                if recipe.name not in self._until and not await self._exists(recipe.name):
                    await self._create(recipe)
                self._use(recipe.name)

    def forget(self, names: Iterable[str]) -> None:
        """Forget templates that turned out to be gone."""
        for name in names:
            self._until.pop(name, None)

    async def recall(self) -> None:
        """Learn of the templates that the cluster has, so that those which nobody uses go, too."""
        for each in await self._find(where(f"tag:{CLUSTER_TAG}", self._cluster)):
            self._until.setdefault(each, self._monotonic() + self._kept)

    async def sweep(self) -> None:
        """Delete templates that nobody has used for a while."""
        async with self._making:
            now = self._monotonic()
            for name in [name for name, until in self._until.items() if until <= now]:
                try:
                    await self._delete(name)
                except CloudError as error:
                    log.warning("launch_template.not_deleted", template=name, error=str(error))
                else:
                    self._until.pop(name, None)  # it may have turned out to be gone meanwhile

    async def delete_all(self, node_class: str) -> None:
        """Delete the templates of a class."""
        filters = (where(f"tag:{CLUSTER_TAG}", self._cluster), where(f"tag:{NODE_CLASS_LABEL}", node_class))
        async with self._making:
            for name in await self._find(*filters):
                await self._delete(name)
                self._until.pop(name, None)

    def _use(self, name: str) -> None:
        self._until[name] = self._monotonic() + self._kept

    async def _exists(self, name: str) -> bool:
        try:
            answer = await self._aws.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        except Missing:
            return False
        return bool(answer.get("LaunchTemplates"))

    async def _create(self, recipe: Recipe) -> None:
        try:
            await self._aws.ask(
                "ec2",
                "CreateLaunchTemplate",
                LaunchTemplateName=recipe.name,
                LaunchTemplateData=recipe.template_data(),
                TagSpecifications=[specification("launch-template", recipe.tags)],
            )
        except Refused as error:
            if error.code != _EXISTS:
                raise
        log.debug("launch_template.created", template=recipe.name, nodeclass=recipe.node_class)
        size = float(len(base64.b64decode(recipe.user_data)))
        self._meters.show(USER_DATA_BYTES, recipe.node_class, [(size, {"nodeclass": recipe.node_class})])

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
        except Missing:
            return
        log.debug("launch_template.deleted", template=name)

    async def _find(self, *filters: dict[str, object]) -> list[str]:
        found = await self._aws.every(
            "ec2", "DescribeLaunchTemplates", "LaunchTemplates", Filters=list(filters), MaxResults=_PAGE
        )
        return [each["LaunchTemplateName"] for each in found]
