"""
REST resources of an API server, and the requests that can be sent about them.

A :class:`Target` is one kind of object: where it is on the server, and how its bytes are read.
:class:`Typed` reads the structs of :mod:`karpenter.api`, which hold the fields that we use and no more.
:class:`Untyped` reads plain dictionaries that keep every field, for code that writes whole objects back.
Client and informers take either, and a struct's class stands for its target: ``client.get(Pod, "web-0",
namespace="shop")``. An object that cannot be decoded is reported beside those that can.

The functions below are the API verbs: each returns a :class:`Request` and sends nothing. Query parameters and
subresources are spelled here and nowhere else. Four values change part of an object:

    MergePatch       fields with their new values; null removes one; a list is replaced whole (RFC 7386)
    JsonPatch        operations in order, with tests; all or nothing (RFC 6902)
    StrategicPatch   like MergePatch, but lists of built-in kinds are merged by key; not for custom resources
    Apply            all fields that we own of an object; the server keeps what other managers own

``version`` makes a merge or strategic patch conditional: the server answers Conflict if the object is no
longer at that resourceVersion. Use it whenever a list (conditions, taints, finalizers) is written whole.
See https://kubernetes.io/docs/reference/using-api/api-concepts/ and
https://kubernetes.io/docs/reference/using-api/server-side-apply/.

A :class:`Transport` carries requests to an API server: bytes there, bytes back. Two exist: :mod:`.http`
(aiohttp, any cluster) and ``karpenter_local`` (a function call, for tests and simulation). The client above
cannot tell them apart, so a test that swaps one for the other tests the same code.

A :class:`Handler` is the server's side. The embedded API server implements this one method once; an aiohttp
front turns sockets into ``handle`` calls, and the in-process transport calls it without sockets.

What both sides may rely on:

- ``path`` is as on the wire before the query (``/api/v1/namespaces/default/pods/web-0``), percent-encoded
  where a client must, and holds no ``?``. ``query`` holds decoded pairs in the order sent; a key may repeat.
- Header names are lower case. ``accept`` is always sent, and ``content-type`` with every body: patches are
  told apart by it.
- A request that ends in one answer gets a :class:`Response`, whatever its status: an error is a Response
  whose body is a ``Status`` object, never an exception. A handler that raises is a bug.
- A watch (``watch=true`` in the query) that is accepted gets a :class:`Streaming`; one that is refused at
  once gets a Response (410, 403...). A watch that fails later sends an ``ERROR`` event as its last line.
- Each item of ``Streaming.lines`` is one whole JSON document with no line break in it or after it.
- The client may leave a stream at any time: ``lines.aclose()`` is then awaited, so a generator cleans up in
  its ``finally``. The server ends a watch by letting the generator return.
- A caller may be cancelled at any await. A handler therefore decides and stores without awaiting in between.

Nothing here sends or retries.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from karpenter.api.kinds import kind_of
from karpenter.api.meta import InvalidObject, ListMeta, Resource, Wire, decode, to_plain

Pairs = tuple[tuple[str, str], ...]


def first(pairs: Pairs, name: str, default: str = "") -> str:
    """Return the first value under `name`; in headers, `name` must be lower case."""
    for key, value in pairs:  # a loop, since this is asked a dozen times per request
        if key == name:
            return value
    return default


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request as a value."""

    method: str
    """GET, POST, PUT, PATCH or DELETE."""

    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        """Return the first query parameter called `name`."""
        return first(self.query, name, default)

    def header(self, name: str, default: str = "") -> str:
        """Return the first header called `name`, given in lower case."""
        return first(self.headers, name, default)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One whole answer."""

    status: int
    headers: Pairs = ()
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300  # noqa: PLR2004  the HTTP classes

    def header(self, name: str, default: str = "") -> str:
        """Return the first header called `name`, given in lower case."""
        return first(self.headers, name, default)


class Streaming(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that goes on: a watch."""

    lines: AsyncGenerator[bytes, None]
    """One JSON document each; the receiver closes it."""

    status: int = 200
    headers: Pairs = ()


class Transport(Protocol):
    """The client's side: carries requests to one API server, with its credentials."""

    async def send(self, request: Request) -> Response:
        """Return the server's answer, whatever its status.

        Raises:
            Unreachable: no answer came; the request may or may not have been carried out.
        """
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response | Streaming]:
        """Open a watch; leaving the context closes it. A Response means that the server refused.

        Raises:
            Unreachable: on entering, or while reading ``lines`` when the connection breaks.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Sending afterwards is an error."""
        ...


class Handler(Protocol):
    """The server's side: answers one request at a time, many at once."""

    async def handle(self, request: Request) -> Response | Streaming:
        """Answer `request`. Refusals are Responses; see the module's rules."""
        ...


T = TypeVar("T")
R = TypeVar("R", bound=Resource)

Plain: TypeAlias = dict[str, Any]
Body: TypeAlias = Wire | Mapping[str, Any]
"""What can be written: a struct, or plain data."""

_JSON = "application/json"
_ACCEPT: Pairs = (("accept", _JSON),)
_ANY: Pairs = (("accept", "*/*"),)  # a log is text, and a refusal of it is JSON
_SENDS_JSON: Pairs = (("accept", _JSON), ("content-type", _JSON))


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


class MergePatch(msgspec.Struct, frozen=True):
    """Fields as they shall be."""

    # https://www.rfc-editor.org/rfc/rfc7396
    content_type: ClassVar[str] = "application/merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        return msgspec.json.encode(_conditional(self.changes, self.version))


class StrategicPatch(msgspec.Struct, frozen=True):
    """Fields as they shall be; lists are merged by key."""

    # Lists of built-in kinds are merged by key; kinds of definitions do not have it:
    # https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
    content_type: ClassVar[str] = "application/strategic-merge-patch+json"

    changes: Mapping[str, Any]
    version: str = ""

    def body(self) -> bytes:
        return msgspec.json.encode(_conditional(self.changes, self.version))


class JsonPatch(msgspec.Struct, frozen=True):
    """Operations in order; a test among them that fails undoes all."""

    # https://www.rfc-editor.org/rfc/rfc6902
    content_type: ClassVar[str] = "application/json-patch+json"

    operations: Sequence[Mapping[str, Any]]

    def body(self) -> bytes:
        return msgspec.json.encode(self.operations)


class Apply(msgspec.Struct, frozen=True):
    """Everything that we own of an object."""

    # https://kubernetes.io/docs/reference/using-api/server-side-apply/
    content_type: ClassVar[str] = "application/apply-patch+yaml"

    object: Mapping[str, Any]
    force: bool = True
    """Take over fields that others own, instead of answering Conflict."""

    def body(self) -> bytes:
        """Write the object; JSON is YAML."""
        return msgspec.json.encode(self.object)


Patch: TypeAlias = MergePatch | StrategicPatch | JsonPatch | Apply


def pointer(*parts: str) -> str:
    """Return the JSON pointer to a field, such as ``/metadata/annotations/karpenter.sh~1nodepool-hash``."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _conditional(changes: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    if not version:
        return changes
    return {**changes, "metadata": {**changes.get("metadata", {}), "resourceVersion": version}}


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind: those of a namespace, by labels, by fields. Empty means all."""

    namespace: str = ""
    labels: str = ""
    """Such as ``app=web,tier!=test``."""

    fields: str = ""
    """Such as ``spec.nodeName=node-1``."""

    def query(self) -> Pairs:
        return _given(("labelSelector", self.labels), ("fieldSelector", self.fields))


EVERYTHING = Selection()


def named(name: str, *, namespace: str = "") -> Selection:
    """Select one object; the server finds it by its key: every kind has this field."""
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
    return Selection(namespace=namespace, fields=f"metadata.name={name}")


class Preconditions(msgspec.Struct, frozen=True, kw_only=True):
    """What must be true of an object for a delete or an eviction to happen; else Conflict."""

    uid: str = ""
    version: str = ""

    def plain(self) -> dict[str, str]:
        """Return them as the API spells them."""
        return dict(_given(("uid", self.uid), ("resourceVersion", self.version)))


ANY_STATE = Preconditions()


def get(target: Target[Any], name: str, *, namespace: str = "", subresource: str = "") -> Request:
    path = target.path(namespace=namespace, name=name, subresource=subresource)
    return Request(method="GET", path=path, headers=_ACCEPT)


def log(name: str, *, namespace: str, lines: int, container: str = "", previous: bool = False) -> Request:
    """Read the last lines that a container of a pod has written, or that its last run wrote."""
    query = _given(("container", container), ("previous", "true" if previous else ""))
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/log"
    return Request(method="GET", path=path, query=(*query, ("tailLines", str(lines))), headers=_ANY)


def list_page(
    target: Target[Any], selection: Selection = EVERYTHING, *, limit: int = 0, after: str = ""
) -> Request:
    """Read a list, or the page of it that `after` points to."""
    # https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
    paging = _given(("limit", str(limit) if limit else ""), ("continue", after))
    return Request(
        method="GET",
        path=target.path(namespace=selection.namespace),
        query=selection.query() + paging,
        headers=_ACCEPT,
    )


def watch(
    target: Target[Any],
    selection: Selection = EVERYTHING,
    *,
    since: str,
    seconds: int,
    bookmarks: bool = True,
) -> Request:
    """Follow changes after the resourceVersion `since`; the server ends the watch after `seconds`."""
    return Request(
        method="GET",
        path=target.path(namespace=selection.namespace),
        query=(
            *selection.query(),
            ("watch", "true"),
            # Bookmarks move the version of a quiet watch on, so that it can be resumed after hours:
            # https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
            *((("allowWatchBookmarks", "true"),) if bookmarks else ()),
            ("resourceVersion", since),
            ("timeoutSeconds", str(seconds)),
        ),
        headers=_ACCEPT,
    )


def create(
    target: Target[Any], body: Body, *, namespace: str = "", manager: str, dry_run: bool = False
) -> Request:
    return Request(
        method="POST",
        path=target.path(namespace=namespace),
        query=_writing(manager, dry_run),
        headers=_SENDS_JSON,
        body=target.write(body),
    )


def replace(
    target: Target[Any],
    body: Body,
    *,
    name: str,
    namespace: str = "",
    subresource: str = "",
    manager: str,
    dry_run: bool = False,
) -> Request:
    """Write a whole object over another: what is missing in `body` is removed, so never send a struct."""
    return Request(
        method="PUT",
        path=target.path(namespace=namespace, name=name, subresource=subresource),
        query=_writing(manager, dry_run),
        headers=_SENDS_JSON,
        body=target.write(body),
    )


def patch(
    target: Target[Any],
    name: str,
    change: Patch,
    *,
    namespace: str = "",
    subresource: str = "",
    manager: str,
    dry_run: bool = False,
) -> Request:
    """Change part of an object, or apply ours."""
    query = _writing(manager, dry_run)
    if isinstance(change, Apply):
        query += (("force", "true" if change.force else "false"),)
    return Request(
        method="PATCH",
        path=target.path(namespace=namespace, name=name, subresource=subresource),
        query=query,
        headers=(("accept", _JSON), ("content-type", change.content_type)),
        body=change.body(),
    )


def delete(
    target: Target[Any],
    name: str,
    *,
    namespace: str = "",
    only_if: Preconditions = ANY_STATE,
    propagation: str = "",
    grace: int | None = None,
    dry_run: bool = False,
) -> Request:
    options = _delete_options(only_if=only_if, propagation=propagation, grace=grace)
    return Request(
        method="DELETE",
        path=target.path(namespace=namespace, name=name),
        query=_given(("dryRun", "All" if dry_run else "")),
        headers=_SENDS_JSON,
        body=msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}),
    )


def evict(
    name: str,
    *,
    namespace: str,
    only_if: Preconditions = ANY_STATE,
    grace: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Evict a pod, if its PodDisruptionBudget allows."""
    options = _delete_options(only_if=only_if, propagation="", grace=grace)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        **({"deleteOptions": options} if options else {}),
    }
    return _on_pod(name, namespace, "eviction", body, dry_run=dry_run)


def bind(name: str, *, namespace: str, node: str, uid: str = "") -> Request:
    """Bind a pod to a node, as a scheduler does."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return _on_pod(name, namespace, "binding", body)


def _on_pod(
    name: str, namespace: str, subresource: str, body: dict[str, Any], *, dry_run: bool = False
) -> Request:
    return Request(
        method="POST",
        path=f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/{subresource}",
        query=_given(("dryRun", "All" if dry_run else "")),
        headers=_SENDS_JSON,
        body=msgspec.json.encode(body),
    )


def _delete_options(*, only_if: Preconditions, propagation: str, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if preconditions := only_if.plain():
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options


def _writing(manager: str, dry_run: bool) -> Pairs:
    # https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
    return _given(("fieldManager", manager), ("dryRun", "All" if dry_run else ""))


def _given(*pairs: tuple[str, str]) -> Pairs:
    return tuple(pair for pair in pairs if pair[1])
