"""Wishes that may hinder consolidation are told of once a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from karpenter.core.provisioning.provisioner import (
    APART,
    SPREAD,
    TOLD_AGAIN,
    hindering_preference,
    hindering_preferences,
)
from karpenter.core.scheduling.problem import Options
from karpenter_local.testing.builders import manifest_pod

if TYPE_CHECKING:
    from karpenter.api.pod import Pod

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TERM: dict[str, Any] = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
WISHED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]}
DEMANDED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}

pod = manifest_pod


def spread(unsatisfiable: str) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": unsatisfiable}


APART_POD = pod(affinity={"podAntiAffinity": WISHED})


@pytest.mark.parametrize(
    ("item", "wish"),
    [
        pytest.param(pod(), "", id="no wish"),
        pytest.param(APART_POD, APART, id="would rather be apart"),
        pytest.param(pod(affinity={"podAntiAffinity": DEMANDED}), "", id="must be apart"),
        pytest.param(pod(affinity={"podAffinity": WISHED}), "", id="would rather be together"),
        pytest.param(
            pod(topologySpreadConstraints=[spread("ScheduleAnyway")]), SPREAD, id="would rather be spread"
        ),
        pytest.param(pod(topologySpreadConstraints=[spread("DoNotSchedule")]), "", id="must be spread"),
    ],
)
def test_which_wishes_hinder(item: Pod, wish: str) -> None:
    """Only what can be given up is a wish."""
    assert hindering_preference(item) == wish


def test_a_pod_is_told_of_once_a_day() -> None:
    """The same pod is news again after a day, another one at once."""
    other = pod("other", meta={"uid": "other"}, topologySpreadConstraints=[spread("ScheduleAnyway")])

    first, told = hindering_preferences([APART_POD, pod("plain")], {}, NOON, Options())
    later, told = hindering_preferences([APART_POD, other], told, NOON + timedelta(hours=23), Options())
    again, _ = hindering_preferences([APART_POD, other], told, NOON + TOLD_AGAIN, Options())
    ignored, _ = hindering_preferences([APART_POD], {}, NOON, Options(preferences="Ignore"))

    assert (first, later) == ({APART: ("default/web",)}, {SPREAD: ("default/other",)})
    assert (again, ignored) == ({APART: ("default/web",)}, {})
