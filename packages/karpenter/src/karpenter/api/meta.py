"""Types that all API objects share: metadata, owner references, label selectors and conditions."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from msgspec import Meta, field

from karpenter.api.constraints import MAX_KEY, QUALIFIED_NAME, constraint
from karpenter.api.wire import Object, Wire, always

Timestamp = Annotated[datetime, Meta(tz=True)]
"""A time with its offset from UTC, as an API server requires."""


class OwnerReference(Wire, frozen=True, kw_only=True):
    """The object that another one belongs to and goes away with."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """The identity, labels, owners and lifecycle of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    """Set when deletion is requested; the object exists until its finalizers are removed."""

    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Resource(Object, frozen=True, kw_only=True):
    """An object with metadata: everything that can be listed and watched."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name, unique per kind and namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; empty for objects of the whole cluster."""
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """``namespace/name``, or just the name for objects of the whole cluster."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on one label."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist."""

    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Conditions on labels, all of which must hold; an empty selector matches everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Wire, frozen=True, kw_only=True):
    """One aspect of an object's state, as its controller saw it last."""

    type: Annotated[str, constraint(max_length=MAX_KEY, pattern=QUALIFIED_NAME)]
    """Which aspect."""

    status: Annotated[str, constraint(enum=["True", "False", "Unknown"], required=True)] = always("Unknown")
    """Whether it holds."""

    reason: Annotated[
        str, constraint(max_length=1024, pattern=r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$")
    ] = ""
    """Why, in one word, for programs."""

    message: Annotated[str, constraint(max_length=32768)] = ""
    """Why, in a sentence, for people."""

    last_transition_time: Annotated[Timestamp | None, constraint(required=True)] = None
    """When the status changed last."""

    observed_generation: Annotated[int, constraint(minimum=0)] = 0
    """The generation of the object that the condition speaks of."""


class LocalReference(Wire, frozen=True, kw_only=True):
    """Another object of the same namespace, by name."""

    name: str = ""


class ObjectReference(Wire, frozen=True, kw_only=True):
    """Another object; fields that its writer left out are empty."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class ListMeta(Wire, frozen=True, kw_only=True):
    """The revision of a list to watch from, and the token of its next page."""

    resource_version: str = ""
    continue_: str = field(name="continue", default="")
    remaining_item_count: int | None = None


def find_status_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of one type, or None."""
    return next((each for each in conditions if each.type == kind), None)


def is_status_condition_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Return whether the condition of one type exists and is True."""
    found = find_status_condition(conditions, kind)
    return found is not None and found.status == "True"


def status_condition_since(conditions: Iterable[Condition], kind: str) -> datetime | None:
    """Return when the status of a condition changed last."""
    found = find_status_condition(conditions, kind)
    return found.last_transition_time if found is not None else None
