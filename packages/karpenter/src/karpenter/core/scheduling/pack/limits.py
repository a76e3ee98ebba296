"""
NodePool limits: how much a NodePool may still launch, exactly, while claims are still being filled.

A claim has no size until it is launched, so it counts as its cheapest type that holds its pods within the
limits, or as many of the cheapest types as minValues need. As pods join, that may grow. At the end, what is
left of a limit is divided among the claims, which may become larger types for it. So the largest types that
all claims could become never exceed the limits together, and no pod is refused while there is room.
Upstream subtracts the largest type of each claim instead (https://karpenter.sh/docs/concepts/nodepools/).

As long as the largest type for every claim stays within the limits, nothing is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karpenter.api.labels import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from karpenter.core.scheduling.encode.nodeclaimtemplate import Template


_NO_LIMIT: Final = int(np.iinfo(np.int64).max)


class PoolLimits:
    """What one NodePool may still launch, and what its claims count."""

    def __init__(self, template: Template) -> None:
        limits = template.pool.limits
        types = template.pool.types
        self._names = tuple(name for name in limits if name != NODES)
        self._capacity = np.array(
            [[kind.capacity.get(name, 0) for kind in types] for name in self._names], np.int64
        ).reshape(len(self._names), len(types))
        self._spare = tuple(limits[name] for name in self._names)
        self._sizes: list[tuple[int, ...]] = [tuple(row) for row in self._capacity.T.tolist()]
        reachable = template.table.types_of(template.bits)
        self._largest = tuple(self._capacity[:, reachable].max(axis=1, initial=0).tolist())
        self._enough = self._nodes_that_fit()
        self._nodes_left = limits.get(NODES)
        self._nothing = (0,) * len(self._names)
        self._taken: dict[int, tuple[int, ...]] = {}
        self._claims: list[int] = []
        self.is_exact = False

    @property
    def allows_another(self) -> bool:
        """Whether the limit on the number of nodes leaves one more."""
        return self._nodes_left is None or self._nodes_left > 0

    def left(self) -> dict[str, int]:
        """Return what is left of each limited resource."""
        return dict(zip(self._names, self._spare, strict=True))

    def _nodes_that_fit(self) -> int:
        """Return how many nodes of the largest type fit into what is left."""
        shares = (spare // most for spare, most in zip(self._spare, self._largest, strict=True) if most > 0)
        return min(shares, default=_NO_LIMIT)

    def allow_any(self, machines: int) -> bool:
        """Whether this many claims may become any type without exceeding the limits."""
        return not self.is_exact or self._nodes_that_fit() >= machines

    def may_bind(self) -> bool:
        """Whether one more claim of the largest type might exceed a limit that is not counted exactly yet."""
        return len(self._claims) >= self._enough

    def count_exactly(self, types_of: Callable[[int], list[int]]) -> None:
        """Begin to count exactly; `types_of` gives the types by which each claim opened so far counts."""
        self.is_exact = True
        for claim in self._claims:
            self.take(claim, types_of(claim))

    def opened(self, claim: int) -> None:
        """Record a new claim."""
        self._claims.append(claim)
        # limits.nodes counts nodes whatever their size (https://karpenter.sh/docs/concepts/nodepools/).
        if self._nodes_left is not None:
            self._nodes_left -= 1

    def types_within(self, claim: int | None) -> NDArray[np.bool_]:
        """Return the types that a claim, or a new one, may become within the limits."""
        taken = self._nothing if claim is None else self._taken.get(claim, self._nothing)
        most = np.array(self._spare, np.int64) + np.array(taken, np.int64)
        return np.asarray((self._capacity <= most[:, None]).all(axis=0), bool)

    def take(self, claim: int, kinds: Sequence[int]) -> None:
        """Count a claim with as much as any one of some types needs."""
        wanted = self._nothing
        for kind in kinds:
            wanted = tuple(map(max, wanted, self._sizes[kind]))
        before = self._taken.get(claim, self._nothing)
        if wanted != before:
            placements = zip(self._spare, before, wanted, strict=True)
            self._spare = tuple(spare + old - new for spare, old, new in placements)
            self._taken[claim] = wanted

    def allowed_types(self) -> dict[int, NDArray[np.bool_]]:
        """Return the types that every claim may become when what is left is divided among the claims."""
        spare, found = np.array(self._spare, np.int64), {}
        known: dict[bytes, NDArray[np.bool_]] = {}  # most claims may become the same types
        for position, claim in enumerate(self._claims):
            share = spare // (len(self._claims) - position)
            taken = np.array(self._taken.get(claim, self._nothing), np.int64)
            allowed = np.asarray((self._capacity <= (taken + share)[:, None]).all(axis=0), bool)
            found[claim] = known.setdefault(allowed.tobytes(), allowed)
            largest = self._capacity[:, allowed].max(axis=1, initial=0)
            spare -= np.maximum(largest - taken, 0)
        return found


def pool_limits(templates: Sequence[Template]) -> Mapping[int, PoolLimits]:
    """Return the limits of every NodePool that has some, by template number."""
    return {template.number: PoolLimits(template) for template in templates if template.pool.limits}
