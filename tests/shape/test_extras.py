"""What is imported is declared, and the README's pip line brings what the README prints."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
OUR_OWN = {"karpenter", "karpenter-local"}
NOT_IN_THE_README = {"cdk", "otel", "socks", "testing"}
"""Extras for what the README does not print."""

CDK = {"aws-cdk", "aws-cdk-lib"}
"""Found by its distribution only where it is installed (make cdk)."""


def project(name: str) -> dict[str, Any]:
    return dict(tomllib.loads((PACKAGES / name / "pyproject.toml").read_text("utf-8"))["project"])


def names(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


def declared(name: str, extras: set[str]) -> set[str]:
    """Return what a distribution asks for, with these extras."""
    found = project(name)
    optional = found["optional-dependencies"]
    return names([*found["dependencies"], *(line for extra in extras for line in optional[extra])])


def imported(name: str) -> set[str]:
    """Return the distributions of others that the code of one of ours imports."""
    known = packages_distributions()
    trees = [ast.parse(path.read_text("utf-8")) for path in (PACKAGES / name / "src").rglob("*.py")]
    tops = {top for tree in trees for top in _tops(tree)}
    own = {"karpenter", "karpenter_local", *sys.stdlib_module_names}
    return {canonicalize_name(dist) for top in tops - own for dist in known.get(top, [top])}


def _tops(node: ast.AST) -> Iterator[str]:
    """Yield the top packages that a program imports, those for type checkers left out."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Import(names=aliases):
            yield from (alias.name.partition(".")[0] for alias in aliases)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module)), *_]):
            yield module.partition(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from _tops(child)


def with_what_it_brings(dists: set[str]) -> set[str]:
    """Return distributions and what they need, as far as it is installed here."""
    found, rest = set(dists), set(dists)
    while rest:
        try:
            lines = requires(rest.pop()) or []
        except ModuleNotFoundError:
            continue
        new = names([line for line in lines if "extra ==" not in line]) - found
        found, rest = found | new, rest | new
    return found


def readme_line() -> dict[str, set[str]]:
    """Return the extras of each distribution that the README's pip line installs."""
    text = (ROOT / "README.md").read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("pip install"))
    return {
        match["name"]: {extra for extra in (match["extras"] or "").split(",") if extra}
        for match in re.finditer(r"\./packages/(?P<name>[\w-]+)(?:\[(?P<extras>[\w,]+)\])?", line)
    }


@pytest.mark.parametrize("name", sorted(OUR_OWN))
def test_what_is_imported_is_declared(name: str) -> None:
    """A library that the code imports is a dependency, an extra, or comes with one of them."""
    everything = declared(name, set(project(name)["optional-dependencies"]))
    below = declared("karpenter", set()) if name == "karpenter-local" else set()
    undeclared = imported(name) - with_what_it_brings(everything | below)

    assert undeclared <= CDK, undeclared


def test_the_readme_installs_every_extra_but_those_it_does_not_print() -> None:
    """After the README's pip line nothing that the README prints fails for want of a library."""
    wanted = {name: set(project(name)["optional-dependencies"]) - NOT_IN_THE_README for name in OUR_OWN}

    assert readme_line() == wanted


@pytest.mark.parametrize(
    ("page", "dists"),
    [
        pytest.param("docs/reference/distributions.md", OUR_OWN, id="the page"),
        pytest.param("packages/karpenter/README.md", {"karpenter"}, id="the wheel of production"),
        pytest.param("packages/karpenter-local/README.md", {"karpenter-local"}, id="the wheel for laptops"),
    ],
)
def test_every_extra_is_explained(page: str, dists: set[str]) -> None:
    """The tables of extras have a row for each, and no other."""
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / page).read_text("utf-8"), re.MULTILINE)

    assert sorted(rows) == sorted(extra for name in dists for extra in project(name)["optional-dependencies"])


def test_nothing_says_to_install_what_is_not_published() -> None:
    """No text installs karpenter by its name alone: until it is published that brings what is not ours."""
    by_name = re.compile(
        r"pip install [^\n#`]*(?<![\w./-])karpenter(-local)?(\[[\w,]+\])?(?=['\"`\s]|$)(?! @ )"
    )
    refused = re.compile(r"`pip install karpenter` by name alone")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [
            ROOT / "README.md",
            *(p for top in ("docs", "examples", "packages") for p in _texts(top)),
        ]
        for line in path.read_text("utf-8").splitlines()
        if by_name.search(line) and not refused.search(line)
    ]

    assert found == []


def _texts(top: str) -> Iterator[Path]:
    suffixes = {".md", ".py", ".sh", ".yaml", ".yml"}
    return (
        path
        for path in (ROOT / top).rglob("*")
        if path.suffix in suffixes and "node_modules" not in path.parts
    )
