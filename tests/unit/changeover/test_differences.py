"""Which values, settings, metrics and log texts of a Karpenter installation mean something else here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import karpenter
from karpenter.changeover.report import back_commands, switch_commands
from karpenter.changeover.settings import LOGGED, alert_differences, setting_differences, value_differences
from karpenter.session.installation import Installation, find_installation
from tests.unit.changeover.objects import deployment, rule, secret

VALUES = {"settings": {"clusterName": "blue"}}


def test_the_release_of_helm_and_its_deployment_are_one_installation() -> None:
    """Namespace and variables are those of the Deployment, values and revision those of the release."""
    found = find_installation([secret(VALUES, revision=2), secret(VALUES, revision=3), deployment()])

    assert (found.namespace, found.deployment, found.replicas) == ("kube-system", "karpenter", 2)
    assert (found.release, found.revision, found.values) == ("karpenter", 3, VALUES)
    assert found.environment["CLUSTER_NAME"] == "blue"


def test_a_cluster_without_karpenter_has_none() -> None:
    """Other Deployments are not taken for it."""
    other = deployment()
    other["metadata"]["labels"] = {"app": "web"}
    other["spec"]["template"]["spec"]["containers"][0]["env"] = []

    assert not find_installation([other]).deployment


@pytest.mark.parametrize(
    ("values", "subjects", "blocks"),
    [
        pytest.param(VALUES, [], False, id="a plain release has no difference"),
        pytest.param(
            {**VALUES, "controller": {"image": {"tag": "1.14.1"}}},
            ["controller.image.tag"],
            False,
            id="Karpenter's image is set anew",
        ),
        pytest.param(
            {**VALUES, "webhook": {"enabled": True}}, ["webhook"], False, id="a retired value has no effect"
        ),
        pytest.param({**VALUES, "colour": "red"}, ["colour"], True, id="an unknown value blocks"),
        pytest.param(
            {**VALUES, "colour": "red", "replicas": {}, "shape": 1},
            ["colour", "replicas", "shape"],
            True,
            id="every refused value is named",
        ),
    ],
)
def test_values(values: dict[str, Any], subjects: list[str], blocks: bool) -> None:
    """Values are held against our chart, all of them at once."""
    found = list(value_differences(find_installation([secret(values), deployment()])))

    assert sorted(each.subject for each in found) == sorted(subjects)
    assert any(each.blocks for each in found) == blocks


@pytest.mark.parametrize(
    ("environment", "args", "subjects"),
    [
        pytest.param({}, [], [], id="what the release states is the same"),
        pytest.param({"BATCH_IDLE_DURATION": "5s"}, [], ["BATCH_IDLE_DURATION"], id="set beside the release"),
        pytest.param({"BATCH_IDLE_DURATION": "1s"}, [], [], id="a default that is stated is in force here"),
        pytest.param({"KARPENTER_COLOUR": "red"}, [], ["KARPENTER_COLOUR"], id="no setting at all"),
        pytest.param({"GOMEMLIMIT": "1GiB"}, [], ["GOMEMLIMIT"], id="a variable of Go's runtime"),
        pytest.param({"AWS_REGION": "us-west-2"}, [], [], id="a variable of the SDK"),
        pytest.param({}, ["--colour=red"], ["COLOUR"], id="an argument that is no setting"),
        pytest.param({"PREFERENCE_POLICY": "Maybe"}, [], ["PREFERENCE_POLICY", "environment"], id="refused"),
    ],
)
def test_settings(environment: dict[str, str], args: list[str], subjects: list[str]) -> None:
    """Variables and arguments of the Deployment are held against our settings and our chart."""
    installed = find_installation([secret(VALUES), deployment(environment=environment, args=args)])

    assert sorted(each.subject for each in setting_differences(installed)) == sorted(subjects)


@pytest.mark.parametrize(
    ("expression", "subjects"),
    [
        pytest.param("rate(karpenter_nodeclaims_created_total[5m]) > 1", [], id="a metric of both"),
        pytest.param(
            "histogram_quantile(0.9, rate(karpenter_pods_startup_duration_seconds_bucket[5m]))",
            [],
            id="the buckets of a histogram",
        ),
        pytest.param("karpenter_made_up > 0", ["karpenter_made_up"], id="a metric that neither has"),
        pytest.param(
            "karpenter_nodes_created > 0", ["karpenter_nodes_created"], id="a name from before version 1"
        ),
        pytest.param(
            'karpenter_nodeclaims_created_total{colour="red", nodepool="a"}',
            ["karpenter_nodeclaims_created_total{colour}"],
            id="a label that the metric does not have",
        ),
        pytest.param(
            'controller_runtime_made_up_total{job="karpenter"} > 0',
            ["controller_runtime_made_up_total"],
            id="a metric of the runtime, of Karpenter's job",
        ),
        pytest.param('controller_runtime_made_up_total{job="other"}', [], id="another controller's metric"),
        pytest.param(
            'count_over_time({app="karpenter"} |= "launched nodeclaim" [5m]) > 9', [], id="a text we log"
        ),
        pytest.param(
            'count_over_time({app="karpenter"} |= "pricing updated" [5m]) > 9',
            ["pricing updated"],
            id="a text we do not log",
        ),
        pytest.param('count_over_time({app="karpenter"} |= "ERROR" [5m]) > 9', [], id="a level"),
    ],
)
def test_alerts(expression: str, subjects: list[str]) -> None:
    """Metrics, labels and log texts that alerts use are looked up among ours."""
    assert [each.subject for each in alert_differences([rule(expression)])] == subjects


def test_every_text_of_the_table_is_logged() -> None:
    """The table of log texts is what the source logs as summaries, no more and no less."""
    folder = Path(karpenter.__file__).parent
    found = set()
    alerts = folder / "dashboards" / "objects.py"
    for path in set(folder.rglob("*.py")) - {alerts}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.keyword)
                and node.arg == "summary"
                and isinstance(node.value, ast.Constant)
            ):
                found.add(node.value.value)
    dynamic = {
        "computed new nodeclaim(s) to fit pod(s)",
        "deleted node",
        "deleted nodeclaim",
        "deleted pod",
        "found provisionable pod(s)",
    }

    assert found | dynamic == set(LOGGED)


def test_the_commands_of_a_release() -> None:
    """Theirs ends before ours starts, and the way back names the revision of theirs."""
    found = find_installation([secret(VALUES), deployment()])
    there = [each.command for each in switch_commands(found, kubectl="--context blue")]
    back = [each.command for each in back_commands(found, kubectl="--context blue")]

    stops = next(n for n, each in enumerate(there) if "--replicas=0" in each)
    starts = next(n for n, each in enumerate(there) if "helm --kube-context blue upgrade karpenter" in each)
    assert stops < starts
    assert "helm --kube-context blue rollback karpenter 3 -n kube-system" in back


def test_the_commands_without_a_release() -> None:
    """Where Helm has no release, manifests are applied, with the cluster's name."""
    found = find_installation([deployment()])

    assert any("settings.clusterName=blue" in each.command for each in switch_commands(found))
    assert not any("helm" in each.command for each in (*switch_commands(found), *back_commands(found)))
    assert switch_commands(Installation())
