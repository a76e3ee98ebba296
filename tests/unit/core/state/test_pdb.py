"""PodDisruptionBudgets: what may be evicted now, and what never."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.meta import convert
from karpenter.core.state.cluster import view_of
from karpenter.core.state.pdb import PdbLimits
from karpenter_local.testing.builders import manifest_pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERY = {"matchLabels": {"app": "web"}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SICK = {"conditions": [{"type": "Ready", "status": "False"}]}


def budget(name: str = "guard", allowed: int | None = None, **spec: object) -> PodDisruptionBudget:
    """Return a budget over the web pods, with a status when `allowed` is given."""
    status = {} if allowed is None else {"observedGeneration": 1, "disruptionsAllowed": allowed}
    plain = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": EVERY, **spec},
        "status": status,
    }
    return convert(plain, PodDisruptionBudget)


def web_pod(name: str = "web-0", status: dict[str, Any] | None = None, **meta: object) -> Pod:
    facts = READY if status is None else status
    return manifest_pod(name, node="node-1", meta={"labels": {"app": "web"}, **meta}, status=facts)


def several(count: int) -> list[Pod]:
    return [web_pod(f"web-{number}") for number in range(count)]


def blocked(pods: list[Pod], *budgets: PodDisruptionBudget) -> bool:
    """Say whether the first pod is kept from being evicted now."""
    return bool(PdbLimits(view_of([*pods, *budgets])).eviction_blocked_by(pods[0], NOON))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(budget(allowed=1), False, id="the status allows one"),
        pytest.param(budget(allowed=0), True, id="the status allows none"),
        pytest.param(budget(allowed=0, maxUnavailable=3), True, id="a written status wins over the spec"),
    ],
)
def test_a_written_status_decides(found: PodDisruptionBudget, expected: bool) -> None:
    """What Kubernetes has worked out is believed."""
    assert blocked(several(3), found) is expected


@pytest.mark.parametrize(
    ("spec", "count", "expected"),
    [
        pytest.param({"maxUnavailable": 1}, 3, False, id="one of three may go"),
        pytest.param({"maxUnavailable": 0}, 3, True, id="none may go"),
        pytest.param({"maxUnavailable": 10}, 3, False, id="more may go than there are"),
        pytest.param({"maxUnavailable": 2}, 1, False, id="two may go of one"),
        pytest.param({"maxUnavailable": "10%"}, 3, False, id="a tenth of three is one, rounded up"),
        pytest.param({"maxUnavailable": "0%"}, 3, True, id="no share may go"),
        pytest.param({"minAvailable": 2}, 3, False, id="two of three must stay"),
        pytest.param({"minAvailable": 3}, 3, True, id="all three must stay"),
        pytest.param({"minAvailable": "50%"}, 3, False, id="half of three is two, rounded up"),
        pytest.param({"minAvailable": "67%"}, 3, True, id="two thirds of three is three, rounded up"),
        pytest.param({"minAvailable": "100%"}, 3, True, id="everything must stay"),
        pytest.param({}, 1, True, id="saying nothing means that one must stay"),
        pytest.param({}, 2, False, id="saying nothing lets one of two go"),
        pytest.param({"maxUnavailable": "some"}, 3, True, id="a share that cannot be read lets nothing go"),
        pytest.param({"minAvailable": "\u00b2"}, 3, True, id="a count that cannot be read keeps everything"),
        pytest.param({"minAvailable": -1}, 3, True, id="a count below zero keeps everything"),
        pytest.param({"maxUnavailable": "9" * 5000}, 3, True, id="a count without end lets nothing go"),
    ],
)
def test_a_missing_status_is_worked_out(spec: dict[str, Any], count: int, expected: bool) -> None:
    """A budget from a manifest is evaluated over the pods there are."""
    assert blocked(several(count), budget(**spec)) is expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([web_pod("web-1")], False, id="a ready pod counts"),
        pytest.param([web_pod("web-1", SICK)], True, id="a pod that is not ready does not"),
        pytest.param([web_pod("web-1", {})], False, id="a bound pod that says nothing counts"),
        pytest.param([web_pod("web-1", labels={"app": "db"})], True, id="a pod of another workload does not"),
        pytest.param([web_pod("web-1", namespace="other")], True, id="a pod of another namespace does not"),
        pytest.param([web_pod("web-1", {"phase": "Failed"})], True, id="a finished pod does not"),
        pytest.param(
            [web_pod("web-1", deletionTimestamp="2026-01-01T11:00:00Z")], True, id="a leaving pod does not"
        ),
    ],
)
def test_which_pods_are_counted(others: list[Pod], expected: bool) -> None:
    """One pod must stay: another may go only while there is a second healthy one."""
    assert blocked([web_pod(), *others], budget(minAvailable=1)) is expected


def test_shares_count_pods_that_are_not_ready() -> None:
    """A share is of all pods, so sick ones use it up."""
    assert blocked([web_pod(), web_pod("web-1", SICK)], budget(maxUnavailable="50%")) is True


@pytest.mark.parametrize(
    ("policy", "status", "expected"),
    [
        pytest.param("", SICK, True, id="by default a sick pod is protected"),
        pytest.param("IfHealthyBudget", SICK, True, id="a sick pod is protected while the budget is used up"),
        pytest.param("AlwaysAllow", SICK, False, id="a sick pod may always go"),
        pytest.param("AlwaysAllow", READY, True, id="a ready pod may not"),
        pytest.param("AlwaysAllow", {}, True, id="a pod that says nothing counts as ready"),
    ],
)
def test_sick_pods(policy: str, status: dict[str, Any], expected: bool) -> None:
    """A budget may let pods go that are not ready, however many are allowed."""
    assert blocked([web_pod(status=status)], budget(allowed=0, unhealthyPodEvictionPolicy=policy)) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, False, id="no selector selects nothing"),
        pytest.param({}, True, id="an empty selector selects everything"),
        pytest.param({"matchLabels": {"app": "db"}}, False, id="another label"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
            True,
            id="an expression",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Is"}]},
            True,
            id="what cannot be read protects everything",
        ),
    ],
)
def test_selectors(selector: dict[str, Any] | None, expected: bool) -> None:
    """A budget protects the pods of its namespace that it selects."""
    assert blocked([web_pod()], budget(allowed=0, selector=selector)) is expected


def test_budgets_of_other_namespaces_do_not_count() -> None:
    """A budget ends at its namespace."""
    assert blocked([web_pod(namespace="other")], budget(allowed=0, selector={})) is False


@pytest.mark.parametrize(
    ("found", "budgets", "sentence"),
    [
        pytest.param(
            web_pod(),
            [budget(allowed=0)],
            "PodDisruptionBudget default/guard prevents the eviction of pod default/web-0",
            id="one budget that is used up",
        ),
        pytest.param(
            web_pod(),
            [budget("two", 1), budget("one", 1)],
            "pod default/web-0 cannot be evicted: several PodDisruptionBudgets cover it (one, two)",
            id="several budgets, which Kubernetes refuses to weigh",
        ),
        pytest.param(web_pod(), [], "", id="no budget"),
        pytest.param(
            web_pod(annotations={DO_NOT_DISRUPT: "true"}),
            [budget(allowed=0)],
            "",
            id="a pod that is not evicted anyway",
        ),
    ],
)
def test_obstacles_are_sentences(found: Pod, budgets: list[PodDisruptionBudget], sentence: str) -> None:
    """What keeps a pod from going is said in one sentence."""
    assert PdbLimits(view_of([found, *budgets])).eviction_blocked_by(found, NOON) == sentence


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        pytest.param([], False, id="no budget"),
        pytest.param([budget(allowed=0)], False, id="a budget that is used up will not be for ever"),
        pytest.param([budget(maxUnavailable=0)], True, id="maxUnavailable 0"),
        pytest.param([budget(maxUnavailable="0%")], True, id="maxUnavailable 0%"),
        pytest.param([budget(minAvailable="100%")], True, id="minAvailable 100%"),
        pytest.param([budget(minAvailable=100)], False, id="minAvailable 100 pods may be met by more pods"),
        pytest.param([budget("one", 1), budget("two", 1)], True, id="several budgets"),
    ],
)
def test_for_good(budgets: list[PodDisruptionBudget], expected: bool) -> None:
    """Some budgets never let a pod go, however long one waits."""
    assert PdbLimits(view_of([web_pod(), *budgets])).is_fully_blocked(web_pod(), NOON) is expected


def test_what_is_not_evicted_is_not_held() -> None:
    """A budget says nothing about a pod that eviction passes over."""
    found = web_pod(annotations={DO_NOT_DISRUPT: "true"})

    assert PdbLimits(view_of([found, budget(maxUnavailable=0)])).is_fully_blocked(found, NOON) is False


PENDING = {"phase": "Pending"}


@pytest.mark.parametrize(
    ("status", "found", "expected"),
    [
        pytest.param(READY, {"allowed": 1}, False, id="the budget allows one"),
        pytest.param(READY, {"allowed": 0}, True, id="the budget allows none"),
        pytest.param(PENDING, {"allowed": 0}, False, id="a pending pod is not counted"),
        pytest.param(
            SICK, {"allowed": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, False, id="a sick pod may go"
        ),
        pytest.param(SICK, {"allowed": 0}, True, id="a sick pod stays where others are sick too"),
    ],
)
def test_what_the_eviction_api_refuses(status: dict[str, Any], found: dict[str, Any], expected: bool) -> None:
    """A budget with a status of Kubernetes answers as the eviction API does."""
    pod = web_pod(status=status)
    [item] = PdbLimits(view_of([pod, budget(**found)])).covering(pod)

    assert item.refuses(pod) is expected


def test_a_sick_pod_may_go_while_enough_others_are_healthy() -> None:
    """IfHealthyBudget, the default: the application is not disrupted, so nothing is counted."""
    sick = web_pod("web-9", status=SICK)
    [item] = PdbLimits(view_of([sick, *several(2), budget(minAvailable=2)])).covering(sick)

    assert (item.healthy, item.desired, item.allowed) == (2, 2, 0)
    assert not item.refuses(sick)
    assert item.blocks(sick)  # Karpenter does not begin with a node that has such a pod


@pytest.mark.parametrize(
    ("status", "healthy", "desired", "expected"),
    [
        pytest.param(READY, 1, 1, True, id="a ready pod, of which none may go"),
        pytest.param(SICK, 1, 1, False, id="a sick pod, while enough others are ready"),
        pytest.param(SICK, 2, 1, False, id="a sick pod, while more than enough others are ready"),
        pytest.param(SICK, 0, 1, True, id="a sick pod, while too few others are ready"),
        pytest.param(SICK, 0, 0, True, id="a sick pod of a budget that wants none ready"),
        pytest.param({"phase": "Pending"}, 0, 1, False, id="a pod that has not started"),
        pytest.param({"phase": "Failed", **READY}, 0, 1, False, id="a pod that has ended"),
    ],
)
def test_sick_and_finished_pods_that_the_eviction_api_refuses(
    status: dict[str, Any], healthy: int, desired: int, expected: bool
) -> None:
    """A pod that is not ready goes without being counted, unless that would hide an outage."""
    (item,) = PdbLimits(view_of([budget(allowed=0)])).covering(web_pod())
    item = msgspec.structs.replace(item, healthy=healthy, desired=desired)

    assert item.refuses(web_pod(status=status)) is expected
