"""What follows from a launch, or from its failure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import NODEPOOL, ZONE
from karpenter.core.effects import Amend, Announce, Count, DeleteObject, filled
from karpenter.core.lifecycle.launch import (
    LaunchFailure,
    failure_facts,
    launch,
    launch_facts,
    launch_failed,
    launch_succeeded,
)
from tests.unit.core.lifecycle.objects import CLASS_LABEL, NOW, claim, told


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a cloud says."""

    provider_id: str = "kwok://one"
    image_id: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    capacity: Mapping[str, int] = MappingProxyType({"cpu": 4000})
    allocatable: Mapping[str, int] = MappingProxyType({"cpu": 3900})


def written(machine: Machine) -> Amend:
    """Return the one write after a launch."""
    (effect,) = launch_succeeded(claim(), machine, NOW)
    assert isinstance(effect, Amend)
    return effect


def test_a_machine_gives_its_claim_identity_and_room() -> None:
    """Provider id, amounts and the condition are written in one go, if nobody wrote meanwhile."""
    effect = written(Machine(image_id="img-1"))

    assert effect.version == "7"
    assert not effect.changes
    assert {key: value for key, value in effect.status.items() if key != "conditions"} == {
        "providerID": "kwok://one",
        "imageID": "img-1",
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "3900m"},
    }
    assert told(effect.status["conditions"], "Launched") == ("True", "Launched")


def test_the_claim_s_own_labels_win_and_the_machine_s_annotations_do() -> None:
    """Labels come from the machine under those of the claim; annotations the other way round."""
    machine = Machine(labels={ZONE: "zone-9", "new": "yes"}, annotations={"note": "cloud"})
    effect = written(machine)

    assert effect.changes == {
        "metadata": {
            "labels": {ZONE: "zone-1", "new": "yes", NODEPOOL: "default", CLASS_LABEL: "default"},
            "annotations": {"note": "cloud"},
        }
    }
    assert "imageID" not in effect.status


def test_what_is_sold_out_is_told_and_given_up() -> None:
    """The claim is removed at once, so that the next decision looks elsewhere."""
    effects = launch_failed(claim(), LaunchFailure(kind="insufficient capacity", message="x" * 400), NOW)

    announced, deleted, counted = effects
    assert isinstance(announced, Announce)
    assert (announced.reason, announced.type) == ("InsufficientCapacityError", "Warning")
    assert announced.message.endswith("x...")
    assert isinstance(deleted, DeleteObject)
    assert (deleted.kind, deleted.name, deleted.uid) == ("NodeClaim", "claim-1", "claim-1-uid")
    assert isinstance(counted, Count)
    assert counted.labels["reason"] == "insufficient_capacity"


def test_a_claim_whose_class_is_not_ready_is_given_up() -> None:
    """An Event tells why, and the claim is counted."""
    failure = LaunchFailure(kind="nodeclass not ready", message="no")
    said, deleted, counted = launch_failed(claim(), failure, NOW)

    assert isinstance(said, Announce)
    assert (said.type, said.reason) == ("Warning", "NodeClassNotReady")
    assert said.message == "Node class is not ready, the NodeClaim is deleted: no"
    assert isinstance(deleted, DeleteObject)
    assert isinstance(counted, Count)
    assert counted.labels["reason"] == "nodeclass_not_ready"


def test_any_other_failure_is_written_down() -> None:
    """The condition stays unknown, and says what the provider said, cut to a readable length."""
    failure = LaunchFailure(kind="other", reason="Unauthorized", message="y" * 301)
    (effect,) = launch_failed(claim(), failure, NOW)

    assert isinstance(effect, Amend)
    assert told(effect.status["conditions"], "Launched") == ("Unknown", "Unauthorized")
    message = next(c["message"] for c in effect.status["conditions"] if c["type"] == "Launched")
    assert len(message) == 303


MACHINES = [
    pytest.param(Machine(), id="a machine without labels"),
    pytest.param(
        Machine(image_id="img-1", labels={ZONE: "zone-9", "new": "yes"}, annotations={"note": "cloud"}),
        id="a machine with labels",
    ),
]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_launch_carries_what_follows_from_success(machine: Machine) -> None:
    """With the facts of the machine filled in, it is what is decided when they are known."""
    (late,) = launch_succeeded(claim(), machine, NOW)
    (early,) = filled(launch(claim(), "").launched, launch_facts(machine, NOW))

    assert isinstance(late, Amend)
    assert isinstance(early, Amend)
    assert early.status == late.status
    assert early.changes["metadata"]["labels"] == {**machine.labels, **claim().metadata.labels}
    assert early.changes["metadata"]["annotations"] == {**claim().metadata.annotations, **machine.annotations}


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("insufficient capacity", "insufficient_capacity"),
        ("nodeclass not ready", "nodeclass_not_ready"),
        ("other", "failed"),
    ],
)
def test_a_launch_carries_what_follows_from_failure(kind: Any, field: str) -> None:
    """With the error filled in, it is what is decided when it is known."""
    failure = LaunchFailure(kind=kind, reason="Unauthorized", message="z" * 400)
    facts = failure_facts(failure.message, NOW, reason=failure.reason)

    assert filled(getattr(launch(claim(), ""), field), facts) == launch_failed(claim(), failure, NOW)
