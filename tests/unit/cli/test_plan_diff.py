"""``karpenter plan diff`` and the end of a change of NodePools: bills, machines, evictions, pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from karpenter.api.manifests import render_documents
from karpenter.api.meta import to_plain
from karpenter.cli import main
from tests.unit.cli.test_plan import CATALOGUE, NOW, POOL
from tests.unit.core.disruption.clusters import machine, pod
from tests.unit.why.clusters import pod as waiting

if TYPE_CHECKING:
    from pathlib import Path

HASHES = {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]}


class Folder:
    """A folder with the manifests of a cluster, and a catalogue of two types."""

    def __init__(self, path: Path) -> None:
        self._path = path
        types = [sold("four", 4, 0.1), sold("eight", 8, 0.18)]
        (path / "catalogue.json").write_text(json.dumps(types), "utf-8")

    def write(self, name: str, *objects: Any) -> str:
        plain = [each if isinstance(each, dict) else to_plain(each) for each in objects]
        (self._path / name).write_text(render_documents(plain), "utf-8")
        return str(self._path / name)

    def run(self, *arguments: str) -> Result:
        catalogue = str(self._path / "catalogue.json")
        return CliRunner().invoke(main, ["plan", *arguments, "--catalog", catalogue, "--now", NOW])

    def compared(self, *arguments: str) -> dict[str, Any]:
        found = self.run("diff", *arguments, "-o", "json")
        assert found.exit_code == 0, found.output
        data: dict[str, Any] = json.loads(found.stdout)
        return data


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def sold(name: str, cpu: int, price: float) -> dict[str, Any]:
    offering = CATALOGUE["offerings"][0] | {"Price": price}
    resources = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": "110"}
    return CATALOGUE | {"name": name, "resources": resources, "offerings": [offering]}


def pool(*kinds: str, budget: str = "100%") -> dict[str, Any]:
    """Return a NodePool that buys these instance types."""
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(kinds)}
    template = POOL["spec"]["template"]["spec"] | {"requirements": [wanted], "expireAfter": "Never"}
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": budget}]}
    return POOL | {"spec": {"template": {"spec": template}, "disruption": disruption}}


def running(name: str, *pods: Any) -> list[dict[str, Any]]:
    """Return a machine of the type ``four`` that was made by another version of its NodePool."""
    objects = [to_plain(each) for each in machine(name, "four", zone="zone-a", notes=HASHES)]
    return [*objects, *(each if isinstance(each, dict) else to_plain(each) for each in pods)]


def test_two_pools(folder: Folder) -> None:
    """Each side is the cluster with one of them: machines by type, and the bill with what it changes."""
    common = folder.write("pods.yaml", *(waiting(f"web-{number}", "1") for number in range(6)))
    small, large = folder.write("small.yaml", pool("four")), folder.write("large.yaml", pool("eight"))
    found = folder.compared("-f", common, small, large)

    assert (found["before"]["name"], found["after"]["name"]) == (small, large)
    assert found["before"]["machines"] == {"four on-demand": 2}
    assert found["after"]["machines"] == {"eight on-demand": 1}
    assert found["changes"]["hourly"] == pytest.approx(0.18 - 0.2)
    assert found["changes"]["machines"] == [
        {"type": "four on-demand", "before": 2, "after": 0},
        {"type": "eight on-demand", "before": 0, "after": 1},
    ]


def test_one_side_is_compared_with_what_is_there_without_it(folder: Folder) -> None:
    """Its objects replace those of the same kind and name, and pods that lose their place are named."""
    cluster = folder.write("cluster.yaml", pool("eight"), waiting("big", "6"))
    changed = folder.write("changed.yaml", pool("four"))
    found = folder.run("diff", "-f", cluster, changed, "--strict")

    assert found.exit_code == 1
    assert "No place any more: big" in found.output
    assert found.stdout.startswith(f"before: without {changed}\nafter:  with {changed}\n")


def test_two_settings(folder: Folder) -> None:
    """A side may be a setting of the operator."""
    static = pool("four")
    static["spec"]["replicas"] = 2
    cluster = folder.write("cluster.yaml", static)
    found = folder.compared("-f", cluster, "feature-gates=StaticCapacity=true")

    assert (found["before"]["machines"], found["after"]["machines"]) == ({}, {"four on-demand": 2})


def test_sides_that_come_to_the_same(folder: Folder) -> None:
    """Two files that say the same are said to."""
    one, other = folder.write("one.yaml", pool("four")), folder.write("other.yaml", pool("four"))

    assert "Both come to the same." in folder.run("diff", one, other).output


def test_markdown(folder: Folder) -> None:
    """The figures of both sides are one table, for a pull request."""
    cluster = folder.write("cluster.yaml", pool("eight"), waiting("big", "6"))
    found = folder.run("diff", "-f", cluster, folder.write("changed.yaml", pool("four")), "-o", "markdown")

    assert "| bill an hour | $0.1800 | $0.0000 | -$0.1800 (-100.0%) |" in found.stdout
    assert "| eight on-demand | 1 | 0 | -1 |" in found.stdout
    assert "No place any more: `default/big`" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["diff", "a", "b", "c"], "error: plan diff compares two sides, not 3", id="three sides"),
        pytest.param(["diff", "a", "b"], "error: a: No such file or directory", id="no such file"),
        pytest.param(["diff", "nope=1", "x=2"], "error: --set: ", id="no such setting"),
    ],
)
def test_sides_that_cannot_be_used(folder: Folder, arguments: list[str], sentence: str) -> None:
    """What is wrong is one line, and nothing is printed."""
    found = folder.run(*arguments)

    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(sentence)


def test_the_end_of_a_change_of_a_pool(folder: Folder) -> None:
    """All that has drifted is counted, in order, with what it comes to; held nodes and budgets are named."""
    pinned = pod("pinned-1", "held", annotations={"karpenter.sh/do-not-disrupt": "true"})
    nodes = [running("a", pod("web-1", "a", cpu="3")), running("b", pod("web-2", "b", cpu="3"))]
    nodes.append(running("held", pinned))
    cluster = folder.write(
        "cluster.yaml", pool("eight", budget="50%"), *(each for node in nodes for each in node)
    )
    found = json.loads(folder.run("-f", cluster, "--disruption", "-o", "json").stdout)["rollout"]

    assert [(each["node"], each["reason"], "held" in each) for each in found["drifted"]] == [
        ("a", "NodePoolDrifted", False),
        ("b", "NodePoolDrifted", False),
        ("held", "NodePoolDrifted", True),
    ]
    assert found["atOnce"] == {"default": 2}
    assert found["machinesBefore"] == {"four on-demand": 3}
    assert sum(found["machinesAfter"].values()) == 2
    assert (found["hourlyBefore"], found["podsEvicted"]) == (pytest.approx(0.3), 2)
    assert found["unscheduled"] == []

    assert "The bill at the end: $0.3000" in folder.run("-f", cluster, "--disruption", "-o", "html").output
    text = " ".join(folder.run("-f", cluster, "--disruption").output.split())
    assert "2 machines go, in this order: a, b; at most 2 of NodePool default at the same time" in text
    assert "held stays: pod default/pinned-1 must not be disrupted" in text


def test_a_node_whose_pods_have_no_other_place_stays(folder: Folder) -> None:
    """It is named with the pod, and counts at the end."""
    nodes = [running("a", pod("web-1", "a", cpu="3")), running("b", pod("web-2", "b", cpu="1"))]
    cluster = folder.write("cluster.yaml", pool("two"), *(each for node in nodes for each in node))
    found = json.loads(folder.run("-f", cluster, "--disruption", "-o", "json").stdout)["rollout"]

    assert [each["node"] for each in found["drifted"] if "held" in each] == ["b"]
    assert found["drifted"][1]["held"].startswith("pod default/web-2 would have no other place: ")
    assert found["machinesAfter"]["four on-demand"] == 1
    assert found["unscheduled"] == []


def test_a_plan_without_drift_has_no_end_of_a_change(folder: Folder) -> None:
    """The key is there only where something has drifted."""
    cluster = folder.write("cluster.yaml", pool("four"), waiting("web", "1"))

    assert "rollout" not in json.loads(folder.run("-f", cluster, "--disruption", "-o", "json").stdout)


def test_a_plan_as_markdown(folder: Folder) -> None:
    """New machines by type, and pods without a place with why."""
    cluster = folder.write("cluster.yaml", pool("four"), waiting("web", "1"), waiting("huge", "99"))
    found = folder.run("-f", cluster, "-o", "markdown").stdout

    assert found.startswith("**1 new machine**, $0.1000 an hour, $73.00 a month; 1 pod without a place.\n")
    assert "| four | on-demand | 1 | 1 | $0.1000 |" in found
    assert "| 1 | `default/huge` |" in found


def test_a_long_table_begins_with_a_summary(folder: Folder) -> None:
    """From a dozen rows on, machines are summed up by instance type first."""
    pods = [waiting(f"app{letter}-0", "3500m") for letter in "abcdefghijklmnopqrstuvwxy"] + [
        waiting("big", "7")
    ]
    far = folder.run("-f", folder.write("cluster.yaml", pool("four", "eight"), *pods)).stdout
    near = folder.run("-f", folder.write("few.yaml", pool("four", "eight"), *pods[:3])).stdout

    assert 0 <= far.find("New machines by instance type") < far.find("New machines  ")
    assert "New machines by instance type" not in near
