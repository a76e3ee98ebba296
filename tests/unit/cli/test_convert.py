"""``karpenter convert``: what it prints where, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli import main

SEED = Path(__file__).parents[2] / "data" / "seeds" / "legacy-provisioner.yaml"
OTHER = "# keep me\napiVersion: v1\nkind: Namespace\nmetadata:   {name: n}\n"
TEMPLATE = """apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: t
spec:
  # our subnets
  subnetSelector: {a: b}
  securityGroupSelector: {a: b}
  instanceProfile: p
"""
BROKEN = TEMPLATE + "  launchTemplate: mine\n"
GROUP = {
    "AutoScalingGroupName": "a",
    "VPCZoneIdentifier": "subnet-01",
    "Instances": [{"InstanceType": "c5.large"}],
}
GROUPS = {"AutoScalingGroups": [{**GROUP, "Tags": [{"Key": "eks:cluster-name", "Value": "prod"}]}]}


def run(*arguments: str, given: str = "") -> Result:
    """Run ``karpenter convert``."""
    return CliRunner().invoke(main, ["convert", *arguments], input=given)


def test_the_manifest_of_the_guide_is_accepted_after_conversion() -> None:
    """Documents go to standard output, findings to standard error, and a cluster takes the documents."""
    done = run("-f", str(SEED), "--node-role", "KarpenterNodeRole-dev")
    checked = CliRunner().invoke(main, ["validate", "-f", "-"], input=done.stdout)

    assert done.exit_code == 0
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == ["NodePool", "EC2NodeClass"]
    assert "role: KarpenterNodeRole-dev" in done.stdout
    assert done.stderr.endswith("1 of 1 document converted: 0 errors, 5 warnings, 3 renamed or moved\n")
    assert checked.exit_code == 0, checked.output


def test_other_documents_are_copied_letter_by_letter() -> None:
    """What is not converted keeps its text, its place and its separators."""
    text = f"{OTHER}--- # two\n{TEMPLATE}---\n{OTHER}"
    done = run("-f", "-", given=text)

    assert done.stdout.startswith(f"{OTHER}--- # two\napiVersion: karpenter.k8s.aws/v1\n")
    assert done.stdout.endswith(f"---\n{OTHER}")
    assert "  # our subnets\n  subnetSelectorTerms:" in done.stdout


def test_what_is_converted_stays_letter_by_letter() -> None:
    """A second conversion changes nothing at all."""
    once = run("-f", "-", given=f"{OTHER}---\n{TEMPLATE}").stdout

    assert run("-f", "-", given=once).stdout == once


def test_documents_on_the_line_of_their_separator_are_converted() -> None:
    """``--- {…}`` begins a document as ``---`` alone does; none of them is lost."""
    inline = json.dumps(yaml.safe_load(TEMPLATE))
    done = run("-f", "-", given=f"{OTHER}--- {inline}\n--- {{kind: Other}}\n...\n---\n{TEMPLATE}")

    assert done.exit_code == 0
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout) if each] == [
        "Namespace",
        "EC2NodeClass",
        "Other",
        "EC2NodeClass",
    ]
    assert "--- {kind: Other}\n...\n---\n" in done.stdout


def test_in_place(tmp_path: Path) -> None:
    """Files that change are written, JSON as JSON; the others are not touched."""
    (tmp_path / "a.yaml").write_text(TEMPLATE)
    (tmp_path / "b.yaml").write_text(OTHER)
    (tmp_path / "c.json").write_text(json.dumps(yaml.safe_load(TEMPLATE.replace("name: t", "name: u"))))
    done = run("-f", str(tmp_path), "--in-place")

    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / "a.yaml").read_text().startswith("apiVersion: karpenter.k8s.aws/v1\n")
    assert (tmp_path / "b.yaml").read_text() == OTHER
    assert json.loads((tmp_path / "c.json").read_text())["kind"] == "EC2NodeClass"
    assert "a.yaml: written" in done.stderr
    assert "b.yaml: written" not in done.stderr


def test_in_place_writes_nothing_when_something_has_no_counterpart(tmp_path: Path) -> None:
    """One object that cannot be converted keeps all files as they are."""
    (tmp_path / "a.yaml").write_text(TEMPLATE)
    (tmp_path / "b.yaml").write_text(BROKEN.replace("name: t", "name: u"))
    done = run("-f", str(tmp_path), "--in-place")

    assert done.exit_code == 1
    assert (tmp_path / "a.yaml").read_text() == TEMPLATE
    assert "b.yaml: AWSNodeTemplate/u: spec.launchTemplate: a launch template" in done.stderr


def test_an_object_that_cannot_be_converted_is_printed_as_it_was() -> None:
    """Nothing is lost on the way to standard output."""
    done = run("-f", "-", given=BROKEN)

    assert (done.exit_code, done.stdout) == (1, BROKEN)
    assert done.stderr.startswith("error: stdin: AWSNodeTemplate/t: spec.launchTemplate: ")


def test_the_report_as_json() -> None:
    """Programs read level, code, place and sentence of every finding."""
    done = run("-f", "-", "--report", "json", given=TEMPLATE)
    report = json.loads(done.stderr)

    assert {key: report[key] for key in ("converted", "unchanged", "info", "warn", "error")} == {
        "converted": 1,
        "unchanged": 0,
        "info": 2,
        "warn": 2,
        "error": 0,
    }
    assert {"level": "warn", "code": "HopLimit", "subject": "AWSNodeTemplate/t"}.items() <= next(
        each.items() for each in report["findings"] if each["code"] == "HopLimit"
    )


def test_documents_as_json() -> None:
    """Several documents are a list."""
    done = run("-f", "-", "-o", "json", given=f"{OTHER}---\n{TEMPLATE}")

    assert [each["kind"] for each in json.loads(done.stdout)["items"]] == ["Namespace", "EC2NodeClass"]


def test_node_groups_as_the_aws_cli_prints_them() -> None:
    """The description of Auto Scaling groups is replaced by pools and classes."""
    done = run("-f", "-", "--node-role", "R", given=json.dumps(GROUPS))

    assert done.exit_code == 0, done.stderr
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == ["NodePool", "EC2NodeClass"]


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        ((), "a: [", "error: stdin: not YAML"),
        ((), "", "error: -: no document to convert"),
        (("--in-place",), TEMPLATE, "error: --in-place: standard input is not a file"),
    ],
    ids=["not YAML", "nothing", "in place of nothing"],
)
def test_input_that_cannot_be_used(arguments: tuple[str, ...], given: str, sentence: str) -> None:
    """It ends with 2 and a sentence, and prints nothing."""
    done = run("-f", "-", *arguments, given=given)

    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_node_groups_are_not_replaced_in_place(tmp_path: Path) -> None:
    """A file that describes a cluster is not overwritten with its pools."""
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS))
    done = run("-f", str(tmp_path / "groups.json"), "--node-role", "R", "--in-place")

    assert done.exit_code == 2
    assert "hint: leave --in-place out" in done.stderr
    assert json.loads((tmp_path / "groups.json").read_text()) == GROUPS


def test_a_document_that_cannot_be_read_stays_among_others() -> None:
    """A template of another tool beside manifests is named and left as it is."""
    strange = "a: !Ref b\n"
    done = run("-f", "-", given=f"{TEMPLATE}---\n{strange}")

    assert done.exit_code == 1
    assert done.stdout.endswith(f"---\n{strange}")
    assert "error: stdin: line 11: not YAML" in done.stderr


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_old_kinds_are_refused_with_the_name_of_the_command(command: str) -> None:
    """The refusal of an old kind says how to convert it."""
    done = CliRunner().invoke(main, [command, "-f", str(SEED)])

    assert done.exit_code == 2
    assert "karpenter convert -f FILE" in done.output
