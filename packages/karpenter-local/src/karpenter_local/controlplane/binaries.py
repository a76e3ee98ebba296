"""
Where the binaries of the real control plane are.

``KUBEBUILDER_ASSETS`` names the directory, as elsewhere in this field; without it, ``.controlplane/bin`` of
the working directory or of one above it, where ``make controlplane`` puts them. Only etcd and kube-apiserver
are needed; the others add what they add. Building them is not done here.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

ASSETS = "KUBEBUILDER_ASSETS"
"""The environment variable that names the directory."""

BUILT = Path(".controlplane") / "bin"
"""Where ``make controlplane`` puts the binaries, under the project's directory."""


class BinariesMissing(Exception):  # noqa: N818  reads as what is the matter
    """There is no etcd or no kube-apiserver to start."""

    def __init__(self, *, directory: Path, names: tuple[str, ...]) -> None:
        super().__init__(f"no {' and no '.join(names)} in {directory}; hint: make controlplane")
        self.directory = directory
        self.names = names


class Binaries(msgspec.Struct, frozen=True, kw_only=True):
    """The programs that were found; those that may be absent are None."""

    etcd: Path
    apiserver: Path
    controller_manager: Path | None = None
    scheduler: Path | None = None
    kubectl: Path | None = None


def find_binaries(environ: Mapping[str, str] = os.environ, *, start: Path | None = None) -> Binaries:
    """Return the binaries that `environ` points at, or those built at `start` or above it.

    Raises:
        BinariesMissing: naming the directory that was searched and what it lacks.
    """
    directory = _directory(environ, start or Path.cwd())
    needed = {name: directory / name for name in ("etcd", "kube-apiserver")}
    lacking = tuple(name for name, path in needed.items() if not _runs(path))
    if lacking:
        raise BinariesMissing(directory=directory, names=lacking)
    return Binaries(
        etcd=needed["etcd"],
        apiserver=needed["kube-apiserver"],
        controller_manager=_optional(directory / "kube-controller-manager"),
        scheduler=_optional(directory / "kube-scheduler"),
        kubectl=_optional(directory / "kubectl"),
    )


def _directory(environ: Mapping[str, str], start: Path) -> Path:
    if named := environ.get(ASSETS):
        return Path(named)
    places = [above / BUILT for above in (start, *start.parents)]
    return next((place for place in places if place.is_dir()), places[0])


def _optional(path: Path) -> Path | None:
    return path if _runs(path) else None


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
