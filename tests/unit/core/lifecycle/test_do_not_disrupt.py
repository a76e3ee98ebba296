"""What pods are told of their wish not to be disrupted."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.core.effects import Announce
from karpenter.core.lifecycle.do_not_disrupt import do_not_disrupt_events
from tests.unit.core.lifecycle.objects import BORN, NOW, at, pod

STARTED = {"phase": "Running", "startTime": at(BORN)}


def wishing(wish: str, *, started: bool = True, **parts: Any) -> Any:
    """Return a pod with a wish, which started two minutes ago."""
    status = STARTED if started else {"phase": "Running"}
    return pod(meta={"annotations": {DO_NOT_DISRUPT: wish}}, status=status, **parts)


@pytest.mark.parametrize(
    ("found", "reason", "says", "again"),
    [
        pytest.param(wishing("5m"), "DoNotDisruptUntil", "2026-01-01T12:05:00Z", 180.0, id="it holds"),
        pytest.param(
            wishing("1m"), "DoNotDisruptGracePeriodElapsed", "2026-01-01T12:01:00Z", None, id="it is over"
        ),
        pytest.param(
            wishing("yes"),
            "InvalidDoNotDisruptAnnotation",
            "true or a duration",
            None,
            id="nobody can read it",
        ),
        pytest.param(
            wishing("0s"),
            "InvalidDoNotDisruptAnnotation",
            "expected a duration above zero, not 0s",
            None,
            id="for no time",
        ),
        pytest.param(
            wishing("-1m"),
            "InvalidDoNotDisruptAnnotation",
            "expected a duration above zero, not -1m",
            None,
            id="for less",
        ),
    ],
)
def test_what_is_told(found: Any, reason: str, says: str, again: float | None) -> None:
    """A pod learns until when its wish holds, that it is over, or that it is ignored."""
    due = do_not_disrupt_events(found, NOW)
    (told,) = due.effects

    assert isinstance(told, Announce)
    assert (told.reason, due.again) == (reason, again)
    assert says in told.message


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(pod(status=STARTED), id="it has no wish"),
        pytest.param(wishing("true"), id="it is never to be disrupted"),
        pytest.param(wishing("5m", started=False), id="it has not started"),
        pytest.param(wishing("5m", spec={"nodeName": ""}), id="it has no node"),
        pytest.param(
            pod(meta={"annotations": {DO_NOT_DISRUPT: "5m"}}, status={"phase": "Succeeded"}),
            id="it has ended",
        ),
    ],
)
def test_what_is_not_told(found: Any) -> None:
    """Where nothing is to come, nothing is said."""
    assert do_not_disrupt_events(found, NOW).effects == ()
