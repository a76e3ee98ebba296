"""
What every verb works with: the store, the registry of kinds, the clock and the random source.

Ids and random name suffixes come from one seeded source, so that the same seed and the same requests give
the same cluster, byte for byte. The ways in which built-in and custom kinds differ meet here, so that verbs
need not ask which is which.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from karpenter_local.apiserver import authorization, conversion, fields, incoming, strategies
from karpenter_local.apiserver.admission import Admission
from karpenter_local.apiserver.admission.policies import AdmissionPolicies
from karpenter_local.apiserver.admission.quota import ResourceQuotas
from karpenter_local.apiserver.custom import incoming as custom
from karpenter_local.apiserver.custom import lifecycle
from karpenter_local.apiserver.custom.definition import TABLE as DEFINITIONS
from karpenter_local.apiserver.custom.definition import Version
from karpenter_local.apiserver.custom.strategy import CustomStrategy
from karpenter_local.apiserver.entry import Entry, Object, key_of
from karpenter_local.apiserver.managed.tracker import Tracker
from karpenter_local.apiserver.metadata import SUFFIX_LENGTH, generated, stamp
from karpenter_local.apiserver.notice import KUBERNETES
from karpenter_local.apiserver.resources import APIResource, Registry
from karpenter_local.apiserver.tables import registry as tables
from karpenter_local.apiserver.tables.view import TableView
from karpenter_local.apiserver.tokens import ServiceAccountTokens
from karpenter_local.apiserver.writing import WriteOptions, create, update

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from karpenter.base.clock import Clock
    from karpenter.kube.transport import Request
    from karpenter_local.apiserver.access import UserInfo
    from karpenter_local.apiserver.managed.shapes import Shape
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.store import ObjectStore
    from karpenter_local.apiserver.strategy import Strategy
    from karpenter_local.apiserver.verbs.logs import ContainerLog
    from karpenter_local.apiserver.views import ResponseView

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no look-alikes: as the API server does
_FIXED_BITS = 4 << 76 | 2 << 62
_RANDOM_BITS = ~(0xF << 76 | 3 << 62)


class Backend:
    """The state of a server, shared by its verbs."""

    def __init__(self, *, store: ObjectStore, clock: Clock, seed: int | None = None) -> None:
        self.store = store
        self.clock = clock
        self.kubernetes = KUBERNETES
        """The version that the server says it has."""

        self.registry = Registry()
        self.admission = Admission(store)
        self.policies = AdmissionPolicies(store)
        self.quotas = ResourceQuotas(store)
        self.tokens = ServiceAccountTokens(store)
        self.owners = Tracker(self.now, self._custom_shape)
        self.log_of: Callable[[Object], Path | None] | None = None
        """Which file holds the log of a pod; None where no pod has one."""
        self.documents: dict[tuple[str, str], tuple[object, bytes]] = {}
        """OpenAPI documents made so far, each with what it was made from."""

        self.container_logs: dict[str, ContainerLog] = {}
        """Where pods that have a process write, by their uid."""

        dealt = (
            None if seed is None else f"{seed}/{store.revision}"
        )  # a restart must not generate the same ids again
        self._dice = random.Random(dealt)  # noqa: S311  names and ids, not secrets
        self._versions: dict[str, list[Version]] = {}
        self._by_resource: dict[tuple[str, str, str], Version] = {}
        for resource in self.registry:
            store.table(resource.table)
            if (reader := fields.built_in(resource.table)) is not None:
                store.select_by(resource.table, reader)
        for entry in tuple(store.table(DEFINITIONS).entries.values()):
            lifecycle.accept(self, entry)

    def now(self) -> str:
        """Return the time as objects carry it, to the second."""
        return stamp(self.clock.now())

    def new_uid(self) -> str:
        """Return a fresh uid: a random UUID, whose version and variant are fixed bits."""
        # https://www.rfc-editor.org/rfc/rfc9562#section-5.4
        text = f"{self._dice.getrandbits(128) & _RANDOM_BITS | _FIXED_BITS:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def generate(self, prefix: str) -> str:
        """Return a fresh name that begins with `prefix`."""
        return generated(prefix, "".join(self._dice.choices(_SUFFIX_LETTERS, k=SUFFIX_LENGTH)))

    def entry(self, resource: APIResource, namespace: str, name: str) -> Entry | None:
        return self.store.get(resource.table, key_of(namespace, name))

    def read(self, table: str, namespace: str, name: str) -> Object | None:
        """Return a private copy of an object, or None."""
        entry = self.store.get(table, key_of(namespace, name))
        return None if entry is None else entry.object()

    def user(self, request: Request) -> UserInfo:
        return authorization.user_of(request)

    def strategy(self, resource: APIResource) -> Strategy:
        if resource.custom:
            return CustomStrategy(self.version(resource))
        return strategies.BUILT_IN[resource.table]

    def version(self, resource: APIResource) -> Version:
        return self._by_resource[resource.group, resource.version, resource.plural]

    def versions(self) -> Sequence[Version]:
        """Return every served version of every custom kind."""
        return tuple(version for version in self._by_resource.values() if version.served)

    def versions_of(self, definition: str) -> Sequence[Version]:
        """Return every version of one custom kind."""
        return self._versions.get(definition, ())

    def kept(self, resource: APIResource) -> APIResource:
        if resource.stored:
            return resource
        if resource.custom:
            return next(v.resource for v in self._versions[resource.table] if v.resource.stored)
        found = self.registry.stored(resource.group, resource.plural) or self.registry.find(
            "", "v1", resource.plural
        )
        assert found is not None, resource.plural
        return found

    def incoming(
        self,
        call: RequestInfo,
        value: Object,
        repeated: tuple[str, ...],
        touched: Collection[str] | None = None,
        before: Object | None = None,
    ) -> tuple[Object, list[str]]:
        """
        Return a body as it is stored, and warnings about it.

        `touched` names the fields at the top that a patch of the stored object `before` speaks of; the body
        may share parts with that.
        """
        if not call.resource.stored:
            touched = None
        if call.resource.custom:
            stored = self.version(self.kept(call.resource))
            version = self.version(call.resource)
            shared = before if touched is not None else None
            return custom.custom(call, version, stored, value, repeated, touched, shared)
        return incoming.built_in(call, value, repeated, touched, before if touched is not None else None)

    def configuration(
        self, call: RequestInfo, value: Object, repeated: tuple[str, ...]
    ) -> tuple[Object, list[str]]:
        """Return the body of an apply with nothing filled in, and warnings about it."""
        if call.resource.custom:
            return custom.configuration(call, self.version(call.resource), value, repeated)
        return incoming.configuration(call, value, repeated)

    def normal(self, resource: APIResource, value: Object) -> Object:
        """Return an object in the form in which it is stored."""
        if resource.custom:
            return custom.normal(self.version(resource), value)
        return incoming.normal(resource, value)

    def outgoing(self, resource: APIResource, value: Object) -> Object:
        return conversion.from_stored(resource, value)

    def table_view(self, call: RequestInfo) -> ResponseView:
        resource = call.resource
        columns = self.version(resource).columns if resource.custom else tables.built_in(resource.table)
        return TableView(columns, self.clock.now, call.request.parameter("includeObject"))

    def selectable(self, resource: APIResource) -> tuple[str, ...]:
        """Return the fields that a custom kind lets selectors ask for."""
        return self.version(resource).selectable if resource.custom else ()

    def created(self, resource: APIResource, entry: Entry) -> None:
        self.strategy(resource).after_create(self, entry)
        self.changed(resource, entry)

    def changed(self, resource: APIResource, entry: Entry) -> None:
        if resource.table == DEFINITIONS:
            lifecycle.accept(self, entry)
        if self.quotas and resource.namespaced:
            self._count(entry.namespace)

    def _count(self, namespace: str) -> None:
        """Bring the status of a namespace's quotas up to date."""
        quotas = self.registry.find("", "v1", "resourcequotas")
        assert quotas is not None
        for name, status in list(self.quotas.outdated(namespace)):
            old = self.entry(quotas, namespace, name)
            assert old is not None
            changed = {**old.object(), "status": status}
            update(
                self,
                quotas,
                changed,
                old,
                WriteOptions(manager="kube-controller-manager", subresource="status"),
            )

    def removed(self, resource: APIResource, entry: Entry) -> None:
        """Do what follows from an object's end."""
        if self.quotas and resource.namespaced:
            self.quotas.forget(resource.table, entry.key)
            self._count(entry.namespace)
        if resource.custom:
            lifecycle.object_removed(self, resource.group, resource.plural)

    def serve(self, definition: str, versions: list[Version]) -> None:
        """Serve the versions of a custom kind, in the place of those of before."""
        self.unserve(definition)
        self._versions[definition] = versions
        for version in versions:
            resource = version.resource
            self._by_resource[resource.group, resource.version, resource.plural] = version
            if version.served:
                self.registry.add(resource)
            if resource.stored:
                self.store.open(resource.table)
                self.store.select_by(resource.table, fields.reader(version.selectable))
                self.store.rewrite(resource.table, resource.api_version)

    def unserve(self, definition: str) -> None:
        for version in self._versions.pop(definition, ()):
            resource = version.resource
            self.registry.remove(resource)
            self._by_resource.pop((resource.group, resource.version, resource.plural), None)

    def add_service_account(self, namespace: str) -> None:
        accounts = self.registry.find("", "v1", "serviceaccounts")
        assert accounts is not None
        create(
            self,
            accounts,
            namespace,
            {"metadata": {"name": "default"}},
            WriteOptions(manager="kube-controller-manager"),
        )

    def _custom_shape(self, resource: APIResource) -> Shape:
        return self.version(resource).shape
