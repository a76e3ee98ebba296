"""
Everything of a release, in one folder: ``python -m tools.release dist``.

    karpenter-V-py3-none-any.whl, karpenter_local-…    wheels, and sdists beside them
    charts/karpenter-V.tgz, karpenter-crd-V.tgz        charts as helm installs them
    charts/oci                                         the same charts as an OCI layout, ready to be copied
    image-context.tar                                  what the image is built from
    sbom.cdx.json                                      what the image holds, with licences
    SOURCE_DATE_EPOCH                                  the moment that the image is built with, too
    SHA256SUMS                                         of every file above

The same commit gives the same bytes: no time but SOURCE_DATE_EPOCH (by default that of the commit), no owner
and no order of a folder is in them. The image itself needs a container engine and a base image, so that
``tools/publish`` builds it, which also signs; nothing here asks a network.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from hatchling import build

from karpenter import __version__
from tools.sbom import bill

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("karpenter", "karpenter-local")
CHARTS: Final = ("karpenter", "karpenter-crd")
CONTEXT: Final = (".dockerignore", "Containerfile", "requirements/image.txt")
# https://helm.sh/docs/topics/registries/#oci-feature-deprecation-and-behavior-changes-with-v380
CONFIG_TYPE: Final = "application/vnd.cncf.helm.config.v1+json"
LAYER_TYPE: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"


def release(folder: Path, epoch: int) -> list[Path]:
    """Write a release into a folder, which is emptied before, and return its files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder = folder.resolve()
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
    for name in PACKAGES:
        os.chdir(ROOT / "packages" / name)
        build.build_wheel(str(folder))
        build.build_sdist(str(folder))
    os.chdir(ROOT)
    _write_charts(folder / "charts", epoch)
    wheel = f"karpenter-{__version__}-py3-none-any.whl"
    context = {name: (ROOT / name).read_bytes() for name in CONTEXT}
    context[f"dist/{wheel}"] = (folder / wheel).read_bytes()
    (folder / "image-context.tar").write_bytes(_tar(context, epoch))
    lock = (ROOT / "requirements" / "image.txt").read_text("utf-8")
    (folder / "sbom.cdx.json").write_text(json.dumps(bill(lock), indent=2) + "\n", "utf-8")
    (folder / "SOURCE_DATE_EPOCH").write_text(f"{epoch}\n", "utf-8")
    return _write_sums(folder)


def _write_charts(folder: Path, epoch: int) -> None:
    """
    Write each chart as an archive, and all of them as an OCI layout.

    ``helm package`` and ``helm push`` put the time of now into both, so that no two are the same.
    """
    blobs = folder / "oci" / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    manifests = []
    for name in CHARTS:
        chart = ROOT / "charts" / name
        about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
        paths = sorted(path for path in chart.rglob("*") if path.is_file())
        files = {f"{name}/{path.relative_to(chart)}": path.read_bytes() for path in paths}
        archive = gzip.compress(_tar(files, epoch), mtime=0)
        (folder / f"{name}-{about['version']}.tgz").write_bytes(archive)
        content = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _put(blobs, _json(about), CONFIG_TYPE),
            "layers": [_put(blobs, archive, LAYER_TYPE)],
            "annotations": {
                "org.opencontainers.image.created": datetime.fromtimestamp(epoch, UTC).isoformat(),
                "org.opencontainers.image.description": about["description"],
                "org.opencontainers.image.title": name,
                "org.opencontainers.image.version": about["version"],
            },
        }
        reference = {"org.opencontainers.image.ref.name": f"{name}-{about['version']}"}
        manifests.append({**_put(blobs, _json(content), MANIFEST_TYPE), "annotations": reference})
    index = {"schemaVersion": 2, "manifests": manifests}
    (folder / "oci" / "index.json").write_bytes(_json(index))
    (folder / "oci" / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))


def _put(blobs: Path, content: bytes, media_type: str) -> dict[str, Any]:
    """Write a blob under its digest, and return how it is referred to."""
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _tar(files: dict[str, bytes], epoch: int) -> bytes:
    """Return an archive of files that belong to root and were all written at one moment."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(files[name]), epoch, 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return output.getvalue()


def _write_sums(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in paths
    )
    (folder / "SHA256SUMS").write_text("".join(sums), "utf-8")
    return [*paths, folder / "SHA256SUMS"]


def _git(*words: str) -> str:
    return subprocess.run(  # noqa: S603  our own words
        ["git", *words],  # noqa: S607  the reader's git
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    ).stdout.strip()


def main(folder: str) -> None:
    """Write a release, and say what it consists of."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct")
    if not epoch.isdecimal():
        sys.exit(
            "error: the moment of the release is not known: this is no git checkout; hint: SOURCE_DATE_EPOCH="
        )
    if changed := _git("status", "--porcelain"):
        print(f"note: this is of no commit, {len(changed.splitlines())} files differ", file=sys.stderr)  # noqa: T201
    for path in release(Path(folder), int(epoch)):
        print(path)  # noqa: T201  a command
    print(  # noqa: T201  a command
        "Not made here: the image, which needs a container engine, and signatures and provenance, which need"
        " an identity; hint: tools/publish --dry-run REGISTRY",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(sys.argv[1])
