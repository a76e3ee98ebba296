"""
Delete: at once, after a grace period, or when the last finalizer is gone.

Who waits for what: a pod on a node waits for its kubelet to say that it has stopped; an object with finalizers
waits for whoever put them there; ``propagationPolicy`` is a finalizer that the garbage collector answers to.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from karpenter.local import faults
from karpenter.local.backend import stamp
from karpenter.local.bodies import read
from karpenter.local.entry import Entry, Object
from karpenter.local.presenting import reply, reply_raw
from karpenter.local.request import is_dry_run
from karpenter.local.writing import draft, uid_mismatch

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter.local.backend import Backend
    from karpenter.local.request import Call
    from karpenter.local.resources import Resource
    from karpenter.local.views import View

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Orphan", "Background", "Foreground")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a deletion is meant."""

    grace: int | None = None
    uid: str = ""
    revision: str = ""
    policy: str = ""
    dry_run: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """What became of it: the object as it is now or was at the end, and whether it is gone."""

    entry: Entry
    gone: bool


def delete(backend: Backend, call: Call, view: View) -> Response:
    """Delete one object."""
    stored = backend.kept(call.resource)
    entry = backend.entry(stored, call.namespace, call.name)
    options = read_options(call)
    if entry is None:
        raise faults.not_found(call.resource, call.name)
    outcome = remove(backend, stored, entry, options)
    if not outcome.gone or backend.strategy(stored).returns_deleted:
        return reply_raw(view.one(outcome.entry))
    return reply(success(stored, outcome.entry.object()))


def success(resource: Resource, value: Object) -> Object:
    """Return the Status that answers a finished delete."""
    details: dict[str, Any] = {"name": value["metadata"]["name"]}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": value["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def remove(backend: Backend, resource: Resource, entry: Entry, options: Options) -> Outcome:
    """Begin or finish a deletion."""
    value = entry.object()
    meta = value["metadata"]
    _check(resource, meta, options)
    strategy = backend.strategy(resource)
    backend.admission.delete(resource, value)
    _set_policy_finalizers(meta, options, orphans=strategy.orphans_by_default)
    grace = strategy.grace(value, options.grace)
    waits = bool(meta.get("finalizers")) or bool(
        resource.table == "namespaces" and (value.get("spec") or {}).get("finalizers")
    )
    if grace > 0:
        changed = _begin(backend, meta, grace)
    elif waits:
        changed = _begin(backend, meta, 0)
    else:
        return Outcome(_finish(backend, resource, entry, value, options), gone=True)
    if resource.table == "namespaces":
        value["status"] = {**(value.get("status") or {}), "phase": "Terminating"}
    if not changed and value == entry.object():
        return Outcome(entry, gone=False)
    if options.dry_run:
        return Outcome(draft(backend, resource, value), gone=False)
    kept = backend.store.put(resource.table, entry.key, value)
    backend.changed(resource, kept)
    return Outcome(kept, gone=False)


def _check(resource: Resource, meta: dict[str, Any], options: Options) -> None:
    if options.uid and options.uid != meta["uid"]:
        raise faults.conflict(resource, meta["name"], uid_mismatch(options.uid, meta["uid"]))
    if options.revision and options.revision != meta["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {options.revision}, "
            f"ResourceVersion in object meta: {meta['resourceVersion']}"
        )
        raise faults.conflict(resource, meta["name"], why)


def _set_policy_finalizers(meta: dict[str, Any], options: Options, *, orphans: bool) -> None:
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


def _begin(backend: Backend, meta: dict[str, Any], grace: int) -> bool:
    """Mark the object as being deleted; a second delete can only shorten the wait."""
    if meta.get("deletionTimestamp"):
        left = meta.get("deletionGracePeriodSeconds") or 0
        if grace >= left:
            return False
        meta["deletionGracePeriodSeconds"] = grace
        meta["deletionTimestamp"] = stamp(backend.clock.now() + timedelta(seconds=grace))
        return True
    meta["deletionTimestamp"] = stamp(backend.clock.now() + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return True


def _finish(backend: Backend, resource: Resource, entry: Entry, value: Object, options: Options) -> Entry:
    if options.dry_run:
        return draft(backend, resource, value)
    gone = backend.store.delete(resource.table, entry.key)
    backend.removed(resource, gone)
    return gone


def read_options(call: Call) -> Options:
    """Return the options of a delete, from its body and its query."""
    body: Object = {}
    if call.request.body:
        body = read(call.request, "DeleteOptions").value
    return options_from(body, dict(call.request.query))


def options_from(body: Object, query: dict[str, str] | None = None) -> Options:
    """Return the options that a ``DeleteOptions`` object and a query spell."""
    query = query or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = query["gracePeriodSeconds"]
    preconditions = body.get("preconditions") or {}
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = query["orphanDependents"].lower() == "true"
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if policy and orphan is not None:
        _refuse(policy, "Invalid value", "orphanDependents and deletionPropagation cannot be both set")
    if policy and policy not in _POLICIES:
        _refuse(policy, "Unsupported value", 'supported values: "Background", "Foreground", "Orphan"')
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    dry = body.get("dryRun") or ([query["dryRun"]] if "dryRun" in query else [])
    return Options(
        grace=_whole(grace),
        uid=preconditions.get("uid") or "",
        revision=preconditions.get("resourceVersion") or "",
        policy=policy,
        dry_run=is_dry_run(dry),
    )


def _whole(grace: Any) -> int | None:
    if grace is None:
        return None
    try:
        return int(grace)
    except (TypeError, ValueError):
        raise faults.bad_request(f"gracePeriodSeconds is not a number: {grace!r}") from None


def _refuse(policy: str, kind: str, why: str) -> None:
    message = f'{kind}: "{policy}": {why}'
    reason = "FieldValueInvalid" if kind == "Invalid value" else "FieldValueNotSupported"
    raise faults.Fault(
        422,
        "Invalid",
        f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "DeleteOptions",
            "causes": [{"reason": reason, "message": message, "field": "propagationPolicy"}],
        },
    )
