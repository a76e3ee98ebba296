"""What is released is complete, comes out the same twice, and is published by one command."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from karpenter import __version__
from tests.helm import Helm

DIGEST = "sha256:" + "a" * 64
WRITES = f"""
while [ $# -gt 0 ]; do
  [ "$1" != --metadata-file ] || echo '{{"containerimage.digest": "{DIGEST}"}}' > "$2"
  shift
done
"""
"""What docker writes where it is asked to."""

ROOT = Path(__file__).parents[2]
MADE = {
    "SHA256SUMS",
    "SOURCE_DATE_EPOCH",
    f"charts/karpenter-{__version__}.tgz",
    f"charts/karpenter-crd-{__version__}.tgz",
    "charts/oci/index.json",
    "charts/oci/oci-layout",
    "image-context.tar",
    f"karpenter-{__version__}-py3-none-any.whl",
    f"karpenter-{__version__}.tar.gz",
    f"karpenter_local-{__version__}-py3-none-any.whl",
    f"karpenter_local-{__version__}.tar.gz",
    "sbom.cdx.json",
}


def make(folder: Path) -> Path:
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(  # noqa: S603  ours
        [sys.executable, "-m", "tools.release", str(folder)],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("release") / "dist")


def test_a_release_is_complete(dist: Path) -> None:
    """Wheels, charts, what the image is built from, and the bill of materials are there, with their sums."""
    files = {str(path.relative_to(dist)) for path in dist.rglob("*") if path.is_file()}
    lines = dict(line.split("  ")[::-1] for line in (dist / "SHA256SUMS").read_text("utf-8").splitlines())

    assert {name for name in files if "/blobs/" not in name} == MADE
    assert set(lines) == files - {"SHA256SUMS"}
    assert all(hashlib.sha256((dist / name).read_bytes()).hexdigest() == line for name, line in lines.items())


def test_a_release_comes_out_the_same_twice(dist: Path, tmp_path: Path) -> None:
    """Another run, in another folder, with other permissions for new files, gives the same bytes."""
    before = os.umask(0o077)
    try:
        again = make(tmp_path / "again")
    finally:
        os.umask(before)

    assert (again / "SHA256SUMS").read_text("utf-8") == (dist / "SHA256SUMS").read_text("utf-8")


@pytest.mark.parametrize("name", ["karpenter", "karpenter-crd"])
def test_a_chart_is_an_image_of_the_registry_too(name: str, dist: Path) -> None:
    """The OCI layout has the archive of the chart as its layer, under the digests that it names."""
    layout = dist / "charts" / "oci"
    index = json.loads((layout / "index.json").read_bytes())
    named = {each["annotations"]["org.opencontainers.image.ref.name"]: each for each in index["manifests"]}
    manifest = json.loads(blob(layout, named[f"{name}-{__version__}"]))
    archive = blob(layout, manifest["layers"][0])

    assert json.loads(blob(layout, manifest["config"]))["name"] == name
    assert archive == (dist / "charts" / f"{name}-{__version__}.tgz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert f"{name}/Chart.yaml" in opened.getnames()


def blob(layout: Path, described: dict[str, Any]) -> bytes:
    """Return a blob of a layout, whose digest and size must be as they are described."""
    algorithm, _, digest = str(described["digest"]).partition(":")
    content = (layout / "blobs" / algorithm / digest).read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, described["size"])
    return content


def test_the_image_is_built_from_what_is_released(dist: Path) -> None:
    """The context of the image has the file, the lock and the wheel that the file copies."""
    with tarfile.open(dist / "image-context.tar") as context:
        names = context.getnames()
        wheel = context.extractfile(f"dist/karpenter-{__version__}-py3-none-any.whl")
        assert wheel is not None
        assert wheel.read() == (dist / f"karpenter-{__version__}-py3-none-any.whl").read_bytes()

    assert {"Containerfile", "requirements/image.txt", ".dockerignore"} < set(names)


@pytest.mark.helm
@pytest.mark.parametrize("name", ["karpenter", "karpenter-crd"])
def test_helm_reads_the_archive(name: str, dist: Path, tmp_path: Path) -> None:
    """The real helm renders the archive as it renders the folder of the chart."""
    helm = Helm(tmp_path)
    more = ("--set", "settings.clusterName=blue") if name == "karpenter" else ()
    archive = helm.ok("template", "x", dist / "charts" / f"{name}-{__version__}.tgz", *more)

    assert archive == helm.ok("template", "x", ROOT / "charts" / name, *more)


@pytest.fixture
def checkout(dist: Path, tmp_path: Path) -> Path:
    """Return a checkout with a release in dist."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "publish", tmp_path / "tools" / "publish")
    shutil.copytree(dist, tmp_path / "dist")
    return tmp_path


def publish(checkout: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(  # noqa: S603  ours
        [str(checkout / "tools" / "publish"), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_publishing_is_one_command(checkout: Path) -> None:
    """Image, charts and wheels go out and are signed, by programs that are typed as they are printed."""
    programs = checkout / "bin"
    programs.mkdir()
    for name in ("cosign", "docker", "oras", "twine"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {checkout}/typed\n{WRITES}\n', "utf-8")
        (programs / name).chmod(0o755)
    done = publish(checkout, "registry.example/x", path=str(programs))
    typed = (checkout / "typed").read_text("utf-8").splitlines()

    assert done.returncode == 0, done.stderr
    assert [" ".join(line.split()[:2]) for line in typed] == [
        "docker buildx",
        "cosign sign",
        "cosign attest",
        "oras cp",
        "cosign sign",
        "oras cp",
        "cosign sign",
        "cosign sign-blob",
        "twine upload",
    ]
    assert f"registry.example/x/karpenter:{__version__}" in typed[0]
    assert typed[1].endswith(f"registry.example/x/karpenter@{DIGEST}")
    assert re.search(r"registry.example/x/charts/karpenter@sha256:[0-9a-f]{64}$", typed[4])
    assert typed[4].partition("@")[2] != typed[6].partition("@")[2]
    assert len(typed[-1].split()) == 6


def test_publishing_can_be_looked_at_first(checkout: Path) -> None:
    """A dry run prints every command and runs none."""
    done = publish(checkout, "--dry-run", "registry.example/x")

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 9


def test_what_was_changed_is_not_published(checkout: Path) -> None:
    """A file that is not as it was released is refused before anything goes out."""
    (checkout / "dist" / "sbom.cdx.json").write_text("{}", "utf-8")
    done = publish(checkout, "registry.example/x")

    assert done.returncode == 2
    assert "error: dist is not what was released; hint: make release" in done.stderr
