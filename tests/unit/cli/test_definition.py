"""``karpenter definition``: rendering, importing, the schema, and what a change would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.cli import main

ROOT = Path(__file__).parents[3]
GITOPS = ROOT / "examples" / "gitops"
SEED = ROOT / "tests" / "data" / "definitions" / "cluster.yaml"
NOW = ("--now", "2026-03-01T00:00:00Z")
OLD = ("--from", str(GITOPS / "cluster.yaml"))
LIVE = ("-f", str(GITOPS / "live.yaml"))


def run(*arguments: str, given: str = "") -> Result:
    """Run ``karpenter definition``."""
    return CliRunner().invoke(main, ["definition", *arguments], input=given)


def checked(*arguments: str, path: Path = GITOPS / "changed.yaml") -> dict[str, Any]:
    done = run("check", str(path), *NOW, *arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_definition_of_the_guide_becomes_objects() -> None:
    """Objects go to standard output and a cluster accepts them; warnings go to standard error."""
    done = run("render", str(SEED), "--cluster-name", "prod")
    accepted = CliRunner().invoke(main, ["validate", "-f", "-"], input=done.stdout)

    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == ["NodePool", "EC2NodeClass"]
    assert "warning: " in done.stderr
    assert "C is c" in done.stderr
    assert accepted.exit_code == 0, accepted.output


def test_render_as_json() -> None:
    """Programs get a list."""
    done = run("render", str(GITOPS / "cluster.yaml"), "-o", "json")

    assert [each["kind"] for each in json.loads(done.stdout)["items"]] == ["NodePool", "EC2NodeClass"]


def test_import_is_the_way_back() -> None:
    """What was rendered is imported as the definition that it was."""
    path = GITOPS / "changed.yaml"
    imported = run("import", "-f", "-", given=run("render", str(path)).stdout)

    assert yaml.safe_load(imported.stdout) == yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("arguments", "given", "sentences"),
    [
        (
            ("render", "-"),
            "karpenter: {node_pools: {a: {limts: {cpu: 1}}}}",
            ["limts: unknown key; did you mean limits?", "limits: is required"],
        ),
        (
            ("render", "-"),
            "karpenter: {node_pools: {a: {limits: {cpu: 1}}}}",
            ["cluster_name: is needed", "hint: "],
        ),
        (
            ("render", "-", "--cluster-name", "c"),
            "karpenter: {node_pools: {A: {limits: {cpu: 1}}}}",
            ["NodePool/A: metadata.name"],
        ),
        (
            ("render", "-", "--cluster-name", "c"),
            "karpenter: {node_pools: {a: {limits: {cpu: 1}, taints: [&x {key: x, effect: NoExecute}, *x]}}}",
            ["spec.template.spec.taints[1]: Duplicate value"],
        ),
        (
            ("render", "-", "--cluster-name", "c"),
            "karpenter: {node_pools: {a: {limits: {cpu: 1}, labels: {karpenter.sh/x: y}}}}",
            ["karpenter.sh is restricted"],
        ),
        (("render", "-"), "a: 1\n---\nb: 2\n", ["holds 2 documents"]),
        (
            ("import", "-f", "-"),
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n",
            ["no NodePool to import"],
        ),
        (
            ("import", "-f", "-"),
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: n}\n",
            ["karpenter convert"],
        ),
    ],
    ids=["keys", "no cluster", "a name", "taints", "a label", "two documents", "no pool", "an old pool"],
)
def test_what_cannot_be_used(arguments: tuple[str, ...], given: str, sentences: list[str]) -> None:
    """It ends with 2 and a sentence, and prints nothing."""
    done = run(*arguments, given=given)

    assert (done.exit_code, done.stdout) == (2, "")
    assert all(each in done.stderr for each in sentences), done.stderr


def test_the_schema_is_json() -> None:
    """Editors read it."""
    assert json.loads(run("schema").stdout)["title"] == "Cluster definition"


def test_a_check_without_a_cluster_says_what_pools_may_buy() -> None:
    """A pool that nothing fits is shown as such, and is in the way."""
    found = checked()
    none = {
        "karpenter": {
            "cluster_name": "c",
            "node_pools": {
                "a": {
                    "limits": {"cpu": 1},
                    "requirements": [
                        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m99"]}
                    ],
                }
            },
        }
    }
    done = run("check", "-", "--strict", given=json.dumps(none))

    assert [each["name"] for each in found["pools"]] == ["default", "batch"]
    assert all(each["types"] > 100 for each in found["pools"])
    assert done.exit_code == 1
    assert "nothing on sale fits" in done.stdout


def test_a_pool_is_held_against_what_its_region_sells() -> None:
    """Requirements that name zones of one region are compared with what that region sells."""
    zones = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
    wanted = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]
    pool = {"limits": {"cpu": 1}, "requirements": wanted}
    plain = {"karpenter": {"cluster_name": "c", "node_pools": {"a": pool}}}
    (found,) = json.loads(run("check", "-", "-o", "json", given=json.dumps(plain)).stdout)["pools"]

    assert found["types"] > 100
    assert "eu-west-1" in found["cheapest"]


def test_a_change_lets_machines_drift() -> None:
    """One machine is replaced, one is held by a budget, and the third is as wanted."""
    found = checked(*OLD, *LIVE)
    machines = {each["node"]: each for each in found["machines"]}

    assert {each["name"]: each["change"] for each in found["pools"]} == {
        "default": "changed",
        "batch": "added",
    }
    assert set(machines) == {"ip-10-0-0-1", "ip-10-0-0-3"}
    assert machines["ip-10-0-0-1"]["reason"] == "RequirementsDrifted"
    assert machines["ip-10-0-0-1"]["step"] == 1
    assert machines["ip-10-0-0-1"]["replacement"][0].startswith("c")
    assert machines["ip-10-0-0-3"]["heldBy"] == "PodDisruptionBudget"
    assert "default/ledger" in machines["ip-10-0-0-3"]["message"]
    saved = machines["ip-10-0-0-1"]["hourlyBefore"] - machines["ip-10-0-0-1"]["hourlyAfter"]
    assert found["monthlyBefore"] - found["monthlyAfter"] == pytest.approx(saved * 730)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("tier: general", "tier: other", "NodePoolDrifted"),
        ("maintainer: platform", "maintainer: other", "NodeClassDrift"),
        ('volumeSize: "100Gi"', 'volumeSize: "200Gi"', "NodeClassDrift"),
        ("node_class:", "node_class:\n        ami_alias: al2023@v20260101", "AMIDrift"),
        ("node_class:", "node_class:\n        extra_securitygroup_ids: [sg-01]", "SecurityGroupDrift"),
    ],
    ids=["labels", "tags", "disks", "images", "security groups"],
)
def test_reasons_to_drift(before: str, after: str, reason: str, tmp_path: Path) -> None:
    """Whatever machines are made of lets all of them drift, one after another."""
    text = (GITOPS / "cluster.yaml").read_text("utf-8")
    assert before in text
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(before, after))
    found = checked(*OLD, *LIVE, path=path)

    assert {each["reason"] for each in found["machines"]} == {reason}
    assert sorted(each["step"] for each in found["machines"] if each["step"]) == [1, 2]
    assert [each["node"] for each in found["machines"] if not each["step"]] == ["ip-10-0-0-3"]


def test_a_definition_that_does_not_change_moves_nothing() -> None:
    """Compared with itself it lets no machine go and costs the same."""
    found = checked(*OLD, *LIVE, path=GITOPS / "cluster.yaml")

    assert found["machines"] == []
    assert found["monthlyBefore"] == found["monthlyAfter"] > 0


def test_a_pool_that_is_removed_takes_its_machines_along(tmp_path: Path) -> None:
    """They are deleted with it, whatever budgets say."""
    path = tmp_path / "empty.yaml"
    path.write_text("karpenter: {cluster_name: prod, node_pools: {other: {limits: {cpu: 1}}}}")
    found = checked(*OLD, *LIVE, path=path)

    assert [each["change"] for each in found["pools"]] == ["added", "removed"]
    assert [each["reason"] for each in found["machines"]] == ["Removed"] * 3
    assert found["monthlyAfter"] == pytest.approx(0)


def test_the_comment_of_a_pull_request() -> None:
    """Markdown has the tables, what is in the way, and the money."""
    done = run("check", str(GITOPS / "changed.yaml"), *OLD, *LIVE, *NOW, "-o", "markdown")

    assert done.stdout.startswith("### Karpenter: what this change does\n")
    assert "| 1 | `ip-10-0-0-1` | default | RequirementsDrifted | c" in done.stdout
    assert "- `ip-10-0-0-3`: PodDisruptionBudget default/ledger prevents" in done.stdout
    assert "a month (-" in done.stdout
    assert run("check", str(GITOPS / "changed.yaml"), *OLD, *LIVE, *NOW, "--strict").exit_code == 1


def test_the_workflow_runs_this_command() -> None:
    """The example for pull requests is YAML and calls the command with options that exist."""
    flow = yaml.safe_load((GITOPS / "workflow.yaml").read_text("utf-8"))
    commands = [step["run"] for step in flow["jobs"]["check"]["steps"] if "run" in step]
    options = {
        word for each in commands for word in each.split() if "definition check" in each and word[:2] == "--"
    }

    assert options == {"--from", "--strict"}
    assert all(each in run("check", "--help").output for each in options)
