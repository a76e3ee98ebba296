"""``karpenter run``: what it refuses, in one sentence each, and how its flags are documented."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from karpenter.cli import main
from karpenter.cli.errors import CommandError
from karpenter.cli.run import refused
from karpenter.cloud.aws.options import AWS_SETTINGS
from karpenter.kube.errors import NotFound, Status
from karpenter.kube.transport import Request

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: str, **environment: str) -> Result:
    """Run ``karpenter run`` with these arguments."""
    return CliRunner().invoke(main, ["run", *arguments], env=environment)


def test_help_documents_every_setting() -> None:
    """Every setting is a flag, with its variable and its default."""
    told = "".join(run("--help").stdout.split())  # where lines are broken does not matter

    for setting in (*AWS_SETTINGS, *AWS_SETTINGS):
        assert f"--{setting.name}VALUE" in told
        assert f"[env:{setting.variable};default:{setting.default or 'empty'}]" in told


@pytest.mark.parametrize(
    ("arguments", "environment", "problem"),
    [
        pytest.param(
            ["--log-level", "loud"],
            {},
            "setting log-level: 'loud' is not one of '', 'debug', 'info', 'error'",
            id="a flag",
        ),
        pytest.param(
            [], {"METRICS_PORT": "x"}, "setting metrics-port: 'x' is not a whole number", id="a variable"
        ),
        pytest.param(
            ["--log-output-paths", "/nowhere/log"], {}, "/nowhere/log", id="a log that cannot be written"
        ),
    ],
)
def test_bad_settings(arguments: list[str], environment: dict[str, str], problem: str) -> None:
    """A bad value refuses to start with one sentence."""
    refused = run(*arguments, "--kubeconfig", "/nowhere/config", **environment)

    assert refused.exit_code == 2
    [line] = refused.stderr.splitlines()
    assert line.startswith("error: ")
    assert problem in line


def test_a_flag_that_is_not_there() -> None:
    """An unknown flag is refused."""
    refused = run("--pace", "fast")

    assert (refused.exit_code, "No such option" in refused.stderr) == (2, True)


def test_a_cloud_that_is_not_there() -> None:
    """An unknown cloud is refused with those that there are."""
    refused = run("--cloud-provider", "elsewhere")

    assert refused.exit_code == 2
    assert "hint: --cloud-provider is one of" in refused.stderr
    assert "kwok" in refused.stderr


def test_no_cluster(tmp_path: Path) -> None:
    """A kubeconfig that is not there is named."""
    refused = run("--kubeconfig", str(tmp_path / "none"))

    assert refused.exit_code == 2
    [line] = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert str(tmp_path / "none") in line


@pytest.mark.parametrize(
    ("path", "hinted"),
    [
        pytest.param("/apis/karpenter.sh/v1/nodeclaims", True, id="a kind of ours"),
        pytest.param("/apis/storage.k8s.io/v1/csinodes", False, id="a kind of Kubernetes"),
    ],
)
def test_a_cluster_without_our_kinds(path: str, hinted: bool) -> None:
    """Where they are not installed, the hint says how to install them."""
    with pytest.raises(CommandError) as caught, refused():
        raise NotFound(Status(code=404), request=Request(method="GET", path=path))

    assert path in str(caught.value)
    assert ("karpenter crds | kubectl apply" in caught.value.hint) == hinted


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """A port that is in use is named."""
    config = tmp_path / "kubeconfig"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: here, users: [{name: me, user: {}}],"
        " clusters: [{name: here, cluster: {server: 'http://127.0.0.1:1'}}],"
        " contexts: [{name: here, context: {cluster: here, user: me}}]}"
    )
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104  what the operator listens on
        port = str(taken.getsockname()[1])
        refused = run("--kubeconfig", str(config), "--health-probe-port", port)

    assert refused.exit_code == 2
    assert f"error: cannot serve probes on port {port}" in refused.stderr
