"""The tree keeps its shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.shape import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[2]
SOURCES = ("packages", "benchmarks", "controlplane", "tools")
FOLDERS = (*SOURCES, "tests", "docs", "charts", "deploy", "examples", "requirements", ".ci", ".github")
TEXTS = {
    "",
    ".cfg",
    ".html",
    ".json",
    ".md",
    ".py",
    ".rc",
    ".sh",
    ".tf",
    ".toml",
    ".tpl",
    ".txt",
    ".yaml",
    ".yml",
}


def files(folders: Iterable[str], pattern: str = "*.py") -> list[Path]:
    """Return the files of the project below these folders, as paths from its root."""
    return [
        path.relative_to(ROOT)
        for folder in folders
        for path in sorted((ROOT / folder).rglob(pattern))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def texts() -> list[Path]:
    """Return every text file of the project."""
    top = [path.relative_to(ROOT) for path in ROOT.iterdir() if path.is_file() and path.name[0] != "."]
    return [path for path in top + files(FOLDERS, "*") if path.suffix in TEXTS]


CASES: list[tuple[Callable[[Path], list[str]], list[Path]]] = [
    (rules.file_length, files(SOURCES)),
    (rules.function_lengths, files((*SOURCES, "tests"))),
    (rules.telling_names, files((*SOURCES, "tests"))),
    (rules.module_docstring, files(SOURCES)),
    (rules.test_docstrings, files(("tests",), "test_*.py")),
    (rules.no_machine, texts()),
]


@pytest.mark.parametrize(("rule", "paths"), CASES, ids=[rule.__name__ for rule, _ in CASES])
def test_tree(rule: Callable[[Path], list[str]], paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file keeps every rule of shape that is for it."""
    monkeypatch.chdir(ROOT)
    problems = [problem for path in paths for problem in rule(path)]

    assert paths
    assert not problems, "\n".join(problems)
