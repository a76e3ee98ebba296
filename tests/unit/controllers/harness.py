"""What controllers work with: a state, a clock set by hand, and someone who notes what is to be done."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.controllers.perform import Performer
from karpenter.core.state.cluster import ClusterState, NodeClass, ObjectDeleted, ObjectUpdated
from karpenter.kube.rest import EVERYTHING, Selection
from karpenter.kube.targets import Page
from tests.unit.core.lifecycle.objects import BORN
from tests.unit.telemetry.clocks import NOON, HandClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from karpenter.api.meta import InvalidObject
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import CreateClaim, Effect
    from karpenter.kube.errors import KubeError

OURS = [("karpenter.kwok.sh", "KWOKNodeClass")]
CLASS = NodeClass(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default", ready=True, generation=1)


class Noted(Performer):
    """Notes what is to be carried out; claims that are created are there at once."""

    def __init__(self, store: ClusterState) -> None:
        self._state = store
        self.effects: list[Effect] = []
        self.error: Exception | None = None
        self.turns = 0
        self.meanwhile: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Count the turns, and let happen what does while one is waited for."""
        self.turns += 1
        self.meanwhile()
        yield

    async def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if self.error is not None:
                raise self.error
            self.effects.append(effect)

    async def create_claim(self, effect: CreateClaim) -> NodeClaim:
        """Note a claim, or fail; it gets a name of its own."""
        await self.perform([effect])
        meta = effect.claim.metadata
        named = msgspec.structs.replace(meta, name=f"{meta.generate_name}{len(self.effects)}")
        made = msgspec.structs.replace(effect.claim, metadata=named)
        self._state.apply(ObjectUpdated(made))
        return made

    @property
    def kinds(self) -> list[str]:
        """What sort of effects were noted, in order; and all are forgotten."""
        found = [type(each).__name__ for each in self.effects]
        self.effects.clear()
        return found


class Reader:
    """An API server with objects that the state may lack; what was read from it is noted."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects
        self.undecodable: tuple[InvalidObject, ...] = ()
        self.error: KubeError | None = None
        self.reads: list[str] = []

    async def list(self, kind: Any, selection: Selection = EVERYTHING) -> Page[Any]:
        """Return all objects of a kind; those that a selection of fields names."""
        self._read(f"{kind.kind} {selection.fields}".strip())
        found = tuple(each for each in self.objects if isinstance(each, kind))
        return Page(items=found, version="1", broken=self.undecodable)

    def _read(self, what: str) -> None:
        self.reads.append(what)
        if self.error is not None:
            raise self.error


class Shell:
    """A controller's surroundings."""

    def __init__(self, *objects: Any) -> None:
        self.clock = HandClock()
        self.clock.seconds = (BORN - NOON).total_seconds() + 120  # two minutes after everything was born
        self.store = ClusterState(serves=OURS)
        self.performer = Noted(self.store)
        self.reader = Reader()
        self.put(*objects)

    def put(self, *objects: Any) -> None:
        for each in objects:
            self.store.apply(ObjectUpdated(each))

    def drop(self, *objects: Any) -> None:
        for each in objects:
            self.store.apply(ObjectDeleted(each))


def wakes(controller: Any, item: Any, before: Any = None, *, gone: bool = False) -> list[str]:
    """Return the keys that an event brings to a controller's notice."""
    return list(controller.wakes(ObjectDeleted(item) if gone else ObjectUpdated(item), before))
