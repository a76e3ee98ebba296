"""
What an invariant is, where violations are noted, and how NodeClaims and pods are read for both.

Invariants judge by what the API server wrote and by the machines that exist, not by what the operator
believes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import msgspec

from karpenter.api.labels import NODEPOOL
from karpenter.core.model.resources import parse_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.pod import Pod
    from karpenter.base.clock import Clock
    from karpenter.kube.rest import Request, Response
    from karpenter_local.simulation.cluster import SimulatedCluster
    from karpenter_local.simulation.mirror import ObjectWrite


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must never happen, and did."""

    at: float
    """Seconds after the beginning."""

    rule: str
    """The name of the invariant."""

    what: str

    def __str__(self) -> str:
        """Return the violation as a line."""
        return f"{self.rule}: {self.what}"


class ViolationLog:
    """Violations, in the order in which they happened."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.found: list[Violation] = []
        self.violated = asyncio.Event()

    def add(self, rule: str, what: str) -> None:
        """Note a violation."""
        self.found.append(Violation(at=self._clock.monotonic(), rule=rule, what=what))
        self.violated.set()


class Invariant:
    """Something that must always hold. Invariants override what they are interested in."""

    name: ClassVar[str]

    def __init__(self, simulated: SimulatedCluster, violations: ViolationLog) -> None:
        self.simulated = simulated
        self.mirror = simulated.mirror
        self._violations = violations

    def violated(self, what: str) -> None:
        """Note that the invariant does not hold."""
        self._violations.add(self.name, what)

    def on_write(self, write: ObjectWrite) -> None:
        """Look at a write, whichever component made it."""

    def on_call(self, request: Request, response: Response) -> None:
        """Look at a write of an operator, and at its answer."""

    def unsettled(self) -> Iterable[str]:
        """Return what does not hold yet, and must hold once the cluster has settled."""
        return ()


def reason_of(claim: NodeClaim) -> str:
    """Return why the operator disrupts a machine; nothing if it does not."""
    return next(
        (
            each.reason
            for each in claim.status.conditions
            if each.type == "DisruptionReason" and each.status == "True"
        ),
        "",
    )


def is_true(claim: NodeClaim, name: str) -> bool:
    """Say whether a condition of a claim holds."""
    return any(each.type == name and each.status == "True" for each in claim.status.conditions)


def cores(amounts: Mapping[str, object]) -> int:
    """Return the cores among some amounts as the API writes them."""
    return parse_resources({"cpu": str(amounts.get("cpu", "0"))})["cpu"]


def cores_of_pool(simulated: SimulatedCluster, pool: str) -> int:
    """
    Return what the machines of a pool that really exist have together.

    Machines on their way out do not count: what they have is free for others as soon as it was decided that
    they go.
    """
    staying = {
        claim.metadata.uid
        for claim in simulated.mirror.claims.values()
        if claim.metadata.deletion_timestamp is None and not reason_of(claim)
    }
    return sum(
        each.capacity.get("cpu", 0)
        for each in simulated.cloud.machines()
        if each.labels.get(NODEPOOL) == pool and each.claim_uid in staying
    )


def cores_of_pod(pod: Pod) -> int:
    """Return what a pod asks for."""
    return sum(cores(each.resources.requests) for each in pod.spec.containers)
