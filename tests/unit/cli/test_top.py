"""``karpenter top``: flags with one dash or two, what it prints once, and what it refuses."""

from __future__ import annotations

import builtins
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from karpenter import __version__
from karpenter.cli import main
from tests.unit.why.clusters import NOW, machine, pod, pool, write_catalogue

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, and no kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def run(home: Path, *arguments: str, objects: list[dict[str, Any]] | None = None) -> Result:
    """Run ``karpenter top`` on objects."""
    there = (
        objects if objects is not None else [pool(), *machine("a"), pod("p", nodeName="a"), pod("big", "99")]
    )
    file = home / "cluster.json"
    file.write_text("\n---\n".join(map(json.dumps, there)))
    words = ["top", "-f", str(file), "--now", NOW, "--catalog", write_catalogue(home), *arguments]
    return CliRunner().invoke(main, words)


def test_the_first_example_of_help_works_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example of --help can be pasted in a checkout."""
    runner = CliRunner()
    line = re.search(r"^ +(karpenter top .*)$", runner.invoke(main, ["top", "--help"]).output, re.MULTILINE)
    assert line is not None
    monkeypatch.chdir(ROOT)
    result = runner.invoke(main, shlex.split(line[1])[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("11 nodes ")


def test_once_prints_nodes_pods_that_wait_and_why(home: Path) -> None:
    """The words are those of why, and the decision is that of plan --disruption."""
    result = run(home, "--once")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 nodes  (         1/4)  25.0%  cpu")
    assert "$0.100/hour | $73.000/month" in result.stdout
    text = " ".join(result.stdout.split())
    assert "2 pods (1 pending 1 running 1 bound) • no node would go now" in text
    assert "big NodePool default: the pod is too large" in text
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_node_that_would_go_says_so(home: Path) -> None:
    """An empty node is removed by the same decision as in a plan."""
    found = json.loads(run(home, "-o", "json", objects=[pool(), *machine("a")]).stdout)
    assert found["nodes"][0]["wouldGo"]
    assert found["nodes"][0]["code"] == "Empty"
    assert found["nodes"][0]["why"] == "It would go now (Empty), which saves $73.00 a month."
    assert found["summary"]["monthlySaving"] == 73.0


def test_before_and_after_consolidation(home: Path) -> None:
    """Two nodes that are hardly used become one, and the bill falls by what was said before."""
    two = [pool(), *machine("a"), *machine("b"), pod("p", nodeName="a"), pod("q", nodeName="b")]
    before = run(home, "--once", objects=two).stdout
    assert "1 node would go: $73.00/month less" in before
    assert "$0.200/hour | $146.000/month" in before
    gone = json.loads(run(home, "-o", "json", objects=two).stdout)["nodes"]
    (stays,) = [each["name"] for each in gone if not each["wouldGo"]]
    one = [pool(), *machine(stays), pod("p", nodeName=stays), pod("q", nodeName=stays)]
    after = run(home, "--once", objects=one).stdout
    assert after.startswith("1 nodes  (         2/4)  50.0%  cpu")
    assert "$0.100/hour | $73.000/month" in after
    assert "no node would go now" in after


def test_without_the_plan_nothing_is_decided(home: Path) -> None:
    """With --no-plan pods that wait have the words of kube-scheduler."""
    found = json.loads(run(home, "--no-plan", "-o", "json").stdout)
    assert found["nodes"][0]["why"] is None
    assert found["pending"][0]["sentence"] == "It waits; kube-scheduler has not said why."


def test_flags_have_one_dash_or_two(home: Path) -> None:
    """As in Go, with the value apart or after an equals sign; a flag may be false."""
    flags = ["-resources", "memory", "-extra-labels=karpenter.sh/nodepool", "-disable-pricing=true", "-once"]
    result = run(home, *flags)
    assert result.exit_code == 0, result.output
    assert "memory" in result.stdout
    assert "nodepool" in result.stdout
    assert "$" not in result.stdout.split("waits")[0]
    assert "$" in run(home, "-disable-pricing=false", "--once").stdout


def test_settings_come_from_the_file(home: Path) -> None:
    """What no flag says is taken from ~/.eks-node-viewer."""
    (home / ".eks-node-viewer").write_text("node-selector=karpenter.sh/nodepool=none\n")
    assert "no nodes" in run(home, "--once").stdout
    assert "no nodes" not in run(home, "--once", "--node-selector", "").stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--style", "#fff"],
            'error: three colors must be provided for the style, found 1 ("#fff")',
        ),
        (["--node-selector", "a b"], "error: --node-selector: 'a b' is no label selector"),
        (["--now", "soon"], "error: --now: 'soon' is not a time"),
        (["--set", "odd=1"], "error: --set: "),
        ([], "error: the screen needs a terminal, and this is none\nhint: print once with --once"),
    ],
)
def test_what_cannot_be_used_is_refused(home: Path, arguments: list[str], problem: str) -> None:
    """One sentence names the flag and what is allowed."""
    result = run(home, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(problem)


def test_without_the_library_of_the_screen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without textual the screen names what to install, and printing once works."""
    known = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "textual":
            raise ModuleNotFoundError(name=name)
        return known(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = run(home)
    assert result.exit_code == 2
    assert "hint: pip install textual, or print once with --once" in result.stderr
    assert run(home, "--once").exit_code == 0


def test_without_a_cluster(home: Path) -> None:
    """Where no kubeconfig is, that is said in one sentence."""
    del home
    result = CliRunner().invoke(main, ["top", "--once"])
    assert result.exit_code == 2
    assert "error: no cluster to talk to" in result.stderr


def test_version_and_attribution() -> None:
    """The version has four lines, and attribution names libraries and their licences."""
    runner = CliRunner()
    assert runner.invoke(main, ["top", "-v"]).stdout.splitlines() == [
        f"karpenter top version {__version__}",
        "commit: ",
        "built at: ",
        "built by: ",
    ]
    assert "rich " in runner.invoke(main, ["top", "-attribution"]).stdout
