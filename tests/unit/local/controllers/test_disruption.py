"""What disruption budgets allow."""

from typing import Any

import pytest

from karpenter.api.cluster import PodDisruptionBudget
from karpenter.api.meta import convert
from karpenter.api.pod import Pod
from karpenter_local.controllers.disruption import count, is_current, status
from tests.unit.local.controllers.objects import NOW, at, pod


def budget(*, status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    meta = {"name": "budget", "namespace": "default", "generation": 2}
    return convert({"metadata": meta, "spec": spec, "status": status or {}}, PodDisruptionBudget)


THREE = [pod("a"), pod("b"), pod("c")]


@pytest.mark.parametrize(
    ("spec", "mine", "scale", "expected"),
    [
        pytest.param(
            {"minAvailable": 2}, THREE, 9, (3, 2, 3, 1), id="a least count goes by the pods there are"
        ),
        pytest.param(
            {"minAvailable": "50%"}, THREE, 4, (3, 2, 4, 1), id="a least share by the workload's size"
        ),
        pytest.param({"minAvailable": "51%"}, THREE, 4, (3, 3, 4, 0), id="shares round up"),
        pytest.param({"maxUnavailable": 1}, THREE, 3, (3, 2, 3, 1), id="a most missing"),
        pytest.param({"maxUnavailable": "50%"}, THREE, 3, (3, 1, 3, 2), id="a most share missing rounds up"),
        pytest.param({"maxUnavailable": 5}, THREE, 3, (3, 0, 3, 3), id="never less than none"),
        pytest.param(
            {"minAvailable": 2}, [*THREE[:1], pod("x", ready=False)], 2, (1, 2, 2, 0), id="not ready"
        ),
        pytest.param(
            {"minAvailable": 1}, [*THREE[:2], pod("x", leaving=True)], 3, (2, 1, 3, 1), id="leaving"
        ),
        pytest.param({"minAvailable": 0}, [], 0, (0, 0, 0, 0), id="no pods, nothing to allow"),
        pytest.param({}, THREE, 3, (3, 0, 3, 3), id="asks for nothing"),
    ],
)
def test_count(spec: dict[str, Any], mine: list[Pod], scale: int, expected: tuple[int, ...]) -> None:
    """Allowed is what is healthy beyond what must be."""
    found = count(budget(**spec), mine, scale, NOW)

    assert (found.healthy, found.desired, found.expected, found.allowed) == expected


def test_evictions_under_way() -> None:
    """A pod whose eviction was let through counts as gone, until it is, or for two minutes."""
    evicted = {"a": at(-30), "b": at(-120), "gone": at(-10), "c": at(0)}
    mine = [pod("a"), pod("b"), pod("c", leaving=True), pod("d")]

    found = count(budget(minAvailable=1, status={"disruptedPods": evicted}), mine, 4, NOW)

    assert (found.evicted, found.healthy, found.look_again) == ({"a": at(-30)}, 2, 90.0)


def test_status() -> None:
    """The status is written when it says something new."""
    found = count(budget(minAvailable=1), THREE, 3, NOW)
    new = status(budget(minAvailable=1), found, NOW)

    assert new["conditions"][0]["reason"] == "SufficientPods"
    assert not is_current(budget(minAvailable=1).status, new)
    written = budget(minAvailable=1, status=new)
    assert is_current(written.status, new)
    later = status(written, count(written, [], 3, NOW), NOW)
    assert later["conditions"][0]["reason"] == "InsufficientPods"
    assert not is_current(written.status, later)
