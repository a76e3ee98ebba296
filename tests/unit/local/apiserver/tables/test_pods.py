from typing import Any

import pytest

from karpenter_local.apiserver.tables.pods import PodSummary

RUNNING = {"name": "c", "ready": True, "restartCount": 0, "state": {"running": {}}}


def pod(*, deleting: bool = False, init: list[dict[str, Any]] | None = None, **status: Any) -> dict[str, Any]:
    meta = {"name": "p", **({"deletionTimestamp": "2025-01-01T00:00:00Z"} if deleting else {})}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "c"}], "initContainers": init or []},
        "status": status,
    }


def ended(code: int, **more: Any) -> dict[str, Any]:
    """Return an init container that has ended."""
    return {"name": "i", "state": {"terminated": {"exitCode": code, **more}}}


@pytest.mark.parametrize(
    ("given", "state", "ready"),
    [
        pytest.param(pod(phase="Pending"), "Pending", "0/1", id="waiting"),
        pytest.param(pod(phase="Running", containerStatuses=[RUNNING]), "Running", "1/1", id="running"),
        pytest.param(
            pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "SchedulingGated",
            "0/1",
            id="gated",
        ),
        pytest.param(
            pod(
                phase="Running",
                containerStatuses=[{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            ),
            "CrashLoopBackOff",
            "0/1",
            id="why it waits",
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[{"name": "c", "state": {"terminated": {"exitCode": 3}}}]),
            "ExitCode:3",
            "0/1",
            id="how it ended",
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[{"name": "c", "state": {"terminated": {"signal": 9}}}]),
            "Signal:9",
            "0/1",
            id="what ended it",
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", "0/1", id="why it failed"),
        pytest.param(
            pod(phase="Running", deleting=True, containerStatuses=[RUNNING]),
            "Terminating",
            "1/1",
            id="leaving",
        ),
        pytest.param(pod(phase="Succeeded", deleting=True), "Succeeded", "0/1", id="done, and leaving"),
        pytest.param(pod(phase="Running", deleting=True, reason="NodeLost"), "Unknown", "0/1", id="lost"),
        pytest.param(
            pod(
                phase="Pending",
                init=[{"name": "i"}, {"name": "j"}],
                initContainerStatuses=[ended(0), {"name": "j", "state": {}}],
            ),
            "Init:1/2",
            "0/1",
            id="still preparing",
        ),
        pytest.param(
            pod(phase="Pending", init=[{"name": "i"}], initContainerStatuses=[ended(1, reason="Error")]),
            "Init:Error",
            "0/1",
            id="could not prepare",
        ),
        pytest.param(
            pod(
                phase="Running",
                init=[{"name": "s", "restartPolicy": "Always"}],
                initContainerStatuses=[
                    {"name": "s", "started": True, "ready": True, "state": {"running": {}}}
                ],
                containerStatuses=[RUNNING],
            ),
            "Running",
            "2/2",
            id="a sidecar counts",
        ),
    ],
)
def test_how_a_pod_is(given: dict[str, Any], state: str, ready: str) -> None:
    """One word says what a user wants to know first."""
    summary = PodSummary(given)

    assert (summary.state, f"{summary.ready}/{summary.total}") == (state, ready)


def test_restarts_remember_the_last() -> None:
    """The latest end of any container counts."""
    statuses = [
        {"name": "a", "restartCount": 2, "lastState": {"terminated": {"finishedAt": "2025-01-01T01:00:00Z"}}},
        {"name": "b", "restartCount": 1, "lastState": {"terminated": {"finishedAt": "2025-01-01T03:00:00Z"}}},
    ]

    summary = PodSummary(pod(phase="Running", containerStatuses=statuses))

    assert (summary.restarts, summary.last_restart) == (3, "2025-01-01T03:00:00Z")
