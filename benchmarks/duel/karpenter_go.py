"""
Karpenter in Go, as it is released: built from Go's modules into the build folder, nothing of it is kept here.

The package of a provider is built in a module of its own that requires one version of both modules, since the
AWS provider's module file names an older core.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from benchmarks.duel import DuelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION: Final = "v1.14.1"
CORE: Final = "sigs.k8s.io/karpenter"
PROVIDER: Final = "github.com/aws/karpenter-provider-aws"
PACKAGES: Final[Mapping[str, str]] = {"kwok": f"{CORE}/kwok", "aws": f"{PROVIDER}/cmd/controller"}
"""The main package of each provider."""


def binary(provider: str, build: Path) -> Path:
    """Return where the program of a provider is kept once it is built."""
    return build / f"karpenter-{provider}-{VERSION}"


def build_karpenter(provider: str, build: Path, go: str) -> Path:
    """
    Return the program of a provider; it is built if it is not there yet, which takes minutes.

    Raises DuelError when Go's modules cannot be loaded or built.
    """
    target = binary(provider, build)
    if target.exists():
        return target
    module = build / f"module-{provider}"
    shutil.rmtree(module, ignore_errors=True)
    module.mkdir(parents=True)
    unfinished = build / f"{target.name}.unfinished"
    package = PACKAGES[provider]
    for command in (
        ["mod", "init", "duel"],
        ["get", f"{package}@{VERSION}", f"{CORE}@{VERSION}"],
        ["build", "-o", str(unfinished), package],
    ):
        done = subprocess.run([go, *command], cwd=module, capture_output=True, text=True, check=False)  # noqa: S603  our own words
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise DuelError(f"`go {' '.join(command)}` failed in {module}: {said[-1]}")
    unfinished.replace(target)
    return target
