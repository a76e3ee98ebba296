"""
A watch's lines, read as events.

The server sends one JSON document per line: what happened, and the object it happened to. Bookmarks carry
only how far the watch has come. An ``ERROR`` line ends the watch and is raised. Nothing here reconnects or
remembers: that is the informer's work.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from karpenter.api.errors import InvalidObject
from karpenter.kube.errors import Status, Unreadable, refusal_of
from karpenter.kube.target import Identity, Target, identify
from karpenter.kube.transport import Request

T = TypeVar("T")


class Change(msgspec.Struct, Generic[T], frozen=True):
    """Something happened to an object; this is how it is now, or was last."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    which: Identity
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """Nothing happened up to this resourceVersion that was not told."""

    version: str


class Broken(msgspec.Struct, frozen=True):
    """Something happened to an object that cannot be read."""

    which: Identity
    error: InvalidObject


WatchEvent: TypeAlias = Change[T] | Bookmark | Broken


class _Frame(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_FRAMES = msgspec.json.Decoder(_Frame)


async def read_events(
    target: Target[T], request: Request, lines: AsyncGenerator[bytes, None]
) -> AsyncIterator[WatchEvent[T]]:
    """Read each line as an event, until the server ends the watch.

    Raises:
        Refused: the server ended the watch with an error; Gone if `since` is too old.
        Unreadable: a line is not a watch event.
    """
    async for line in lines:
        if not line:
            continue
        try:
            frame = _FRAMES.decode(line)
            if frame.type == "ERROR":
                raise refusal_of(request, msgspec.json.decode(frame.object, type=Status))
            yield _event(target, frame)
        except msgspec.DecodeError as error:
            raise Unreadable(str(error), request=request, body=line) from error


def _event(target: Target[T], frame: _Frame) -> WatchEvent[T]:
    assert frame.type != "ERROR"
    if frame.type == "BOOKMARK":
        return Bookmark(identify(frame.object).version)
    try:
        found = target.read(bytes(frame.object))
    except InvalidObject as error:
        return Broken(identify(frame.object), error)
    return Change(frame.type, target.identify(found), found)
