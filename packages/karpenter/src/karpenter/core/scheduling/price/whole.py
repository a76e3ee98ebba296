"""
Whole pods on whole machines: the problem, patterns of pods that share a machine, and a solution.

What holds for every plan of its pods is in a `PatternProblem`: requests, which machines they may use, how
many may share one, how a class with a topology spread is divided over domains, limits of NodePools. Room on
existing nodes is a machine that costs nothing and is there once. It knows nothing of labels or topology.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from karpenter.core.scheduling.price.bound import Market
from karpenter.core.scheduling.price.divided import DomainSplit

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE: Final = 1e-6
"""What an integer program can tell of costs."""

CHEAPER: Final = 1 - TOLERANCE
"""A plan that costs less than this share of another one is cheaper by more than rounding errors."""


class Bin(msgspec.Struct, frozen=True):
    """A machine that can be bought any number of times, or the room of a node that is there once."""

    room: tuple[int, ...]
    price: float
    items: tuple[int, ...]
    """The items that may use it."""

    once: bool = False


class PatternProblem(msgspec.Struct, frozen=True):
    """What whole machines have to serve."""

    count: tuple[int, ...]
    """Pods per item; of an item of a split the most that it can have."""

    want: tuple[tuple[int, ...], ...]
    cap: tuple[int, ...]
    """How many pods of an item may share a machine."""

    bins: tuple[Bin, ...]
    splits: tuple[DomainSplit, ...] = ()
    supply: Market | None = None
    """The market behind the machines that can be bought."""

    where: tuple[tuple[tuple[int, ...], str, str], ...] = ()
    """The classes of each item, and the topology key and domain of a part of a split."""

    limits: tuple[tuple[tuple[float, ...], float], ...] = ()
    """What each machine counts against a limit, and the limit."""

    @property
    def counted(self) -> NDArray[np.float64]:
        """What each machine counts against each limit: ``counted[limit, machine]``."""
        weights = np.array([weights for weights, _ in self.limits], np.float64)
        return weights.reshape(len(self.limits), len(self.bins))


class Pattern(msgspec.Struct, frozen=True):
    """Pods that share a machine: how many of each item, and the cheapest machine for them."""

    holds: tuple[int, ...]
    price: float
    bin: int
    once: bool = False


class Solution(msgspec.Struct, frozen=True):
    """Whole pods on whole machines."""

    cost: float
    patterns: tuple[Pattern, ...]
    """The pods of each machine."""

    divided: tuple[tuple[int, ...], ...] = ()
    """Pods in each domain, per split."""
