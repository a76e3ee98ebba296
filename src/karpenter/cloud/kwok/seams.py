"""What the cloud in memory needs of Kubernetes: someone to make nodes, and someone to read node classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from karpenter.api.kwok import KWOKNodeClass
from karpenter.api.node import Node

if TYPE_CHECKING:
    from karpenter.cloud.surroundings import ClusterObjects


class NodeMaker(Protocol):
    """Lets machines join the cluster and leave it. What it raises is tried again."""

    async def create_node(self, node: Node) -> None:
        """Create the Node of a machine. One of that name that is there already counts as created."""
        ...

    async def delete_node(self, name: str) -> None:
        """Ask for the deletion of a Node whose machine is gone. One that is not there counts as deleted."""
        ...


class NodeClassReader(Protocol):
    """Reads node classes."""

    async def node_class(self, name: str) -> KWOKNodeClass | None:
        """Return a class as it is now; None when there is none."""
        ...


class ObjectNodes:
    """A NodeMaker on the cluster's objects."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    async def create_node(self, node: Node) -> None:
        """Create the Node of a machine."""
        await self._objects.create(node)

    async def delete_node(self, name: str) -> None:
        """Ask for the deletion of a Node."""
        await self._objects.delete(Node, name)


class ObjectClasses:
    """A NodeClassReader on the cluster's objects."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    async def node_class(self, name: str) -> KWOKNodeClass | None:
        """Return a class as it is now."""
        return await self._objects.get(KWOKNodeClass, name)
