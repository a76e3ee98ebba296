"""
The memory that nodes of an instance type have reported.

What the hypervisor and the kernel take of the memory is estimated until a node of the type has registered
(VM_MEMORY_OVERHEAD_PERCENT). From then on its figure is used, for as long as nodes start from the same AMIs.
A figure is never raised, since a node that is smaller than expected cannot hold its pods.

https://karpenter.sh/docs/reference/settings/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.cache import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

# The memory that a type shows to Linux depends on the hypervisor and the kernel, and changes seldom; two
# months outlive a release of AMIs.
# https://karpenter.sh/docs/reference/settings/
_KEPT_SECONDS: Final = 60 * 24 * 3600.0


class DiscoveredCapacity:
    """Memory of nodes, by instance type and AMIs."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._memory: TTLCache[tuple[str, tuple[str, ...]], int] = TTLCache(
            seconds=_KEPT_SECONDS, monotonic=monotonic
        )
        self.version = 0
        """Grows whenever a figure changes."""

    def learn(self, instance_type: str, images: tuple[str, ...], memory: int) -> None:
        """Cache the memory of a node in bytes, unless a smaller figure is known."""
        known = self._memory.peek((instance_type, images))
        if known is not None and known < memory:
            return
        self._memory.put((instance_type, images), memory)
        self.version += int(known != memory)

    def memory(self, instance_type: str, images: tuple[str, ...]) -> int | None:
        """Return the memory of nodes of a type in bytes; None when no node of it has registered."""
        return self._memory.peek((instance_type, images))
