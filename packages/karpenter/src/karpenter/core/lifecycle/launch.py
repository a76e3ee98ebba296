"""
What follows from a launch, or from its failure.

A machine that started gives its claim the labels, the amounts and the identity that it has. A claim whose
offerings are sold out, or whose node class is not ready, is given up at once, so that the next decision may
look elsewhere; any other failure is written down and tried again.

Refuses to know how machines are launched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from karpenter.core.events import insufficient_capacity, node_class_not_ready, shorten
from karpenter.core.lifecycle.conditions import LAUNCHED, amend, claim_board, delete_claim
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.core.effects import Effect


class Machine(Protocol):
    """What a provider says of a machine that it has started."""

    @property
    def provider_id(self) -> str:
        """The machine's identity."""

    @property
    def image_id(self) -> str:
        """The image that it was started from."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels whose values are settled now."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """What the provider wants to remember."""

    @property
    def capacity(self) -> Mapping[str, int]:
        """All that the machine has."""

    @property
    def allocatable(self) -> Mapping[str, int]:
        """What is left of that for pods."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a machine could not be started."""

    kind: Literal["sold out", "class not ready", "other"]
    reason: str = "LaunchFailed"
    """In one word, for the condition."""

    message: str


def launched(claim: NodeClaim, machine: Machine, now: datetime) -> tuple[Effect, ...]:
    """Return what to write down about a claim whose machine has started."""
    labels = {**machine.labels, **claim.metadata.labels}
    annotations = {**claim.metadata.annotations, **machine.annotations}
    metadata = {
        name: new
        for name, new, old in (
            ("labels", labels, claim.metadata.labels),
            ("annotations", annotations, claim.metadata.annotations),
        )
        if new != old
    }
    return amend(
        claim,
        claim_board(claim, now).true(LAUNCHED),
        changes={"metadata": metadata} if metadata else None,
        status={
            "providerID": machine.provider_id,
            **({"imageID": machine.image_id} if machine.image_id else {}),
            "capacity": render_resources(machine.capacity),
            "allocatable": render_resources(machine.allocatable),
        },
        because="its machine has started",
    )


def not_launched(claim: NodeClaim, failure: Failure, now: datetime) -> tuple[Effect, ...]:
    """Return what to do about a claim whose machine could not be started."""
    if failure.kind == "sold out":
        because = f"nothing that satisfies it can be had: {shorten(failure.message)}"
        return (
            insufficient_capacity(claim, failure.message),
            *delete_claim(claim, "insufficient_capacity", because),
        )
    if failure.kind == "class not ready":
        because = f"its node class is not ready: {shorten(failure.message)}"
        return (
            node_class_not_ready(claim, failure.message),
            *delete_claim(claim, "nodeclass_not_ready", because),
        )
    board = claim_board(claim, now).unknown(LAUNCHED, failure.reason, shorten(failure.message))
    return amend(claim, board, because="its machine could not be started")
