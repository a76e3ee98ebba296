# ruff: noqa: INP001  a script, not a package
"""
Move the real control plane to another version: ``python controlplane/update.py v1.36.3``.

Kubernetes keeps its libraries in one repository and requires them at a version that exists nowhere else
(``v0.0.0``), so whoever builds it must say where each is. This writes the module file with those replacements
and lets Go fill in the rest and its sums.
"""

import json
import re
import subprocess
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
KUBERNETES = "k8s.io/kubernetes"
TOOLS = (
    "go.etcd.io/etcd/server/v3",
    *(f"{KUBERNETES}/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
    f"{KUBERNETES}/cmd/kubectl",
)


def render(version: str, upstream: str) -> str:
    """Return our module file for `version`, given the module file of Kubernetes at that version."""
    libraries = re.findall(r"^\t(k8s\.io/\S+) v0\.0\.0$", upstream, re.MULTILINE)
    language = re.search(r"^go (\S+)$", upstream, re.MULTILINE)
    if not libraries or language is None:
        raise click.ClickException(f"the module file of Kubernetes {version} is not of the known form")
    staged = re.sub(r"^v1\.", "v0.", version)
    lines = [
        "module controlplane",
        f"go {language[1]}",
        f"godebug default=go{'.'.join(language[1].split('.')[:2])}",
        "\n".join(["tool (", *(f"\t{tool}" for tool in TOOLS), ")"]),
        f"require {KUBERNETES} {version}",
        "\n".join(["replace (", *(f"\t{each} => {each} {staged}" for each in libraries), ")"]),
    ]
    return "\n\n".join(lines) + "\n"


@click.command()
@click.argument("version")
def main(version: str) -> None:
    """Write go.mod and go.sum for Kubernetes VERSION, such as v1.36.3."""
    found = _go("mod", "download", "-json", f"{KUBERNETES}@{version}")
    upstream = Path(json.loads(found)["GoMod"]).read_text()
    (HERE / "go.mod").write_text(render(version, upstream))
    (HERE / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy")
    click.echo(f"{HERE / 'go.mod'}: Kubernetes {version}; next: make controlplane", err=True)


def _go(*arguments: str) -> str:
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=HERE, check=False, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
    if done.returncode:
        raise click.ClickException(f"`{' '.join(command)}` failed; hint: its own message is above")
    return done.stdout


if __name__ == "__main__":
    main()
