"""Events are told once in a while, at a rate, and never hold anyone up."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from structlog.typing import EventDict

from karpenter.api.meta import ObjectReference
from karpenter.kube.client import Client
from karpenter.kube.recorder import MAX_MESSAGE_LENGTH, MAX_QUEUED, MAX_SENT, RecordedEvent, Recorder
from karpenter_local.apiserver.inprocess import InProcess
from karpenter_local.virtual import VirtualClock
from tests.unit.kube.toy import Toy, status

POD = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name="web-0", uid="u")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1", uid="v")


def evicted(about: ObjectReference = POD, **fields: Any) -> RecordedEvent:
    return RecordedEvent(
        about=about, **{"type": "Normal", "reason": "Evicted", "message": "Evicted pod: Drifted", **fields}
    )


def nominated(number: int) -> RecordedEvent:
    """Return a nomination of one of many pods."""
    return evicted(ObjectReference(kind="Pod", namespace="shop", name=f"p{number}"), reason="Nominated")


@pytest_asyncio.fixture
async def recorder(toy: Toy, chance: Random) -> AsyncIterator[Recorder]:
    """A recorder that sends."""
    recorder = Recorder(Client(InProcess(toy), chance=chance, attempts=1), clock=VirtualClock())
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.wait([task])


def stored(toy: Toy) -> list[dict[str, Any]]:
    """Return the events that the server has."""
    return list(toy.objects.get("events", {}).values())


async def test_an_event_says_what_happened_to_whom(recorder: Recorder, toy: Toy) -> None:
    """The event is stored beside its object, in the form that kubectl describe reads."""
    assert recorder.publish(evicted())
    await recorder.flush()

    (event,) = stored(toy)
    meta = event.pop("metadata")
    assert (meta["namespace"], meta["name"].rpartition(".")[0]) == ("shop", "web-0")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-0",
            "uid": "u",
        },
        "type": "Normal",
        "reason": "Evicted",
        "message": "Evicted pod: Drifted",
        "count": 1,
        "firstTimestamp": "2025-01-01T00:00:00Z",
        "lastTimestamp": "2025-01-01T00:00:00Z",
        "source": {"component": "karpenter"},
        "reportingComponent": "karpenter",
        "reportingInstance": "",
    }


async def test_events_of_cluster_objects_go_to_default(recorder: Recorder, toy: Toy) -> None:
    """Nodes and pools have no namespace, events must have one."""
    recorder.publish(evicted(NODE))
    await recorder.flush()

    assert [event["metadata"]["namespace"] for event in stored(toy)] == ["default"]


@pytest.mark.parametrize(
    ("quiet_for", "after", "told"),
    [
        pytest.param(120.0, 119, False, id="within two minutes it is not told again"),
        pytest.param(120.0, 120, True, id="after two minutes it is"),
        pytest.param(300.0, 299, False, id="an event may ask for a longer quiet"),
        pytest.param(60.0, 61, True, id="or for a shorter one"),
    ],
)
async def test_the_same_event_is_quiet_for_a_while(
    recorder: Recorder, quiet_for: float, after: float, told: bool
) -> None:
    """Each event says how long it is not to be repeated."""
    recorder.publish(evicted(quiet_for=quiet_for))
    await asyncio.sleep(after)

    assert recorder.publish(evicted(quiet_for=quiet_for)) is told


@pytest.mark.parametrize(
    ("other", "told"),
    [
        pytest.param(evicted(), False, id="the same"),
        pytest.param(evicted(message="Evicted pod: Empty"), True, id="another message"),
        pytest.param(evicted(NODE), True, id="another object"),
        pytest.param(evicted(reason="Disrupted"), True, id="another reason"),
        pytest.param(evicted(type="Warning"), False, id="another type alone makes no difference"),
    ],
)
async def test_what_makes_an_event_the_same(recorder: Recorder, other: RecordedEvent, told: bool) -> None:
    """By default reason, object and message do."""
    recorder.publish(evicted())

    assert recorder.publish(other) is told


async def test_an_event_may_say_what_makes_it_the_same(recorder: Recorder) -> None:
    """With values of its own, the message does not count."""
    recorder.publish(evicted(message="3 pods left", same_as=("n1",)))

    assert not recorder.publish(evicted(message="2 pods left", same_as=("n1",)))
    assert recorder.publish(evicted(message="2 pods left", same_as=("n2",)))


async def test_a_repeat_raises_the_count(recorder: Recorder, toy: Toy) -> None:
    """One event with a count is kept instead of many, while the server has it."""
    for _ in range(3):
        recorder.publish(evicted())
        await asyncio.sleep(240)
    await recorder.flush()

    (event,) = stored(toy)
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2025-01-01T00:00:00Z",
        "2025-01-01T00:08:00Z",
    )


async def test_what_is_said_over_and_over_is_said_less_often(recorder: Recorder) -> None:
    """The quiet doubles each time, up to half an hour: within the hour after which servers forget."""
    told = []
    for minute in range(200):
        if recorder.publish(evicted()):
            told.append(minute)
        await asyncio.sleep(60)

    assert told == [0, 2, 6, 14, 30, 60, 90, 120, 150, 180]


async def test_other_words_are_not_kept_quiet_for_longer(recorder: Recorder) -> None:
    """Only the same words wait for longer; others wait for as long as the event asks."""
    for _ in range(3):
        recorder.publish(evicted(message="3 pods left", same_as=("n1",)))
        await asyncio.sleep(240)

    assert recorder.publish(evicted(message="2 pods left", same_as=("n1",)))


async def test_what_comes_back_after_long_is_news(recorder: Recorder) -> None:
    """The quiet is short again for what was not heard of for a while."""
    for _ in range(2):
        recorder.publish(evicted())
        await asyncio.sleep(120)
    await asyncio.sleep(3600)
    recorder.publish(evicted())
    await asyncio.sleep(120)

    assert recorder.publish(evicted())


async def test_a_repeat_of_an_event_that_expired_is_new(recorder: Recorder, toy: Toy) -> None:
    """Servers drop events after an hour or so."""
    recorder.publish(evicted())
    await asyncio.sleep(120)
    toy.drop("events", next(iter(toy.objects["events"])))
    recorder.publish(evicted())
    await recorder.flush()

    assert [event["count"] for event in stored(toy)] == [1]


async def test_nominations_are_held_to_a_rate(recorder: Recorder) -> None:
    """Ten at once and five a second after, all pods together; other reasons are free."""
    at_once = sum(recorder.publish(nominated(number)) for number in range(100))
    await asyncio.sleep(1)
    after_a_second = sum(recorder.publish(nominated(number)) for number in range(100, 200))
    others = sum(
        recorder.publish(evicted(ObjectReference(kind="Pod", name=f"p{number}"))) for number in range(100)
    )

    assert (at_once, after_a_second, others) == (10, 5, 100)


async def test_names_never_clash(recorder: Recorder, toy: Toy) -> None:
    """Many events of one object in one moment are all stored."""
    for number in range(50):
        recorder.publish(evicted(message=f"{number}"))
    await recorder.flush()

    assert (len(stored(toy)), recorder.dropped) == (50, 0)


async def test_a_server_that_refuses_loses_events_and_nothing_else(
    recorder: Recorder, toy: Toy, logs: list[EventDict]
) -> None:
    """A lost event is logged and counted; the next one is sent."""
    toy.fault(status(403, "Forbidden", "namespace is terminating"))
    recorder.publish(evicted())
    recorder.publish(evicted(NODE))
    await recorder.flush()

    assert [event["involvedObject"]["name"] for event in stored(toy)] == ["n1"]
    assert recorder.dropped == 1
    assert [(log["event"], log["reason"], log["name"]) for log in logs] == [
        ("event.dropped", "Evicted", "web-0")
    ]


async def test_publishing_never_waits(toy: Toy, chance: Random, logs: list[EventDict]) -> None:
    """When too many events wait, more are dropped, and that is logged."""
    recorder = Recorder(Client(InProcess(toy), chance=chance), clock=VirtualClock())

    told = sum(recorder.publish(evicted(message=f"{number}")) for number in range(MAX_QUEUED + 3))

    assert (told, recorder.dropped, len(logs)) == (MAX_QUEUED, 3, 3)


async def test_long_messages_are_cut(recorder: Recorder, toy: Toy) -> None:
    """The API takes no more than a kibibyte."""
    recorder.publish(evicted(message="x" * 5000))
    await recorder.flush()

    assert len(stored(toy)[0]["message"]) == MAX_MESSAGE_LENGTH


async def test_old_events_are_not_counted_for_ever(recorder: Recorder, toy: Toy) -> None:
    """Only so many events are remembered for their counts; an older one begins anew."""
    for number in range(MAX_SENT + 1):
        recorder.publish(evicted(message=f"{number}"))
        await recorder.flush()
    await asyncio.sleep(121)
    recorder.publish(evicted(message="0"))
    recorder.publish(evicted(message="5"))
    await recorder.flush()

    told = [(event["message"], event["count"]) for event in stored(toy) if event["message"] in {"0", "5"}]
    assert sorted(told) == [("0", 1), ("0", 1), ("5", 2)]


async def test_what_may_be_told_again_is_forgotten(recorder: Recorder) -> None:
    """Memory does not grow with the number of pods that ever were."""
    for number in range(500):
        recorder.publish(evicted(message=f"{number}"))
    await asyncio.sleep(481)
    recorder.publish(evicted())

    assert len(recorder._quiet) == 1


async def test_what_matters_little_is_left_out_first(toy: Toy, chance: Random) -> None:
    """Minor events are told only while few others wait, and leaving them out is no loss."""
    recorder = Recorder(Client(InProcess(toy), chance=chance), clock=VirtualClock())
    minor = msgspec.structs.replace(evicted(message="minor"), minor=True)
    assert recorder.publish(minor)
    for number in range(MAX_QUEUED // 2):
        recorder.publish(evicted(message=f"{number}"))

    another = msgspec.structs.replace(minor, message="another")
    assert not recorder.publish(another)
    assert another.key not in recorder._quiet
    assert recorder.publish(evicted(message="one more"))
    assert recorder.dropped == 0
