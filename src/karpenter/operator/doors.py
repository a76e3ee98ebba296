"""The narrow door to Kubernetes that a cloud provider is given, on the operator's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from karpenter.api.meta import Resource
from karpenter.cloud.errors import CloudUnreachable
from karpenter.kube.errors import AlreadyExists, NotFound, ServerFailed, TooManyRequests, Unreachable

if TYPE_CHECKING:
    from karpenter.kube.client import Client

R = TypeVar("R", bound=Resource)

_TROUBLE = (Unreachable, ServerFailed, TooManyRequests)


class Objects:
    """The objects of the cluster that a provider may look at or make."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, kind: type[R], name: str) -> R | None:
        """Return an object of the whole cluster; None when there is none."""
        try:
            return await self._client.get(kind, name)
        except NotFound:
            return None
        except _TROUBLE as error:
            raise CloudUnreachable(str(error)) from error

    async def list(self, kind: type[R]) -> tuple[R, ...]:
        """Return all objects of a kind."""
        try:
            return (await self._client.list(kind)).items
        except _TROUBLE as error:
            raise CloudUnreachable(str(error)) from error

    async def create(self, made: Resource) -> None:
        """Create an object. One of that name that is there already counts as created."""
        try:
            await self._client.create(type(made), made)
        except AlreadyExists:
            return
        except _TROUBLE as error:
            raise CloudUnreachable(str(error)) from error

    async def delete(self, kind: type[Resource], name: str) -> None:
        """Ask for the deletion of an object. One that is not there counts as deleted."""
        try:
            await self._client.delete(kind, name)
        except NotFound:
            return
        except _TROUBLE as error:
            raise CloudUnreachable(str(error)) from error
