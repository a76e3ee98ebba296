"""Conditions: what each means for the others, and when it counts as changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api.meta import ObjectMeta, convert
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.core.lifecycle.conditions import (
    INITIALIZED,
    LAUNCHED,
    NODECLAIM_DEPENDENTS,
    READY,
    REGISTERED,
    ConditionSet,
    claim_conditions,
    condition_set_of,
    overlay_conditions,
    pool_conditions,
    render_conditions,
)
from tests.unit.core.lifecycle.objects import BORN, NOW, claim, conditions, pool

LATER = NOW + timedelta(minutes=1)


def condition_set(*, generation: int = 1, deleting: bool = False, **statuses: Any) -> ConditionSet:
    meta: dict[str, Any] = {"generation": generation}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T12:01:00Z"
    return claim_conditions(claim(meta=meta, **statuses), NOW)


def test_what_must_be_there_is_there_since_birth() -> None:
    """Root and dependents exist from the first look, unknown since the object's creation."""
    found = {each.type: each for each in condition_set().held}

    assert set(found) == {READY, *NODECLAIM_DEPENDENTS}
    assert {(each.status, each.reason) for each in found.values()} == {("Unknown", "AwaitingReconciliation")}
    assert {each.last_transition_time for each in found.values()} == {BORN}


def test_an_object_without_a_birthday_was_born_now() -> None:
    """Where nobody says when an object was created, now has to do."""
    assert condition_set_of(ObjectMeta(), (), NODECLAIM_DEPENDENTS, NOW).since(LAUNCHED) == NOW


def test_each_kind_has_its_own_dependents() -> None:
    """Claims, pools and overlays depend on different conditions."""
    overlay = convert({"metadata": {"name": "o"}, "spec": {"requirements": []}}, NodeOverlay)

    assert pool_conditions(pool(), NOW).dependents == ("ValidationSucceeded", "NodeClassReady")
    assert overlay_conditions(overlay, NOW).dependents == ("ValidationSucceeded",)


def test_a_true_condition_is_its_own_reason() -> None:
    """SetTrue without a reason uses the type and no message."""
    found = condition_set().set_true(LAUNCHED).get(LAUNCHED)

    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", LAUNCHED, "")


def test_the_time_changes_with_the_status_only() -> None:
    """A new reason or message keeps the time of the last change of the status."""
    first = condition_set().set_unknown(LAUNCHED, "One", "")
    second = first.set_true(LAUNCHED)

    assert first.since(LAUNCHED) == BORN
    assert second.since(LAUNCHED) == NOW
    assert second.set_unknown(LAUNCHED, "Again", "").since(LAUNCHED) == NOW


def test_a_time_that_is_still_to_come_is_put_right() -> None:
    """What a clock that was ahead has written counts as of now, and is written anew with the present time."""
    ahead = condition_set().set_true(LAUNCHED)
    before = msgspec.structs.replace(ahead, now=NOW - timedelta(hours=1))

    assert (ahead.is_ahead(LAUNCHED), before.is_ahead(LAUNCHED)) == (False, True)
    assert not before.is_ahead("Drifted")
    assert before.since(LAUNCHED) == before.now
    found = before.refresh(LAUNCHED).get(LAUNCHED)
    assert found is not None
    assert found.last_transition_time == before.now


def test_a_condition_beside_the_root_begins_now() -> None:
    """What is not a dependent gets its first time when it is first set."""
    assert condition_set().set_true("Drifted", "Why").since("Drifted") == NOW
    assert condition_set().since("Drifted") < BORN
    assert condition_set().status("Drifted") == ""


@pytest.mark.parametrize(
    ("statuses", "generation", "status", "reason", "message"),
    [
        pytest.param(
            {"Launched": "True", "Registered": "True", "Initialized": "True"},
            1,
            "True",
            "Ready",
            "",
            id="all hold",
        ),
        pytest.param(
            {"Launched": "True", "Registered": "Unknown", "Initialized": "Unknown"},
            1,
            "Unknown",
            "ReconcilingDependents",
            "Registered=Unknown, Initialized=Unknown",
            id="some are not known yet",
        ),
        pytest.param(
            {"Launched": "True", "Registered": "False", "Initialized": "Unknown"},
            1,
            "False",
            "UnhealthyDependents",
            "Registered=False, Initialized=Unknown",
            id="one does not hold",
        ),
        pytest.param(
            {"Launched": "True", "Registered": "False", "Initialized": "True"},
            2,
            "Unknown",
            "ReconcilingDependents",
            "Registered=False, Initialized=True",
            id="what was said of an older generation does not count",
        ),
    ],
)
def test_the_root_follows(
    statuses: dict[str, Any], generation: int, status: str, reason: str, message: str
) -> None:
    """Ready holds when every dependent does, of the present generation."""
    found = condition_set(generation=generation, **statuses).refresh(LAUNCHED).get(READY)

    assert found is not None
    assert (found.status, found.reason, found.message) == (status, reason, message)


def test_the_message_of_the_root_names_the_newest_first() -> None:
    """Unhealthy dependents are listed by their last change."""
    found = condition_set().set_false(REGISTERED, "No", "").get(READY)

    assert found is not None
    assert found.message.startswith("Registered=False, ")


def test_conditions_are_kept_by_time_with_the_root_last() -> None:
    """The order tells the story."""
    held = [each.type for each in condition_set().set_true(REGISTERED).held]

    assert held[-2:] == [REGISTERED, READY]


def test_setting_the_root_itself_changes_nothing_else() -> None:
    """The root may be set directly."""
    assert condition_set().set(READY, "True", "Fine", "").status(READY) == "True"


def test_while_deleting_every_condition_is_of_the_present_generation() -> None:
    """Any write on a deleting object brings all conditions to its generation."""
    found = condition_set(generation=3, deleting=True, Launched="True").set_true("Drained")

    assert {each.observed_generation for each in found.held} == {3}


def test_clear_removes_what_nothing_depends_on() -> None:
    """Dependents and the root stay; others go, and the rest is sorted by name."""
    found = condition_set().set_true("Drifted", "Why").set_true("Consolidatable").clear("Drifted")

    assert [each.type for each in found.held] == sorted([READY, *NODECLAIM_DEPENDENTS, "Consolidatable"])
    assert found.clear(LAUNCHED) is found
    assert found.clear(READY) is found
    assert found.clear("Drifted") is found


def test_refreshing_what_is_not_there_changes_nothing() -> None:
    """Only what was said can be said again."""
    found = condition_set()

    assert found.refresh("Drifted") is found
    assert found.refresh(INITIALIZED).get(INITIALIZED) == found.get(INITIALIZED)


def test_every_field_is_written() -> None:
    """The API gets status and message also where they are the default."""
    plain = conditions(Launched="Unknown")[0]

    assert render_conditions(claim(Launched="Unknown").status.conditions) == [{**plain, "message": ""}]
