"""A class name means one thing, sentences name their subject, and modules are named as those of upstream."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (ROOT / "packages/karpenter/src", ROOT / "packages/karpenter-local/src")
VAGUE: Final = re.compile(r"\b(?:who|no|some|every|any)(?:ever|body)\b", re.IGNORECASE)
SHARE: Final = 0.75


def modules() -> dict[str, Path]:
    """Return every module of both distributions by its dotted name."""
    found = {}
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def classes(path: Path) -> Iterator[str]:
    """Yield the public classes of a module."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def lines(name: str) -> set[str]:
    """Return the lines of a list beside this test."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}


def test_no_vague_subjects() -> None:
    """A sentence names its subject: "the operator", "the caller", "no pod"."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in ("packages", "docs", "charts", "examples")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md", ".yaml", ".tpl"}
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if VAGUE.search(line)
    ]

    assert not found, "\n".join(found)


def test_a_class_name_means_one_thing() -> None:
    """No two public classes of the tree have the same name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for name, path in modules().items():
        for each in classes(path):
            homes[each].append(name)
    twice = {name: found for name, found in homes.items() if len(found) > 1}

    assert not twice


def test_upstreams_files_have_a_module_of_their_name() -> None:
    """Three quarters of the file names of Karpenter's two repositories are names of modules here."""
    ours = {part.replace("_", "") for name in modules() for part in name.split(".")[-2:]}
    for repository in ("core", "aws"):
        theirs = lines(f"upstream_files_{repository}.txt")
        share = len(theirs & ours) / len(theirs)

        assert share >= SHARE, f"{repository}: {share:.0%}; without one: {sorted(theirs - ours)}"
