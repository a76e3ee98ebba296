"""Volumes and claims: pending until someone binds them; a claim without a class gets the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

CLASSES = "storageclasses.storage.k8s.io"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
# The annotation from before spec.storageClassName still wins over it:
# https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimStrategy(Strategy):
    """Rules for writing claims."""

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        _ = resource
        value["status"] = {"phase": "Pending"}

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Give a claim that names no class the newest default class."""
        _ = resource
        if old is None:
            _protect(value, "kubernetes.io/pvc-protection")
        spec = value["spec"]
        annotated = (value["metadata"].get("annotations") or {}).get(_OLD_CLASS)
        if old is not None or spec.get("storageClassName") is not None or annotated is not None:
            return
        defaults = [
            found
            for entry in backend.store.table(CLASSES).entries.values()
            if ((found := entry.object())["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
        ]
        if defaults:
            newest = max(defaults, key=_age)
            spec["storageClassName"] = newest["metadata"]["name"]


def _protect(value: Object, finalizer: str) -> None:
    """Add the finalizer that holds an object until a controller finds that it is not in use."""
    finalizers = value["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def _age(found: Object) -> tuple[str, list[int]]:
    """Return a key that puts the newest last and, among those of one second, the first by name."""
    return found["metadata"]["creationTimestamp"], [-ord(letter) for letter in found["metadata"]["name"]]


class VolumeStrategy(Strategy):
    """Rules for writing volumes."""

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Hold a volume for as long as a claim has it."""
        _ = backend, resource
        if old is None:
            _protect(value, "kubernetes.io/pv-protection")

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        _ = resource
        value["status"] = {
            "phase": "Pending",
            "lastPhaseTransitionTime": value["metadata"]["creationTimestamp"],
        }
