# ruff: noqa: INP001  a script, not a package
"""
Build the real programs of the tests: the control plane (etcd, kube-apiserver, kubectl,
kube-controller-manager, kube-scheduler) and helm.

The module file beside this one names the versions of the control plane and their sums, the one in ``helm``
that of helm, which requires other versions of the same libraries; Go's module proxy delivers the source.
Binaries are kept under ``.controlplane/VERSION-DIGEST`` and ``.controlplane/helm-VERSION-DIGEST`` and linked
into ``.controlplane/bin``; those of the control plane into the directory that ``KUBEBUILDER_ASSETS`` names,
where those already there are left alone. What was built once is not built again until its module file or its
sums change.

A machine without Go is told so and builds nothing: that is not an error, because nothing but the contract
suite, the tests with helm and ``karpenter local up --control-plane real`` needs these.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click

HERE = Path(__file__).resolve().parent
STORE = HERE.parent / ".controlplane"

KUBERNETES = "k8s.io/kubernetes"
HELM = "helm.sh/helm/v3"


class Module(NamedTuple):
    """A module file and the programs that are built with it."""

    folder: Path
    name: str
    """The module whose version the programs report."""

    packages: dict[str, str]
    """In the order of need: when the build is cut short, what was finished is already of use."""

    prefix: str = ""
    """What the cache directory begins with."""

    def version(self, module: str = "") -> str:
        """Return the version of a module that the module file requires; by default of the main one."""
        pattern = rf"^(?:require|\t)\s*{re.escape(module or self.name)} (v\S+)"
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise click.ClickException(f"{self.folder / 'go.mod'} requires no {module or self.name}")
        return found[1]

    def cache_directory(self) -> Path:
        """Return where binaries of exactly these modules are kept."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        return STORE / f"{self.prefix}{self.version()}-{digest.hexdigest()[:12]}"

    def link_flags(self) -> str:
        """Return the linker's flags: no symbols, and the version that the programs report."""
        version = self.version()
        if self.name == HELM:
            # Without these, helm takes every cluster that it cannot ask for one of Kubernetes 1.20.
            minor = self.version("k8s.io/client-go").split(".")[1]
            stamps = [f"-X {HELM}/internal/version.version={version}"]
            for module in ("pkg/chartutil", "pkg/lint/rules"):
                stamps += [
                    f"-X {HELM}/{module}.k8sVersionMajor=1",
                    f"-X {HELM}/{module}.k8sVersionMinor={minor}",
                ]
            return " ".join(["-s", "-w", *stamps])
        major, minor, _ = version.removeprefix("v").split(".", 2)
        facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        modules = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        stamps = [f"-X {module}.{name}={value}" for module in modules for name, value in facts.items()]
        return " ".join(["-s", "-w", *stamps])

    def missing(self) -> list[str]:
        """Return the programs that were not built yet."""
        return [name for name in self.packages if not (self.cache_directory() / name).exists()]


CONTROL_PLANE = Module(
    HERE,
    KUBERNETES,
    {
        "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
        "etcd": "go.etcd.io/etcd/server/v3",
        "kubectl": f"{KUBERNETES}/cmd/kubectl",
        "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
        "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
    },
)
CLIENT = Module(HERE / "helm", HELM, {"helm": f"{HELM}/cmd/helm"}, prefix="helm-")


def build(go: str, module: Module, name: str) -> None:
    """Build one program of a module, at low priority."""
    target = module.cache_directory() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    polite = [shutil.which("nice") or "", "-n", "15"] if shutil.which("nice") else []
    flags = [
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-p",
        "2",
        "-ldflags",
        module.link_flags(),
    ]
    started = time.monotonic()
    click.echo(f"{name}: building", err=True)
    command = [*polite, go, "build", *flags, "-o", str(unfinished), module.packages[name]]
    done = subprocess.run(command, cwd=module.folder, check=False)  # noqa: S603  the arguments are this file's own
    if done.returncode < 0:
        raise click.ClickException(
            f"building {name} was ended by signal {-done.returncode}; hint: make it again"
        )
    if done.returncode:
        raise click.ClickException(f"go could not build {name}; hint: its own message is above")
    unfinished.replace(target)
    click.echo(f"{name}: built in {time.monotonic() - started:.0f} s", err=True)


def link(module: Module, directory: Path) -> None:
    """Show the programs of a module in `directory`; a program that is there of its own stays."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in module.packages:
        shown = directory / name
        if shown.exists() and not shown.is_symlink():
            continue
        shown.unlink(missing_ok=True)
        shown.symlink_to(os.path.relpath(module.cache_directory() / name, directory))


def forget_others() -> None:
    """Remove what was built for another module file: half a gigabyte that nothing points at."""
    kept = {CONTROL_PLANE.cache_directory(), CLIENT.cache_directory(), STORE / "bin"}
    for other in set(STORE.iterdir()) - kept:
        shutil.rmtree(other)


def main() -> None:
    """Build what is missing and say where it is."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS") or STORE / "bin")
    wanted = [(CONTROL_PLANE, assets), (CLIENT, STORE / "bin")]
    if assets != STORE / "bin" and all(os.access(assets / name, os.X_OK) for name in CONTROL_PLANE.packages):
        click.echo(f"{assets}: the control plane is there", err=True)
        wanted = wanted[1:]
    go = shutil.which("go")
    for module, directory in wanted:
        missing = module.missing()
        if missing and go is None:
            where = ", or point KUBEBUILDER_ASSETS at them" if module is CONTROL_PLANE else ""
            click.echo(
                f"controlplane: skipped, there is no Go on this machine to build {', '.join(missing)} with;"
                f" hint: install Go{where}",
                err=True,
            )
            continue
        for name in missing:
            build(go or "", module, name)
        link(module, directory)
        if missing:
            forget_others()
        click.echo(
            f"{directory}: {' and '.join(module.packages)} of {module.name} {module.version()}", err=True
        )


if __name__ == "__main__":
    try:
        main()
    except click.ClickException as error:
        click.echo(f"controlplane: {error.message}", err=True)
        sys.exit(1)
