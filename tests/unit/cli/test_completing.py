"""Completion of values, for shells and for kubectl, and the plugin of kubectl."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import krew

from karpenter.api.cluster import Namespace
from karpenter.api.meta import ObjectMeta
from karpenter.cli import completing

ROOT = Path(__file__).parents[3]


def completed(*words: str, environ: dict[str, str] | None = None) -> list[str]:
    """Return what kubectl is told about words of which the last one is begun."""
    code = "from karpenter.command import kubectl_complete; kubectl_complete()"
    done = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-c", code, *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": "/nowhere", **(environ or {})},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            "pla", ["plan\tShow which machines would be launched for pods, offline.", ":4"], id="a command"
        ),
        pytest.param("plan --catalog aws:us-w", ["aws:us-west-1", "aws:us-west-2", ":4"], id="catalogues"),
        pytest.param("plan --catalog ./x", [":0"], id="or else files"),
        pytest.param("plan --set surge", ["surge-before-evict=", ":6"], id="settings, and no space after ="),
        pytest.param(
            "plan --set feature-gates=Static",
            ["feature-gates=StaticCapacity=true", "feature-gates=StaticCapacity=false", ":4"],
            id="feature gates",
        ),
        pytest.param("manifests --set settings.packing", ["settings.packingPolicy=", ":6"], id="values"),
        pytest.param(
            "manifests --set settings.packingPolicy=g",
            ["settings.packingPolicy=greedy", ":4"],
            id="their values",
        ),
        pytest.param("catalog show m7g.med", ["m7g.medium", ":4"], id="instance types"),
        pytest.param("crds nodec", ["nodeclaims", ":4"], id="definitions"),
        pytest.param("top --resources cpu,mem", ["cpu,memory", ":4"], id="names in a list"),
        pytest.param("top --node-sort typ", ["type=asc", "type=dsc", ":4"], id="orders"),
        pytest.param("install --region us-gov", [":4"], id="nothing where nothing is known"),
        pytest.param("crds --write ", [":16"], id="folders"),
        pytest.param("why nodepoo", ["nodepool/", ":6"], id="kinds, and no space after /"),
        pytest.param("why -f examples/kwok nodepool/", ["nodepool/default", ":4"], id="objects of files"),
        pytest.param("why pod/", [":4"], id="a cluster that is not there is no error"),
    ],
)
def test_what_may_follow(words: str, expected: list[str]) -> None:
    """Values complete to what they may be, and the last line is the directive of kubectl's library."""
    assert completed(*words.split(" ")) == expected


def test_contexts(tmp_path: Path) -> None:
    """Contexts are those of the kubeconfigs that would be used."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("contexts: [{name: blue}]", "utf-8")
    two.write_text("contexts: [{name: black}, {name: green}]", "utf-8")

    assert completed("top", "--context", "bl", environ={"KUBECONFIG": f"{one}:{two}"}) == [
        "blue",
        "black",
        ":4",
    ]
    assert completed("top", "--kubeconfig", str(two), "--context", "") == ["black", "green", ":4"]


def test_namespaces_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces are asked of the cluster that the command would look at."""
    from click.shell_completion import ShellComplete  # noqa: PLC0415  likewise

    from karpenter.cli import main  # noqa: PLC0415  a command is loaded for completion

    asked = []

    async def listed(kind: Any, kubeconfig: str, context: str) -> list[Namespace]:
        asked.append((kind, kubeconfig, context))
        return [Namespace(metadata=ObjectMeta(name=name)) for name in ("team-a", "other")]

    monkeypatch.setenv("_KARPENTER_COMPLETE", "kubectl")
    monkeypatch.setattr(completing, "_listed", listed)
    words = ["example", "inflate", "--context", "blue", "--namespace"]
    found = ShellComplete(main, {}, "karpenter", "").get_completions(words, "t")

    assert [each.value for each in found] == ["team-a"]
    assert asked == [(Namespace, "", "blue")]


def test_the_plugin_of_krew() -> None:
    """The manifest names the archive by its address and its sum, and the program in it is the wrapper."""
    packed = krew.archive()
    manifest = yaml.safe_load(krew.manifest(packed, "https://releases.example.com/v1"))
    (platform,) = manifest["spec"]["platforms"]

    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        modes = {each.name: each.mode for each in tar.getmembers()}
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    assert platform["uri"].startswith("https://releases.example.com/v1/kubectl-karpenter-")
    assert modes == {"kubectl-karpenter": 0o755, "LICENSE": 0o644}
    assert {each["from"] for each in platform["files"]} == set(modes)
    assert packed == krew.archive()


def test_the_wrapper(tmp_path: Path) -> None:
    """What krew installs hands its words to the command, and says how to get it where it is missing."""
    script = ROOT / "deploy" / "krew" / "kubectl-karpenter"
    command = tmp_path / "karpenter"
    missing = subprocess.run(["/bin/sh", script, "plan"], env={"PATH": ""}, check=False, capture_output=True)  # noqa: S603
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    there = subprocess.run(  # noqa: S603
        ["/bin/sh", script, "plan", "-f", "x"], env={"PATH": str(tmp_path)}, check=False, capture_output=True
    )

    assert (missing.returncode, there.stdout) == (2, b"plan -f x\n")
    assert b"error: the command karpenter is not installed here\nhint: install the wheel" in missing.stderr
