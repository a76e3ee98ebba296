"""The objects of a cluster in a dictionary: what a provider finds around it in a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from karpenter.api.meta import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

R = TypeVar("R", bound=Resource)


class ObjectsInMemory:
    """A :class:`~karpenter.cloud.cloudprovider.ClusterObjects` that keeps what it is given."""

    def __init__(self, *objects: Resource) -> None:
        self._kept: dict[tuple[str, str], Resource] = {}
        for each in objects:
            self.put(each)

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._kept.values()))

    def put(self, changed: Resource) -> None:
        """Keep an object, in place of one of the same kind and name."""
        self._kept[changed.kind, changed.key] = changed

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object; None when there is none."""
        return cast("R | None", self._kept.get((kind.kind, f"{namespace}/{name}" if namespace else name)))

    async def list(self, kind: type[R]) -> tuple[R, ...]:
        return tuple(cast("R", each) for each in self if each.kind == kind.kind)

    async def create(self, made: Resource) -> None:
        """Keep an object, unless there is one of that name."""
        self._kept.setdefault((made.kind, made.key), made)

    async def delete(self, kind: type[Resource], name: str) -> None:
        self._kept.pop((kind.kind, name), None)
