"""What is told to users: reasons that never change, sentences with facts, and no shouting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from karpenter.api.labels import INSTANCE_TYPE, ZONE
from karpenter.core import events
from karpenter.core.effects import QUIET, Announce, about
from tests.unit.core.lifecycle.objects import claim, complete, launched, node, pod, pool

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim


@pytest.mark.parametrize(
    ("told", "reason", "kind", "quiet_for"),
    [
        (events.nominated(pod(), node="n"), "Nominated", "Normal", QUIET),
        (events.failed_scheduling(pod(), "why"), "FailedScheduling", "Warning", 300.0),
        (events.preferences_ignored(pod(), 40, 32), "PreferencesIgnored", "Warning", 3600.0),
        (events.no_compatible_types(pool(), "why"), "NoCompatibleInstanceTypes", "Warning", 60.0),
        (events.insufficient_capacity(claim(), "why"), "InsufficientCapacityError", "Warning", QUIET),
        (
            events.unregistered_taint_missing(claim(), node()),
            "UnregisteredTaintMissing",
            "Warning",
            QUIET,
        ),
        (events.failed_consistency(claim(), "why"), "FailedConsistencyCheck", "Warning", QUIET),
        (
            events.grace_period_expiring(node(), "then"),
            "TerminationGracePeriodExpiring",
            "Warning",
            QUIET,
        ),
        (events.evicted(pod(), "Empty"), "Evicted", "Normal", QUIET),
        (
            events.condition_changed(claim(), "Unknown", complete().status.conditions[0]),
            "Launched",
            "Normal",
            0.0,
        ),
        (events.finalized(claim(), "f"), "Finalized", "Normal", QUIET),
        (events.protection_ignored(pod(), "why"), "InvalidDoNotDisruptAnnotation", "Warning", QUIET),
        (events.protected_until(pod(), "then"), "DoNotDisruptUntil", "Normal", QUIET),
        (events.protection_elapsed(pod(), "then"), "DoNotDisruptGracePeriodElapsed", "Normal", QUIET),
        (events.disrupted(pod(), 5), "Disrupted", "Normal", QUIET),
        (events.failed_draining(about(node()), "why"), "FailedDraining", "Warning", QUIET),
        (events.awaiting_volumes(node(), ["va"]), "AwaitingVolumeDetachment", "Normal", QUIET),
        (events.repair_blocked(node(), "why"), "NodeRepairBlocked", "Warning", 900.0),
        (events.disruption_blocked(node(), "why"), "DisruptionBlocked", "Normal", QUIET),
        (events.budget_blocked(pool(), "why"), "DisruptionBlocked", "Normal", 60.0),
        (events.unconsolidatable(node(), "why"), "Unconsolidatable", "Normal", 900.0),
        (events.disruption_launching(claim(), "Empty"), "DisruptionLaunching", "Normal", QUIET),
        (events.disruption_waiting(claim()), "DisruptionWaitingReadiness", "Normal", QUIET),
        (events.disruption_terminating(node(), "Empty"), "DisruptionTerminating", "Normal", QUIET),
        (events.consolidation_candidate(node(), "text"), "ConsolidationCandidate", "Normal", QUIET),
        (
            events.consolidation_rejected(node(), "text", "churn"),
            "ConsolidationRejected",
            "Normal",
            QUIET,
        ),
        (events.interruption(node(), "spot_interrupted"), "SpotInterrupted", "Warning", QUIET),
        (
            events.interruption(node(), "rebalance_recommendation", drains=False),
            "SpotRebalanceRecommendation",
            "Normal",
            QUIET,
        ),
        (events.interruption(claim(), "system_status"), "InstanceUnhealthy", "Warning", QUIET),
        (
            events.terminating_on_interruption(claim(), "spot_interrupted"),
            "TerminatingOnInterruption",
            "Warning",
            QUIET,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_has_its_reason(told: Announce, reason: str, kind: str, quiet_for: float) -> None:
    """People filter by reason and type; the same is not told again for a while; it is its own reason."""
    assert (told.reason, told.type, told.quiet_for) == (reason, kind, quiet_for)
    assert told.because == told.message


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("capacity_reservation_interrupted", "CapacityReservationInstanceInterrupted"),
        ("instance_stopped", "InstanceStopping"),
        ("instance_terminated", "InstanceTerminating"),
        ("scheduled_change", "InstanceUnhealthy"),
        ("instance_status", "InstanceUnhealthy"),
        ("event_status", "InstanceUnhealthy"),
    ],
)
def test_what_a_cloud_tells_of_a_machine_has_the_reason_that_users_know(kind: str, reason: str) -> None:
    """Dashboards and alerts filter by it."""
    assert events.interruption(claim(), kind).reason == reason


def test_a_change_is_told_with_its_reason_if_it_has_one() -> None:
    """What a condition does not say is not made up."""
    held = complete().status.conditions[0]
    bare = msgspec.structs.replace(held, reason="", message="")

    assert events.condition_changed(claim(), "Unknown", held).message == (
        "Status condition transitioned: Launched is True, was Unknown (Launched)."
    )
    assert events.condition_changed(claim(), "", bare).message == (
        "Status condition transitioned: Launched is True."
    )


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        pytest.param("Registered", "True", "Registered: node node-1", id="it has its node"),
        pytest.param(
            "Registered", "Unknown", "Status condition transitioned: Registered is Unknown.", id="it waits"
        ),
        pytest.param(
            "Initialized", "True", "Status condition transitioned: Initialized is True.", id="another step"
        ),
    ],
)
def test_a_claim_that_is_registered_names_its_node(kind: str, status: str, message: str) -> None:
    """Only the condition that says so tells of the node."""
    held = msgspec.structs.replace(
        complete().status.conditions[0], type=kind, status=status, reason="", message=""
    )

    assert events.condition_changed(claim(status={"nodeName": "node-1"}), "", held).message == message


def test_long_lists_are_cut() -> None:
    """After some names only their number is told."""
    assert events.listing(["a", "b"]) == "a, b"
    assert events.listing(["a", "b", "c"], most=1) == "a and 2 other(s)"


def test_a_deleted_pod_learns_how_long_it_has() -> None:
    """What it asked for and what it gets are both told."""
    own = pod(spec={"terminationGracePeriodSeconds": 60})

    assert "a grace period of 5 s (its own is 60 s)" in events.disrupted(own, 5).message


@pytest.mark.parametrize(
    ("item", "condition", "message"),
    [
        pytest.param(launched(), "Launched", "Launched: zone-1, one", id="its type is not known yet"),
        pytest.param(
            launched(meta={"labels": {INSTANCE_TYPE: "m5.large", ZONE: "zone-1"}}),
            "Launched",
            "Launched: m5.large in zone-1, one",
            id="launched",
        ),
        pytest.param(
            complete(status={"nodeName": "node-1"}), "Registered", "Registered: node node-1", id="registered"
        ),
        pytest.param(
            complete(),
            "Initialized",
            "Status condition transitioned: Initialized is True, was Unknown ",
            id="any",
        ),
    ],
)
def test_the_steps_of_a_claim_name_what_it_has_got(item: NodeClaim, condition: str, message: str) -> None:
    """A claim that is launched names its machine, one that is registered its node."""
    (held,) = (each for each in item.status.conditions if each.type == condition)

    assert events.condition_changed(item, "Unknown", held).message.startswith(message)


def test_what_happens_often_is_minor() -> None:
    """Conditions that change and finalizers that go are told for a short while only; trouble is not minor."""
    held = complete().status.conditions[0]

    assert events.condition_changed(claim(), "Unknown", held).minor
    assert events.finalized(claim(), "karpenter.sh/termination").minor
    assert events.disruption_blocked(claim(), "it is nominated").minor
    assert events.unconsolidatable(claim(), "nothing is cheaper").minor
    assert not events.terminating_on_interruption(claim(), "spot_interrupted").minor


def test_names_beyond_the_first_are_counted() -> None:
    """As many as are shown need no count."""
    assert events.listing(["a", "b"], 2) == "a, b"
    assert events.listing(["a", "b", "c"], 2) == "a, b and 1 other(s)"
