"""
The memory that nodes really have.

What the hypervisor and the kernel take is estimated before a node of a type has been seen. Once one has, its
figure is used, for as long as machines start from the same images. It is never raised, since a node that is
smaller than expected is what hurts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.cache import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_FOR: Final = 60 * 24 * 3600.0


class DiscoveredCapacity:
    """Remembers the memory of nodes, by instance type and images."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._memory: TTLCache[tuple[str, tuple[str, ...]], int] = TTLCache(
            seconds=_KEPT_FOR, monotonic=monotonic
        )
        self.version = 0
        """Grows whenever a figure changes."""

    def learn(self, instance_type: str, images: tuple[str, ...], memory: int) -> None:
        """Note the memory of a node in bytes, unless a smaller figure is known."""
        known = self._memory.peek((instance_type, images))
        if known is not None and known < memory:
            return
        self._memory.put((instance_type, images), memory)
        self.version += int(known != memory)

    def memory(self, instance_type: str, images: tuple[str, ...]) -> int | None:
        """Return the memory that nodes of a type have, in bytes; None when none has been seen."""
        return self._memory.peek((instance_type, images))
