"""What a pod is to us."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.api.labels import DISRUPTED, DO_NOT_DISRUPT
from karpenter.api.meta import convert
from karpenter.api.pod import Pod
from karpenter.core.state.pod import (
    do_not_disrupt_reason,
    do_not_disrupt_until,
    has_do_not_disrupt,
    has_dra_requirements,
    is_active,
    is_evictable,
    is_owned_by_daemonset,
    is_owned_by_node,
    is_ready,
    is_reschedulable,
    is_terminal,
    is_terminating,
    is_unscheduled,
    tolerates_disrupted_taint,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GONE = {"deletionTimestamp": "2026-01-01T11:59:00Z"}


def owned(kind: str, api_version: str) -> dict[str, Any]:
    """Return the metadata of a pod that something owns."""
    return {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "it", "uid": "1"}]}


DAEMON = owned("DaemonSet", "apps/v1")
MIRROR = owned("Node", "v1")
STATEFUL = owned("StatefulSet", "apps/v1")


def pod(meta: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: object) -> Pod:
    """Return a pod from parts of its manifest."""
    return convert({"metadata": meta or {}, "spec": spec or {}, "status": status}, Pod)


def asks(value: str, start: str | None = None) -> Pod:
    return pod({"annotations": {DO_NOT_DISRUPT: value}}, startTime=start)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("", False, id="no phase"),
        pytest.param("Pending", False, id="pending"),
        pytest.param("Running", False, id="running"),
        pytest.param("Unknown", False, id="unknown"),
        pytest.param("Succeeded", True, id="succeeded"),
        pytest.param("Failed", True, id="failed"),
    ],
)
def test_finished(phase: str, expected: bool) -> None:
    """A pod that succeeded or failed has run to its end."""
    assert is_terminal(pod(phase=phase)) is expected


@pytest.mark.parametrize(
    ("found", "leaving", "active"),
    [
        pytest.param(pod(phase="Running"), False, True, id="a running pod is active"),
        pytest.param(pod(), False, True, id="a pod that says nothing is active"),
        pytest.param(pod(GONE, phase="Running"), True, False, id="a pod that was asked to go is not"),
        pytest.param(pod(phase="Failed"), False, False, id="a finished pod is not"),
    ],
)
def test_active(found: Pod, leaving: bool, active: bool) -> None:
    """A pod is active while it has not finished and was not asked to go."""
    assert (is_terminating(found), is_active(found)) == (leaving, active)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(DAEMON), (True, False), id="a pod of a DaemonSet"),
        pytest.param(pod(MIRROR), (False, True), id="a node's own pod"),
        pytest.param(pod(STATEFUL), (False, False), id="a pod of a StatefulSet"),
        pytest.param(pod(owned("DaemonSet", "example.com/v1")), (False, False), id="a DaemonSet of others"),
        pytest.param(pod(owned("Node", "example.com/v1")), (False, False), id="a Node of others"),
        pytest.param(pod(), (False, False), id="a pod on its own"),
    ],
)
def test_owners(found: Pod, expected: tuple[bool, bool]) -> None:
    """Daemons and mirror pods are told by their owner, kind and group alike."""
    assert (is_owned_by_daemonset(found), is_owned_by_node(found)) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(), True, id="no node yet"),
        pytest.param(pod(phase="Pending"), True, id="pending"),
        pytest.param(pod(spec={"nodeName": "node-1"}), False, id="has a node"),
        pytest.param(pod(phase="Failed"), False, id="has finished"),
        pytest.param(pod(GONE), False, id="is leaving"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "wait"}]}), False, id="is gated"),
        pytest.param(pod(nominatedNodeName="node-1"), False, id="others make room for it"),
        pytest.param(pod(DAEMON), False, id="a daemon"),
        pytest.param(pod(MIRROR), False, id="a mirror pod"),
    ],
)
def test_waits(found: Pod, expected: bool) -> None:
    """A pod waits for a node when it may run, has none, and none is being cleared for it."""
    assert is_unscheduled(found) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(phase="Running"), True, id="an ordinary pod"),
        pytest.param(pod(GONE), False, id="a pod that was asked to go"),
        pytest.param(pod(STATEFUL | GONE), True, id="a StatefulSet starts its pod again"),
        pytest.param(pod(STATEFUL | GONE, phase="Failed"), False, id="not one that has finished"),
        pytest.param(pod(phase="Succeeded"), False, id="a finished pod"),
        pytest.param(pod(DAEMON), False, id="a daemon"),
        pytest.param(pod(MIRROR), False, id="a mirror pod"),
    ],
)
def test_runs_again(found: Pod, expected: bool) -> None:
    """A pod would run elsewhere if its node went away, unless it belongs to the node or has ended."""
    assert is_reschedulable(found) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, False, id="no claims"),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, True, id="a claim of the pod"),
        pytest.param(
            {"containers": [{"resources": {"claims": [{"name": "gpu"}]}}]}, True, id="a claim of a container"
        ),
        pytest.param(
            {"initContainers": [{"resources": {"claims": [{"name": "gpu"}]}}]},
            True,
            id="a claim of an init container",
        ),
    ],
)
def test_uses_devices(spec: dict[str, Any], expected: bool) -> None:
    """A pod uses devices when it, or one of its containers, claims some."""
    assert has_dra_requirements(pod(spec=spec)) is expected


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(pod(), "", id="no wish"),
        pytest.param(asks("true"), f"{DO_NOT_DISRUPT} is true", id="for good"),
        pytest.param(asks("false"), "", id="false is no wish"),
        pytest.param(asks("soon"), "", id="what cannot be read is no wish"),
        pytest.param(asks("0s"), "", id="zero is no time"),
        pytest.param(asks("-5m"), "", id="less than nothing is no time"),
        pytest.param(
            asks("1s", "2026-01-01T12:00:00Z"),
            f"{DO_NOT_DISRUPT} holds for 1s after its start",
            id="a second is a time",
        ),
        pytest.param(
            asks("10m", "2026-01-01T11:51:00Z"),
            f"{DO_NOT_DISRUPT} holds for 10m after its start",
            id="not over yet",
        ),
        pytest.param(asks("10m", "2026-01-01T11:50:00Z"), "", id="over to the second"),
        pytest.param(
            asks("10m"), f"{DO_NOT_DISRUPT} holds for 10m after its start", id="has not started yet"
        ),
        pytest.param(asks("1h30m", "2026-01-01T10:00:00Z"), "", id="long over"),
    ],
)
def test_protection(found: Pod, sentence: str) -> None:
    """A pod may ask not to be disrupted, for good or for a time after its start."""
    assert (do_not_disrupt_reason(found, NOON), has_do_not_disrupt(found, NOON)) == (sentence, bool(sentence))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(asks("10m", "2026-01-01T11:55:00Z"), NOON + timedelta(minutes=5), id="after its start"),
        pytest.param(asks("10m"), None, id="it has not started"),
        pytest.param(asks("true", "2026-01-01T11:55:00Z"), None, id="for good"),
        pytest.param(pod(startTime="2026-01-01T11:55:00Z"), None, id="no wish"),
    ],
)
def test_when_protection_ends(found: Pod, expected: datetime | None) -> None:
    """Protection for a time ends so long after the start of the pod."""
    assert do_not_disrupt_until(found) == expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": DISRUPTED, "operator": "Exists"}, True, id="the taint of a leaving node"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="another taint"),
    ],
)
def test_tolerates_disruption(toleration: dict[str, str], expected: bool) -> None:
    """A pod that tolerates the taint of leaving nodes stays on one."""
    found = pod(spec={"tolerations": [toleration]})

    assert (tolerates_disrupted_taint(found), is_evictable(found, NOON)) == (expected, not expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(), True, id="an ordinary pod"),
        pytest.param(pod(DAEMON), True, id="a daemon"),
        pytest.param(pod(MIRROR), False, id="a mirror pod"),
        pytest.param(pod(GONE), False, id="a pod that is going already"),
        pytest.param(asks("true"), False, id="a pod that asks not to be"),
    ],
)
def test_can_be_evicted(found: Pod, expected: bool) -> None:
    """Emptying a node evicts what is active and did not ask to stay."""
    assert is_evictable(found, NOON) is expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], False, id="nothing is said"),
        pytest.param([{"type": "Ready", "status": "True"}], True, id="ready"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="not ready"),
        pytest.param([{"type": "Initialized", "status": "True"}], False, id="something else holds"),
    ],
)
def test_ready(conditions: list[dict[str, str]], expected: bool) -> None:
    """A pod is ready when it says so."""
    assert is_ready(pod(conditions=conditions)) is expected
