"""The interruption queue: what is told, when messages are deleted, and what is remembered."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.capacityreservation import CapacityReservationProvider
from karpenter.cloud.aws.errors import AccessDenied, ResourceNotFound
from karpenter.cloud.aws.interruption.controller import InstanceClaims, InterruptionQueue
from karpenter.cloud.aws.metrics import DELETED, QUEUED, RECEIVED
from karpenter.cloud.aws.sqs import SQSProvider
from karpenter.cloud.aws.unavailableofferings import OfferingKey, UnavailableOfferings
from karpenter.cloud.cloudprovider import Interruption
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.interruption.test_messages import (
    REBALANCE,
    RESERVATION,
    SPOT,
    event,
    of_health,
    of_state,
)
from tests.unit.cloud.aws.scripted import NOW, ScriptedAws, instrumented, launched, seen, virtually
from tests.unit.cloud.aws.world import World

if TYPE_CHECKING:
    from karpenter.telemetry.metrics import Metrics

LABELS = {
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-west-2a",
    "karpenter.sh/capacity-type": "spot",
}
WARNED = event(SPOT, {"instance-id": "i-1", "instance-action": "terminate"})
CLAIM = launched(labels=LABELS)


def message(body: Any, number: int = 1, receipt: str = "") -> dict[str, Any]:
    """Return a message as SQS hands it out."""
    text = body if isinstance(body, str) else json.dumps(body)
    return {"MessageId": f"m-{number}", "ReceiptHandle": receipt or f"r-{number}", "Body": text}


class Post:
    """A queue whose messages are scripted, and all that is behind it."""

    def __init__(self, clock: VirtualClock, messages: list[Any], claims: tuple[NodeClaim, ...]) -> None:
        self.aws = ScriptedAws(
            {"GetQueueUrl": {"QueueUrl": "q"}, "ReceiveMessage": [{"Messages": messages}, {}]}
        )
        provider_metrics, self.metrics = instrumented(clock)
        self.unavailable = UnavailableOfferings(monotonic=clock.monotonic)
        self.reservations = CapacityReservationProvider(self.aws, clock=clock)
        self.queue = InterruptionQueue(
            SQSProvider(self.aws, "name", clock=clock, metrics=provider_metrics),
            clock=clock,
            metrics=provider_metrics,
            unavailable=self.unavailable,
            reservations=self.reservations,
        )
        self.claims = InstanceClaims(seen(*claims))

    async def told(self) -> tuple[Interruption, ...]:
        return await self.queue.wait(self.claims)

    def deleted(self) -> list[str]:
        """Return the receipts of messages that were deleted."""
        return [each["ReceiptHandle"] for each in self.aws.asked("DeleteMessage")]


def posted(
    *messages: Any, claims: tuple[NodeClaim, ...] = (CLAIM,), work: Callable[[Post], Awaitable[Any]]
) -> Any:
    """Run work with a queue that holds messages."""

    async def main(clock: VirtualClock) -> Any:
        return await work(Post(clock, list(messages), claims))

    return virtually(main)


@pytest.mark.parametrize(
    ("body", "kind", "drains"),
    [
        pytest.param(WARNED, "spot_interrupted", True, id="a spot warning drains"),
        pytest.param(
            event(REBALANCE, {"instance-id": "i-1"}),
            "rebalance_recommendation",
            False,
            id="a rebalancing is only told",
        ),
        pytest.param(of_state("stopping"), "instance_stopped", True, id="a stop drains"),
        pytest.param(of_state("terminated"), "instance_terminated", True, id="an end drains"),
        pytest.param(
            event(RESERVATION, {"instance-id": "i-1"}),
            "capacity_reservation_interrupted",
            True,
            id="a reservation that ends drains",
        ),
        pytest.param(of_health("i-1"), "scheduled_change", True, id="maintenance drains"),
    ],
)
def test_news_of_our_machines_are_told(body: Any, kind: str, drains: bool) -> None:
    """Each kind of message becomes an interruption of the machine that it names."""

    async def work(post: Post) -> Any:
        (news,) = await post.told()
        return news.kind, news.drains, news.forceful, news.provider_id

    assert posted(message(body), work=work) == (kind, drains, False, "aws:///us-west-2a/i-1")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(of_state("running"), id="no news"),
        pytest.param("", id="nothing at all"),
        pytest.param("{", id="not JSON"),
        pytest.param(event(SPOT, {}), id="a warning without a machine"),
    ],
)
def test_what_is_about_no_machine_is_deleted_at_once(body: Any) -> None:
    """It would never be acted on."""

    async def work(post: Post) -> Any:
        return await post.told(), post.deleted()

    assert posted(message(body), work=work) == ((), ["r-1"])


def test_a_message_is_kept_until_it_was_acted_on() -> None:
    """SQS tells it again, should we fail."""

    async def work(post: Post) -> Any:
        (news,) = await post.told()
        before = post.deleted()
        await post.queue.acknowledge(news)
        return before, post.deleted()

    assert posted(message(WARNED), work=work) == ([], ["r-1"])


def test_a_message_about_two_machines_is_deleted_after_the_second() -> None:
    """What was done for one machine does not let the other be forgotten."""
    both = (launched("a", "i-1"), launched("b", "i-2"))

    async def work(post: Post) -> Any:
        first, second = await post.told()
        await post.queue.acknowledge(first)
        between = post.deleted()
        await post.queue.acknowledge(second)
        return between, post.deleted()

    assert posted(message(of_health("i-1", "i-2")), claims=both, work=work) == ([], ["r-1"])


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """Return an event that was sent just now."""
    return body | {"time": NOW.isoformat()}


@pytest.mark.parametrize(
    ("body", "at"),
    [
        pytest.param(sent(WARNED), NOW, id="a message of now"),
        pytest.param(WARNED | {"time": None}, datetime.min.replace(tzinfo=UTC), id="one without a time"),
    ],
)
def test_a_message_about_an_instance_of_no_claim_is_told(body: Any, at: datetime) -> None:
    """Whether a claim may still get the instance is not decided here; acknowledged, it is deleted."""

    async def work(post: Post) -> Any:
        (news,) = await post.told()
        before = post.deleted()
        await post.queue.acknowledge(news)
        return news.provider_id, news.at, before, post.deleted()

    assert posted(message(body), claims=(), work=work) == ("", at, [], ["r-1"])


def test_a_message_is_kept_while_one_of_its_instances_may_get_a_claim() -> None:
    """What was done for one machine does not let the other be forgotten, whose claim is not known yet."""

    async def work(post: Post) -> Any:
        first, second = await post.told()
        await post.queue.acknowledge(first)
        return first.provider_id, second.provider_id, post.deleted()

    found = posted(message(sent(of_health("i-1", "i-2"))), work=work)

    assert found == ("aws:///us-west-2a/i-1", "", [])


def test_a_message_that_comes_twice_is_deleted_by_its_last_receipt() -> None:
    """A receipt is good for the delivery that it came with."""

    async def work(post: Post) -> Any:
        post.aws.answers["ReceiveMessage"] = [
            {"Messages": [message(WARNED, receipt="first")]},
            {"Messages": [message(WARNED, receipt="second")]},
        ]
        await post.told()
        (again,) = await post.told()
        await post.queue.acknowledge(again)
        await post.queue.acknowledge(again)
        return post.deleted()

    assert posted(work=work) == ["second"]


def test_order_does_not_matter() -> None:
    """An end that is told before the warning is told just the same."""

    async def work(post: Post) -> Any:
        return [each.kind for each in await post.told()]

    found = posted(message(of_state("terminated"), 1), message(WARNED, 2), work=work)

    assert found == ["instance_terminated", "spot_interrupted"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("{", id="half a message"),
        pytest.param('{"detail": ' + "[" * 90_000, id="brackets without end"),
        pytest.param('{"id": "\ud800"}', id="half a surrogate pair"),
    ],
)
def test_an_unreadable_message_does_not_keep_the_others(body: str) -> None:
    """Each message is read on its own, and one that cannot be read is deleted."""

    async def work(post: Post) -> Any:
        return [each.kind for each in await post.told()], post.deleted()

    assert posted(message(body, 1), message(WARNED, 2), work=work) == (["spot_interrupted"], ["r-1"])


def test_a_message_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    """It will be told again, and thrown away then."""
    denied = AccessDenied(action="sqs:DeleteMessage", code="AccessDenied", message="denied")

    async def work(post: Post) -> Any:
        post.aws.answers["DeleteMessage"] = denied
        return [each.kind for each in await post.told()]

    assert posted(message(of_state("running"), 1), message(WARNED, 2), work=work) == ["spot_interrupted"]


def test_spot_capacity_that_is_taken_away_is_not_bought_again_at_once() -> None:
    """Where EC2 takes machines back it has none to sell; that is forgotten after three minutes."""

    async def work(post: Post) -> Any:
        await post.told()
        return post.unavailable.now().offerings

    assert posted(message(WARNED), work=work) == {OfferingKey("m5.large", "us-west-2a", "spot")}


def test_a_warning_for_a_machine_on_demand_marks_nothing() -> None:
    """What a label does not say is not known."""
    plain = launched(labels={**LABELS, "karpenter.sh/capacity-type": "on-demand"})

    async def work(post: Post) -> Any:
        await post.told()
        return post.unavailable.now().offerings

    assert posted(message(WARNED), claims=(plain,), work=work) == frozenset()


def test_a_reservation_that_takes_machines_back_holds_none() -> None:
    """Its count is zero until EC2 is asked again."""
    reserved = launched(labels={"karpenter.k8s.aws/capacity-reservation-id": "cr-1"})

    async def work(post: Post) -> Any:
        post.reservations.ended("cr-1")
        await post.told()
        return post.reservations.left("cr-1")

    assert posted(message(event(RESERVATION, {"instance-id": "i-1"})), claims=(reserved,), work=work) == 0


def test_messages_are_counted() -> None:
    """By what they tell, when they come; all of them, when they go; and how late they were."""

    async def work(post: Post) -> Any:
        (news,) = await post.told()
        await post.queue.acknowledge(news)
        return post.metrics

    warned = {**WARNED, "time": (NOW - timedelta(seconds=7)).isoformat()}
    metrics: Metrics = posted(message(warned, 1), message(of_state("running"), 2), work=work)

    counts = [metrics[RECEIVED].value(message_type=kind) for kind in ("spot_interrupted", "no_op")]
    assert (counts, metrics[DELETED].value()) == ([1.0, 1.0], 2.0)
    assert f"{QUEUED.name}_sum 7" in metrics.exposition().decode()


def test_an_event_of_the_future_is_not_late() -> None:
    """Clocks differ; nothing is dealt with before it happens."""

    async def work(post: Post) -> Any:
        (news,) = await post.told()
        await post.queue.acknowledge(news)
        return post.metrics.exposition().decode()

    later = {**WARNED, "time": (NOW + timedelta(seconds=7)).isoformat()}

    assert f"{QUEUED.name}_sum 0" in posted(message(later), work=work)


@pytest.mark.parametrize(
    "error",
    [
        ResourceNotFound(action="sqs:GetQueueUrl", code="QueueDoesNotExist", message="no such queue"),
        AccessDenied(action="sqs:GetQueueUrl", code="AccessDenied", message="denied"),
    ],
    ids=["a queue that is missing", "a queue that is forbidden"],
)
def test_a_queue_that_cannot_be_used_is_looked_for_again(error: Exception) -> None:
    """The error is raised, and the next call asks for the URL of the queue again."""

    async def work(post: Post) -> Any:
        post.aws.answers["GetQueueUrl"] = [error, {"QueueUrl": "q"}]
        with pytest.raises(type(error)):
            await post.told()
        return len(await post.told())

    assert posted(message(WARNED), work=work) == 1


def test_a_queue_that_was_made_anew_is_found() -> None:
    """When the queue is gone, its address is asked for again."""
    gone = ResourceNotFound(action="sqs:ReceiveMessage", code="QueueDoesNotExist", message="no such queue")

    async def work(post: Post) -> Any:
        post.aws.answers["ReceiveMessage"] = [gone, {"Messages": [message(WARNED)]}]
        with pytest.raises(ResourceNotFound):
            await post.told()
        await post.told()
        return len(post.aws.asked("GetQueueUrl"))

    assert posted(work=work) == 2


def test_sqs_is_asked_as_it_should_be() -> None:
    """Ten messages at most, with a long poll, hidden for as long as they are acted on."""

    async def work(post: Post) -> Any:
        await post.told()
        return post.aws.asked("ReceiveMessage")[0]

    assert posted(work=work) == {
        "QueueUrl": "q",
        "MaxNumberOfMessages": 10,
        "WaitTimeSeconds": 20,
        "VisibilityTimeout": 20,
    }


def test_through_the_embedded_aws() -> None:
    """A message that goes through SQS itself is told once, and is gone when it was acted on."""
    world = World(types=("m5.large",))
    sqs = world.clients.by_name["sqs"]
    url = sqs.create_queue(QueueName="news")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(WARNED))

    async def work(provider: Any) -> Any:
        queue = provider.interruption_queue
        assert queue is not None
        claims = InstanceClaims(seen(CLAIM))
        (news,) = await queue.wait(claims)
        await queue.acknowledge(news)
        return news.kind, await queue.wait(claims)

    assert world.run(work, given={"INTERRUPTION_QUEUE": "news"}, long_poll=0) == ("spot_interrupted", ())
