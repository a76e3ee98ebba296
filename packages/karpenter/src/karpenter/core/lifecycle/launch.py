"""
Launch: what follows from the cloud provider's answer to a NodeClaim.

A launched machine gives its claim labels, annotations, capacity and the provider id. A claim is deleted at
once after an insufficient capacity error or when its node class is not ready, so that the next scheduling
run chooses another offering; any other error sets Launched=Unknown and is retried.

How machines are launched is the provider's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from karpenter.core.effects import LAUNCH_TIME, Effect, Launch, LaunchFact
from karpenter.core.events import insufficient_capacity, node_class_not_ready, truncate
from karpenter.core.lifecycle.conditions import (
    LAUNCHED,
    claim_conditions,
    delete_claim,
    patch_object,
    render_time,
)
from karpenter.core.model.resources import render_resources

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.api.nodeclaim import NodeClaim


class LaunchedMachine(Protocol):
    """The fields of a machine that the cloud provider has launched."""

    @property
    def provider_id(self) -> str: ...

    @property
    def image_id(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that follow from the chosen offering."""

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def capacity(self) -> Mapping[str, int]: ...

    @property
    def allocatable(self) -> Mapping[str, int]: ...


class LaunchFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a machine could not be launched."""

    kind: Literal["insufficient capacity", "nodeclass not ready", "other"]
    reason: str = "LaunchFailed"
    """The reason of the condition Launched."""

    message: str
    sold_out: str = ""
    """The offerings that have no capacity, with spaces."""


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A machine whose fields stand for those that the cloud provider will report."""

    provider_id: str
    image_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


_MOST_SOLD_OUT: Final = 1000
"""Offerings that an Event names; a name has about 30 characters, and an annotation 256 KiB."""

_ANSWERED: Final = _Answered(
    provider_id=LaunchFact.PROVIDER_ID,
    image_id=LaunchFact.IMAGE_ID,
    labels={LaunchFact.LABELS: ""},
    annotations={LaunchFact.ANNOTATIONS: ""},
    capacity={LaunchFact.CAPACITY: 0},
    allocatable={LaunchFact.ALLOCATABLE: 0},
)


def launch(claim: NodeClaim, because: str) -> Launch:
    """Return the launch of a claim, with what follows from each answer."""
    failure = LaunchFailure(kind="other", reason=LaunchFact.REASON, message=LaunchFact.ERROR)
    kinds = {
        "insufficient_capacity": msgspec.structs.replace(
            failure, kind="insufficient capacity", sold_out=LaunchFact.SOLD_OUT
        ),
        "nodeclass_not_ready": msgspec.structs.replace(failure, kind="nodeclass not ready"),
        "failed": failure,
    }
    return Launch(
        claim=claim,
        launched=launch_succeeded(claim, _ANSWERED, LAUNCH_TIME),
        **{name: launch_failed(claim, each, LAUNCH_TIME) for name, each in kinds.items()},
        because=because,
    )


def launch_facts(machine: LaunchedMachine, now: datetime) -> dict[str, Any]:
    return {
        LaunchFact.PROVIDER_ID: machine.provider_id,
        LaunchFact.IMAGE_ID: machine.image_id,
        LaunchFact.LABELS: dict(machine.labels),
        LaunchFact.ANNOTATIONS: dict(machine.annotations),
        LaunchFact.CAPACITY: render_resources(machine.capacity),
        LaunchFact.ALLOCATABLE: render_resources(machine.allocatable),
        LaunchFact.TIME: render_time(now),
    }


def failure_facts(
    message: str, now: datetime, *, reason: str = "LaunchFailed", sold_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the facts of a launch that failed; the `reason` is that of the condition Launched."""
    return {
        LaunchFact.ERROR: truncate(message),
        LaunchFact.REASON: reason,
        LaunchFact.SOLD_OUT: " ".join(sold_out[:_MOST_SOLD_OUT]),
        LaunchFact.TIME: render_time(now),
    }


def launch_succeeded(claim: NodeClaim, machine: LaunchedMachine, now: datetime) -> tuple[Effect, ...]:
    # Labels of the claim win, annotations of the machine do, as upstream merges them:
    # https://github.com/kubernetes-sigs/karpenter
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
    return patch_object(
        claim,
        claim_conditions(claim, now).set_true(LAUNCHED),
        changes={"metadata": metadata} if metadata else None,
        status={
            "providerID": machine.provider_id,
            **({"imageID": machine.image_id} if machine.image_id else {}),
            "capacity": render_resources(machine.capacity),
            "allocatable": render_resources(machine.allocatable),
        },
        because="its machine was launched",
    )


def launch_failed(claim: NodeClaim, failure: LaunchFailure, now: datetime) -> tuple[Effect, ...]:
    """Return the effects for a claim whose machine could not be launched."""
    # The claim is deleted and not retried: its pods are scheduled anew, without the offerings that failed:
    # https://karpenter.sh/docs/troubleshooting/
    if failure.kind == "insufficient capacity":
        because = f"insufficient capacity: {truncate(failure.message)}"
        return (
            insufficient_capacity(claim, failure.message, failure.sold_out),
            *delete_claim(claim, "insufficient_capacity", because),
        )
    if failure.kind == "nodeclass not ready":
        because = f"its node class is not ready: {truncate(failure.message)}"
        return (
            node_class_not_ready(claim, failure.message),
            *delete_claim(claim, "nodeclass_not_ready", because),
        )
    condition_set = claim_conditions(claim, now).set_unknown(
        LAUNCHED, failure.reason, truncate(failure.message)
    )
    return patch_object(claim, condition_set, because="its machine could not be launched")
