"""Dashboards are what Grafana's own description of its JSON says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.dashboards.boards import DASHBOARDS
from karpenter.dashboards.objects import dashboard_text

models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins")

WRITTEN_BY_GRAFANA = frozenset({"definition"})
"""What Grafana itself writes and its description does not have: the text of a variable."""


def lost(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Return the fields that are not the same after Grafana's types have read and written a dashboard."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        kept = [each for each in ours if each not in WRITTEN_BY_GRAFANA]
        return [each for key in kept for each in lost(ours[key], theirs.get(key), f"{place}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [each for number, (one, two) in pairs for each in lost(one, two, f"{place}[{number}]")]
    return [] if ours == theirs else [f"{place}: {ours!r} became {theirs!r}"]


@pytest.mark.parametrize("board", [pytest.param(each, id=each.name) for each in DASHBOARDS])
def test_a_dashboard_is_read_whole(board: Any) -> None:
    """Grafana's types read every field of every panel, query and variable, and write the same."""
    plugins.register_default_plugins()
    ours = json.loads(dashboard_text(board))

    theirs = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(ours)))

    assert lost(ours, theirs) == []
    assert len(theirs["panels"]) == len(ours["panels"]) > 0
