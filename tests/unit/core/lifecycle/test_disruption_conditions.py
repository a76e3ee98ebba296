"""What time and specs say about a claim."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL_HASH, NODEPOOL_HASH_VERSION, ZONE
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool, PoolRequirement
from karpenter.core.lifecycle.disruption_conditions import (
    consolidatable_at,
    disruption_conditions,
    drift_reason,
    drifted_since,
    expires_at,
    instance_type_found_at,
    is_consolidatable,
    known_drift,
    within_consolidate_after,
)
from karpenter.core.model.catalog import EMPTY, Catalog, combine
from karpenter.core.model.nodepool_hash import POOL_HASH_VERSION
from tests.unit.core.disruption.clusters import LONG_AGO, MARKET, NOW, machine, pool


def claim(**more: Any) -> NodeClaim:
    found = machine("node-1", **more)[1]
    assert isinstance(found, NodeClaim)
    return found


@pytest.mark.parametrize(
    ("expires", "expected"),
    [
        pytest.param("Never", None, id="never"),
        pytest.param("24h", LONG_AGO + timedelta(hours=24), id="a day after birth"),
        pytest.param("soon", None, id="a text that is no duration never comes"),
    ],
)
def test_expires_at(expires: str, expected: object) -> None:
    """A claim expires its lifetime after its creation."""
    assert expires_at(claim(expires=expires)) == expected


@pytest.mark.parametrize(
    ("wait", "last", "expected"),
    [
        pytest.param("0s", NOW, True, id="no wait at all"),
        pytest.param("1h", NOW - timedelta(hours=1), True, id="the wait is over"),
        pytest.param("1h", NOW - timedelta(minutes=59), False, id="still waiting"),
        pytest.param("1h", None, True, id="without pods the wait begins when the node is initialized"),
        pytest.param("1h", NOW + timedelta(minutes=1), False, id="by a clock that is a little ahead"),
        pytest.param("1h", NOW + timedelta(minutes=61), True, id="by a clock that was wrong"),
        pytest.param("Never", LONG_AGO, False, id="never"),
        pytest.param("soon", LONG_AGO, False, id="a text that is no duration never ends"),
    ],
)
def test_is_consolidatable(wait: str, last: object, expected: bool) -> None:
    """A node is left alone until its pool's consolidateAfter has passed since its last pod event."""
    assert is_consolidatable(claim(last_event=last), pool(consolidate_after=wait), NOW) is expected


def test_what_is_not_initialized_is_not_consolidatable() -> None:
    """A node that is not complete is never consolidated."""
    found = claim()
    bare = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=()))

    assert not is_consolidatable(bare, pool(), NOW)
    assert consolidatable_at(bare, pool(), NOW) is None


def test_is_quiet() -> None:
    """Inside its quiet time a node takes no pods that are moved for savings."""
    fresh = claim(last_event=NOW - timedelta(minutes=5))

    assert within_consolidate_after(fresh, pool(consolidate_after="1h"), NOW)
    assert not within_consolidate_after(fresh, pool(consolidate_after="1m"), NOW)
    assert not within_consolidate_after(fresh, pool(consolidate_after="Never"), NOW)
    assert not within_consolidate_after(None, pool(), NOW)


def _hashed(value: str, version: str = POOL_HASH_VERSION) -> dict[str, str]:
    return {NODEPOOL_HASH: value, NODEPOOL_HASH_VERSION: version}


def _stamped(value: str) -> NodePool:
    found = pool()
    metadata = msgspec.structs.replace(found.metadata, annotations=_hashed(value))
    return msgspec.structs.replace(found, metadata=metadata)


def _wanting(**requirement: Any) -> NodePool:
    found = pool()
    spec = msgspec.structs.replace(found.spec.template.spec, requirements=(PoolRequirement(**requirement),))
    template = msgspec.structs.replace(found.spec.template, spec=spec)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, template=template))


@pytest.mark.parametrize(
    ("machine_of", "wanted", "expected"),
    [
        pytest.param({}, pool(), "", id="nothing has changed"),
        pytest.param({"notes": _hashed("1")}, _stamped("2"), "NodePoolDrifted", id="another hash"),
        pytest.param({"notes": _hashed("2")}, _stamped("2"), "", id="the same hash"),
        pytest.param(
            {"notes": _hashed("1")}, pool(), "", id="a pool without a hash is compared with nothing"
        ),
        pytest.param({}, _stamped("2"), "", id="nor is a claim without one"),
        pytest.param(
            {"notes": _hashed("1", "v0")}, _stamped("2"), "", id="hashes of other versions are not compared"
        ),
        pytest.param(
            {},
            _wanting(key=ZONE, operator="In", values=("zone-2",)),
            "RequirementsDrifted",
            id="another zone is wanted",
        ),
        pytest.param({"size": "gone"}, pool(), "InstanceTypeNotFound", id="the type is no longer sold"),
        pytest.param({"size": ""}, pool(), "InstanceTypeNotFound", id="a claim that does not say its type"),
        pytest.param(
            {"zone": "zone-9"}, pool(), "InstanceTypeNotFound", id="the type is no longer sold in its zone"
        ),
        pytest.param({"zone": ""}, pool(), "", id="without a zone there is nothing to look up"),
        pytest.param(
            {"bought": "reserved"},
            _wanting(key=CAPACITY_TYPE, operator="Exists"),
            "",
            id="a reservation that ended goes on as on-demand",
        ),
        pytest.param(
            {"conditions": (Condition(type="Drifted", status="True", reason="AMIDrift"),)},
            pool(),
            "AMIDrift",
            id="the provider says so",
        ),
        pytest.param(
            {"conditions": (Condition(type="Drifted", status="True", reason="NodePoolDrifted"),)},
            pool(),
            "",
            id="what can be worked out is not taken from a condition",
        ),
        pytest.param(
            {"conditions": (Condition(type="Drifted", status="True"),)},
            pool(),
            "Drifted",
            id="without a reason",
        ),
    ],
)
def test_drift_reason(machine_of: dict[str, Any], wanted: NodePool, expected: str) -> None:
    """A claim has drifted when it is no longer what its pool would launch."""
    assert drift_reason(claim(**machine_of), wanted, MARKET, NOW) == expected


@pytest.mark.parametrize(
    ("bought", "expected"),
    [
        pytest.param("on-demand", "", id="of a kind that is sold elsewhere"),
        pytest.param("strange", "InstanceTypeNotFound", id="of a kind that is sold nowhere"),
    ],
)
def test_a_zone_that_stops_selling_a_type(bought: str, expected: str) -> None:
    """Machines stay where the provider names all its zones and the type is still sold in another one."""
    market = msgspec.structs.replace(MARKET, zones=frozenset({"zone-1", "zone-9"}))
    wanted = _wanting(key=CAPACITY_TYPE, operator="Exists")

    assert drift_reason(claim(zone="zone-9", bought=bought), wanted, market, NOW) == expected


def test_a_young_claim_is_not_drifted_by_the_catalogue() -> None:
    """A type may be missing from the catalogue for an hour before that counts."""
    found = claim(size="gone")
    young = msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, creation_timestamp=NOW - timedelta(minutes=59)),
    )

    assert drift_reason(young, pool(), MARKET, NOW) == ""


def test_a_cloud_that_does_not_answer_makes_nothing_drift() -> None:
    """A provider that does not say what a pool may buy says nothing about its machines."""
    assert drift_reason(claim(), pool(), EMPTY, NOW) == ""
    assert drift_reason(claim(size="gone"), pool(), EMPTY, NOW) == ""
    unanswered = combine({"default": EMPTY, "other": MARKET})
    assert drift_reason(claim(size="gone"), pool(), unanswered, NOW) == ""
    assert drift_reason(claim(size="gone"), pool("other"), unanswered, NOW) == "InstanceTypeNotFound"


def test_a_type_that_only_another_pool_may_buy_is_gone() -> None:
    """What counts is what the machine's own pool is sold."""
    lean = Catalog(types=MARKET.types[:1])

    assert drift_reason(claim(), pool(), combine({"default": lean, "other": MARKET}), NOW) == (
        "InstanceTypeNotFound"
    )


def test_what_was_never_launched_is_not_drifted() -> None:
    """Drift is only asked of claims that have a machine."""
    found = claim(notes=_hashed("1"))
    bare = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=()))

    assert drift_reason(bare, pool(), MARKET, NOW) == ""
    assert known_drift(bare, pool()) == ""


HALF_AN_HOUR = timedelta(minutes=30)


@pytest.mark.parametrize(
    ("size", "before", "catalog", "expected"),
    [
        pytest.param("small", None, MARKET, NOW, id="it is found"),
        pytest.param("gone", None, MARKET, None, id="it is not sold"),
        pytest.param(
            "gone", NOW - timedelta(minutes=29), MARKET, NOW - timedelta(minutes=29), id="it was found"
        ),
        pytest.param("gone", NOW - HALF_AN_HOUR, MARKET, None, id="it was found long ago, and is gone"),
        pytest.param("small", NOW - HALF_AN_HOUR, MARKET, NOW, id="it was found long ago, and is again"),
        pytest.param("small", None, EMPTY, None, id="a cloud that does not answer says nothing"),
    ],
)
def test_when_an_instance_type_was_found(
    size: str, before: datetime | None, catalog: Catalog, expected: datetime | None
) -> None:
    """An instance type that was found is not looked for again within half an hour; one that is gone is."""
    assert instance_type_found_at(claim(size=size), pool(), catalog, NOW, before) == expected


def test_an_instance_type_of_a_young_claim_is_not_looked_for() -> None:
    """So the half hour begins when the claim is an hour old, not before."""
    found = claim()
    young = msgspec.structs.replace(found.metadata, creation_timestamp=NOW - timedelta(minutes=59))

    assert (
        instance_type_found_at(msgspec.structs.replace(found, metadata=young), pool(), MARKET, NOW, None)
        is None
    )


def test_a_type_that_was_found_lately_is_no_drift() -> None:
    """A catalog that lacks a type for a moment drifts no node; what else has drifted still does."""
    gone = claim(size="gone", notes=_hashed("1"))

    assert drift_reason(gone, pool(), MARKET, NOW) == "InstanceTypeNotFound"
    assert drift_reason(gone, pool(), MARKET, NOW, found_at=NOW) == ""
    assert drift_reason(gone, _stamped("2"), MARKET, NOW, found_at=NOW) == "NodePoolDrifted"
    assert disruption_conditions(gone, pool(), MARKET, NOW, found_at=NOW).effects == (
        disruption_conditions(claim(notes=_hashed("1")), pool(), MARKET, NOW).effects
    )


@pytest.mark.parametrize(
    ("reason", "wanted", "expected"),
    [
        pytest.param("InstanceTypeNotFound", pool(), "InstanceTypeNotFound", id="the condition says so"),
        pytest.param("AMIDrift", pool(), "AMIDrift", id="the provider says so"),
        pytest.param("InstanceTypeNotFound", _stamped("2"), "NodePoolDrifted", id="a hash comes first"),
        pytest.param("", pool(), "", id="without a condition, a type that is gone says nothing"),
    ],
)
def test_known_drift(reason: str, wanted: NodePool, expected: str) -> None:
    """Nodes are disrupted for a missing instance type once the condition says so, as upstream does."""
    told = (Condition(type="Drifted", status="True", reason=reason),) if reason else ()

    assert known_drift(claim(size="gone", notes=_hashed("1"), conditions=told), wanted) == expected


def test_drifted_since() -> None:
    """The condition remembers when drift was found."""
    marked = Condition(type="Drifted", status="True", last_transition_time=LONG_AGO)

    assert drifted_since(claim(conditions=(marked,))) == LONG_AGO
    assert drifted_since(claim()) is None
