"""
Delete: at once, after a grace period, or when the last finalizer is gone.

A pod on a node waits for its kubelet to report that it has stopped; an object with finalizers waits until
controllers have removed them; ``propagationPolicy`` becomes a finalizer that the garbage collector removes.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.access import UserInfo
from karpenter_local.apiserver.admission.policies import AdmissionAttributes
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.entry import Entry, Object
from karpenter_local.apiserver.metadata import stamp
from karpenter_local.apiserver.options import is_dry_run, refuse
from karpenter_local.apiserver.presenting import reply, reply_raw, warnings
from karpenter_local.apiserver.schema.conform import Mismatch, conform
from karpenter_local.apiserver.schema.types import built_in_types
from karpenter_local.apiserver.writing import draft

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.request import RequestInfo
    from karpenter_local.apiserver.resources import APIResource
    from karpenter_local.apiserver.views import ResponseView

# Finalizers that stand for a propagation policy:
# https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Orphan", "Background", "Foreground")
_DEFINITION = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a deletion."""

    grace: int | None = None
    uid: str = ""
    revision: str = ""
    policy: str = ""
    dry_run: bool = False
    user: UserInfo | None = None
    """Who deletes; None is the server itself, of whom no policy is asked."""
    warnings: list[str] = []
    """Filled by policies that have something to say and do not refuse."""


class DeletionResult(msgspec.Struct, frozen=True):
    """The object as it is now or was at the end, and whether it is gone."""

    entry: Entry
    gone: bool


def delete(backend: Backend, call: RequestInfo, view: ResponseView) -> Response:
    stored = backend.kept(call.resource)
    entry = backend.entry(stored, call.namespace, call.name)
    options = read_options(backend, call)
    if entry is None:
        raise errors.not_found(call.resource, call.name)
    outcome = remove(backend, stored, entry, options)
    warned = warnings(options.warnings)
    if not outcome.gone or backend.strategy(stored).returns_deleted:
        return reply_raw(view.one(outcome.entry), headers=warned)
    return reply(success(stored, outcome.entry.object()), headers=warned)


def success(resource: APIResource, value: Object) -> Object:
    """Return the Status that answers a finished delete."""
    details: dict[str, Any] = {"name": value["metadata"]["name"]}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": value["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def remove(backend: Backend, resource: APIResource, entry: Entry, options: DeleteOptions) -> DeletionResult:
    value = entry.object()
    meta = value["metadata"]
    _check(resource, meta, options)
    strategy = backend.strategy(resource)
    backend.admission.delete(resource, value)
    _admit(backend, resource, value, options)
    strategy.before_delete(backend, value)
    _set_policy_finalizers(meta, options, orphans=strategy.orphans_by_default)
    grace = strategy.grace(value, options.grace)
    waits = bool(meta.get("finalizers")) or bool(
        resource.table == "namespaces" and (value.get("spec") or {}).get("finalizers")
    )
    if grace > 0 or waits or strategy.graceful:
        _begin(backend, meta, grace)
    if grace <= 0 and not waits:
        return DeletionResult(_finish(backend, resource, entry, value, options), gone=True)
    if resource.table == "namespaces":
        meta.pop("deletionGracePeriodSeconds", None)
        value["status"] = {**(value.get("status") or {}), "phase": "Terminating"}
    if value == entry.object():
        return DeletionResult(entry, gone=False)
    if options.dry_run:
        return DeletionResult(draft(backend, resource, value), gone=False)
    kept = backend.store.put(resource.table, entry.key, value)
    backend.changed(resource, kept)
    return DeletionResult(kept, gone=False)


def _admit(backend: Backend, resource: APIResource, value: Object, options: DeleteOptions) -> None:
    if options.user is None or not backend.policies:
        return
    meta = value["metadata"]
    asked = AdmissionAttributes(
        operation="DELETE",
        resource=resource,
        namespace=meta.get("namespace", "") if resource.namespaced else "",
        name=meta["name"],
        object=None,
        old=value,
        user=options.user,
        dry_run=options.dry_run,
    )
    options.warnings.extend(backend.policies.validate(backend, asked))


def _check(resource: APIResource, meta: dict[str, Any], options: DeleteOptions) -> None:
    for asked, actual, what, since in (
        (options.uid, meta["uid"], "UID", "deleted and then recreated"),
        (options.revision, meta["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if asked and asked != actual:
            why = (
                f"the {what} in the precondition ({asked}) does not match the {what} in record ({actual}). "
                f"The object might have been {since}"
            )
            kind = errors.qualified(resource.kind, resource.group)
            details = {"name": meta["name"], "kind": resource.kind}
            if resource.group:
                details["group"] = resource.group
            message = f'Operation cannot be fulfilled on {kind} "{meta["name"]}": {why}'
            raise errors.APIStatusError(409, "Conflict", message, details=details)


def _set_policy_finalizers(meta: dict[str, Any], options: DeleteOptions, *, orphans: bool) -> None:
    before = list(meta.get("finalizers") or ())
    policy = options.policy
    if not policy:
        if ORPHAN in before or FOREGROUND in before:
            return
        policy = "Orphan" if orphans else "Background"
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
    after = [item for item in before if item not in {ORPHAN, FOREGROUND} or item == wanted]
    if wanted and wanted not in after:
        after.append(wanted)
    if after:
        meta["finalizers"] = after
    else:
        meta.pop("finalizers", None)


def _begin(backend: Backend, meta: dict[str, Any], grace: int) -> None:
    """Mark the object as being deleted; a second delete can only shorten the wait."""
    moment = stamp(backend.clock.now() + timedelta(seconds=grace))
    if not meta.get("deletionTimestamp"):
        meta |= {"deletionTimestamp": moment, "deletionGracePeriodSeconds": grace}
        if meta.get("generation"):
            meta["generation"] += 1
    elif grace < (meta.get("deletionGracePeriodSeconds") or 0):
        meta |= {"deletionTimestamp": moment, "deletionGracePeriodSeconds": grace}


def _finish(
    backend: Backend, resource: APIResource, entry: Entry, value: Object, options: DeleteOptions
) -> Entry:
    if options.dry_run:
        return draft(backend, resource, value)
    gone = backend.store.delete(resource.table, entry.key, value)
    backend.removed(resource, gone)
    return gone


def read_options(backend: Backend, call: RequestInfo) -> DeleteOptions:
    body: Object = {}
    if call.request.body:
        try:
            body = read(call.request, "DeleteOptions").value
        except errors.APIStatusError as fault:
            plain = re.sub(
                r"^the object provided is unrecognized \(must be of type DeleteOptions\): ", "", fault.message
            )
            fault.message = plain.rpartition(" (")[0] or plain
            raise
    options = options_from(body, dict(call.request.query))
    return msgspec.structs.replace(options, user=backend.user(call.request))


def options_from(body: Object, query: dict[str, str] | None = None) -> DeleteOptions:
    query = query or {}
    if body.get("kind") not in {None, "", "DeleteOptions"}:
        raise errors.bad_request(
            f"expect delete options, got {body.get('apiVersion')}, Kind={body.get('kind')}"
        )
    try:
        conform(body, built_in_types().definition(_DEFINITION))
    except Mismatch as error:
        raise errors.bad_request(str(error)) from None
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = _whole(query["gracePeriodSeconds"])
    preconditions = body.get("preconditions") or {}
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"].lower() == "true"
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if policy and orphan is not None:
        _refuse(
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set',
            "Invalid",
        )
    if policy and policy not in _POLICIES:
        known = '"Foreground", "Background", "Orphan", "nil"'
        _refuse(f'Unsupported value: "{policy}": supported values: {known}', "NotSupported")
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    dry = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    return DeleteOptions(
        grace=grace,
        uid=preconditions.get("uid") or "",
        revision=preconditions.get("resourceVersion") or "",
        policy=policy,
        dry_run=is_dry_run(dry, "DeleteOptions"),
    )


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _refuse(message: str, reason: str) -> None:
    refuse("DeleteOptions", ("propagationPolicy", f"FieldValue{reason}", message))
