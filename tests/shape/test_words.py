"""
The words of the tree: Karpenter's, Kubernetes', AWS' or the glossary's.

The vocabulary is every word of an exported name in Karpenter 1.14.1 (``upstream_words.txt``); the glossary is
the table in docs/internals/architecture.md. A new noun costs a line there.
"""

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
CAMEL: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SMALL: Final = 80
SHARE: Final = 0.75

REASONS: Final = {
    "karpenter.cloud.offerings": "offered to providers of others, as the guide says",
    "karpenter.cloud.aws.controllers": "upstream's controllers.go, which lists them",
    "karpenter.core.lifecycle.do_not_disrupt": "the annotation's own rules, which users look for by its name",
}
"""Modules under 80 lines with one importer that stay apart, and why."""


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


def importers(names: dict[str, Path]) -> dict[str, set[str]]:
    """Return which modules import each module."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    found[inner if inner in names else node.module].add(name)
    return found


def lines(name: str) -> set[str]:
    """Return the lines of a list beside this test."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}


def glossary() -> set[str]:
    """Return the words that the architecture page explains."""
    text = (ROOT / "docs/internals/architecture.md").read_text("utf-8").partition("## Glossary")[2]
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {word.lower() for row in rows for word in CAMEL.findall(row)}


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


def test_nouns_are_upstreams_or_explained() -> None:
    """Every word of a public class of the core and of controllers is upstream's, or is in the glossary."""
    files = lines("upstream_files_core.txt") | lines("upstream_files_aws.txt")
    known = lines("upstream_words.txt") | files | glossary()
    unknown = {
        f"{module}.{name}": words
        for module, path in modules().items()
        if module.startswith(("karpenter.core", "karpenter.controllers"))
        for name in classes(path)
        if name.lower() not in files
        and (words := [word for word in map(str.lower, CAMEL.findall(name)) if not _is_known(word, known)])
    }

    assert not unknown


def _is_known(word: str, known: set[str]) -> bool:
    return bool({word, word.removesuffix("s"), word.removesuffix("es"), f"{word}s", f"{word}ed"} & known)


def test_upstreams_files_have_a_module_of_their_name() -> None:
    """Three quarters of the file names of Karpenter's two repositories are names of modules here."""
    ours = {part.replace("_", "") for name in modules() for part in name.split(".")[-2:]}
    for repository in ("core", "aws"):
        theirs = lines(f"upstream_files_{repository}.txt")
        share = len(theirs & ours) / len(theirs)

        assert share >= SHARE, f"{repository}: {share:.0%}; without one: {sorted(theirs - ours)}"


def test_small_modules_have_a_reason() -> None:
    """A module under 80 lines with one importer belongs to that importer, unless upstream has its file."""
    names = modules()
    users = importers(names)
    theirs = lines("upstream_files_core.txt") | lines("upstream_files_aws.txt")
    alone = [
        name
        for name, path in names.items()
        if path.name not in {"__init__.py", "__main__.py"}
        and name.startswith("karpenter.")
        and not name.startswith(("karpenter.cli", "karpenter.controllers"))
        and len(path.read_text("utf-8").splitlines()) < SMALL
        and len(users[name]) == 1
        and name.rpartition(".")[2].replace("_", "") not in theirs
        and name not in REASONS
    ]

    assert not alone
