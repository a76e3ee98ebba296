"""``karpenter plan`` and ``karpenter why`` say which nodes go back to a NodePool of higher weight."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.core.disruption.command import Command
from karpenter.why.nodes import node_sentence
from tests.unit.cli.test_plan import CATALOGUE, run
from tests.unit.why.clusters import ask, machine, pod, pool

if TYPE_CHECKING:
    from pathlib import Path

SETTING = ("--set", "preferred-pool-price=0.2")
PREFERRED = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["better"]}


def fallen_back() -> list[dict[str, Any]]:
    """Return two NodePools, and a node of the one of lower weight."""
    best = pool("best", weight=10)
    best["spec"]["template"]["spec"]["requirements"].append(PREFERRED)
    there = machine("node-1", nodepool="spare")
    return [best, pool("spare"), *there, pod("web-1", "3500m", nodeName="node-1")]


@pytest.fixture
def sold(tmp_path: Path) -> str:
    """A catalogue in which the better of two types costs a tenth more."""
    offering = CATALOGUE["offerings"][0]
    better = {**CATALOGUE, "name": "better", "offerings": [{**offering, "Price": 0.11}]}
    path = tmp_path / "catalogue.json"
    path.write_text(json.dumps([CATALOGUE, better]), "utf-8")
    return str(path)


def test_a_plan_shows_what_goes_back_and_what_that_costs(sold: str) -> None:
    """The page names the NodePool and the price; JSON has it, too; without the setting nothing goes."""
    page = run("--disruption", "--catalog", sold, *SETTING, objects=fallen_back(), width=120).stdout
    data = json.loads(
        run("--disruption", "--catalog", sold, *SETTING, "-o", "json", objects=fallen_back()).stdout
    )
    off = json.loads(run("--disruption", "--catalog", sold, "-o", "json", objects=fallen_back()).stdout)

    assert "Pods go back to NodePool best, which has a higher weight." in page
    assert "$73.00 → $80.30 a month ($7.30 more), 1 pod moved." in page
    assert "-$7.30" in page
    assert [each["backTo"] for each in data["commands"]] == [["best"]]
    assert off["commands"] == []
    assert [each["code"] for each in off["kept"]] == ["NoSaving"]


def test_a_saving_is_shown_as_before(sold: str) -> None:
    """A command that moves pods for its saving alone says nothing of weights."""
    objects = [pool("spare"), *machine("node-1", nodepool="spare"), *machine("node-2", nodepool="spare")]
    found = run("--disruption", "--catalog", sold, *SETTING, "-o", "json", objects=objects).stdout

    assert ["backTo" in each for each in json.loads(found)["commands"]] == [False]


@pytest.mark.parametrize(
    ("after", "told"), [(1.5, "that saves $365.00 a month."), (2.5, "that costs $365.00 a month.")]
)
def test_a_rise_of_the_price_is_no_saving(after: float, told: str) -> None:
    """What going back costs is said as that."""
    command = Command(
        reason="Underutilized", candidates=("n",), hourly_before=2.0, hourly_after=after, preferred=("a", "b")
    )

    back = "its pods go back to NodePool a or b, which has a higher weight"
    assert node_sentence(True, command, None) == f"It would go now (Underutilized): {back}; {told}"


def test_a_node_says_that_its_pods_go_back(tmp_path: Path) -> None:
    """The answer names the NodePool, and what it saves or costs a month."""
    best = pool("best", weight=10)
    objects = [best, pool("spare"), *machine("node-1", nodepool="spare")]
    result = ask("node/node-1", [*objects, pod("web-1", "3500m", nodeName="node-1")], tmp_path, *SETTING)

    assert " ".join(result.stdout.split()).startswith(
        "node/node-1: It would go now (Underutilized): its pods go back to NodePool best, which has a higher"
        " weight; that saves $0.00 a month."
    )
