"""
The floor of a load: what its pods would cost if they were planned anew at every step and moved at once.

No operator stays there, because pods would be evicted at every step and machines need time to start.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from benchmarks.duel import DuelError
from benchmarks.duel.loads import KWOK, cluster_objects, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.duel.loads import Script


def floor(script: Script, *, provider: str, catalog: str, karpenter: str) -> list[float]:
    """
    Return what the pods of each step cost per hour at least, as `karpenter plan` packs them.

    Raises DuelError when a step cannot be planned.
    """
    known: dict[str, float] = {}
    hourly = []
    for step in range(len(script.steps)):
        workloads = script.state(step)
        sizes = json.dumps([(each["metadata"]["name"], each["spec"]["replicas"]) for each in workloads])
        if sizes not in known:
            cluster = json.dumps(listed([*cluster_objects(provider), *workloads]))
            known[sizes] = _planned(cluster, catalog, karpenter) if workloads else 0.0
        hourly.append(known[sizes])
    return hourly


def bill(hourly: Sequence[float], *, pace: float, seconds: float) -> float:
    """Return what a cluster costs that stays at the floor; a step begins every `pace` seconds."""
    lasts = (max(0.0, min(pace, seconds - step * pace)) for step in range(len(hourly)))
    return sum(price * last / 3600 for price, last in zip(hourly, lasts, strict=True))


def catalog_name(provider: str, region: str) -> str:
    """Return the built-in catalogue of what a provider sells."""
    return KWOK if provider == KWOK else f"{provider}:{region}"


def _planned(cluster: str, catalog: str, karpenter: str) -> float:
    command = [karpenter, "plan", "-f", "-", "--catalog", catalog, "-o", "json"]
    done = subprocess.run(command, input=cluster, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise DuelError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")
    return float(json.loads(done.stdout)["cost"]["hourly"])
