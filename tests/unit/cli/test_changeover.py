"""``karpenter changeover`` on files, as a user types it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.cli import main
from tests.unit.changeover.objects import deployment, machine, node_class, pod, pool, rule, secret

VALUES = {"settings": {"clusterName": "blue"}}
NOON = ["--now", "2026-03-01T12:00:00Z"]


def run(*objects: dict[str, Any], arguments: tuple[str, ...] = ()) -> Result:
    text = render_documents([node_class(), deployment(), secret(VALUES), *objects])
    return CliRunner().invoke(main, ["changeover", "-f", "-", *NOON, *arguments], input=text)


def test_a_quiet_cluster_has_no_churn() -> None:
    """Hashes of Karpenter 1.14.1 are ours: nothing drifts, nothing goes, and the check passes."""
    result = run(pool(), *machine("a"), pod("web-1", "a"), arguments=("--check",))

    assert result.exit_code == 0, result.output
    assert "No node would be replaced or removed." in result.stdout
    assert "helm upgrade karpenter charts/karpenter -n kube-system" in result.stdout


def test_drift_is_named_with_its_reason() -> None:
    """A claim of another hash drifts; one that Karpenter has marked is told apart."""
    machines = (*machine("a", pool_hash="1"), *machine("b"), *machine("c", pool_hash="1", drifted=True))
    result = run(pool(), *machines, arguments=("--check", "-o", "json"))
    found = json.loads(result.stdout)

    assert result.exit_code == 1
    assert [(each["claim"], each["reason"], each["already"]) for each in found["drifted"]] == [
        ("a", "NodePoolDrifted", False),
        ("c", "NodePoolDrifted", True),
    ]
    assert {name for each in found["hour"]["commands"] for name in each["nodes"]} == {"a", "c"}
    assert found["churn"] == ["a", "c"]


def test_the_first_hour_follows_consolidation_to_its_end() -> None:
    """Two half-empty machines become one small one, within the hour, with the money that it saves."""
    objects = (*machine("a"), *machine("b"), pod("web-1", "a"), pod("web-2", "b"))
    found = json.loads(run(pool(consolidateAfter="0s"), *objects, arguments=("-o", "json")).stdout)
    hour = found["hour"]

    gone = {name for each in hour["commands"] for name in each["nodes"]}
    assert {"a", "b"} <= gone
    assert hour["machines"] == 1
    assert 0 < hour["hourlyAfter"] < hour["hourlyBefore"]
    assert hour["podsMoved"] >= 2


def test_markdown_has_every_section() -> None:
    """The report for a ticket has what the text has."""
    result = run(pool(), rule("karpenter_made_up > 0"), arguments=("-o", "markdown"))

    assert "## Metrics in alerts and dashboards" in result.stdout
    assert "karpenter_made_up: there is no such metric" in result.stdout
    assert "## The way back" in result.stdout


def test_text_fits_a_terminal_and_commands_stay_whole() -> None:
    """Prose is filled to 80 columns; commands are one line each."""
    result = run(pool(), *machine("a", pool_hash="1"))
    prose = result.stdout.partition("The switch\n")[0]

    assert max(len(line) for line in prose.splitlines()) <= 80


def test_what_is_no_object_is_refused() -> None:
    """A file that cannot be read changes nothing and ends with 2."""
    result = CliRunner().invoke(main, ["changeover", "-f", "-"], input="- 1\n")

    assert result.exit_code == 2
