"""Machines in reserved capacity: demoted when they lose it, removed before a block ends."""

from datetime import timedelta
from typing import Any

import pytest

from karpenter.api.node import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.capacityreservation import (
    CapacityReservationProvider,
    CapacityTypeController,
    ReservationExpirationController,
)
from karpenter.cloud.aws.instance.instance import InstanceProvider
from karpenter.cloud.aws.labels import RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE
from karpenter.core.effects import Amend, DeleteObject, Step
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, instrumented, joined, launched, seen, virtually

LABELS = {
    "karpenter.sh/capacity-type": "reserved",
    RESERVATION_ID: "cr-1",
    RESERVATION_TYPE: "default",
    RESERVATION_INTERRUPTIBLE: "false",
}
RESERVED = launched(labels=LABELS)
TAGS = {"eks:eks-cluster-name": "ours", "karpenter.sh/nodepool": "a", "karpenter.k8s.aws/ec2nodeclass": "b"}


def instance(**more: Any) -> dict[str, Any]:
    """Return an answer of EC2 about the machine."""
    told = {
        "InstanceId": "i-1",
        "InstanceType": "m5.large",
        "LaunchTime": NOW,
        "State": {"Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()],
        "Placement": {"AvailabilityZone": "us-west-2a"},
        **more,
    }
    return {"Reservations": [{"Instances": [told]}]}


HELD = {
    "CapacityReservationId": "cr-1",
    "CapacityReservationSpecification": {"CapacityReservationPreference": "capacity-reservations-only"},
}


def demoted(answer: dict[str, Any], *objects: NodeClaim | Node) -> tuple[Step, ScriptedAws]:
    """Return what comes of one round, and what EC2 was asked."""

    async def main(clock: VirtualClock) -> tuple[Step, ScriptedAws]:
        aws = ScriptedAws({"DescribeInstances": answer})
        instances = InstanceProvider(aws, cluster="ours", clock=clock, metrics=instrumented(clock)[0])
        return await CapacityTypeController(view=seen(*objects), instances=instances).look(), aws

    return virtually(main)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(instance(**HELD), [], id="one that has its reservation stays reserved"),
        pytest.param(instance(), ["default-1"], id="one that has lost it is on demand"),
        pytest.param({"Reservations": []}, [], id="one that is gone is left alone"),
    ],
)
def test_a_machine_that_has_lost_its_reservation_is_on_demand(
    answer: dict[str, Any], expected: list[str]
) -> None:
    """EC2 lets it run on, and the labels follow."""
    step, _ = demoted(answer, RESERVED)

    assert [each.name for each in step.effects if isinstance(each, Amend)] == expected


def test_all_labels_of_the_reservation_go() -> None:
    """On the claim and on its node alike."""
    step, _ = demoted(
        instance(),
        RESERVED,
        joined(labels=LABELS),
        joined("leaving", labels=LABELS, leaving=True),
        joined("other", "i-9", labels=LABELS),
    )

    labels = {
        "karpenter.sh/capacity-type": "on-demand",
        RESERVATION_ID: None,
        RESERVATION_TYPE: None,
        RESERVATION_INTERRUPTIBLE: None,
    }
    written = {each.name: each.changes for each in step.effects if isinstance(each, Amend)}
    expected = {"metadata": {"labels": labels}}
    assert written == {"default-1": expected, "node-1": expected}


def test_a_node_is_demoted_whose_claim_was_before() -> None:
    """An operator may have ended between the two writes."""
    step, _ = demoted(instance(), launched(), joined(labels=LABELS))

    assert [each.name for each in step.effects if isinstance(each, Amend)] == ["node-1"]


def test_a_reservation_without_a_name_is_lost_as_well() -> None:
    """The kind of capacity counts, not the label of the reservation."""
    step, _ = demoted(instance(), launched(labels={"karpenter.sh/capacity-type": "reserved"}))

    assert [each.name for each in step.effects if isinstance(each, Amend)] == ["default-1"]


def test_without_reserved_machines_nothing_is_asked() -> None:
    """A cluster that has no reservations pays nothing for it."""
    step, aws = demoted(instance(), launched())

    assert (step.effects, aws.calls, step.again) == ((), [], 60.0)


def block(minutes: float, kind: str = "capacity-block") -> dict[str, Any]:
    """Return a reservation that ends in so many minutes."""
    told = {
        "CapacityReservationId": "cr-1",
        "OwnerId": "012345678901",
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": "us-west-2a",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": kind,
        "EndDate": NOW + timedelta(minutes=minutes),
    }
    return {"CapacityReservations": [told]}


def expired(answer: dict[str, Any], *claims: NodeClaim) -> tuple[list[str], ScriptedAws]:
    """Return the claims that one round removes, and what EC2 was asked."""

    async def main(clock: VirtualClock) -> tuple[list[str], ScriptedAws]:
        aws = ScriptedAws({"DescribeCapacityReservations": answer})
        controller = ReservationExpirationController(
            view=seen(*claims), reservations=CapacityReservationProvider(aws, clock=clock)
        )
        effects = (await controller.look()).effects
        return [each.name for each in effects if isinstance(each, DeleteObject)], aws

    return virtually(main)


@pytest.mark.parametrize(
    ("answer", "claim", "expected"),
    [
        pytest.param(block(41), RESERVED, [], id="a block with time left keeps its machines"),
        pytest.param(block(40), RESERVED, ["default-1"], id="forty minutes before the end they go"),
        pytest.param(block(1, "default"), RESERVED, [], id="an ordinary reservation takes nothing back"),
        pytest.param(block(1), launched(), [], id="a machine outside of it stays"),
        pytest.param(block(1), launched(labels=LABELS, leaving=True), [], id="one that leaves is left alone"),
        pytest.param({"CapacityReservations": []}, RESERVED, [], id="a reservation that EC2 does not know"),
    ],
)
def test_machines_leave_before_their_block_ends(
    answer: dict[str, Any], claim: NodeClaim, expected: list[str]
) -> None:
    """EC2 takes them back half an hour before the end, drained or not."""
    assert expired(answer, claim)[0] == expected


def test_each_reservation_is_asked_for_once() -> None:
    """However many machines are in it."""
    _, aws = expired(block(60), RESERVED, launched("b", "i-2", labels=LABELS))

    assert [each["CapacityReservationIds"] for each in aws.asked("DescribeCapacityReservations")] == [
        ["cr-1"]
    ]
