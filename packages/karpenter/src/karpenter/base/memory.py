"""
How often the garbage collector looks for reference cycles.

Nearly everything here is freed when its last reference goes. The collector walks all that a process holds to
find the little that is not, and with tens of thousands of objects that is a tenth of the processor time.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = (20_000, 10, 10)
"""For a process that runs for months: its cycles are found after two million allocations at the latest."""

SHORT = (50_000, 20, 50)
"""For a computation of seconds, which ends before cycles matter."""


@contextmanager
def few_collections(threshold: tuple[int, int, int] = SERVICE) -> Iterator[None]:
    """Collect garbage less often, and leave out of it what is there now: modules, and what they hold."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*threshold)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
