"""
What a provider has to do for a cluster beyond keeping its promises, as work that the operator runs for it.

A cloud has duties of its own: to say in a node class what it selects, to tag, to take away what nobody needs
any longer. A provider that :class:`HasChores` hands them to the operator, which runs them while it leads.

A chore changes nothing in Kubernetes by itself: it returns a :class:`~karpenter.core.effects.Step`, effects
and when to look again, which is carried out as every other decision is. What it does in its cloud is its own
business. An error of a provider means that it is tried again, later each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import msgspec

from karpenter.core.state.view import ClusterView
from karpenter.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.meta import Resource
    from karpenter.core.effects import Step
    from karpenter.core.state.store import Event
    from karpenter.core.state.view import NodeClass
    from karpenter.telemetry.metrics import Declared
    from karpenter.telemetry.metrics.instruments import Instrument


class Office(msgspec.Struct, frozen=True, kw_only=True):
    """What chores find when they begin."""

    view: Callable[[], ClusterView]
    """What is known of the cluster at the moment of asking."""

    metrics: Metrics
    """Instruments, those that the provider has declared among them."""


@runtime_checkable
class Chore(Protocol):
    """Something that is done once in a while."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    async def look(self) -> Step:
        """Go over everything once; return what is due, and after how many seconds to look again."""
        ...


class Care(Protocol):
    """Something that is done for one object at a time, when it changes."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def workers(self) -> int:
        """How many objects are looked at at once."""
        ...

    def wakes(self, event: Event, before: Resource | NodeClass | None) -> Iterable[str]:
        """Return the keys of the objects that an event is about."""
        ...

    async def reconcile(self, key: str) -> Step:
        """Look at one object; return what is due, and after how many seconds to look again, if at all."""
        ...


Duty: TypeAlias = Chore | Care


@runtime_checkable
class HasChores(Protocol):
    """A provider with duties of its own."""

    @property
    def metrics(self) -> tuple[Declared[Instrument], ...]:
        """The metrics that only this provider has."""
        ...

    def chores(self, office: Office) -> tuple[Duty, ...]:
        """Return what has to be done while the operator leads; asked once, before anything is done."""
        ...
