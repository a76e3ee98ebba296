"""
Puts a bug into a copy of the source, for one process.

A bug names no file: its text is looked for in the whole source and must be there exactly once, so that it
survives when modules are moved and merged. The copy is made of links to the tree; only the file with the bug,
and the folders on the way to it, are new.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (ROOT / "packages/karpenter/src", ROOT / "packages/karpenter-local/src")
PRODUCT: Final = SOURCES[0]
_CACHE: Final = "__pycache__"


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the source, and what must find it."""

    name: str
    find: str
    """The text that is replaced; it is in the source exactly once."""

    put: str
    rules: tuple[str, ...]
    """The rules of which one must be violated."""

    provider: str = "kwok"
    runs: int = 20
    """How many runs may be needed at most."""


class PlantError(Exception):
    """A bug does not fit the source any longer."""


@cache
def _texts() -> Mapping[Path, str]:
    return {path: path.read_text("utf-8") for path in sorted(PRODUCT.rglob("*.py"))}


def place_of(bug: PlantedBug) -> Path:
    """
    Return the file that a bug belongs to.

    Raises:
        PlantError: its text is nowhere, or in several places.
    """
    found = [(path, text.count(bug.find)) for path, text in _texts().items() if bug.find in text]
    if not found:
        raise PlantError(f"bug {bug.name!r}: its text is not in the source any longer: {bug.find!r}")
    if len(found) > 1 or found[0][1] > 1:
        places = ", ".join(f"{path.relative_to(ROOT)} ({count} times)" for path, count in found)
        raise PlantError(f"bug {bug.name!r}: its text is in several places: {places}")
    return found[0][0]


def with_bug(bug: PlantedBug) -> str:
    """Return the text of the file that a bug belongs to, with the bug."""
    return _texts()[place_of(bug)].replace(bug.find, bug.put)


def plant(bug: PlantedBug, directory: Path) -> Path:
    """Write a copy of the product with a bug into a directory, and return the path to import it from."""
    return copy_with(place_of(bug), with_bug(bug), directory)


def copy_with(place: Path, text: str, directory: Path) -> Path:
    """Write a copy of the product in which one file has another text, and return where to import it from."""
    parts = place.relative_to(PRODUCT).parts
    here, there = PRODUCT, directory
    for part in parts[:-1]:
        here, there = here / part, there / part
        there.mkdir()
        for entry in sorted(here.iterdir()):
            if entry.name != _CACHE and entry.name not in parts:
                (there / entry.name).symlink_to(entry)
    (there / parts[-1]).write_text(text, "utf-8")
    return directory


def environment(first: Path | None = None) -> dict[str, str]:
    """Return the environment of a process that imports from a path before everything else."""
    paths = [*([first] if first is not None else []), *SOURCES, ROOT]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
