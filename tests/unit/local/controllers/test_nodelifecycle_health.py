"""What the cluster thinks of a node, and which pods have to leave it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from karpenter.api.cluster import Lease
from karpenter.api.meta import convert
from karpenter.api.node import Node, Taint
from karpenter.api.pod import Toleration
from karpenter_local.controllers import nodelifecycle_health
from karpenter_local.controllers.tainteviction import must_leave_at
from tests.unit.local.controllers.objects import NOW, at


def node(*, ready: str | None = "True", taints: Any = (), heartbeat: float = 0, **more: Any) -> Node:
    """Return a node that was made an hour ago."""
    conditions = [{"type": kind, "status": value} for kind, value in more.pop("conditions", {}).items()]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready, "lastHeartbeatTime": at(heartbeat)})
    meta = {"name": "n", "creationTimestamp": at(more.pop("born", -3600))}
    body = {"metadata": meta, "spec": {"taints": list(taints), **more}, "status": {"conditions": conditions}}
    return convert(body, Node)


def lease(renewed: float, seconds: int = 40) -> Lease:
    return convert({"spec": {"renewTime": at(renewed), "leaseDurationSeconds": seconds}}, Lease)


def after(seconds: float) -> datetime:
    """Return the time so many seconds from now."""
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "lasts", "expected"),
    [
        pytest.param(40, 40, False, id="just in time"),
        pytest.param(41, 40, True, id="too long"),
        pytest.param(41, 300, False, id="its lease lasts longer"),
        pytest.param(301, 300, True, id="longer still"),
    ],
)
def test_silence(seconds: float, lasts: int, expected: bool) -> None:
    """A node is not heard of when neither lease nor report is renewed for longer than the lease lasts."""
    held = lease(0, lasts)
    heard = nodelifecycle_health.update_health(node(), held, None, NOW)

    later = nodelifecycle_health.update_health(node(), held, heard, after(seconds))

    assert nodelifecycle_health.is_silent(node(), held, later, after(seconds)) is expected


@pytest.mark.parametrize(
    ("found", "held"),
    [
        pytest.param(node(), lease(100), id="by its lease"),
        pytest.param(node(heartbeat=100), lease(0), id="by its report"),
    ],
)
def test_heard_of(found: Node, held: Lease) -> None:
    """A renewed lease and a new report both count."""
    heard = nodelifecycle_health.update_health(node(), lease(0), None, NOW)

    assert nodelifecycle_health.update_health(found, held, heard, after(100)).at == after(100)


def test_our_own_verdict_is_no_news() -> None:
    """What we wrote about a silent node is not taken for its report."""
    heard = nodelifecycle_health.update_health(node(), None, None, NOW)
    unknown = node(ready="Unknown", heartbeat=50)

    assert nodelifecycle_health.update_health(unknown, None, heard, after(60)).at == NOW


def test_a_node_that_never_reported() -> None:
    """A new node has a minute to say something."""
    silent = node(ready=None, born=0)
    heard = nodelifecycle_health.update_health(silent, None, None, after(10))

    assert not nodelifecycle_health.is_silent(silent, None, heard, after(60))
    assert nodelifecycle_health.is_silent(silent, None, heard, after(61))
    assert {each["reason"] for each in nodelifecycle_health.silent_conditions(silent, NOW)} == {
        "NodeStatusNeverUpdated"
    }


def test_silent_conditions() -> None:
    """Whatever a silent node said last is unknown now, once."""
    found = node(conditions={"MemoryPressure": "False", "DiskPressure": "Unknown"})

    changed = {each["type"]: each["reason"] for each in nodelifecycle_health.silent_conditions(found, NOW)}

    assert changed == {
        "MemoryPressure": "NodeStatusUnknown",
        "PIDPressure": "NodeStatusNeverUpdated",
        "Ready": "NodeStatusUnknown",
    }


MINE = {"key": "mine", "value": "x", "effect": "NoSchedule", "timeAdded": at(0)}
NOT_READY, UNREACHABLE = nodelifecycle_health.NOT_READY, nodelifecycle_health.UNREACHABLE


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(node(), None, id="all is well"),
        pytest.param(node(taints=[MINE]), None, id="taints of others stay"),
        pytest.param(
            node(ready="False", taints=[MINE]),
            [("mine", "NoSchedule"), (NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
            id="not ready",
        ),
        pytest.param(
            node(ready="Unknown"),
            [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
            id="not heard of",
        ),
        pytest.param(node(ready=None), [(NOT_READY, "NoSchedule")], id="has not said yet"),
        pytest.param(
            node(taints=[{"key": NOT_READY, "effect": "NoExecute"}, MINE]),
            [("mine", "NoSchedule")],
            id="well again",
        ),
        pytest.param(
            node(unschedulable=True), [("node.kubernetes.io/unschedulable", "NoSchedule")], id="cordoned"
        ),
        pytest.param(
            node(conditions={"DiskPressure": "True"}),
            [("node.kubernetes.io/disk-pressure", "NoSchedule")],
            id="short of something",
        ),
        pytest.param(
            node(ready="Unknown", taints=[{"key": NOT_READY, "effect": "NoSchedule"}]),
            [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
            id="one trouble after another",
        ),
    ],
)
def test_wanted_taints(found: Node, expected: list[tuple[str, str]] | None) -> None:
    """Taints follow from conditions, and those that others put there are kept whole."""
    wanted = nodelifecycle_health.wanted_taints(found, NOW)

    assert (None if wanted is None else [(each["key"], each["effect"]) for each in wanted]) == expected
    assert all(each == MINE for each in wanted or () if each["key"] == "mine")


def drives(seconds: float = 0, key: str = "gone") -> Taint:
    """Return a taint that drives pods out, put on some time ago."""
    return Taint(key=key, effect="NoExecute", time_added=after(-seconds))


def tolerates(seconds: int | None = None, key: str = "gone") -> Toleration:
    """Return a toleration, perhaps for some seconds only."""
    return Toleration(key=key, operator="Exists", toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([], [], None, id="no taints"),
        pytest.param([Taint(key="gone", effect="NoSchedule")], [], None, id="a taint that only keeps out"),
        pytest.param([drives()], [], 0.0, id="at once"),
        pytest.param([drives()], [tolerates()], None, id="tolerated for good"),
        pytest.param([drives(100)], [tolerates(300)], 200.0, id="for some time, since the taint came"),
        pytest.param([drives()], [tolerates(300), tolerates(60)], 60.0, id="the shortest counts"),
        pytest.param([drives(), drives(key="b")], [tolerates()], 0.0, id="every taint must be tolerated"),
        pytest.param([drives()], [tolerates(-5)], 0.0, id="a negative time is none"),
    ],
)
def test_must_leave_at(taints: list[Taint], tolerations: list[Toleration], expected: float | None) -> None:
    """A pod leaves when it does not, or no longer, tolerate what drives it out."""
    when = must_leave_at(taints, tolerations, NOW)

    assert (None if when is None else (when - NOW).total_seconds()) == expected
