"""How the node classes of a provider are spelled on the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.api.kinds import ALL_KINDS
from karpenter.kube.errors import KubeError
from karpenter.kube.target import untyped
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.cloud.interface import NodeClassKind
    from karpenter.kube.client import Client, Kind


class ClassNotServed(RuntimeError):  # noqa: N818  says what is wrong
    """The API server does not know a node class that the provider needs."""

    def __init__(self, kind: NodeClassKind, because: str) -> None:
        super().__init__(
            f"the API server does not serve {kind.kind} of {kind.group}: {because};"
            " hint: install its CustomResourceDefinition"
        )


async def class_targets(client: Client, kinds: Iterable[NodeClassKind]) -> dict[tuple[str, str], Kind[Any]]:
    """
    Return how to read each kind of node class.

    Raises:
        ClassNotServed: the API server knows none of that group and kind.
    """
    return {(kind.group, kind.kind): await _target(client, kind) for kind in kinds}


async def _target(client: Client, kind: NodeClassKind) -> Kind[Any]:
    for each in ALL_KINDS:
        if (each.group, each.name) == (kind.group, kind.kind):
            return each.struct
    try:
        group = await _read(client, f"/apis/{kind.group}")
        version = group["preferredVersion"]["groupVersion"]
        resources = (await _read(client, f"/apis/{version}"))["resources"]
    except (KubeError, KeyError) as error:
        raise ClassNotServed(kind, str(error)) from error
    for each in resources:
        if each.get("kind") == kind.kind and "/" not in each["name"]:
            return untyped(version, each["name"], kind=kind.kind, namespaced=False)
    raise ClassNotServed(kind, f"{version} has no such kind")


async def _read(client: Client, path: str) -> dict[str, Any]:
    response = await client.send(Request(method="GET", path=path, headers=(("accept", "application/json"),)))
    found: dict[str, Any] = msgspec.json.decode(response.body)
    return found
