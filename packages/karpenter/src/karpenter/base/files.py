"""Files and folders that only their owner may read; they hold objects of a cluster, keys or tokens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def private(path: str, flags: int) -> int:
    """Open a file as the ``opener`` of :func:`open`; one that is created has the mode 0600."""
    return os.open(path, flags, 0o600)


def make_private_folder(path: Path) -> None:
    """Create a folder with the mode 0700, with the folders above it; one that exists stays as it is."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
