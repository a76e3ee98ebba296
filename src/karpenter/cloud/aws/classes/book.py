"""
Node classes as they stand in Kubernetes, read once for every change of them.

Every launch, every look at drift and every catalogue asks for a class. While somebody tells us of changes,
what was read stays good until the next one; otherwise, each question goes to the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.ec2nodeclass import EC2NodeClass

if TYPE_CHECKING:
    from karpenter.cloud.surroundings import ClusterObjects


class ClassBook:
    """Looks classes up."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._followed = False
        self._held: dict[str, EC2NodeClass | None] = {}
        self._changes = 0

    def follow(self) -> None:
        """Rely from now on upon being told of every change."""
        self._followed = True

    def changed(self, name: str) -> None:
        """Note that a class has changed, has come or has gone."""
        self._changes += 1
        self._held.pop(name, None)

    async def get(self, name: str) -> EC2NodeClass | None:
        """
        Return a class; None when there is none.

        Raises:
            CloudUnreachable: the API server does not answer.
        """
        if name in self._held:
            return self._held[name]
        before = self._changes
        found = await self._objects.get(EC2NodeClass, name)
        if self._followed and before == self._changes:
            self._held[name] = found
        return found
