"""
Kinds of objects on an API server: where each is, and how its bytes are read.

:class:`Typed` reads the structs of :mod:`karpenter.api`, which hold the fields that we use and no more.
:class:`Untyped` reads plain dictionaries that keep every field, for code that writes whole objects back.
Client and informers take either, and a struct's class stands for its target: ``client.get(Pod, "web-0",
namespace="shop")``. An object that cannot be decoded is reported beside those that can.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from karpenter.api.kinds import kind_of
from karpenter.api.meta import InvalidObject, ListMeta, Resource, Wire, decode, to_plain

T = TypeVar("T")
R = TypeVar("R", bound=Resource)

Plain: TypeAlias = dict[str, Any]
Body: TypeAlias = Wire | Mapping[str, Any]
"""What can be written: a struct, or plain data."""


class ObjectIdentity(NamedTuple):
    """Which object, and which version of it."""

    namespace: str
    name: str
    uid: str
    version: str
    """Its resourceVersion."""

    @property
    def key(self) -> str:
        """``namespace/name``, or just the name for objects of the whole cluster."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Part of a list, or all of it."""

    items: tuple[T, ...]
    version: str
    """The resourceVersion at which the list is true; a watch starts here."""

    more: str = ""
    """The token for the next page; empty on the last."""

    broken: tuple[InvalidObject, ...] = ()
    """Items that could not be read."""


class _Meta(Wire, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(Wire, frozen=True, kw_only=True):
    """Just enough of an object to say which one it is."""

    metadata: _Meta = _Meta()


class _Items(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A list as the wire has it; servers written in Go may say null for empty."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


_HEADS: Final = msgspec.json.Decoder(_Head)
UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding bytes may raise that are no JSON, no UTF-8, or nested too deep."""


def identify(data: bytes | msgspec.Raw) -> ObjectIdentity:
    """Return which object the bytes are, reading nothing else of it."""
    meta = _HEADS.decode(data).metadata
    return ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.resource_version)


class Target(ABC, Generic[T]):
    """One kind of object on the server."""

    def __init__(self, *, api_version: str, kind: str, plural: str, namespaced: bool) -> None:
        self.api_version = api_version
        self.kind = kind
        self.plural = plural
        self.namespaced = namespaced

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.api_version}/{self.plural})"

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the address of one object, or of all if no name is given."""
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            if self.namespaced and not namespace:
                raise ValueError(f"{self.kind} {name} needs a namespace")
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @abstractmethod
    def read(self, data: bytes) -> T:
        """Read one object.

        Raises:
            InvalidObject: the bytes are not an object of this kind.
        """

    @abstractmethod
    def read_page(self, data: bytes) -> Page[T]:
        """Read a list. Items that cannot be read are reported beside the others.

        Raises:
            msgspec.DecodeError: the bytes are not a list at all.
        """

    @abstractmethod
    def identify(self, item: T) -> ObjectIdentity:
        """Return which object `item` is."""

    def family(self, item: T) -> str:  # noqa: ARG002  a kind may know of no families
        """Return what `item` has in common with those that are much like it: its owner, where it has one."""
        return ""

    def write(self, body: Body) -> bytes:
        """Write an object as JSON that says its apiVersion and kind."""
        plain = to_plain(body) if isinstance(body, Wire) else body
        return msgspec.json.encode({"apiVersion": self.api_version, "kind": self.kind, **plain})


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of what is being built: walking it takes longer than building it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Typed(Target[R]):
    """A kind that is read as a struct."""

    def __init__(self, struct: type[R]) -> None:
        kind = kind_of(struct)
        super().__init__(
            api_version=kind.api_version, kind=kind.name, plural=kind.plural, namespaced=kind.namespaced
        )
        self._struct = struct
        self._one = msgspec.json.Decoder(struct)
        self._many = msgspec.json.Decoder(_Items[struct])  # type: ignore[valid-type]  # made at run time
        self._raw = msgspec.json.Decoder(_Items[msgspec.Raw])

    def read(self, data: bytes) -> R:
        """Read one object; quickly if it is as expected, leniently if not."""
        try:
            return self._one.decode(data)
        except UNDECODABLE:
            return decode(data, self._struct)

    def read_page(self, data: bytes) -> Page[R]:
        """Read a list, whole if every item is as expected, one by one if not."""
        try:
            with _no_collection():
                listed = self._many.decode(data)
        except UNDECODABLE:
            return self._read_one_by_one(data)
        return Page(
            items=tuple(listed.items or ()),
            version=listed.metadata.resource_version,
            more=listed.metadata.continue_,
        )

    def _read_one_by_one(self, data: bytes) -> Page[R]:
        listed = self._raw.decode(data)
        items: list[R] = []
        broken: list[InvalidObject] = []
        for raw in listed.items or ():
            try:
                items.append(decode(bytes(raw), self._struct))
            except InvalidObject as error:
                broken.append(error)
        return Page(
            items=tuple(items),
            version=listed.metadata.resource_version,
            more=listed.metadata.continue_,
            broken=tuple(broken),
        )

    def identify(self, item: R) -> ObjectIdentity:
        """Return which object `item` is."""
        meta = item.metadata
        return ObjectIdentity(meta.namespace, meta.name, meta.uid, meta.resource_version)

    def family(self, item: R) -> str:
        """Return the uid of the first owner."""
        owners = item.metadata.owner_references
        return owners[0].uid if owners else ""


class Untyped(Target[Plain]):
    """A kind that is read as plain dictionaries, with every field that the server sent."""

    _one = msgspec.json.Decoder(Plain)
    _many = msgspec.json.Decoder(_Items[Plain])

    def read(self, data: bytes) -> Plain:
        try:
            return self._one.decode(data)
        except UNDECODABLE as error:
            raise InvalidObject(subject=self.kind, problem=f"not a JSON object: {error}") from error

    def read_page(self, data: bytes) -> Page[Plain]:
        """Read a list; each item says its apiVersion and kind, also where the server left them out."""
        with _no_collection():
            listed = self._many.decode(data)
        return Page(
            items=tuple(
                {"apiVersion": self.api_version, "kind": self.kind, **item} for item in listed.items or ()
            ),
            version=listed.metadata.resource_version,
            more=listed.metadata.continue_,
        )

    def identify(self, item: Plain) -> ObjectIdentity:
        """Return which object `item` is."""
        meta = item.get("metadata") or {}
        return ObjectIdentity(
            meta.get("namespace", ""),
            meta.get("name", ""),
            meta.get("uid", ""),
            meta.get("resourceVersion", ""),
        )


_TYPED: dict[type[Resource], Typed[Any]] = {}


def target_of(kind: "type[T] | Target[T]") -> Target[T]:
    """Return the target of a struct; a target is its own."""
    if isinstance(kind, Target):
        return kind
    if not issubclass(kind, Resource):
        raise TypeError(f"{kind.__name__} is not a kind of API object")
    if kind not in _TYPED:
        _TYPED[kind] = Typed(kind)
    return _TYPED[kind]


def untyped(api_version: str, plural: str, *, kind: str, namespaced: bool) -> Untyped:
    """Return the target of any kind: ``untyped("apps/v1", "deployments", kind="Deployment", ...)``."""
    return Untyped(api_version=api_version, kind=kind, plural=plural, namespaced=namespaced)
