"""The command `karpenter doctor`: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from karpenter.cli.doctor import doctor
from karpenter.doctor.rules import RULES
from tests.unit.doctor.world import CLASS, POOL, WORKLOAD, changed

DATA = Path(__file__).parents[2] / "data"
SEEDS = DATA / "seeds"
LIMITLESS = changed(POOL, ('  limits: {cpu: "1000"}\n', ""))
CAPITAL = changed(
    POOL,
    (
        "{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}",
        "{key: karpenter.k8s.aws/instance-category, operator: In, values: [C]}",
    ),
)
GOLDEN = """\
error: stdin#1: NodePool/default: spec.template.spec.requirements[0].values:
    karpenter.k8s.aws/instance-category is never 'C', so that nothing matches;
    did you mean 'c'?
  fix: write c
  see docs/reference/doctor.md#label-value
"""
COUNTS = """\
not checked: 2 rules, the version of Kubernetes is not known: give --context, or
  --region and --cluster
not checked: 4 rules, no chart is stated: neither by a release in the cluster
  nor by a manifest
not checked: 14 rules, no installation of the operator was found
not checked: 4 rules, no live cluster: give --context
not checked: 14 rules, no AWS account: give --region and --cluster
not checked: 8 rules, no IAM policy: give --policy FILE
not checked: 9 rules, no Terraform: give --terraform DIR
not checked: 27 rules, no log: give --log FILE
1 error, 0 warnings, 0 notes; 28 rules checked
"""


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(doctor, list(arguments), input=text)


def test_a_finding_in_full() -> None:
    """A finding names object, field, what helps and the anchor; what was not checked goes to stderr."""
    result = run("-f", "-", text=f"{CAPITAL}---{CLASS}")

    assert result.stdout == GOLDEN
    assert result.stderr == COUNTS
    assert result.exit_code == 1


def test_nothing_wrong() -> None:
    """Sound manifests print nothing, and the command succeeds."""
    result = run("-f", "-", text=f"{POOL}---{CLASS}---{WORKLOAD}")

    assert (result.exit_code, result.stdout) == (0, "")


def test_warnings_are_no_failure() -> None:
    """Only errors make the command fail."""
    result = run("-f", "-", text=f"{LIMITLESS}---{CLASS}")

    assert result.exit_code == 0
    assert result.stdout.startswith("warning: stdin#1: NodePool/default: spec.limits:")


@pytest.mark.parametrize(
    "given", [("-f", str(SEEDS)), ("--policy", str(SEEDS / "controller-policy.json.txt"))]
)
def test_80_columns(given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything fits a terminal of 80 columns."""
    monkeypatch.chdir(SEEDS.parent)
    short = [each.replace(f"{SEEDS.parent}/", "") for each in given]
    result = run(*short)

    assert [line for line in result.output.splitlines() if len(line) > 80] == []


def test_one_line_each() -> None:
    """With -o lines a finding is one line, however long, with the same parts."""
    result = run("-f", "-", "-o", "lines", text=f"{CAPITAL}---{CLASS}")

    [line] = result.stdout.splitlines()
    assert line.startswith("error: stdin#1: NodePool/default: spec.template.spec.requirements[0].values: ")
    assert line.endswith("; fix: write c (docs/reference/doctor.md#label-value)")


def test_json() -> None:
    """With -o json programs get findings, counts and what was skipped, and nothing else on stdout."""
    result = run("-f", "-", "-o", "json", text=f"{CAPITAL}---{CLASS}")
    data = json.loads(result.stdout)

    assert (data["errors"], data["warnings"], data["notes"], data["checked"]) == (1, 0, 0, 28)
    [finding] = data["findings"]
    assert finding["rule"] == "label-value"
    assert finding["fix"] == "write c"
    assert finding["anchor"] == "docs/reference/doctor.md#label-value"
    assert data["checked"] + sum(len(each["rules"]) for each in data["skipped"]) == len(RULES)


def test_the_policy_of_the_guide() -> None:
    """Commas that are missing and wildcards are errors, each with line and column."""
    result = run("--policy", str(SEEDS / "controller-policy.json.txt"), "-o", "lines")
    errors = [line for line in result.stdout.splitlines() if line.startswith("error")]

    assert result.exit_code == 1
    assert [line.split("controller-policy.json.txt:")[1].split(";")[0] for line in errors] == [
        "20:16: policy: a comma is missing here",
        "22:30: policy: a comma is missing here",
        "20:9: Statement[1]: ec2:* allows every action of ec2",
        "23:9: Statement[1]: iam:* allows every action of iam",
    ]


def test_a_log_on_standard_input() -> None:
    """A log can be piped in, and is explained."""
    text = "Deploying my-stack failed due to conflicting add-on: ClusterAutoscalerAddOn.\n"
    result = run("--log", "-", text=text)

    assert result.exit_code == 1
    assert "error: stdin:1: ClusterAutoscalerAddOn: Karpenter and another autoscaler" in result.stdout


def test_a_rule_that_is_left_out() -> None:
    """With --ignore a rule is not looked at; a name that is none is refused."""
    assert run("-f", "-", "--ignore", "label-value", text=f"{CAPITAL}---{CLASS}").exit_code == 0
    refused = run("-f", "-", "--ignore", "label-values", text=POOL)
    assert refused.exit_code == 2
    assert "there is no rule 'label-values'" in refused.stderr


def test_a_folder_of_terraform() -> None:
    """Terraform and manifests are judged together, as they are applied."""
    pytest.importorskip("hcl2")
    folder = str(DATA / "doctor" / "terraform")
    result = run("--terraform", folder, "-f", "-", "-o", "lines", text=f"{POOL}---{CLASS}")

    assert result.exit_code == 1
    assert (
        "the node role is called ex-terraform, and EC2NodeClass/default names KarpenterNode" in result.stdout
    )
    assert "Karpenter 1.0.2" not in result.stdout  # it supports Kubernetes 1.30, which the folder states


def test_terraform_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without python-hcl2 the folder is not read, and how to install it is said."""
    monkeypatch.setitem(sys.modules, "hcl2", None)
    result = run("--terraform", str(DATA / "doctor" / "terraform"), "-f", "-", text=f"{POOL}---{CLASS}")

    assert result.exit_code == 0
    assert "python-hcl2 is not installed: pip install python-hcl2" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("-f", "nowhere"), "nowhere: No such file", id="no such file"),
        pytest.param(("--region", "us-west-2"), "the name of the EKS cluster is not known", id="no cluster"),
        pytest.param(("--terraform", "."), "no file here ends with .tf", id="no Terraform"),
        pytest.param(
            ("--region", "us-west-2", "--cluster", "blue"),
            "the AWS account cannot be read: ",
            id="no credentials for AWS",
        ),
        pytest.param(("--kubeconfig", "nowhere"), "nowhere", id="no kubeconfig"),
    ],
)
def test_input_that_cannot_be_used(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be used is one line on stderr, and the exit code is 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "nowhere")
    result = run(*arguments)

    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""
