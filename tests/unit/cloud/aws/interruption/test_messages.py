"""What messages of the interruption queue say."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.cloud.aws.interruption.messages import BadMessage, InterruptionMessage, read

AT = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
HEALTH = "AWS Health Event"


def event(detail_type: str, detail: Any, *, source: str = "aws.ec2", version: str = "0") -> dict[str, Any]:
    return {
        "version": version,
        "id": "event-1",
        "detail-type": detail_type,
        "source": source,
        "account": "123456789012",
        "time": "2026-06-01T12:30:00Z",
        "region": "us-west-2",
        "resources": [],
        "detail": detail,
    }


def of_state(state: str) -> dict[str, Any]:
    """Return the news that an instance has come into a state."""
    return event(STATE, {"instance-id": "i-1", "state": state})


def of_health(*instances: str, service: str = "EC2", category: str = "scheduledChange") -> dict[str, Any]:
    detail = {
        "service": service,
        "eventTypeCategory": category,
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "affectedEntities": [{"entityValue": each} for each in instances],
    }
    return event(HEALTH, detail, source="aws.health")


ONE = ("i-1",)


@pytest.mark.parametrize(
    ("message", "kind", "instances"),
    [
        pytest.param(
            event(SPOT, {"instance-id": "i-1", "instance-action": "terminate"}),
            "spot_interrupted",
            ONE,
            id="a spot warning",
        ),
        pytest.param(
            event(REBALANCE, {"instance-id": "i-1"}), "rebalance_recommendation", ONE, id="a rebalancing"
        ),
        pytest.param(
            event(RESERVATION, {"instance-id": "i-1", "instance-action": "terminate"}),
            "capacity_reservation_interrupted",
            ONE,
            id="a reservation that takes its machines back",
        ),
        pytest.param(of_state("stopping"), "instance_stopped", ONE, id="an instance that stops"),
        pytest.param(of_state("stopped"), "instance_stopped", ONE, id="an instance that has stopped"),
        pytest.param(of_state("shutting-down"), "instance_terminated", ONE, id="an instance that ends"),
        pytest.param(of_state("terminated"), "instance_terminated", ONE, id="an instance that has ended"),
        pytest.param(of_state("Stopped"), "instance_stopped", ONE, id="a state in capitals"),
        pytest.param(of_state("SHUTTING-DOWN"), "instance_terminated", ONE, id="a state that shouts"),
        pytest.param(of_state("pending"), "no_op", (), id="an instance that starts is no news"),
        pytest.param(of_state("running"), "no_op", (), id="an instance that runs is no news"),
        pytest.param(of_health("i-1", "i-2"), "scheduled_change", ("i-1", "i-2"), id="maintenance of two"),
        pytest.param(of_health(), "scheduled_change", (), id="maintenance of nothing"),
        pytest.param(of_health("vol-1", service="EBS"), "no_op", (), id="health of another service"),
        pytest.param(of_health("i-1", category="issue"), "no_op", (), id="health that is no planned change"),
        pytest.param(event(SPOT, {}, version="1"), "no_op", (), id="an envelope of another version"),
        pytest.param(event(SPOT, {}, source="aws.ecs"), "no_op", (), id="an event of another source"),
        pytest.param(event("EC2 Fleet Error", {}), "no_op", (), id="an event of another kind"),
        pytest.param({}, "no_op", (), id="an object without anything"),
    ],
)
def test_read(message: dict[str, Any], kind: str, instances: tuple[str, ...]) -> None:
    """The kind follows from version, source and type; the instances from the detail."""
    found = read(json.dumps(message))

    assert (found.kind, found.instances) == (kind, instances)


@pytest.mark.parametrize("body", ["", "  \n"], ids=["nothing", "blanks"])
def test_an_empty_message_is_no_news(body: str) -> None:
    """Nothing is what it says."""
    assert read(body) == InterruptionMessage()


def test_the_time_of_the_event_is_kept() -> None:
    """How late a message is can be told from when it happened."""
    assert read(json.dumps(of_state("stopped"))).at == AT


def test_a_time_without_a_zone_is_of_utc() -> None:
    """EventBridge writes UTC, also when it does not say so."""
    message = {**of_state("stopped"), "time": "2026-06-01T12:30:00"}

    assert read(json.dumps(message)).at == AT


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("not json", id="text"),
        pytest.param("[]", id="a list"),
        pytest.param('{"version": 0}', id="a version that is a number"),
        pytest.param('{"time": "yesterday"}', id="a time that is none"),
        pytest.param(json.dumps(event(SPOT, {})), id="a warning without an instance"),
        pytest.param(json.dumps(event(STATE, {"instance-id": 7})), id="an instance that is a number"),
        pytest.param(
            json.dumps(event(HEALTH, {"affectedEntities": [{}]}, source="aws.health")),
            id="an entity without a name",
        ),
        pytest.param('{"detail": ' + "[" * 90_000 + "]" * 90_000 + "}", id="nested without end"),
        pytest.param('{"source": ' + "[" * 90_000, id="brackets without end"),
        pytest.param('{"id": "\ud800"}', id="half a surrogate pair"),
        pytest.param('{"id": "\\ud800"}', id="half a surrogate pair, escaped"),
    ],
)
def test_what_cannot_be_read_is_refused(body: str) -> None:
    """A message that is not what it claims to be is bad, which is not the same as no news."""
    with pytest.raises(BadMessage):
        read(body)
