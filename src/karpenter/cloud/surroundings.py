"""
What a provider finds around it: a clock, chance, the cluster's name, settings, and a door to Kubernetes.

The door is narrow on purpose. A provider reads node classes, and a cloud that makes its own nodes, as kwok
does, creates and deletes those. The operator wires it to its client; tests wire it to a dictionary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import msgspec

from karpenter.api.meta import Resource
from karpenter.base.clock import Clock
from karpenter.cloud.interface import CloudProvider

if TYPE_CHECKING:
    from karpenter.cloud.errors import CloudUnreachable  # noqa: F401  named in docstrings

R = TypeVar("R", bound=Resource)


class ClusterObjects(Protocol):
    """
    The objects of the cluster that a provider may look at or make.

    Every method may raise :class:`CloudUnreachable` when the API server does not answer; what it refuses for
    good is an error of the provider and propagates.
    """

    async def get(self, kind: type[R], name: str, *, namespace: str = "") -> R | None:
        """Return an object of the whole cluster, or of a namespace; None when there is none."""
        ...

    async def list(self, kind: type[R]) -> tuple[R, ...]:
        """Return all objects of a kind."""
        ...

    async def create(self, made: Resource) -> None:
        """Create an object. One of that name that is there already counts as created."""
        ...

    async def delete(self, kind: type[Resource], name: str) -> None:
        """Ask for the deletion of an object. One that is not there counts as deleted."""
        ...


class Knob(msgspec.Struct, frozen=True):
    """A setting that only one provider has, as commands and documentation show it."""

    name: str
    """The flag, without dashes; in capitals and with underscores, it is the environment variable."""

    default: str
    help: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        """The name in code."""
        return self.name.replace("-", "_")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a provider is given."""

    clock: Clock
    chance: Random
    """Seeded by whoever wants the same history twice."""

    cluster: str
    """Whose machines these are; clouds tag them with it."""

    objects: ClusterObjects
    settings: Mapping[str, str] = {}
    """Settings of the provider's own, by environment variable, such as ``INSTANCE_TYPES_FILE_PATH``."""

    version: Callable[[], Awaitable[str]] | None = None
    """Asks the API server for its version, such as ``1.33``; None where nobody can."""


Connect: TypeAlias = Callable[[Surroundings], AbstractAsyncContextManager[CloudProvider]]
"""
How a provider begins: entered, it is ready to be asked; left, it has stopped whatever it runs.

This is what an entry point of the group ``karpenter.providers`` names.
"""
