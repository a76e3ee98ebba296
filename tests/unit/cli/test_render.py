"""``karpenter render``: an installation as code, without an account and from the embedded AWS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli.group import main

if TYPE_CHECKING:
    from pathlib import Path


OFFLINE = (
    "--account",
    "111122223333",
    "--region",
    "us-west-2",
    "--subnet",
    "subnet-1",
    "--security-group",
    "sg-1",
)
POD_IDENTITY = ("-c", "blue", *OFFLINE, "--identity", "pod-identity")


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, ["render", *words])


def test_terraform_is_printed() -> None:
    """One text holds every resource of the plan, with the names of the cluster."""
    text = typed("terraform", *POD_IDENTITY).output

    assert text.startswith("# What Karpenter needs for the cluster blue.\n")
    assert 'resource "aws_eks_pod_identity_association" "controller"' in text
    assert '  for_each    = toset(["subnet-1", "sg-1"])\n' in text
    assert 'name = "KarpenterNodeRole-blue"' in text


def test_terraform_is_written(tmp_path: Path) -> None:
    """A folder has the files, both charts, and the chart of the default NodePool: all that apply reads."""
    result = typed("terraform", *POD_IDENTITY, "--write", str(tmp_path))
    files = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}

    assert result.exit_code == 0, result.output
    assert {"versions.tf", "policies.tf", "main.tf", "chart.tf"} <= files
    assert {"charts/karpenter/Chart.yaml", "charts/karpenter-crd/Chart.yaml", "nodepools/Chart.yaml"} <= files
    assert f"wrote {len(files)} files into {tmp_path}" in result.output


def test_the_files_as_data() -> None:
    """With -o json the texts stand by the names of their files."""
    files = json.loads(typed("terraform", *POD_IDENTITY, "-o", "json").output)

    assert list(files) == ["versions.tf", "policies.tf", "main.tf", "chart.tf"]


def test_cloudformation_is_that_of_install() -> None:
    """The template has the stack of `karpenter install -o cloudformation`."""
    (template,) = [each for each in yaml.safe_load_all(typed("cloudformation", *POD_IDENTITY).output) if each]

    assert "PodIdentityAssociation" in template["Resources"]


def test_the_values_of_the_chart() -> None:
    """What is set is in the values, in China with the ARN of that partition."""
    words = ("-c", "blue", *OFFLINE, "--region", "cn-north-1", "--issuer", "https://oidc.example/id/A")
    values = yaml.safe_load(typed("helm-values", *words, "--set", "replicas=1").output)

    assert values == {
        "serviceAccount": {
            "name": "karpenter",
            "annotations": {
                "eks.amazonaws.com/role-arn": "arn:aws-cn:iam::111122223333:role/KarpenterControllerRole-blue"
            },
        },
        "settings": {"clusterName": "blue", "interruptionQueue": "blue"},
        "replicas": 1,
    }


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        pytest.param(("--account", "12"), "an account is twelve digits", "", id="an account that is none"),
        pytest.param(OFFLINE[:2], "--account needs --region", "--region us-west-2", id="no region"),
        pytest.param(
            (*OFFLINE, "--issuer", "oidc"),
            "an issuer is a URL",
            "--issuer https://oidc",
            id="an issuer that is none",
        ),
        pytest.param(OFFLINE, "EKS names no OIDC issuer", "--identity pod-identity", id="no issuer"),
        pytest.param(OFFLINE[:4], "no subnet was found", "name them with --subnet ID", id="no subnet"),
        pytest.param(
            (*OFFLINE, "--naming", "eksdemo"), "names images by their ids", "--ami-alias", id="no images"
        ),
    ],
)
def test_what_cannot_be_rendered(words: tuple[str, ...], problem: str, hint: str) -> None:
    """One sentence says what is missing, and a hint what helps."""
    extra = ("--identity", "pod-identity") if problem.startswith("no subnet") else ()
    result = typed("terraform", "-c", "blue", *words, *extra)

    assert result.exit_code != 0
    assert problem in result.output
    assert hint in result.output
