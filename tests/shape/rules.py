"""
The shape that the tree keeps, as rules that each answer with sentences.

A rule looks at one file and returns what is wrong with it, one helpful sentence per
problem; an empty list is a pass. The limits are far past what a good file looks like: a
file of 700 lines or a function of 60 is already a sign that a noun is missing.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_FILE: Final = 750
LONGEST_FUNCTION: Final = 80
VAGUE_NAMES: Final = frozenset({"utils", "helpers", "common", "manager"})

_MACHINE_PATH: Final = re.compile(r"(?<![\w.}~-])/(?:work|root|tmp)/[\w.]")
_INDEX_OPTION: Final = re.compile(
    r"--(?:(?:extra-)?index-url|find-links)\b|\b(?:PIP|UV)_(?:DEFAULT_)?INDEX(?:_URL)?="
)
_REGISTRY: Final = re.compile(
    r"https?://(?:[^\s/\"'@]*@)?(?P<host>[\w.-]*(?:artifactory|nexus|pypi|registry|proxy|mirror)[\w.-]*)"
)
_PUBLIC_HOSTS: Final = frozenset({"pypi.org", "registry.k8s.io", "registry.npmjs.org"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def file_length(path: Path) -> list[str]:
    """Refuse a file that is too long to hold one noun."""
    lines = len(path.read_text("utf-8").splitlines())
    if lines <= LONGEST_FILE:
        return []
    return [f"{path} has {lines} lines, more than {LONGEST_FILE}: which noun in it wants a file of its own?"]


def function_lengths(path: Path) -> list[str]:
    """Refuse functions that are too long to be read at once."""
    return [
        f"{path}:{function.lineno} {function.name} has {lines} lines, more than {LONGEST_FUNCTION}:"
        " which step of it wants a name?"
        for function in functions(path)
        if (lines := _length(function)) > LONGEST_FUNCTION
    ]


def telling_names(path: Path) -> list[str]:
    """Refuse names that say nothing about what is inside."""
    return [
        f"{path} is named {name!r}, which says nothing: name it after the noun it holds"
        for name in (path.stem, path.parent.name)
        if name.removeprefix("test_") in VAGUE_NAMES
    ]


def module_docstring(path: Path) -> list[str]:
    """Refuse a module that does not say what it decides."""
    if ast.get_docstring(_parse(path)):
        return []
    return [f"{path} has no docstring: say what the module decides and what it refuses to know"]


def test_docstrings(path: Path) -> list[str]:
    """Refuse tests that do not state the fact they test."""
    return [
        f"{path}:{function.lineno} {function.name} has no docstring: state the fact that it tests"
        for function in functions(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]


def no_machine(path: Path) -> list[str]:
    """Refuse what is true only on the machine of whoever wrote it."""
    return [
        f"{path}:{number} {problem}"
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1)
        for problem in _machine_traces(line)
    ]


def _machine_traces(line: str) -> Iterator[str]:
    if found := _MACHINE_PATH.search(line):
        yield f"names the machine path {found[0]!r}: use a path of the project, or a temporary directory"
    if found := _INDEX_OPTION.search(line):
        yield f"names a package index with {found[0]!r}: the index is the business of whoever installs"
    for found in _REGISTRY.finditer(line):
        if found["host"] not in _PUBLIC_HOSTS:
            yield f"names the registry {found['host']!r}: only public ones may be named"


def functions(path: Path) -> list[Function]:
    """Return every function of a file, however deep."""
    return [
        node for node in ast.walk(_parse(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def _length(function: Function) -> int:
    """Count lines from ``def``; a table of cases in a decorator is data."""
    return (function.end_lineno or function.lineno) - function.lineno + 1
