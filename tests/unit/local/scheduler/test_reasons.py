"""The words by which users and tools know that a pod fits nowhere."""

import pytest

from karpenter_local.scheduler import reasons


@pytest.mark.parametrize(
    ("nodes", "refusals", "more", "expected"),
    [
        pytest.param(0, [], {}, "no nodes available to schedule pods", id="no node at all"),
        pytest.param(
            3,
            [reasons.UNTOLERATED, "Insufficient cpu", "Insufficient cpu"],
            {},
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="refusals are counted and sorted",
        ),
        pytest.param(
            1,
            ["Insufficient cpu"],
            {"preemption": "not eligible due to preemptionPolicy=Never."},
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="what preemption found comes last",
        ),
        pytest.param(
            2,
            [],
            {"everywhere": 'persistentvolumeclaim "x" not found', "preemption": "ignored"},
            '0/2 nodes are available: persistentvolumeclaim "x" not found. not found',
            id="refused before any node was looked at",
        ),
    ],
)
def test_unavailable(nodes: int, refusals: list[str], more: dict[str, str], expected: str) -> None:
    """The message is that of kube-scheduler 1.36, to the letter."""
    assert reasons.unavailable(nodes, refusals, **more) == expected
