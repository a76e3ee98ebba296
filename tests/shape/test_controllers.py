"""What wakes controllers is what the internals pages say, of ours and of Karpenter's."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import karpenter.cloud.aws
import karpenter.controllers

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/internals/controllers.md"
UPSTREAM: Final = Path(__file__).with_name("upstream_watches.txt")


def test_the_page_names_what_wakes_our_controllers() -> None:
    """Every controller is on the page, with the kinds of objects whose events wake it."""
    both, _, ours = tables()

    assert {row[0]: kinds(row[1]) for row in (*both, *ours)} == dict(our_controllers())


def test_the_page_names_what_wakes_karpenters_controllers() -> None:
    """Every controller of Karpenter is on the page, with what its Register function watches."""
    both, theirs, _ = tables()
    upstream = {
        name: kinds(", ".join(watched.split()))
        for name, _, watched in (
            line.partition(": ") for line in UPSTREAM.read_text("utf-8").splitlines() if line[0] != "#"
        )
    }
    rows = [(row[2].split(", "), kinds(row[3])) for row in both]
    rows += [([row[0]], kinds(row[1])) for row in theirs]

    assert {name for names, _ in rows for name in names} == set(upstream)
    for names, woken in rows:
        watched = set[str]().union(*(upstream[name] for name in names))
        assert woken == (watched if len(names) == 1 else watched - {"periodic"}), names


def test_a_controller_that_waits_for_less_says_why() -> None:
    """Where Karpenter waits for a kind that ours does not wait for, the page says why."""
    both, _, _ = tables()
    silent = [row[0] for row in both if kinds(row[3]) - kinds(row[1]) and not row[4]]

    assert not silent


def tables() -> tuple[list[list[str]], ...]:
    """Return the rows of the three tables of the page: of both, of Karpenter only, of ours only."""
    found: list[list[list[str]]] = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        found.append(rows[2:])
    return tuple(found)


def kinds(cell: str) -> set[str]:
    return set(cell.split(", "))


def our_controllers() -> Iterator[tuple[str, set[str]]]:
    """Yield the name of every controller of the operator and of AWS, and what wakes it."""
    for package in (karpenter.controllers, karpenter.cloud.aws):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for item in vars(importlib.import_module(module.name)).values():
                if isinstance(item, type) and item.__module__ == module.name and is_controller(item):
                    yield item.name, woken_by(item)  # type: ignore[attr-defined]


def is_controller(item: Any) -> bool:
    return isinstance(getattr(item, "name", None), str) and any(
        hasattr(item, way) for way in ("reconcile", "look", "hear", "run")
    )


def woken_by(controller: Any) -> set[str]:
    if hasattr(controller, "kinds"):
        return {each.__name__ for each in controller.kinds}
    return {"requests"} if hasattr(controller, "reconcile") else {"periodic"}
