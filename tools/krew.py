"""
Writes the archive and the manifest of the plugin for krew: ``python -m tools.krew FOLDER URL``.

URL is the folder from which the archive will be fetched. The same tree gives the same bytes.
"""

from __future__ import annotations

import gzip
import sys
import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from string import Template

from karpenter import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "deploy" / "krew"


def archive() -> bytes:
    """Return the archive that krew unpacks: the program, and the licence."""
    packed = BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path, mode in ((SOURCE / "kubectl-karpenter", 0o755), (ROOT / "LICENSE", 0o644)):
            entry = tarfile.TarInfo(path.name)
            content = path.read_bytes()
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, BytesIO(content))
    return packed.getvalue()


def manifest(packed: bytes, releases: str) -> str:
    """Return the manifest of an archive that is fetched from the folder `releases`."""
    text = (SOURCE / "karpenter.yaml").read_text("utf-8")
    facts = {"VERSION": __version__, "RELEASES": releases, "SHA256": sha256(packed).hexdigest()}
    return Template(text).substitute(facts)


def main(folder: Path, releases: str) -> None:
    """
    Write both files into a folder.

    Raises:
        SystemExit: krew could not fetch from `releases`.
    """
    if not releases.startswith("https://"):
        sys.exit("error: krew fetches from https:// alone\nhint: make krew RELEASES=https://HOST/FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    packed = archive()
    (folder / f"kubectl-karpenter-{__version__}.tar.gz").write_bytes(packed)
    (folder / "karpenter.yaml").write_text(manifest(packed, releases.rstrip("/")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")  # noqa: PLR2004  folder and address
