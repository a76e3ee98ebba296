"""The example that asks for room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from karpenter.cli.example import inflate_deployment
from karpenter.cli.group import main
from karpenter_local.cli.local import EXAMPLE_CLUSTER
from tests.unit.install.test_faces import SEEDS

ROOT = Path(__file__).parents[3]


def test_the_dry_run_of_the_tutorial() -> None:
    """The manifest is that of the tutorial, byte for byte."""
    result = CliRunner().invoke(main, ["example", "inflate", "--replicas", "10", "--spread", "--dry-run"])

    assert result.stdout == (SEEDS / "inflate-dry-run.txt").read_text("utf-8")


def test_the_nodepool_to_begin_with_is_that_of_the_examples() -> None:
    """The quickstart is for the cluster that `karpenter local up --provider aws` starts."""
    result = CliRunner().invoke(main, ["example", "nodepool", "-c", EXAMPLE_CLUSTER])
    written = (ROOT / "examples" / "aws" / "quickstart.yaml").read_text("utf-8")

    assert list(yaml.safe_load_all(result.stdout)) == list(yaml.safe_load_all(written))


def test_the_nodepool_to_begin_with_is_for_a_cluster() -> None:
    """Tags and the role of nodes carry its name."""
    result = CliRunner().invoke(main, ["example", "nodepool", "-c", "green"])
    _, node_class = yaml.safe_load_all(result.stdout)

    assert node_class["spec"]["role"] == "KarpenterNodeRole-green"
    assert node_class["spec"]["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "green"}}]


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
