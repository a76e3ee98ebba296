"""Which Events become messages, when, and in what form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.cluster import Event
from karpenter.notify.outbox import (
    Notification,
    NotificationBatch,
    Outbox,
    as_json,
    as_slack,
    is_told,
    notification_of,
)

NOW = "2026-06-01T12:00:00Z"


def event(reason: str = "SpotInterrupted", kind: str = "Node", name: str = "a", **more: Any) -> Event:
    """Return an Event about an object."""
    plain = {
        "metadata": {"name": "e", "namespace": "default"},
        "reason": reason,
        "type": "Warning",
        "message": "m",
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": NOW,
        **more,
    }
    return msgspec.convert(plain, Event)


def outbox(**more: Any) -> Outbox:
    return Outbox(**{"cluster": "blue", "quiet_for": 900.0, "per_minute": 2, **more})


def names(batch: NotificationBatch | None) -> list[str]:
    return [each.name for each in batch.notifications] if batch is not None else []


@pytest.mark.parametrize(
    ("reason", "kind", "asked", "told"),
    [
        pytest.param("SpotInterrupted", "Node", (), True, id="an interruption"),
        pytest.param("Nominated", "Pod", (), False, id="a pod that has a place"),
        pytest.param("Nominated", "Pod", ("Nominated",), True, id="what was asked for"),
        pytest.param("SpotInterrupted", "Node", ("Nominated",), False, id="what was not asked for"),
        pytest.param("DisruptionBlocked", "NodePool", (), True, id="a budget"),
        pytest.param("DisruptionBlocked", "NodeClaim", (), False, id="a machine that has not joined"),
        pytest.param("DisruptionBlocked", "Node", ("DisruptionBlocked",), True, id="every blocked node"),
    ],
)
def test_which_events_are_told(reason: str, kind: str, asked: tuple[str, ...], told: bool) -> None:
    """Nodes that go and what goes wrong, or what was asked for."""
    assert is_told(event(reason, kind), asked) is told


def test_what_a_notification_has() -> None:
    """Object, reason, message, and when it was last seen."""
    assert notification_of(event()) == Notification(
        reason="SpotInterrupted",
        type="Warning",
        kind="Node",
        namespace="",
        name="a",
        message="m",
        time=datetime(2026, 6, 1, 12, tzinfo=UTC).isoformat(),
    )


@pytest.mark.parametrize(
    ("after", "expected"),
    [pytest.param(899.0, [], id="too soon"), pytest.param(900.0, ["a"], id="after the quiet time")],
)
def test_the_same_is_not_told_again(after: float, expected: list[str]) -> None:
    """Of the same object and reason; the message may differ."""
    box = outbox()
    box.add(notification_of(event()), now=0.0)
    box.take(now=0.0)
    box.add(notification_of(event(message="other")), now=after)

    assert names(box.take(now=after)) == expected


def test_what_is_too_much_is_counted() -> None:
    """The first of a minute are sent, of the others the number with the next that may be."""
    box = outbox()
    for name in "abcde":
        box.add(notification_of(event(name=name)), now=0.0)
    first = box.take(now=0.0)
    box.add(notification_of(event(name="f")), now=1.0)

    assert names(first) == ["a", "b"]
    assert first is not None
    assert first.more == {"SpotInterrupted": 3}
    assert box.take(now=59.0) is None
    assert names(box.take(now=60.0)) == ["f"]


def test_a_batch_as_data() -> None:
    """Programs read every field."""
    batch = NotificationBatch(cluster="blue", notifications=(notification_of(event()),), more={"A": 1})

    assert as_json(batch)["notifications"][0]["reason"] == "SpotInterrupted"
    assert (as_json(batch)["cluster"], as_json(batch)["more"]) == ("blue", {"A": 1})


def test_a_batch_for_slack() -> None:
    """What was said of several objects is one line, and what Slack would read as a link is escaped."""
    told = [notification_of(event(name=name, message="a <b> & c")) for name in "uvwxyz"]
    claim = notification_of(event("DisruptionTerminating", "NodeClaim", "n", type="Normal", message="Empty"))
    batch = NotificationBatch(cluster="blue", notifications=(*told, claim), more={"SpotInterrupted": 3})

    assert as_slack(batch)["text"].splitlines() == [
        "Karpenter, cluster blue",
        ":warning: SpotInterrupted node/u, node/v, node/w, node/x, node/y and 1 more: a &lt;b&gt; &amp; c",
        "DisruptionTerminating nodeclaim/n: Empty",
        "and more: 3 SpotInterrupted",
    ]
