"""The document that the page draws."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.cli.console import planned_document
from karpenter.cli.planning.data import plan_data
from karpenter.cli.planning.decision import decide
from karpenter.console.plan import plan_document
from karpenter.console.state import (
    ConsoleDocument,
    Snapshot,
    SnapshotBuilder,
    encode,
    frame_between,
    plan_summary,
)
from karpenter.operator.options import parse_settings
from tests.unit.console.clusters import NOON, inquiry, small_cluster
from tests.unit.why.clusters import machine, pod, pool

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.why.answer import Inquiry


def snapshot_of(asked: Inquiry) -> Snapshot:
    return SnapshotBuilder().build(asked.view, asked.catalog)


def test_a_snapshot_has_machines_pods_and_nodepools(tmp_path: Path) -> None:
    """Machines have what they are and cost, pods their workload and place, NodePools what is used of them."""
    found = snapshot_of(inquiry(small_cluster(), tmp_path))

    assert msgspec.to_builtins(found.machines["claim-n"]) == {
        "name": "claim-n",
        "state": "ready",
        "node": "n",
        "claim": "claim-n",
        "pool": "default",
        "zone": "zone-a",
        "type": "four",
        "capacityType": "on-demand",
        "cpu": 4000,
        "memory": 8192,
        "price": 0.1,
        "created": "2026-03-01T00:00:00Z",
        "requested": "cpu 3, memory 2Gi",
    }
    assert {key: msgspec.to_builtins(each) for key, each in found.pods.items()} == {
        "default/web-5d9c-a": ["default/web", "claim-n", 1000, 1024, "running", False, "", 0],
        "default/web-5d9c-b": ["default/web", "claim-n", 1000, 1024, "running", False, "", 0],
        "default/agent-x": ["default/agent", "claim-n", 100, 128, "running", True, "", 0],
        "default/late": ["default/late", "", 1000, 1024, "waiting", False, "", 0],
    }
    assert msgspec.to_builtins(found.pools["default"]) == {
        "name": "default",
        "limits": {"cpu": "4 of 8"},
        "share": 0.5,
    }


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(machine("n", steps=0, node=False), "launching", id="a NodeClaim without a machine"),
        pytest.param(machine("n", steps=1, node=False), "joining", id="a machine that has not joined"),
        pytest.param(machine("n", steps=2), "starting", id="a node that is not initialized"),
        pytest.param(machine("n", ready="False"), "not ready", id="a node that is not ready"),
        pytest.param(
            machine("n", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
            "disrupting",
            id="a node that is being disrupted",
        ),
    ],
)
def test_states_of_a_machine(objects: list[dict[str, Any]], expected: str, tmp_path: Path) -> None:
    """The state of a machine is how far it has come."""
    (found,) = snapshot_of(inquiry([pool(), *objects], tmp_path)).machines.values()

    assert found.state == expected


def test_the_bill_counts_what_is_there(tmp_path: Path) -> None:
    """The bill has dollars per hour, the part that is spot, and how many machines and pods there are."""
    bill = snapshot_of(inquiry(small_cluster(), tmp_path)).bill

    assert msgspec.to_builtins(bill) == {
        "hourly": 0.1,
        "spot": 0.0,
        "machines": 1,
        "running": 3,
        "waiting": 1,
    }


def test_a_frame_is_the_difference(tmp_path: Path) -> None:
    """What stays the same is not in a frame; what is gone is named."""
    before = snapshot_of(inquiry(small_cluster(), tmp_path))
    objects = [*small_cluster()[:-1], *machine("m")]
    after = snapshot_of(inquiry(objects, tmp_path))
    frame = frame_between(before, after, NOON)

    assert (list(frame.machines), list(frame.pods), frame.gone) == (
        ["claim-m"],
        [],
        {"pods": ["default/late"]},
    )
    assert frame_between(after, after, NOON).is_empty


def test_the_builder_keeps_what_has_not_changed(tmp_path: Path) -> None:
    """The next snapshot has the same values where nothing changed, so that a difference is cheap."""
    asked, builder = inquiry(small_cluster(), tmp_path), SnapshotBuilder()
    first, second = (builder.build(asked.view, asked.catalog) for _ in range(2))

    assert all(second.pods[key] is pod for key, pod in first.pods.items())
    assert second.machines["claim-n"] is first.machines["claim-n"]


def test_a_plan_is_frames_after_the_cluster_as_it_is(tmp_path: Path) -> None:
    """First what it launches and places, then what disruption does; every decision is a row."""
    asked = inquiry([pool(), pod("a", "3"), pod("b", "3")], tmp_path)
    decision = decide(asked.view, asked.catalog, parse_settings({}), NOON, disruption=True)
    found = planned_document(decision, asked.view, asked.catalog, NOON, title="t")
    (frame,) = found.frames

    assert found.snapshot.bill.waiting == 2
    assert {each.state for each in frame.machines.values()} == {"planned"}
    assert frame.bill.hourly == sum(row.hourly for row in found.decisions) > 0
    assert frame.bill.waiting == 0
    assert found.plans[0].bound is not None
    assert found.plans[0].bound <= found.plans[0].hourly


def test_disruption_of_a_plan_is_the_last_frame(tmp_path: Path) -> None:
    """Machines that go are gone in it, their pods are where they move to, and the saving is told."""
    objects = [pool(), *machine("n"), *machine("m"), pod("a", nodeName="n"), pod("b", nodeName="m")]
    asked = inquiry(objects, tmp_path)
    decision = decide(asked.view, asked.catalog, parse_settings({}), NOON, disruption=True)
    found = planned_document(decision, asked.view, asked.catalog, NOON, title="t")

    assert found.frames[-1].title == "after its disruption"
    assert len(found.frames[-1].gone["machines"]) == 1
    assert {pod.machine for pod in found.frames[-1].pods.values()} < {"claim-n", "claim-m"}
    assert (found.decisions[-1].kind, found.decisions[-1].hourly) == ("disrupt", -0.1)


def test_a_saved_plan_needs_no_cluster(tmp_path: Path) -> None:
    """From the JSON of karpenter plan alone, machines and pods are drawn."""
    asked = inquiry([pool(), pod("a-1", "3"), pod("a-2", "3")], tmp_path)
    decision = decide(asked.view, asked.catalog, parse_settings({}), NOON)
    whole = planned_document(decision, asked.view, asked.catalog, NOON, title="t")
    data = json.loads(json.dumps(plan_data(decision, ["Prices are modelled."])))
    found = plan_document(data, Snapshot(), asked.catalog, NOON, title="t")

    assert found.frames[0].bill == whole.frames[0].bill
    assert {each.workload for each in found.frames[0].pods.values()} == {"default/a"}
    assert (whole.remarks, found.remarks) == ((), ("Prices are modelled.",))


def test_the_summary_says_what_holds_machines(tmp_path: Path) -> None:
    """What holds each machine is the sentence of disruption, and the bound is no more than the bill."""
    asked = inquiry(small_cluster(), tmp_path)
    found = plan_summary(asked.disrupt(asked.view), snapshot_of(asked), NOON)

    assert list(found.kept) == ["n"]
    assert found.bound is None or found.bound <= found.hourly


def test_documents_are_json(tmp_path: Path) -> None:
    """What the page reads is JSON with the names that it knows."""
    document = ConsoleDocument(
        mode="live", title="t", at=NOON, snapshot=snapshot_of(inquiry(small_cluster(), tmp_path))
    )

    assert set(json.loads(encode(document))) >= {
        "mode",
        "snapshot",
        "frames",
        "decisions",
        "plans",
        "poolDetails",
    }


def test_spot_machines_say_what_they_save(tmp_path: Path) -> None:
    """A spot machine costs less than the same one on demand; one that is on demand saves nothing so."""
    made, node = machine("s")
    for each in (made, node):
        each["metadata"]["labels"]["karpenter.sh/capacity-type"] = "spot"
    found = snapshot_of(inquiry([pool("default", "spot", "on-demand"), made, node, *machine("n")], tmp_path))

    assert found.machines["claim-s"].spot_saves == pytest.approx(0.075)
    assert found.machines["claim-n"].spot_saves == 0.0
