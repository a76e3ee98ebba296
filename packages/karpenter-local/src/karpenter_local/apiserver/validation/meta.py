"""The rules of ``metadata``, which are the same for every kind but for what a name may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.field_errors import FieldError, forbidden, invalid, required
from karpenter_local.apiserver.validation import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

# All annotations of an object together: https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
_MAX_ANNOTATIONS = 256 * 1024

_NAME_RULES: dict[str, Callable[[str], names.Sentences]] = {
    "namespaces": names.label,
    "services": names.label,
    "roles.rbac.authorization.k8s.io": names.path_segment,
    "rolebindings.rbac.authorization.k8s.io": names.path_segment,
    "clusterroles.rbac.authorization.k8s.io": names.path_segment,
    "clusterrolebindings.rbac.authorization.k8s.io": names.path_segment,
    "events": names.path_segment,
}
# Other finalizers need a domain in front:
# https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/helper/helpers.go
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def create(resource: APIResource, value: Object) -> Iterator[FieldError]:
    """Yield what is wrong with a new object's metadata."""
    meta = value["metadata"]
    name = meta.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        rule = _NAME_RULES.get(resource.table, names.subdomain)
        for sentence in rule(name):
            yield invalid("metadata.name", name, sentence)
    if resource.namespaced:
        for sentence in names.label(meta["namespace"]):
            yield invalid("metadata.namespace", meta["namespace"], sentence)
    if meta.get("labels") or meta.get("annotations") or meta.get("ownerReferences") or meta.get("finalizers"):
        yield from _contents(meta, "metadata")


def update(resource: APIResource, value: Object, old: Object) -> Iterator[FieldError]:
    """Yield what is wrong with a changed object's metadata."""
    _ = resource
    meta, before = value["metadata"], old["metadata"]
    for key in _IMMUTABLE:
        if meta.get(key) != before.get(key):
            yield invalid(f"metadata.{key}", meta.get(key), "field is immutable")
    if before.get("deletionTimestamp"):
        added = [
            item for item in meta.get("finalizers") or () if item not in (before.get("finalizers") or ())
        ]
        if added:
            text = ", ".join(f'"{item}"' for item in sorted(added))
            why = "no new finalizers can be added if the object is being deleted"
            yield forbidden("metadata.finalizers", f"{why}, found new finalizers []string{{{text}}}")
    if any(
        meta.get(key) != before.get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers")
    ):
        yield from _contents(meta, "metadata")


def labels(given: Any, path: str) -> Iterator[FieldError]:
    for key, value in (given or {}).items():
        for sentence in names.qualified(key):
            yield invalid(path, key, sentence)
        for sentence in names.value(value):
            yield invalid(path, value, sentence)


def notes(given: Any, path: str) -> Iterator[FieldError]:
    total = 0
    for key, value in (given or {}).items():
        total += len(key) + len(value)
        for sentence in names.qualified(key.lower()):
            yield invalid(path, key, sentence)
    if total > _MAX_ANNOTATIONS:
        yield FieldError(
            path, "FieldValueTooLong", f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"
        )


def _contents(meta: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from labels(meta.get("labels"), f"{path}.labels")
    yield from notes(meta.get("annotations"), f"{path}.annotations")
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        for sentence in names.qualified(finalizer):
            yield invalid(f"{path}.finalizers", finalizer, sentence)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"{path}.finalizers[{index}]", finalizer, why)
    controllers = [ref for ref in meta.get("ownerReferences") or () if ref.get("controller")]
    for ref in meta.get("ownerReferences") or ():
        for key in ("apiVersion", "kind", "name", "uid"):
            if not ref.get(key):
                why = "version must not be empty" if key == "apiVersion" else "must not be empty"
                yield invalid(f"{path}.ownerReferences.{key}", "", why)
    if len(controllers) > 1:
        yield invalid(
            f"{path}.ownerReferences",
            meta["ownerReferences"],
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0].get('kind')}/{controllers[0].get('name')} and "
            f"{controllers[1].get('kind')}/{controllers[1].get('name')}",
        )
