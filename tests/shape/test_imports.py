"""What importing us brings along."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ("msgspec", "numpy", "cronsim")
HEAVY = frozenset({"numpy", "aiohttp", "boto3", "botocore", "click", "prometheus_client"})
PROBE = """
import importlib, json, pkgutil, sys
first, then = json.loads(sys.argv[1])
for name in first:
    importlib.import_module(name)
before = set(sys.modules)
for name in then:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def brings(*packages: str, after: tuple[str, ...] = ()) -> set[str]:
    """Return the modules that all of `packages` load in a fresh interpreter which has loaded `after`."""
    command = [sys.executable, "-c", PROBE, json.dumps([after, packages])]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  our own text
    return {str(name) for name in json.loads(found)}


def forbidden() -> set[str]:
    """Return the modules that the contracts of the core and of production name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    ours = [
        each for each in contracts if {"karpenter", "karpenter.core"} & set(each.get("source_modules", ()))
    ]
    return {name for contract in ours for name in contract["forbidden_modules"]}


def test_the_core_loads_nothing_impure() -> None:
    """No module of the core loads a clock, a socket or a logger that its libraries had not loaded already."""
    assert not brings("karpenter.core", after=LIBRARIES) & forbidden()


@pytest.mark.parametrize("package", ["karpenter.base", "karpenter.api"])
def test_the_ground_is_light(package: str) -> None:
    """The packages that everything stands on load no heavy library."""
    assert not brings(package) & HEAVY


def test_importing_the_package_loads_next_to_nothing() -> None:
    """Asking for the version costs no library at all."""
    loaded = {name.partition(".")[0] for name in subprocess_modules("karpenter")}

    assert loaded <= {"karpenter"}


def test_rules_load_no_command_line() -> None:
    """A CEL rule loads the extension of its library, and not the command line that the library has, too."""
    loaded = modules_of("from karpenter.api.schema.cel import matches; assert matches('^a', 'ab')")

    assert not {name.partition(".")[0] for name in loaded} & {"prompt_toolkit", "pygments", "typer", "rich"}


def subprocess_modules(name: str) -> set[str]:
    """Return what ``import name`` alone loads."""
    return modules_of(f"import {name}")


def modules_of(code: str) -> set[str]:
    """Return what some code loads in a fresh interpreter."""
    probe = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    command = [sys.executable, "-c", probe]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())  # noqa: S603  ours
