"""
Where a pod would run, as far as devices care: a node that is there, or a claim of the run.

Taking a device may narrow a place: a device that only one zone can reach pins a new machine to
that zone. A node that is there has all its labels already, so it either suits or does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from karpenter.api.labels import HOSTNAME
from karpenter.core.model.requirements import Requirements
from karpenter.core.scheduling.devices.device import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.core.scheduling.bits import Bits
    from karpenter.core.scheduling.problem import Existing
    from karpenter.core.scheduling.states import State, States


class Place(Protocol):
    """Somewhere that can be narrowed."""

    def narrow(self, wanted: Requirements) -> Place | None:
        """Return the place once it also satisfies `wanted`; None when it never can."""


class NodePlace:
    """A node that is there."""

    def __init__(self, node: Existing) -> None:
        self._requirements = Requirements.from_labels({**node.labels, NODE_NAME: node.name})

    def narrow(self, wanted: Requirements) -> NodePlace | None:
        """Return the same node if it is like that."""
        return self if self._requirements.accepts(wanted) else None


class ClaimPlace:
    """A claim of the run, which must be able to stay one of some kinds of machine."""

    __slots__ = ("_must", "_states", "state")

    def __init__(self, states: States, state: State, must: Sequence[Bits]) -> None:
        """Some offering of each set in `must` has to stay possible."""
        self._states = states
        self._must = must
        self.state = state

    def narrow(self, wanted: Requirements) -> ClaimPlace | None:
        """Return the claim narrowed; a machine that is yet to come has no name to be known by."""
        for key in (NODE_NAME, HOSTNAME):
            if key in wanted:
                if not wanted[key].complement:
                    return None
                wanted = wanted.without(key)
        state = self._states.step(self.state, wanted) if len(wanted) else self.state
        if state is None or not all(state.bits & each for each in self._must):
            return None
        return ClaimPlace(self._states, state, self._must)
