# ruff: noqa: INP001  a script, not a package
"""
Build the real control plane: etcd, kube-apiserver, kubectl, kube-controller-manager and kube-scheduler.

The module file beside this one names the versions and their sums; Go's module proxy delivers the source.
Binaries are kept under ``.controlplane/VERSION-DIGEST`` and linked into ``.controlplane/bin``, or into the
directory that ``KUBEBUILDER_ASSETS`` names, where those already there are left alone. What was built once is
not built again until the module file or its sums change.

A machine without Go is told so and builds nothing: that is not an error, because nothing but the contract
suite and ``karpenter local up --control-plane real`` needs these.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
STORE = HERE.parent / ".controlplane"

PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
"""In the order of need: when the build is cut short, what was finished is already of use."""


def kubernetes_version() -> str:
    """Return the version of Kubernetes that the module file requires."""
    found = re.search(
        r"^(?:require|\t)\s*k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(), re.MULTILINE
    )
    if found is None:
        raise click.ClickException(f"{HERE / 'go.mod'} requires no k8s.io/kubernetes")
    return found[1]


def cache_directory() -> Path:
    """Return where binaries of exactly these modules are kept."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return STORE / f"{kubernetes_version()}-{digest.hexdigest()[:12]}"


def link_flags(version: str) -> str:
    """Return the linker's flags: no symbols, and the version that the programs report."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    modules = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {module}.{name}={value}" for module in modules for name, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])


def build(go: str, name: str, target: Path) -> None:
    """Build one program into `target`, at low priority."""
    unfinished = target.with_suffix(".unfinished")
    polite = [shutil.which("nice") or "", "-n", "15"] if shutil.which("nice") else []
    flags = [
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-p",
        "2",
        "-ldflags",
        link_flags(kubernetes_version()),
    ]
    started = time.monotonic()
    click.echo(f"{name}: building", err=True)
    command = [*polite, go, "build", *flags, "-o", str(unfinished), PACKAGES[name]]
    done = subprocess.run(command, cwd=HERE, check=False)  # noqa: S603  the arguments are this file's own
    if done.returncode < 0:
        raise click.ClickException(
            f"building {name} was ended by signal {-done.returncode}; hint: make it again"
        )
    if done.returncode:
        raise click.ClickException(f"go could not build {name}; hint: its own message is above")
    unfinished.replace(target)
    click.echo(f"{name}: built in {time.monotonic() - started:.0f} s", err=True)


def link(cache: Path, directory: Path) -> None:
    """Show in `directory` what is in `cache`; a program that is there of its own stays."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        shown = directory / name
        if shown.exists() and not shown.is_symlink():
            continue
        shown.unlink(missing_ok=True)
        shown.symlink_to(os.path.relpath(cache / name, directory))


def forget_others(cache: Path) -> None:
    """Remove what was built for another module file: half a gigabyte that nothing points at."""
    for other in STORE.iterdir():
        if other not in {cache, STORE / "bin"}:
            shutil.rmtree(other)


def main() -> None:
    """Build what is missing and say where it is."""
    directory = Path(os.environ.get("KUBEBUILDER_ASSETS") or STORE / "bin")
    if all(os.access(directory / name, os.X_OK) for name in PACKAGES) and directory != STORE / "bin":
        click.echo(f"{directory}: the control plane is there", err=True)
        return
    cache = cache_directory()
    missing = [name for name in PACKAGES if not (cache / name).exists()]
    go = shutil.which("go")
    if missing and go is None:
        click.echo(
            "controlplane: skipped, there is no Go on this machine to build the real control plane with;"
            " hint: install Go, or point KUBEBUILDER_ASSETS at the binaries",
            err=True,
        )
        return
    cache.mkdir(parents=True, exist_ok=True)
    for name in missing:
        build(go or "", name, cache / name)
    link(cache, directory)
    if missing:
        forget_others(cache)
    click.echo(f"{directory}: Kubernetes {kubernetes_version()}", err=True)


if __name__ == "__main__":
    try:
        main()
    except click.ClickException as error:
        click.echo(f"controlplane: {error.message}", err=True)
        sys.exit(1)
