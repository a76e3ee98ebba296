"""
What a write must be allowed to do in the light of other objects, before its own fields are judged.

Here: the namespace must exist and not be on its way out. What is special to a kind (priority of pods, their
service account) is beside, and called by the kind's strategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import faults

if TYPE_CHECKING:
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import Resource
    from karpenter_local.apiserver.store import Store

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
"""Namespaces that cannot be deleted."""


class Admission:
    """Judges writes by the namespace that they go to."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, resource: Resource, value: Object) -> None:
        """Refuse a new object in a namespace that is not there or is being deleted."""
        if not resource.namespaced:
            return
        meta = value["metadata"]
        namespace = meta["namespace"]
        entry = self._store.get("namespaces", namespace)
        if entry is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise faults.Fault(404, "NotFound", f'namespaces "{namespace}" not found', details=details)
        if entry.fields.get("status.phase") == "Terminating":
            fault = faults.forbidden(
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

    def delete(self, resource: Resource, value: Object) -> None:
        """Refuse to delete what a cluster cannot be without."""
        name = value["metadata"]["name"]
        if resource.table == "namespaces" and name in IMMORTAL:
            raise faults.forbidden(resource, name, "this namespace may not be deleted")
