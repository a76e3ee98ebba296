"""
Admission: what a write needs of other objects, before its own fields are validated.

This module is the NamespaceLifecycle plugin: the namespace must exist and not be terminating. Admission of
one kind (priority and service account of pods) is in the other modules and is called by the strategy of the
kind. See https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource
    from karpenter_local.apiserver.store import ObjectStore

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
"""Namespaces that cannot be deleted."""


class Admission:
    """Admits or refuses writes by their namespace."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def create(self, resource: APIResource, value: Object) -> None:
        """Refuse a new object in a namespace that is not there or is being deleted."""
        if not resource.namespaced:
            return
        meta = value["metadata"]
        namespace = meta["namespace"]
        entry = self._store.get("namespaces", namespace)
        if entry is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise errors.APIStatusError(
                404, "NotFound", f'namespaces "{namespace}" not found', details=details
            )
        if entry.fields.get("status.phase") == "Terminating":
            fault = errors.forbidden(
                resource,
                meta.get("name", ""),
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            fault.details = {**(fault.details or {}), "causes": [cause]}
            raise fault

    def delete(self, resource: APIResource, value: Object) -> None:
        """Refuse to delete the namespaces that a cluster needs."""
        name = value["metadata"]["name"]
        if resource.table == "namespaces" and name in IMMORTAL:
            raise errors.forbidden(resource, name, "this namespace may not be deleted")
