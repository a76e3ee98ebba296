"""
The registry strategy of a kind: its defaults, its rules, and what a status write may change.

One :class:`Strategy` per kind, as in ``k8s.io/kubernetes/pkg/registry``. The general one serves every kind; a
built-in kind overrides what is special about it (:mod:`.strategies`), a custom kind brings its schema
(:mod:`.custom.strategy`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.schema.conform import zero
from karpenter_local.apiserver.schema.types import built_in_types
from karpenter_local.apiserver.validation import meta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.field_errors import FieldError
    from karpenter_local.apiserver.resources import APIResource

    Fill = Callable[[Object], None]
    Judge = Callable[[Object, Object | None], Iterable[FieldError]]


class Strategy:
    """Rules for writing one kind. This one: nothing but its defaults."""

    unconditional_update = True
    """An update need not say which revision it saw."""
    create_on_update = False
    """An update of what is not there makes it."""
    returns_deleted = False
    """A delete that is done at once answers with the object and not with a Status."""
    graceful = False
    """Objects get time to wind down, and say so even when they need none."""
    orphans_by_default = False
    """A delete that does not say otherwise leaves dependents behind."""

    def __init__(self, fill: Fill | None = None, judge: Judge | None = None) -> None:
        self._fill = fill
        self._judge = judge

    def default(self, value: Object) -> None:
        if self._fill is not None:
            self._fill(value)

    def default_status(self, value: Object) -> None:
        """Fill in an object whose status is written; all else is replaced by what is stored."""
        self.default(value)

    def check_open(self, backend: Backend, resource: APIResource) -> None:
        """Refuse new objects of a kind that is on its way out."""

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Change or refuse a write in the light of other objects."""

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Bring a new object into shape: by default, status is the server's to say."""
        if resource.has_status:
            reset_status(resource, value)

    def prepare_update(self, resource: APIResource, value: Object, old: Object) -> None:
        """Bring a changed object into shape: by default, status stays as it was."""
        if resource.has_status:
            if "status" in old:
                value["status"] = old["status"]
            else:
                value.pop("status", None)
        if resource.generation and self.desired_state(value) != self.desired_state(old):
            value["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, resource: APIResource, value: Object, old: Object) -> None:
        """Bring a status write into shape: everything else stays as it was."""
        _ = resource
        status = value.get("status")
        given = value["metadata"]
        for key in [key for key in value if key not in {"kind", "apiVersion", "metadata", "status"}]:
            del value[key]
        for key, kept in old.items():
            if key not in {"metadata", "status"}:
                value[key] = kept
        if status is not None:
            value["status"] = status
        value["metadata"] = {**old["metadata"], "managedFields": given.get("managedFields", [])}
        for key in ("labels", "annotations", "finalizers", "ownerReferences"):
            # Take over what a status write may change in metadata.
            target = value["metadata"]
            if key in given:
                target[key] = given[key]
            else:
                target.pop(key, None)

    def desired_state(self, value: Object) -> Object:
        """Return the part of the object that generations count."""
        return {key: part for key, part in value.items() if key not in {"metadata", "status"}}

    def validate(self, value: Object, old: Object | None) -> Sequence[FieldError]:
        """Return what is wrong with a new object, or with a change of an old one."""
        return () if self._judge is None else list(self._judge(value, old))

    def validate_create(self, resource: APIResource, value: Object) -> Sequence[FieldError]:
        return [*meta.create(resource, value), *self.validate(value, None)]

    def validate_status(self, value: Object, old: Object) -> Sequence[FieldError]:
        _ = value, old
        return ()

    def grace(self, value: Object, asked: int | None) -> int:
        """Return how many seconds a deletion leaves the object to wind down."""
        _ = value, asked
        return 0

    def before_delete(self, backend: Backend, value: Object) -> None:
        """Change an object that is about to be deleted."""

    def after_create(self, backend: Backend, entry: Entry) -> None:
        """Do what follows at once from a new object."""


def reset_status(resource: APIResource, value: Object) -> None:
    """Make the status that of an object about which nothing is known yet."""
    value.pop("status", None)
    definition = built_in_types().of_kind(resource.group, resource.version, resource.kind)
    if definition is not None and definition.fields["status"].empty == "k":
        value["status"] = zero(definition.fields["status"].type.definition)
