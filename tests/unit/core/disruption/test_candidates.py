"""What holds machines against every reason."""

from __future__ import annotations

from karpenter.core.model.catalog import EMPTY, combine
from tests.unit.core.disruption.clusters import MARKET, cluster, decided, held, machine, pod, pool


def test_machines_stay_while_nobody_says_what_their_pool_may_use() -> None:
    """A class that is not ready, or a cloud that does not answer, lets nothing of its pools go."""
    view = cluster(
        pool(),
        pool("other"),
        machine("idle"),
        machine("busy"),
        pod("web-1", "busy"),
        machine("of-other", pool="other"),
    )

    assert set(held(decided(view, market=EMPTY)).values()) == {"NoInstanceTypes"}
    verdict = decided(view, market=combine({"default": EMPTY, "other": MARKET}))
    assert [each.candidates for each in verdict.commands] == [("of-other",)]
    assert held(verdict) == {"idle": "NoInstanceTypes", "busy": "NoInstanceTypes"}
