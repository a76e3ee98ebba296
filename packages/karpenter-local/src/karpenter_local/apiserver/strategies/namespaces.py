"""Namespaces: active when created, terminating until emptied, each with a default service account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.resources import APIResource

FINALIZER = "kubernetes"
"""In ``spec.finalizers``: removed by the namespace controller through the finalize subresource."""


class NamespaceStrategy(Strategy):
    """Rules for writing namespaces."""

    def default(self, value: Object) -> None:
        """Label the namespace with its name, as selectors expect."""
        super().default(value)
        name = value["metadata"].get("name")
        if name:
            value["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Begin active, and held by the finalizer until emptied."""
        _ = resource
        finalizers = list((value.get("spec") or {}).get("finalizers") or ())
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        value["spec"] = {"finalizers": finalizers}
        value["status"] = {"phase": "Active"}

    def prepare_update(self, resource: APIResource, value: Object, old: Object) -> None:
        """Finalizers in spec change only through their subresource."""
        super().prepare_update(resource, value, old)
        value["spec"] = old.get("spec", {})

    def after_create(self, backend: Backend, entry: Entry) -> None:
        """Give the namespace its default service account, which pods need."""
        backend.add_service_account(entry.name)
