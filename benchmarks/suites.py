"""
Which suites there are, and how one is run.

A suite is a module ``bench_NAME.py`` beside this one with a function ``suite()`` that
returns a :class:`~benchmarks.table.Table`. Each runs in a process of its own, so that no
suite warms the caches or raises the memory of the next.
"""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.measure import resident
from benchmarks.table import Table, size

PREFIX: Final = "bench_"
HERE: Final = Path(__file__).parent
LONG: Final = frozenset({"churn", "memory", "quality"})
"""Suites that take a quarter of an hour or more: they run only when they are asked for by name."""


def discover(folder: Path = HERE) -> list[str]:
    """Return the names of the suites in `folder`."""
    return sorted(path.stem.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*.py"))


def run(name: str) -> Table:
    """Return the table of a suite, with the memory its process took in the end."""
    found: Table = importlib.import_module(f"benchmarks.{PREFIX}{name}").suite()
    return found._replace(notes=(*found.notes, f"the process held at most {size(resident())}"))


def run_apart(name: str) -> Table:
    """Return the table of a suite that was run in a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh) as pool:
        return pool.submit(run, name).result()
