"""Conditions as metrics and Events tell of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.labels import INITIALIZED, NODEPOOL, TERMINATION_FINALIZER
from karpenter.controllers.metrics.conditions import StatusConditionMetrics
from karpenter.core.state.cluster import ObjectDeleted, ObjectUpdated
from karpenter.telemetry.metrics import conditions as declared
from tests.unit.controllers.metrics.harness import Showing
from tests.unit.core.lifecycle.objects import CLASS_LABEL, at, claim, node, pod, pool
from tests.unit.telemetry.clocks import NOON

if TYPE_CHECKING:
    from karpenter.core.effects import Announce

THEN = NOON.replace(microsecond=0)


class Shown(Showing):
    """Objects, and who shows their conditions."""

    def __init__(self, *objects: Any) -> None:
        super().__init__()
        self.told: list[Announce] = []
        self.gauges = StatusConditionMetrics(
            self.metrics, self.clock, class_labels=[CLASS_LABEL], announce=self.told.append
        )
        self.store.subscribe(self.gauges.hear)
        self.see(*objects)

    def see(self, *objects: Any) -> None:
        for each in objects:
            self.store.apply(ObjectUpdated(each))


def held(status: str, seconds: float, reason: str = "Because", message: str = "") -> dict[str, Any]:
    """Return the condition Launched since some second."""
    since = at(THEN + timedelta(seconds=seconds))
    return {
        "type": "Launched",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


@pytest.mark.parametrize("scraped", [False, True], ids=["without a scrape", "with one"])
def test_objects_that_are_gone_are_forgotten(scraped: bool) -> None:
    """Names of claims that came and went are not kept where nothing reads; what was shown is retracted."""
    found = Shown(going := claim(meta={"deletionTimestamp": at(THEN)}))
    if scraped:
        assert len(found.rows(declared.NODECLAIM.termination_current_time, "name")) == 1
    found.store.apply(ObjectDeleted(going))

    assert len(list(found.gauges.refresh())) == scraped
    assert found.rows(declared.NODECLAIM.termination_current_time, "name") == {}


def test_how_conditions_stand() -> None:
    """Every condition is shown with its status, and for how long it has had it, under both names."""
    found = Shown(claim(status={"conditions": [held("Unknown", -5)]}))
    names = ("name", "type", "status", "reason", "karpenter_sh_nodepool", "karpenter_kwok_sh_kwoknodeclass")
    expected = ("claim-1", "Launched", "Unknown", "Because", "default", "default")

    assert found.rows(declared.NODECLAIM.count, *names) == {expected: 1.0}
    assert found.rows(declared.NODECLAIM.current_status, *names) == {expected: 5.007}
    assert found.rows(declared.EVERY_KIND.count, "kind", "group", "type") == {
        ("NodeClaim", "karpenter.sh", "Launched"): 1.0
    }
    found.see(claim(status={"conditions": [held("True", 0)]}))
    assert found.rows(declared.NODECLAIM.count, "status") == {("True",): 1.0}
    assert found.rows(declared.NODECLAIM.current_status, "status") == {("True",): 0.007}


def test_each_change_counts_and_is_told() -> None:
    """A change counts by its new status, is timed by its old one, and becomes an Event."""
    found = Shown(claim(status={"conditions": [held("Unknown", -5)]}))
    assert found.told == []
    found.see(claim(status={"conditions": [held("Unknown", -5, "LaunchFailed", "no")]}))
    assert found.told == []
    found.see(claim(status={"conditions": [held("True", 2, "Launched")]}))

    extra = {"karpenter_sh_nodepool": "default", "karpenter_kwok_sh_kwoknodeclass": "default"}
    transitions = found.metrics[declared.NODECLAIM.transitions]
    assert transitions.value(type="Launched", status="True", reason="Launched", **extra) == 1.0
    timed = found.metrics[declared.NODECLAIM.transition]
    assert timed.count(type="Launched", status="Unknown", **extra) == 1
    assert next(s.value for s in timed.samples() if s.suffix == "_sum") == 7.0
    (told,) = found.told
    assert (told.about.kind, told.reason, told.type, told.minor) == ("NodeClaim", "Launched", "Normal", True)
    assert told.message == "Status condition transitioned: Launched is True, was Unknown (Launched)."


def test_conditions_that_are_new() -> None:
    """A condition that an object did not have counts as changed; it is told of only if it holds."""
    found = Shown(node(status={"conditions": []}))
    found.see(node(ready=False))

    extra = {
        "karpenter_sh_nodepool": "",
        "karpenter_kwok_sh_kwoknodeclass": "",
        "karpenter_sh_initialized": "",
    }
    metrics = found.metrics
    assert metrics[declared.NODE.transitions].value(type="Ready", status="False", reason="", **extra) == 1.0
    assert metrics[declared.NODE.transition].count(type="Ready", status="False", **extra) == 0
    assert found.told == []
    found.see(node(), node(status={"conditions": [{"type": "New", "status": "True"}]}))
    assert [each.message for each in found.told] == [
        "Status condition transitioned: Ready is True, was False.",
        "Status condition transitioned: New is True.",
    ]


def test_labels_of_nodes() -> None:
    """Nodes are shown with their pool and whether they are complete."""
    labels = {NODEPOOL: "default", INITIALIZED: "true"}
    found = Shown(node(meta={"labels": labels}))

    names = ("karpenter_sh_nodepool", "karpenter_sh_initialized")
    assert found.rows(declared.NODE.count, *names) == {("default", "true"): 1.0}


def test_objects_that_leave() -> None:
    """How long an object has been leaving is shown; its end is timed, told, and shown no longer."""
    going = {"deletionTimestamp": at(THEN - timedelta(seconds=3))}
    found = Shown(claim(status={"conditions": [held("True", 0)]}))
    found.see(claim(meta=going, status={"conditions": [held("True", 0)]}))
    assert found.rows(declared.NODECLAIM.termination_current_time, "name") == {("claim-1",): 3.007}

    found.see(claim(meta={**going, "finalizers": []}, status={"conditions": [held("True", 0)]}))
    assert [each.reason for each in found.told] == ["Finalized"]
    assert TERMINATION_FINALIZER in found.told[0].message
    found.store.apply(ObjectDeleted(claim()))

    duration = found.metrics[declared.EVERY_KIND.termination_duration]
    assert duration.count(kind="NodeClaim", group="karpenter.sh") == 1
    for gauge in (declared.NODECLAIM.count, declared.NODECLAIM.current_status):
        assert found.rows(gauge) == {}
    assert found.rows(declared.NODECLAIM.termination_current_time) == {}
    assert [each.reason for each in found.told] == ["Finalized"]


def test_an_end_that_was_missed_is_told() -> None:
    """An object that is gone before we saw its finalizer go is told of all the same."""
    going = {"deletionTimestamp": at(THEN)}
    found = Shown(claim(meta=going))
    found.store.apply(ObjectDeleted(claim()))

    assert [each.reason for each in found.told] == ["Finalized"]


def test_what_is_not_asked_after() -> None:
    """Objects without conditions of ours, and ends that nobody asked for, leave no trace."""
    found = Shown(pod(), pool(Ready="True"))
    found.store.apply(ObjectDeleted(pool()))

    assert found.told == []
    assert found.rows(declared.NODEPOOL.count) == found.rows(declared.EVERY_KIND.count) == {}
