"""
Which kinds the API server serves at this moment, custom ones included, as the server itself says.

For the controllers that work on every kind: namespace deletion and garbage collection.
"""

from typing import Any

import msgspec

from karpenter.api.meta import InvalidObject, OwnerReference
from karpenter.kube.client import Client
from karpenter.kube.targets import ObjectIdentity, Page, Target
from karpenter.kube.transport import Request

_ACCEPT = (("accept", "application/json"),)


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One kind as it is served."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def group(self) -> str:
        """The group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    preferred_version: _Version


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


async def discover(client: Client) -> tuple[Served, ...]:
    """
    Return every kind that can be listed, in its preferred version.

    Raises:
        KubeError: the server did not say.
    """
    groups = msgspec.json.decode(await _get(client, "/apis"), type=_Groups).groups
    versions = ["v1", *(group.preferred_version.group_version for group in groups)]
    found: list[Served] = []
    for version in versions:
        root = "/apis" if "/" in version else "/api"
        listed = msgspec.json.decode(await _get(client, f"{root}/{version}"), type=_Resources)
        found += [
            Served(
                api_version=version,
                kind=each.kind,
                plural=each.name,
                namespaced=each.namespaced,
                verbs=frozenset(each.verbs),
            )
            for each in listed.resources
            if "/" not in each.name and "list" in each.verbs
        ]
    return tuple(found)


async def _get(client: Client, path: str) -> bytes:
    return (await client.send(Request(method="GET", path=path, headers=_ACCEPT))).body


class _Meta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class PartialObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of any kind, reduced to who it is and whom it belongs to."""

    metadata: _Meta = _Meta()


class _SketchList(msgspec.Struct, frozen=True, kw_only=True):
    metadata: dict[str, Any] = {}
    items: tuple[PartialObject, ...] | None = None


class PartialObjects(Target[PartialObject]):
    """Any kind, read as sketches."""

    _one = msgspec.json.Decoder(PartialObject)
    _many = msgspec.json.Decoder(_SketchList)

    @classmethod
    def of(cls, served: Served) -> "PartialObjects":
        return cls(
            api_version=served.api_version,
            kind=served.kind,
            plural=served.plural,
            namespaced=served.namespaced,
        )

    def read(self, data: bytes) -> PartialObject:
        try:
            return self._one.decode(data)
        except msgspec.DecodeError as error:
            raise InvalidObject(subject=self.kind, problem=f"not an object: {error}") from error

    def read_page(self, data: bytes) -> Page[PartialObject]:
        listed = self._many.decode(data)
        return Page(
            items=listed.items or (),
            version=str(listed.metadata.get("resourceVersion", "")),
            more=str(listed.metadata.get("continue", "")),
        )

    def identify(self, item: PartialObject) -> ObjectIdentity:
        meta = item.metadata
        return ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.resource_version)
