"""What the two distributions consist of."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from hatchling import build

from karpenter import __version__

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
LAPTOP = {"cryptography", "flask", "flask-cors", "moto", "trustme"}
"""What a laptop needs and production does not: a certificate maker and an imitation of AWS."""


def wheel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> zipfile.ZipFile:
    """Build the wheel of a distribution and open it."""
    monkeypatch.chdir(ROOT / "packages" / name)
    return zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path)))


def requirements(found: zipfile.ZipFile) -> list[str]:
    """Return what a wheel requires, extras included."""
    text = next(found.read(name).decode() for name in found.namelist() if name.endswith("/METADATA"))
    return [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Requires-Dist")]


def test_the_wheel_for_production_holds_production_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No embedded cluster, simulation or testing kit is in it, and nothing that only they need."""
    found = wheel("karpenter", tmp_path, monkeypatch)
    tops = {name.partition("/")[0] for name in found.namelist()}
    needs = {line.split(";")[0].split(">")[0].split("[")[0].strip() for line in requirements(found)}

    pages = f"karpenter-{__version__}.data"
    assert tops == {"karpenter", f"karpenter-{__version__}.dist-info", pages}
    assert f"{pages}/data/share/man/man1/karpenter-plan.1" in found.namelist()
    assert "karpenter/console/assets/app.js" in found.namelist()
    assert not needs & LAPTOP


def test_the_wheel_for_laptops_needs_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the version of the other one, and asks for exactly that."""
    found = wheel("karpenter-local", tmp_path, monkeypatch)

    assert {name.partition("/")[0] for name in found.namelist()} == {
        "karpenter_local",
        f"karpenter_local-{__version__}.dist-info",
        f"karpenter_local-{__version__}.data",
    }
    pages = f"karpenter_local-{__version__}.data/data/share/man/man1"
    assert f"{pages}/karpenter-local-up.1" in found.namelist()
    assert f"{pages}/karpenter-plan.1" not in found.namelist()
    assert f"karpenter=={__version__}" in requirements(found)


def test_every_lock_has_the_same_versions() -> None:
    """What the image and the demo install is what the tests ran with."""
    names = ("dev.txt", "demo.txt", "image.txt")
    dev, *others = ({*locked(ROOT / "requirements" / name)} for name in names)

    assert dev
    for other in others:
        assert other <= dev


def locked(path: Path) -> list[str]:
    """Return the pinned packages of a lock file."""
    lines = path.read_text("utf-8").splitlines()
    return [line.split()[0] for line in lines if "==" in line and not line.startswith((" ", "#"))]


def test_the_workspace_holds_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code comes from the folders in packages/ alone; pre-commit must be able to install the root, too."""
    monkeypatch.chdir(ROOT)
    found = zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path)))

    assert {name.partition("/")[0] for name in found.namelist()} == {"karpenter_workspace-0.dist-info"}
    assert requirements(found) == []
