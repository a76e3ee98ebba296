"""The narrow door to Kubernetes that a cloud provider is given, on the operator's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from karpenter.api.meta import Resource
from karpenter.cloud.errors import CloudUnreachable
from karpenter.kube.errors import (
    AlreadyExists,
    KubeError,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unreachable,
)
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from karpenter.kube.client import Client

R = TypeVar("R", bound=Resource)

_TROUBLE = (Unreachable, ServerFailed, TooManyRequests)


async def server_version(client: Client) -> str:
    """
    Return the version of the API server, such as ``1.33``.

    Raises:
        CloudUnreachable: it does not tell.
    """
    request = Request(method="GET", path="/version", headers=(("accept", "application/json"),))
    try:
        found = msgspec.json.decode((await client.send(request)).body, type=_Version)
    except (KubeError, msgspec.DecodeError) as error:
        raise CloudUnreachable(f"the API server does not tell its version: {error}") from error
    return f"{found.major}.{found.minor.rstrip('+')}"


class _Version(msgspec.Struct, frozen=True):
    major: str
    minor: str


class Objects:
    """The objects of the cluster that a provider may look at or make."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object of the whole cluster, or of a namespace; None when there is none."""
        try:
            return await self._client.get(kind, name, namespace=namespace)
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
