"""Options whose values are refused where they are given, with what was probably meant."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from karpenter.cli import main

RENDER = (
    "render helm-values -c blue --account 111122223333 --region us-west-2 --issuer https://x.example"
    " --subnet subnet-1 --security-group sg-1"
)
POOL = "-f examples/kwok"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(
            f"plan {POOL} --set feature-gates=NopeGate=true",
            "there is no feature gate 'NopeGate'; there are ReservedCapacity, NodeRepair",
            id="a gate",
        ),
        pytest.param(f"plan {POOL} --catalog kwokk", "did you mean kwok?", id="a catalogue"),
        pytest.param(
            f"plan {POOL} --catalog aws:us-west-9",
            "there is no region 'us-west-9'; did you mean us-west-2?",
            id="the region of a catalogue",
        ),
        pytest.param("crds nodepol", "hint: did you mean nodepools?", id="a kind of a definition"),
        pytest.param("doctor --ignore ZZZ -f x", "there is no rule 'ZZZ'", id="a rule of doctor"),
        pytest.param(
            "doctor --region us-west-22 -f x",
            "'us-west-22' cannot be the name of an AWS region\nhint: did you mean us-west-2?",
            id="a region",
        ),
        pytest.param("manifests --iam us-west/1", "--iam: 'us-west/1' is not a region", id="an account"),
        pytest.param("manifests --name A_B", "'A_B' cannot be the name of a Helm release", id="a release"),
        pytest.param(f"{RENDER} --set replicas=two", "replicas: 'two' is not a whole number", id="a value"),
        pytest.param(f"{RENDER} --subnet x", "--subnet: 'x' is no id\nhint: such as subnet-0", id="a subnet"),
        pytest.param(f"{RENDER} --security-group x", "hint: such as sg-0", id="a security group"),
        pytest.param(f"{RENDER} --ami-alias al2024@latest", "did you mean al2023?", id="a family of images"),
        pytest.param(f"{RENDER} --ami-alias al2023@lastest", "hint: al2023@latest", id="a version of images"),
        pytest.param(
            f"{RENDER} --kubernetes-version x", "'x' is not a version of Kubernetes", id="a cluster's"
        ),
        pytest.param(f"{RENDER} -v a/b", "--version: 'a/b' cannot be a version", id="a version"),
        pytest.param(
            "dashboards render --runbook-url docs/x.md", "'docs/x.md' is no address of a page", id="a page"
        ),
        pytest.param("dashboards render --label a", "--label: 'a' is not KEY=VALUE", id="half a label"),
        pytest.param("dashboards render --label a=b/c", "--label: 'b/c' ", id="the value of a label"),
        pytest.param("dashboards render -n A", "--namespace: 'A' cannot be a name", id="a namespace"),
        pytest.param(f"hash {POOL} --ca-bundle %%%", "--ca-bundle: is not base64", id="a CA bundle"),
        pytest.param(
            "run --aws-feature-gates A=true", "no feature gate 'A'; there is NodeClassCEL", id="of AWS"
        ),
        pytest.param("simulate --set metric-port=1", "did you mean metrics-port?", id="a setting"),
    ],
)
def test_what_is_refused(command: str, said: str) -> None:
    """A value that cannot be is refused before anything is done, in one sentence."""
    result = CliRunner().invoke(main, command.split())

    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_region_that_is_not_known_yet() -> None:
    """AWS opens regions, so one that is not known is used, and named."""
    command = RENDER.replace("us-west-2", "us-west-9")
    result = CliRunner().invoke(main, command.split())

    assert result.exit_code == 0
    assert result.stderr == (
        "warning: --region: us-west-9 is no region that is known here; did you mean us-west-2?\n"
    )
