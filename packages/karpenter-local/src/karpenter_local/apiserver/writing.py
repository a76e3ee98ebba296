"""
The steps of every write: convert, default, admit, prepare, validate, track managed fields, store.

The verbs differ in where the new object comes from; all of them end here. Nothing here awaits, so what was
checked still holds when it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver import errors, field_errors, metadata
from karpenter_local.apiserver.access import UserInfo
from karpenter_local.apiserver.admission.policies import AdmissionAttributes
from karpenter_local.apiserver.entry import Entry, Object, key_of
from karpenter_local.apiserver.managed.tracker import Author
from karpenter_local.apiserver.validation import meta as rules

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.resources import APIResource

# A generated name that is taken is drawn anew, eight times in all (RetryGenerateName):
# https://kubernetes.io/docs/reference/using-api/api-concepts/#generated-values
_ATTEMPTS = 8


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write: field manager, version, dry run, subresource."""

    manager: str = "unknown"
    version: str = ""
    """The version in which the client wrote; empty means the stored one."""
    dry_run: bool = False
    subresource: str = ""
    patch: bool = False
    """
    A patch may not even try to change a uid; an update that brings one means: only if it is still that
    object.
    """
    user: UserInfo | None = None
    """Who writes; None is the server itself, of whom no policy and no quota is asked."""
    warnings: list[str] = []
    """Filled by what has something to say and does not refuse."""
    applied: Any = None
    """The managed fields that a server-side apply has worked out already."""

    def author(self, resource: APIResource) -> Author:
        return Author(self.manager, self.version or resource.api_version, self.subresource)


def create(
    backend: Backend, resource: APIResource, namespace: str, value: Object, intent: WriteOptions
) -> Entry:
    """Store a new object; `value` is the writer's from here on."""
    strategy = backend.strategy(resource)
    strategy.check_open(backend, resource)
    meta = metadata.of(value)
    metadata.check_namespace(resource, meta, namespace)
    if meta.get("resourceVersion"):
        raise errors.APIStatusError(500, "", "resourceVersion should not be set on objects to be created")
    metadata.for_create(backend, resource, meta)
    strategy.default(value)
    if intent.applied is None:
        backend.owners.on_create(resource, value, intent.author(resource))
    else:
        meta["managedFields"] = intent.applied
    backend.admission.create(resource, value)
    strategy.admit(backend, resource, value, None)
    strategy.prepare_create(resource, value)
    wrong = strategy.validate_create(resource, value)
    if wrong:
        raise errors.invalid(resource.kind, resource.group, value["metadata"].get("name", ""), wrong)
    value = shaped(resource, value)
    _admit(backend, resource, value, None, intent)
    name = _free_name(backend, resource, namespace, value)
    if intent.dry_run:
        return draft(backend, resource, value)
    entry = backend.store.put(resource.table, key_of(namespace, name), value)
    backend.created(resource, entry)
    return entry


def update(  # noqa: PLR0917  the last is there for speed alone
    backend: Backend,
    resource: APIResource,
    value: Object,
    old: Entry,
    intent: WriteOptions,
    before: Object | None = None,
) -> Entry:
    """
    Store a changed object, or nothing when nothing changed; the last finalizer takes it along.

    `before` is the old one decoded, if that was done already. It may share parts with `value` that are in the
    form in which they are stored, but not its metadata.
    """
    strategy = backend.strategy(resource)
    if before is None:
        before = old.object()
    meta = metadata.of(value)
    metadata.check_namespace(resource, meta, old.namespace)
    _check_preconditions(resource, meta, before["metadata"], strategy.unconditional_update, intent)
    metadata.for_update(meta, before["metadata"])
    (strategy.default_status if intent.subresource == "status" else strategy.default)(value)
    if intent.subresource == "finalize":
        value = {**before, "metadata": {**meta}, "spec": value.get("spec") or {}}
        wrong = list(rules.update(resource, value, before))
    elif intent.subresource == "status":
        strategy.prepare_status(resource, value, before)
        wrong = [*rules.update(resource, value, before), *strategy.validate_status(value, before)]
    else:
        strategy.admit(backend, resource, value, before)
        strategy.prepare_update(resource, value, before)
        wrong = [*rules.update(resource, value, before), *strategy.validate(value, before)]
    if wrong:
        raise errors.invalid(resource.kind, resource.group, old.name, wrong)
    value = shaped(resource, value)
    _admit(backend, resource, value, before, intent)
    if intent.applied is None:
        backend.owners.on_update(resource, value, before, intent.author(resource))
    else:
        value["metadata"]["managedFields"] = intent.applied
    metadata.tidy(value["metadata"])
    value["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    if done_deleting(value):
        return _finish(backend, resource, value, old, intent)
    if value == before:
        return old
    if intent.dry_run:
        return draft(backend, resource, value)
    entry = backend.store.put(resource.table, old.key, value)
    backend.changed(resource, entry)
    return entry


def _admit(
    backend: Backend, resource: APIResource, value: Object, old: Object | None, intent: WriteOptions
) -> None:
    """Ask the validating plugins; the scale of an object is judged as a Scale, where it is made."""
    if intent.user is None or intent.subresource == "scale":
        return
    if backend.policies:
        meta = value["metadata"]
        asked = AdmissionAttributes(
            operation="CREATE" if old is None else "UPDATE",
            resource=resource,
            subresource=intent.subresource,
            namespace=meta.get("namespace", "") if resource.namespaced else "",
            name=meta.get("name", ""),
            object=value,
            old=old,
            user=intent.user,
            dry_run=intent.dry_run,
        )
        intent.warnings.extend(backend.policies.validate(backend, asked))
    if old is None and resource.namespaced and backend.quotas:
        backend.quotas.admit(resource, value)


def _finish(
    backend: Backend, resource: APIResource, value: Object, old: Entry, intent: WriteOptions
) -> Entry:
    """Carry out a deletion that was waiting for this change."""
    if intent.dry_run:
        return draft(backend, resource, value)
    last = backend.store.delete(resource.table, old.key, value)
    backend.removed(resource, last)
    return last


def draft(backend: Backend, resource: APIResource, value: Object) -> Entry:
    """Return an entry that is not stored: the answer to a dry run."""
    meta = value["metadata"]
    key = key_of(meta.get("namespace", "") if resource.namespaced else "", meta["name"])
    return backend.store.table(resource.table).entry(key, 0, value)


def shaped(resource: APIResource, value: Object) -> Object:
    """Return the object with kind, version and metadata in front, the way everything is stored."""
    meta = value["metadata"]
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return head | {key: part for key, part in value.items() if key not in head}


def done_deleting(value: Object) -> bool:
    """Return whether a deletion was waiting for nothing more."""
    meta = value["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if value["kind"] == "Namespace" and value["apiVersion"] == "v1":
        return not (value.get("spec") or {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")


def _free_name(backend: Backend, resource: APIResource, namespace: str, value: Object) -> str:
    """Return the object's name, once it is known to be free; a generated one is drawn anew if taken."""
    meta = value["metadata"]
    for _ in range(_ATTEMPTS):
        name: str = meta["name"]
        taken = backend.entry(resource, namespace, name)
        if taken is None:
            return name
        prefix = meta.get("generateName")
        if not prefix or not name.startswith(prefix):
            break
        meta["name"] = backend.generate(prefix)
    assert taken is not None
    leaving = bool(taken.object()["metadata"].get("deletionTimestamp"))
    raise errors.already_exists(resource, meta["name"], leaving=leaving)


def _check_preconditions(
    resource: APIResource,
    meta: dict[str, Any],
    old: dict[str, Any],
    unconditional: bool,
    intent: WriteOptions,
) -> None:
    given = meta.get("resourceVersion")
    if not given and not unconditional:
        error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(resource.kind, resource.group, old["name"], [error])
    if given and given != old["resourceVersion"]:
        if not given.isdigit():
            raise errors.APIStatusError(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
        raise errors.conflict(resource, old["name"])
    uid = meta.get("uid")
    if uid and uid != old["uid"] and not intent.patch:
        raise errors.conflict(resource, old["name"], uid_mismatch(uid, old["uid"]))


def uid_mismatch(asked: str, actual: str) -> str:
    """Return the sentence for a uid that is not the object's."""
    return f"Precondition failed: UID in precondition: {asked}, UID in object meta: {actual}"
