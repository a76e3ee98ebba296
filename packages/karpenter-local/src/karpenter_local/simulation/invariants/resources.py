"""Counting cores, in thousandths: of a pool's machines, and of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.api.labels import NODEPOOL
from karpenter.core.model.resources import parse_resources
from karpenter_local.simulation.invariants.budgets import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.pod import Pod
    from karpenter_local.simulation.world import World


def cores(amounts: Mapping[str, object]) -> int:
    """Return the cores among some amounts as the API writes them."""
    return parse_resources({"cpu": str(amounts.get("cpu", "0"))})["cpu"]


def cores_of_pool(world: World, pool: str) -> int:
    """
    Return what the machines of a pool that really exist have together.

    Machines on their way out do not count: what they have is free for others as soon as it was decided that
    they go.
    """
    staying = {
        claim.metadata.uid
        for claim in world.mirror.claims.values()
        if claim.metadata.deletion_timestamp is None and not reason_of(claim)
    }
    return sum(
        each.capacity.get("cpu", 0)
        for each in world.sky.machines()
        if each.labels.get(NODEPOOL) == pool and each.claim_uid in staying
    )


def cores_of_pod(pod: Pod) -> int:
    """Return what a pod asks for."""
    return sum(cores(each.resources.requests) for each in pod.spec.containers)
