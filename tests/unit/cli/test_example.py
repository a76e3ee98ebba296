"""The example that asks for room."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from karpenter.cli.example import inflate_deployment
from karpenter.cli.group import main
from tests.unit.install.test_faces import SEEDS


def test_the_dry_run_of_the_tutorial() -> None:
    """The manifest is that of the tutorial, byte for byte."""
    result = CliRunner().invoke(main, ["example", "inflate", "--replicas", "10", "--spread", "--dry-run"])

    assert result.stdout == (SEEDS / "inflate-dry-run.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        pytest.param("", "topologySpreadConstraints", None, id="no spread unless asked"),
        pytest.param(
            "--on-demand", "nodeSelector", {"karpenter.sh/capacity-type": "on-demand"}, id="on demand"
        ),
        pytest.param("--arch arm64", "nodeSelector", {"kubernetes.io/arch": "arm64"}, id="an architecture"),
    ],
)
def test_options(words: str, path: str, value: Any) -> None:
    """Every option is in the pods that it makes."""
    result = CliRunner().invoke(main, [*["example", "inflate", "--dry-run"], *words.split()])
    *_, body = yaml.safe_load_all(result.stdout.partition("Dry Run:\n")[2])

    assert body["spec"]["template"]["spec"].get(path) == value


def test_amounts() -> None:
    """A whole number of CPUs is a number, every other amount a text."""
    body = inflate_deployment(namespace="n", replicas=2, cpu="500m", memory="1Gi")

    assert body["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"}
    }


def test_an_amount_that_is_none() -> None:
    """An amount that cannot be read is refused with its option."""
    result = CliRunner().invoke(main, ["example", "inflate", "--cpu", "many", "--dry-run"])

    assert result.exit_code == 2
    assert "--cpu: " in result.stderr
