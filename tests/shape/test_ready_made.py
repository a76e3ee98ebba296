"""The action for GitHub and the hooks for pre-commit, run as these run them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
HOOKS = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
GOOD = (ROOT / "examples/inflate").resolve()
BAD = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: bad}\nspec: {limitz: {}}\n"
PENDING = """\
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: default}
spec:
  containers: [{name: app, image: app, resources: {requests: {cpu: "10000"}}}]
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  what the action and the hooks say
        words, cwd=folder, env=environment() | more, capture_output=True, text=True, check=False
    )


def act(folder: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the last step of the action, and return its exit code, its report and the summary of the job."""
    step = ACTION["runs"]["steps"][-1]
    given = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()} | inputs
    names = {name: value.strip("${} ").removeprefix("inputs.") for name, value in step["env"].items()}
    variables = {name: given.get(value, value) for name, value in names.items()}
    temporary = {
        "RUNNER_TEMP": folder,
        "GITHUB_OUTPUT": folder / "output",
        "GITHUB_STEP_SUMMARY": folder / "sum",
    }
    done = run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        folder,
        **variables,
        **{name: str(value) for name, value in temporary.items()},
    )
    summary = (folder / "sum").read_text("utf-8") if (folder / "sum").exists() else ""
    return done.returncode, done.stdout, summary


def test_the_action_validates(tmp_path: Path) -> None:
    """A mistake fails the job, and is in its log and in its summary; its report is an output."""
    (tmp_path / "with space").mkdir()
    (tmp_path / "with space/bad.yaml").write_text(BAD, "utf-8")
    status, log, summary = act(tmp_path, files=f"{GOOD}\n\nwith space/bad.yaml\n")

    assert status == 2
    assert "spec.limitz" in log
    assert log in summary
    assert (tmp_path / "output").read_text("utf-8") == f"report={tmp_path}/karpenter-validate.txt\n"


@pytest.mark.parametrize(
    ("command", "args", "status", "said"),
    [
        pytest.param("validate", "", 0, "0 refused", id="manifests that are good"),
        pytest.param("plan", "--catalog aws --strict", 0, "10 pods on", id="pods that have a place"),
        pytest.param("run", "", 2, "it must be validate or plan", id="a command that is none of its"),
    ],
)
def test_the_action_runs_a_command(command: str, args: str, status: int, said: str, tmp_path: Path) -> None:
    """What the command says is in the log of the job, and its exit code is the step's."""
    found, log, _ = act(tmp_path, command=command, files=str(GOOD), args=args)

    assert found == status, log
    assert said in log


def test_the_action_installs_what_is_there() -> None:
    """The folders that the action installs from are those of the distributions."""
    install = ACTION["runs"]["steps"][1]["run"]

    for name in ("karpenter", "karpenter-local"):
        assert f"$GITHUB_ACTION_PATH/packages/{name}" in install
        assert (ROOT / "packages" / name / "pyproject.toml").exists()


def entry(hook: str, *words: str) -> list[str]:
    """Return what pre-commit runs: the entry's words, then arguments and files."""
    return [*shlex.split(HOOKS[hook]["entry"]), *words]


def test_the_hook_validates_what_is_committed(tmp_path: Path) -> None:
    """The hook names the mistake among the files of a commit, and passes once it is mended."""
    for name, text in (("bad one.yaml", BAD), ("pod.yaml", PENDING)):
        (tmp_path / name).write_text(text, "utf-8")
    refused = run(entry("karpenter-validate", "pod.yaml", "bad one.yaml"), tmp_path)
    passed = run(entry("karpenter-validate", "pod.yaml"), tmp_path)

    assert (refused.returncode, passed.returncode) == (2, 0), refused.stderr + passed.stderr
    assert "bad one.yaml: NodePool/bad: spec.limitz" in refused.stdout


def test_the_hook_plans(tmp_path: Path) -> None:
    """The hook fails when a pod of the manifests has no place."""
    (tmp_path / "pod.yaml").write_text(PENDING, "utf-8")
    words = ("--catalog", "aws", "-f", str(GOOD))

    assert run(entry("karpenter-plan", *words), tmp_path).returncode == 0
    assert run(entry("karpenter-plan", *words, "-f", "pod.yaml"), tmp_path).returncode == 1


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_hooks_install_folders_that_are_there(hook: str) -> None:
    """What pre-commit installs for a hook is a distribution of this repository."""
    for each in HOOKS[hook]["additional_dependencies"]:
        assert (ROOT / each / "pyproject.toml").exists()
