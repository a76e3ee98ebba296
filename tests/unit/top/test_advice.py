from __future__ import annotations

from datetime import timedelta
from typing import Any

from karpenter.api.cluster import Event
from karpenter.api.meta import convert
from karpenter.top.advice import last_decisions
from tests.unit.top.clusters import NOW, ago


def _event(reason: str, seconds: int, **more: Any) -> Event:
    return convert(
        {
            "metadata": {"name": f"{reason}-{seconds}", "namespace": "default"},
            "involvedObject": {"kind": "NodeClaim", "name": "default-1"},
            "reason": reason,
            "message": f"{reason}.",
            "source": {"component": "karpenter"},
            "lastTimestamp": ago(seconds=seconds),
            **more,
        },
        Event,
    )


def test_the_last_decisions_are_those_of_karpenter() -> None:
    """Events of others are left out, the newest comes first, and what is said twice is shown once."""
    found = last_decisions(
        [
            _event("Launched", 60),
            _event("Registered", 5, type="Warning"),
            _event("Launched", 61),
            _event("Pulled", 1, source={"component": "kubelet"}),
            _event("Later", 90, series={"lastObservedTime": ago(seconds=2)}),
        ]
    )
    assert [each.reason for each in found] == ["Later", "Registered", "Launched"]
    assert found[1].warning
    assert found[2].at == NOW - timedelta(seconds=60)
    assert found[2].object == "nodeclaim/default-1"
