"""The rules of shape catch what they are there to catch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.shape import rules

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, text: str, name: str = "noun.py") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(("lines", "problems"), [(750, 0), (751, 1)], ids=["at the limit", "past the limit"])
def test_long_files(tmp_path: Path, lines: int, problems: int) -> None:
    """A file may have 750 lines and no more."""
    assert len(rules.file_length(write(tmp_path, "x = 1\n" * lines))) == problems


@pytest.mark.parametrize(("lines", "problems"), [(79, 0), (80, 1)], ids=["at the limit", "past the limit"])
@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_long_functions(tmp_path: Path, keyword: str, lines: int, problems: int) -> None:
    """A function, plain or not, may have 80 lines and no more; its decorators do not count."""
    text = "class A:\n    @table(\n\n\n\n    )\n" + f"    {keyword} f(self):\n" + "        x = 1\n" * lines

    assert len(rules.function_lengths(write(tmp_path, text))) == problems


@pytest.mark.parametrize(
    ("name", "problems"),
    [("utils.py", 1), ("test_helpers.py", 1), ("quantity.py", 0), ("managers.py", 0)],
    ids=["utils", "tests of helpers", "a noun", "a word that only looks alike"],
)
def test_vague_names(tmp_path: Path, name: str, problems: int) -> None:
    """A module is named after what it holds."""
    assert len(rules.telling_names(write(tmp_path, "", name))) == problems


def test_vague_packages(tmp_path: Path) -> None:
    """So is a package."""
    (tmp_path / "common").mkdir()

    assert len(rules.telling_names(write(tmp_path / "common", "", "noun.py"))) == 1


@pytest.mark.parametrize(
    ("text", "problems"), [("x = 1\n", 1), ('"""Says it."""\n', 0)], ids=["silent", "telling"]
)
def test_module_docstrings(tmp_path: Path, text: str, problems: int) -> None:
    """A module says what it decides."""
    assert len(rules.module_docstring(write(tmp_path, text))) == problems


def test_test_docstrings(tmp_path: Path) -> None:
    """A test states its fact; what is no test need not."""
    text = 'def test_a(): ...\nasync def test_b():\n    "A fact."\ndef helper(): ...\n'
    problems = rules.test_docstrings(write(tmp_path, text))

    assert [problem.split(" ")[1] for problem in problems] == ["test_a"]


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        pytest.param("open('/" + "tmp/x')", 1, id="a temporary file of this machine"),
        pytest.param("cd /" + "work/main", 1, id="a working directory"),
        pytest.param("/" + "root/.cache", 1, id="a home directory"),
        pytest.param("the path /var/lib/kubelet", 0, id="a path of every machine"),
        pytest.param("see docs/" + "work/here.md", 0, id="a path of the project"),
        pytest.param("pip install --index" + "-url https://example.com", 1, id="a package index"),
        pytest.param("https:" + "//pypi.example.com/simple", 1, id="a private index"),
        pytest.param("https:" + "//user:word@my-registry.local/v2", 1, id="a private registry"),
        pytest.param("https://pypi.org/project/msgspec and registry.k8s.io/pause", 0, id="public ones"),
    ],
)
def test_traces_of_a_machine(tmp_path: Path, line: str, problems: int) -> None:
    """Nothing in the tree is true on one machine only."""
    assert len(rules.no_machine(write(tmp_path, f"fine\n{line}\n", "any.md"))) == problems
