"""
What every verb works with: the store, the kinds served, the clock and the dice.

Ids and random name suffixes come from one seeded source, so that the same seed and the same requests give the same
cluster, byte for byte.
"""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING

from karpenter.local import conversion, fields, incoming, strategies
from karpenter.local.admission import Admission
from karpenter.local.entry import Object, key_of
from karpenter.local.managed.tracker import Tracker
from karpenter.local.resources import Registry
from karpenter.local.tables import registry
from karpenter.local.tables.view import Table
from karpenter.local.writing import Intent, create

if TYPE_CHECKING:
    from datetime import datetime

    from karpenter.base.clock import Clock
    from karpenter.local.entry import Entry
    from karpenter.local.managed.shapes import Shape
    from karpenter.local.request import Call
    from karpenter.local.resources import Resource
    from karpenter.local.store import Store
    from karpenter.local.strategy import Strategy
    from karpenter.local.views import View

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no look-alikes: as the API server does
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED = 63


class Backend:
    """The state of a server, shared by its verbs."""

    def __init__(self, *, store: Store, clock: Clock, seed: int | None = None) -> None:
        self.store = store
        self.clock = clock
        self.registry = Registry()
        self.admission = Admission(store)
        self.owners = Tracker(self.now, self.custom_shape)
        self._dice = random.Random(seed)  # noqa: S311  names and ids, not secrets
        for resource in self.registry:
            if (reader := fields.built_in(resource.table)) is not None:
                store.select_by(resource.table, reader)

    def now(self) -> str:
        """Return the time as objects carry it, to the second."""
        return stamp(self.clock.now())

    def new_uid(self) -> str:
        """Return a fresh uid."""
        return str(uuid.UUID(int=self._dice.getrandbits(128), version=4))

    def generate(self, prefix: str) -> str:
        """Return a fresh name that begins with `prefix`."""
        suffix = "".join(self._dice.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
        return prefix[: _LONGEST_GENERATED - _SUFFIX_LENGTH] + suffix

    def entry(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        """Return what is stored."""
        return self.store.get(resource.table, key_of(namespace, name))

    def read(self, table: str, namespace: str, name: str) -> Object | None:
        """Return a private copy of an object, or None."""
        entry = self.store.get(table, key_of(namespace, name))
        return None if entry is None else entry.object()

    def strategy(self, resource: Resource) -> Strategy:
        """Return how objects of this kind are written."""
        return strategies.BUILT_IN[resource.table]

    def kept(self, resource: Resource) -> Resource:
        """Return the version of the kind in which objects are stored."""
        if resource.stored:
            return resource
        found = self.registry.stored(resource.group, resource.plural)
        return found or self.registry.find("", "v1", resource.plural) or resource

    def incoming(self, call: Call, value: Object, repeated: tuple[str, ...]) -> tuple[Object, list[str]]:
        """Return a body as it is stored, and warnings about it."""
        return incoming.built_in(call, value, repeated)

    def configuration(
        self, call: Call, value: Object, repeated: tuple[str, ...]
    ) -> tuple[Object, list[str]]:
        """Return the body of an apply with nothing filled in, and warnings about it."""
        return incoming.configuration(call, value, repeated)

    def normal(self, resource: Resource, value: Object) -> Object:
        """Return an object in the form in which it is stored."""
        return incoming.normal(resource, value)

    def custom_shape(self, resource: Resource) -> Shape:
        """Return how objects of a custom kind are taken apart."""
        raise NotImplementedError(resource.kind)

    def outgoing(self, resource: Resource, value: Object) -> Object:
        """Return a stored object in the version of `resource`."""
        return conversion.from_stored(resource, value)

    def table_view(self, call: Call) -> View:
        """Return the view that shows objects as rows of a table."""
        return Table(registry.built_in(call.resource.table), self.clock.now, call.request.parameter("includeObject"))

    def selectable(self, resource: Resource) -> tuple[str, ...]:
        return ()

    def created(self, resource: Resource, entry: Entry) -> None:
        """Do what follows from a new object."""
        self.strategy(resource).after_create(self, entry.object())

    def changed(self, resource: Resource, entry: Entry) -> None:
        """Do what follows from a changed object."""

    def removed(self, resource: Resource, entry: Entry) -> None:
        """Do what follows from an object's end."""

    def add_service_account(self, namespace: str) -> None:
        """Give a namespace its default service account."""
        accounts = self.registry.find("", "v1", "serviceaccounts")
        assert accounts is not None
        create(self, accounts, namespace, {"metadata": {"name": "default"}}, Intent(manager="kube-controller-manager"))


def stamp(moment: datetime) -> str:
    """Return `moment` as the API writes times: RFC 3339 in UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
