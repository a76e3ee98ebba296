"""
What the core may ask for.

An effect is inert: a value that says what should happen, and why. Controllers carry effects out, one after
the other, in :mod:`karpenter.controllers.perform`; what an effect did comes back only as news of the state.

An effect whose outcome decides how to go on carries both continuations as data, so that a decision is whole
before anything happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

import msgspec

from karpenter.api.meta import ObjectReference, Resource
from karpenter.api.nodeclaim import NodeClaim

QUIET: Final = 120.0
"""Seconds for which the same announcement is not made again, unless it says otherwise."""


class CreateClaim(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Create a claim for one machine."""

    claim: NodeClaim
    pods: tuple[str, ...] = ()
    """Keys of the pods that it is for."""

    reason: str = "provisioned"
    """Why there is a new claim, in one word, for the metric."""

    because: str


class DeleteObject(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Ask for an object to go, if it still is the one that is meant."""

    kind: str
    name: str
    namespace: str = ""
    uid: str
    grace: int | None = None
    because: str


class Amend(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """
    Change part of an object, and of its status.

    `changes` and `status` are merged in; lists in them replace those that are there, which is why a `version`
    must come with them: if the object is no longer at it, nothing is written.
    """

    kind: str
    name: str
    namespace: str = ""
    changes: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}
    version: str = ""
    because: str


class Evict(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Let a pod leave its node, at the latest when `by` comes."""

    pod: str
    uid: str
    node: str
    by: datetime | None = None
    because: str


class LaunchFact(StrEnum):
    """What only the answer to a launch tells; it stands in the effects that follow until then."""

    PROVIDER_ID = "<providerID>"
    IMAGE_ID = "<imageID>"
    LABELS = "<labels>"
    ANNOTATIONS = "<annotations>"
    CAPACITY = "<capacity>"
    ALLOCATABLE = "<allocatable>"
    ERROR = "<error>"
    REASON = "<reason>"
    SOLD_OUT = "<sold out>"
    TIME = "9999-12-31T23:59:59Z"
    """The time of the answer, as :data:`LAUNCH_TIME` is written."""


LAUNCH_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Stands for the time of the answer to a launch."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Launch the machine of a claim; how to go on depends on the answer, whose facts are filled in."""

    claim: NodeClaim
    launched: tuple[Effect, ...] = ()
    insufficient_capacity: tuple[Effect, ...] = ()
    nodeclass_not_ready: tuple[Effect, ...] = ()
    failed: tuple[Effect, ...] = ()
    """After any other error; the launch is tried again."""

    because: str


class Terminate(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """End a machine; how to go on depends on whether it is gone yet."""

    provider_id: str
    going: tuple[Effect, ...] = ()
    gone: tuple[Effect, ...] = ()
    because: str


class Nominate(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Nominate a node for pending pods, until a time."""

    node: str
    until: datetime
    because: str


class NominatePod(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Tell kube-scheduler on which node a pod is planned to run, unless another client has told it."""

    pod: str
    node: str
    """Empty to withdraw what we have told it."""

    uid: str
    because: str


class Announce(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Tell users what happens to an object, as an Event."""

    about: ObjectReference
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str
    message: str
    annotations: Mapping[str, str] = {}
    same_as: tuple[str, ...] = ()
    """With the reason, what makes two announcements the same; by default the object and the message."""

    quiet_for: float = QUIET
    minor: bool = False
    """Whether it is the first to be left out when too much is to be told."""

    @property
    def because(self) -> str:
        return self.message


class Count(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Count something that happened."""

    metric: str
    labels: Mapping[str, str] = {}
    amount: float = 1.0
    because: str = ""


class Measure(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Note how long something took, in seconds."""

    metric: str
    labels: Mapping[str, str] = {}
    value: float
    because: str = ""


class RegistrationOutcome(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Remember whether a machine of a pool became a node, for the pool's registration health."""

    pool: str
    pool_uid: str
    healthy: bool
    reason: str = ""
    message: str = ""
    because: str


Effect: TypeAlias = (
    CreateClaim
    | DeleteObject
    | Amend
    | Evict
    | Launch
    | Terminate
    | Nominate
    | NominatePod
    | Announce
    | Count
    | Measure
    | RegistrationOutcome
)


def filled(effects: Iterable[Effect], facts: Mapping[str, Any]) -> tuple[Effect, ...]:
    """
    Return effects with the facts of a launch in the places that were left for them.

    A value that is a fact becomes it, a key that is one is replaced by what the fact maps, and text that
    mentions one is completed. What turns out to be empty is left out.
    """
    return tuple(_filled(each, facts) for each in effects)


def _filled(effect: Effect, facts: Mapping[str, Any]) -> Effect:
    names = [
        name
        for name in ("changes", "status", "message", "because", "annotations")
        if name in effect.__struct_fields__
    ]
    return msgspec.structs.replace(effect, **{name: _fill(getattr(effect, name), facts) for name in names})


def _fill(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return _fill_mapping(value, facts)
    if isinstance(value, list):
        return [_fill(each, facts) for each in value]
    if not isinstance(value, str) or value in facts:
        return facts[value] if isinstance(value, str) else value
    for fact, known in facts.items():
        value = value.replace(fact, known) if isinstance(known, str) else value
    return value


def _fill_mapping(value: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in value.items():
        if key in facts:
            found.update(facts[key])
        elif not isinstance(each, str) or facts.get(each) != "":
            found[key] = _fill(each, facts)
    return found


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one object now, and in how many seconds to look again."""

    effects: tuple[Effect, ...] = ()
    again: float | None = None


NOTHING: Final = Step()


def about(item: Resource) -> ObjectReference:
    """Return the reference to an object that an announcement carries."""
    meta = item.metadata
    return ObjectReference(
        api_version=item.api_version,
        kind=item.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
