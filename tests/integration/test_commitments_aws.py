"""The commitments of an account on the embedded AWS: read by the command, and used by the next plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.cli import main
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.aws.server import EmbeddedAws
from karpenter_local.aws.site import ClusterAccount

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


TYPES = ("c5.large", "c5.xlarge", "m5.large", "m5.xlarge", "m5.2xlarge")
POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ],
            }
        }
    },
}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterAccount]:
    """Lend an account whose credentials and address are in the environment."""
    with EmbeddedAws() as server:
        made = ClusterAccount(server, cluster="blue", types=TYPES)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made
        made.close()


def run(*arguments: str, text: str = "") -> Result:
    """Run a command that has to go well."""
    result = CliRunner().invoke(main, list(arguments), input=text)
    assert result.exit_code == 0, result.output
    return result


def test_commitments_are_read_and_used(site: ClusterAccount, tmp_path: Path) -> None:
    """
    Three m5.large of a region are 12 units: an m5.xlarge of 8 is paid for, and 4 are left.

    A c5.xlarge is reserved in one zone, and the Savings Plan pays 72 % of a price up to 25 cents.
    """
    catalogue, committed = str(tmp_path / "prices.json"), tmp_path / "commitments.yaml"
    refreshed = run("catalog", "refresh", "--out", catalogue, "--commitments", str(committed))
    found = yaml.safe_load(committed.read_text("utf-8"))["commitments"]

    assert "3 commitments" in refreshed.stderr
    assert [
        (each["kind"], each.get("instanceType"), each.get("zone"), each.get("count")) for each in found
    ] == [
        ("ReservedInstance", "m5.large", None, 3),
        ("ReservedInstance", "c5.xlarge", "us-west-2a", 1),
        ("SavingsPlan", None, None, None),
    ]
    assert (found[2]["hourly"], found[2]["rate"]) == (0.25, 0.72)

    requests = {"cpu": "3", "memory": "12Gi"}
    waiting = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }
    planned = run(
        *("plan", "-f", "-", "--catalog", catalogue, "--set", f"commitments={committed}", "-o", "json"),
        text=render_documents([POOL, waiting]),
    )
    bought = json.loads(planned.stdout)["newNodes"][0]["offering"]

    list_price = site.account.on_demand["m5.xlarge"]
    assert (bought["instanceType"], bought["capacityType"]) == ("m5.xlarge", "on-demand")
    assert bought["parts"] == pytest.approx({"list": list_price, "commitment": -list_price}, abs=1e-6)


def test_a_refused_action_leaves_the_rest(site: ClusterAccount, tmp_path: Path) -> None:
    """What the account does not let be read is left out, with a note."""
    site.account.faults.always("DescribeSavingsPlans", RefuseCall(code="AccessDeniedException", message="no"))
    committed = tmp_path / "commitments.yaml"
    refreshed = run("catalog", "refresh", "--commitments", str(committed))
    found = yaml.safe_load(committed.read_text("utf-8"))["commitments"]

    assert {each["kind"] for each in found} == {"ReservedInstance"}
    assert "no Savings Plans were read: " in refreshed.stderr
