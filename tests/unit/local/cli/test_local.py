"""``karpenter local``: up, status and down, as a user types them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter_local.apiserver.notice import ClusterDirectory


def run(*arguments: str) -> Result:
    """Run ``karpenter local`` with these arguments."""
    return CliRunner().invoke(main, ["local", *arguments])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of its own; whatever was started there is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path / "karpenter-local"
    run("down")


def test_up_and_down(place: Path) -> None:
    """A cluster comes up in the background, says how to reach it, and goes when told to."""
    up = run("up", "--nodes", "2")
    assert (up.exit_code, up.stdout) == (0, f"export KUBECONFIG={place / 'kubeconfig'}\n")
    assert "127.0.0.1" in (place / "kubeconfig").read_text()

    again = run("up")
    assert (again.exit_code, again.stdout) == (0, up.stdout)
    assert "up already" in again.stderr
    for words, problem in (
        (("--cluster-name", "blue"), "it is called local, not blue"),
        (("--provider", "aws"), "it runs without an AWS"),
        (("--with-karpenter",), "it runs without the operator"),
    ):
        other = run("up", *words)
        assert (other.exit_code, other.stdout, problem in other.stderr) == (2, "", True)

    told = run("status")
    assert told.exit_code == 0
    assert "does not run" in told.stdout
    assert "in memory, gone when the cluster is down" in told.stdout
    facts = json.loads(run("status", "-o", "json").stdout)
    assert facts["url"].startswith("https://127.0.0.1:")
    assert facts["log"] == str(place / "log")
    assert str(place / "log") in told.stdout

    assert (run("down").exit_code, run("status").exit_code) == (0, 1)
    assert not (place / "kubeconfig").exists()
    assert "no cluster is up" in run("down").stderr


def test_state_that_is_kept(place: Path, tmp_path: Path) -> None:
    """With a data directory the cluster lives there, and its state stays when it is down."""
    kept = tmp_path / "kept"
    assert run("up", "--data-dir", str(kept)).exit_code == 0
    assert "Kubeconfig" in run("status", "--data-dir", str(kept)).stdout
    assert run("status").exit_code == 1
    assert run("down", "--data-dir", str(kept)).exit_code == 0

    assert list((kept / "state").glob("log-*"))
    assert not place.exists()


def test_a_start_that_fails(place: Path) -> None:
    """A cluster that cannot start says why in one line, and leaves nothing running."""
    notice = ClusterDirectory(place)
    notice.hold()
    refused = run("up")
    notice.withdraw()

    assert refused.exit_code == 2
    assert "error: a cluster is running in" in refused.stderr
    assert "hint: see" in refused.stderr


def test_a_port_for_the_real_control_plane() -> None:
    """The real control plane listens where it finds room, and says so when told otherwise."""
    refused = run("up", "--control-plane", "real", "--port", "6443")

    assert refused.exit_code == 2
    assert "error: --port is for the embedded control plane" in refused.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("--bare", "--bare, --tagged and --node-group are about an AWS account", id="no AWS"),
        pytest.param("--kubernetes 2.1", "can be 1.25 to 1.36", id="no version of Kubernetes"),
        pytest.param("--kubernetes 1.99", "can be 1.25 to 1.36", id="a version of the future"),
        pytest.param(
            "--control-plane real --kubernetes 1.31",
            "--kubernetes is for the embedded control plane",
            id="a version for the real control plane",
        ),
        pytest.param(
            "--provider aws --node-group main,kind=m5.large",
            "--node-group 'main,kind=m5.large' is not of the form NAME,type=TYPE,count=N",
            id="a node group with a wrong key",
        ),
        pytest.param(
            "--provider aws --node-group main,count=many",
            "--node-group main: count is a number from 0 to 100, and 'many' is not",
            id="a node group without a count",
        ),
        pytest.param(
            "--provider aws --node-group main,type=m5.lage",
            "there is no instance type 'm5.lage'",
            id="a node group of no type",
        ),
    ],
)
def test_what_up_refuses(line: str, message: str) -> None:
    """What cannot be started is refused before anything is, naming the option and what is allowed."""
    refused = run("up", *line.split())

    assert refused.exit_code == 2
    assert message in refused.stderr
