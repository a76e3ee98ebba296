"""Paths and modules that the pages name are there."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOPS = (
    "benchmarks",
    "charts",
    "controlplane",
    "deploy",
    "docs",
    "examples",
    "packages",
    "requirements",
    "tests",
    "tools",
)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"`([^`\s]+)`")
PATH = re.compile(rf"(?:{'|'.join(TOPS)})/[\w./-]+|(?:[\w-]+/)*[\w-]+\.py")
MODULE = re.compile(r"(?:karpenter|karpenter_local|tests|tools|benchmarks)(?:\.[A-Za-z_]\w*)+")
FILES: Final = ("tf", "yaml", "json", "md")
READERS_OWN: Final = {"docs/guides/cdk.md": {"app.py"}}
"""Files that a page lets its readers write."""


def pages() -> Iterator[tuple[str, set[str]]]:
    """Yield each page with the words in backticks outside its blocks."""
    for top in (".", "docs", "packages/karpenter", "packages/karpenter-local", "deploy", "examples"):
        for path in sorted((ROOT / top).glob("*.md") if top == "." else (ROOT / top).rglob("*.md")):
            if path.name != "CHANGELOG.md":
                yield str(path.relative_to(ROOT)), set(WORD.findall(FENCE.sub("", path.read_text("utf-8"))))


def test_paths_of_the_pages_are_there() -> None:
    """A file that a page names is in the tree; of a module, the end of its path is enough."""
    sources = ("packages", "tests", "tools", "benchmarks", "controlplane", "examples")
    modules = {f"/{path.relative_to(ROOT)}" for top in sources for path in (ROOT / top).rglob("*.py")}
    lost = [
        f"{page}: {word}"
        for page, words in pages()
        for word in sorted(words - READERS_OWN.get(page, set()))
        if PATH.fullmatch(word)
        and not (ROOT / word).exists()
        and not any(path.endswith(f"/{word}") for path in modules)
    ]

    assert lost == []


def test_modules_of_the_pages_are_there() -> None:
    """A dotted name is a module, something that a module defines, or a group of entry points."""
    groups = {
        group
        for name in ("karpenter", "karpenter-local")
        for group in tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text("utf-8"))[
            "project"
        ].get("entry-points", {})
    } | {"karpenter.providers"}
    lost = [
        f"{page}: {word}"
        for page, words in pages()
        for word in sorted(words - groups)
        if MODULE.fullmatch(word) and word.rpartition(".")[2] not in FILES and not _is_there(word)
    ]

    assert lost == []


def _is_there(name: str) -> bool:
    """Look whether a module, or a name in one, is there; nothing is executed but packages on the way."""
    module, _, attribute = name.rpartition(".")
    if not module:
        return False
    try:
        if find_spec(name):
            return True
        spec = find_spec(module)
    except ModuleNotFoundError:
        return _is_there(module)
    if spec is None or spec.origin is None:
        return False
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    named = {getattr(node, "name", getattr(node, "id", "")) for node in ast.walk(tree)}
    return attribute in named
