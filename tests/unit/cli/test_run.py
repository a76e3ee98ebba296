"""``karpenter run``: what it refuses, in one sentence each, and how its flags are documented."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from karpenter.cli import main
from karpenter.cli.errors import CommandError
from karpenter.cli.run import refused
from karpenter.cloud.aws.options import AWS_SETTINGS
from karpenter.kube.errors import NotFound, Status
from karpenter.kube.transport import Request
from karpenter.operator.options import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, **environment: str) -> Result:
    """Run ``karpenter run`` with these arguments."""
    return CliRunner().invoke(main, ["run", *arguments], env=environment)


def test_help_documents_every_setting() -> None:
    """Every setting is a flag, with its variable and its default."""
    told = "".join(run("--help").stdout.split())  # where lines are broken does not matter

    for setting in (*SETTINGS, *AWS_SETTINGS):
        value = "[true|false]" if setting.is_switch else "VALUE"
        assert f"--{setting.name}{value}" in told
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
            ["--metrics-port", "x"],
            {},
            "setting metrics-port: 'x' is not a whole number",
            id="a word for a number",
        ),
        pytest.param(
            [], {"METRICS_PORT": "65536"}, "setting metrics-port: 65536 is not between 0 and", id="a variable"
        ),
        pytest.param(
            ["--isolated-vpc=no"], {}, "setting ISOLATED_VPC: 'no' is not true or false", id="a flag of AWS"
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


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--disable-leader-election"], id="bare"),
        pytest.param(["--disable-leader-election", "--log-level=error"], id="bare before another"),
        pytest.param(["--disable-leader-election=true"], id="with an equals sign"),
        pytest.param(["--disable-leader-election", "true"], id="with a value of its own"),
        pytest.param(["--isolated-vpc", "--disable-leader-election"], id="beside a bare one of AWS"),
    ],
)
def test_switches_need_no_value(arguments: list[str]) -> None:
    """A flag that is true or false may stand alone, as it may for Go; then only the cluster is missing."""
    refused = run(*arguments, "--kubeconfig", "/nowhere/config")

    [line] = refused.stderr.splitlines()
    assert line.startswith("error: there is no kubeconfig at /nowhere/config")


def test_variables_that_cannot_be_read() -> None:
    """They are named, and the defaults are in force; empty ones need no word."""
    refused = run("--kubeconfig", "/nowhere/config", METRICS_PORT="x", HEALTH_PROBE_PORT="")

    first, second = refused.stderr.splitlines()
    assert first == "ignored: METRICS_PORT: 'x' is not a whole number; 8080 is in force"
    assert second.startswith("error: there is no kubeconfig at /nowhere/config")


def test_a_flag_that_is_not_there() -> None:
    """An unknown flag is refused."""
    refused = run("--pace", "fast")

    assert (refused.exit_code, "No such option" in refused.stderr) == (2, True)


def test_a_cloud_that_is_not_there() -> None:
    """An unknown cloud is refused with those that there are."""
    refused = run("--cloud-provider", "elsewhere")

    assert refused.exit_code == 2
    assert "hint: --provider is one of" in refused.stderr
    assert "kwok" in refused.stderr


def test_the_cloud_of_aws_needs_its_sdk() -> None:
    """Without boto3 the hint is how to install it, not which clouds there are."""
    source = (
        "import sys; sys.modules['boto3'] = None; from karpenter.cli import main;"
        "main(['run', '--cloud-provider', 'aws', '--cluster-name', 'blue'])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)  # noqa: S603  ours

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: this needs boto3, which is not installed here\nhint: pip install boto3\n")


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
