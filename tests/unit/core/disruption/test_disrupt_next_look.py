"""Until when a cluster in which nothing changes stays as it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.nodepool import Budget
from karpenter.core.disruption.disrupt import next_moment
from tests.unit.core.disruption.clusters import NOW, cluster, machine, pod, pool

MINUTE = timedelta(minutes=1)
NIGHTLY = Budget(nodes="0", schedule="0 22 * * *", duration="8h")
NOON = Budget(nodes="0", schedule="0 12 * * *", duration="8h")
NOONISH = Budget(nodes="0", schedule="30 11 * * *", duration="1h")


@pytest.mark.parametrize(
    ("change", "event", "expected"),
    [
        pytest.param({}, None, None, id="nothing depends on time"),
        pytest.param({"budgets": (Budget(nodes="1"),)}, None, None, id="a budget without a window"),
        pytest.param({"budgets": (NIGHTLY,)}, None, NOW.replace(hour=22), id="a window opens"),
        pytest.param(
            {"budgets": (NOONISH,)}, None, NOW.replace(minute=30, second=1), id="an open window closes"
        ),
        pytest.param(
            {"budgets": (NOON,)}, None, NOW.replace(hour=20, second=1), id="a window that opens now closes"
        ),
        pytest.param({"consolidate_after": "10m"}, NOW - MINUTE, NOW + 9 * MINUTE, id="a quiet time ends"),
        pytest.param({"consolidate_after": "10m"}, NOW - 20 * MINUTE, None, id="a quiet time is over"),
        pytest.param({"consolidate_after": "10m"}, NOW - 10 * MINUTE, None, id="a quiet time ends now"),
    ],
)
def test_pools(change: dict[str, Any], event: datetime | None, expected: datetime | None) -> None:
    """Budgets and quiet times of pools turn at moments that are known."""
    view = cluster(pool(**change), machine("node-1", last_event=event))

    assert next_moment(view, NOW) == expected


@pytest.mark.parametrize(
    ("value", "started", "expected"),
    [
        pytest.param("true", True, None, id="for ever"),
        pytest.param("nonsense", True, None, id="not a duration"),
        pytest.param("72h", False, None, id="of a pod that has not started"),
        pytest.param("72h", True, NOW + timedelta(days=1), id="for three days, two of which are over"),
    ],
)
def test_protection(value: str, started: bool, expected: datetime | None) -> None:
    """A pod's own protection runs out at a moment that is known."""
    found = pod("web-0", "node-1", annotations={DO_NOT_DISRUPT: value})
    if not started:
        found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, start_time=None))

    assert next_moment(cluster(pool(), machine("node-1"), found, pod("other-0", "node-1")), NOW) == expected


def test_claims_grow_old() -> None:
    """A claim expires at a moment that is known, whether its pool is there or not."""
    view = cluster(machine("node-1", expires="50h"))

    assert next_moment(view, NOW) == NOW + timedelta(hours=2)


def test_a_claim_may_drift_by_its_instance_type_after_an_hour() -> None:
    """A claim that is fifty minutes old is looked at again in ten minutes."""
    node, claim = machine("node-1")
    claim = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, creation_timestamp=NOW - 50 * MINUTE)
    )

    assert next_moment(cluster(pool(), node, claim), NOW) == NOW + 10 * MINUTE


def test_a_claim_of_unknown_age_depends_on_nothing() -> None:
    """Without a birthday there is no moment to wait for."""
    node, claim = machine("node-1")
    claim = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, creation_timestamp=None)
    )

    assert next_moment(cluster(node, claim), NOW) is None
