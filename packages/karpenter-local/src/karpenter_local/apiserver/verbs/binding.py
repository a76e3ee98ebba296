"""Bind: the scheduler's assignment of a pod to a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.admission.pods import take_place
from karpenter_local.apiserver.presenting import reply
from karpenter_local.apiserver.writing import draft

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource


def bind(backend: Backend, resource: APIResource, namespace: str, body: Object, *, dry_run: bool) -> Response:
    """Set a pod's node, once; `resource` is that of pods."""
    name = (body.get("metadata") or {}).get("name", "")
    target = body.get("target") or {}
    node = target.get("name")
    if target.get("kind") not in {None, "", "Node"}:
        why = f'target.kind: Unsupported value: "{target.get("kind")}": supported values: "Node", "<empty>"'
        raise errors.APIStatusError(500, "", why)
    if not node:
        raise errors.APIStatusError(500, "", "target.name: Required value")
    entry = backend.entry(resource, namespace, name)
    if entry is None:
        raise errors.not_found(resource, name)
    value = entry.object()
    meta = value["metadata"]
    asked = (body.get("metadata") or {}).get("uid")
    if asked and asked != meta["uid"]:
        raise errors.conflict(
            resource,
            name,
            f"Precondition failed: UID in precondition: {asked}, UID in object meta: {meta['uid']}",
        )
    if meta.get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    spec = value["spec"]
    if spec.get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    # The feature gate ClearingNominatedNodeNameAfterBinding, on since 1.35:
    # https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/
    value.setdefault("status", {}).pop("nominatedNodeName", None)
    extra = (body.get("metadata") or {}).get("annotations")
    if extra:
        meta["annotations"] = {**(meta.get("annotations") or {}), **extra}
    take_place(backend, value)
    _mark_scheduled(value, backend.now())
    if dry_run:
        draft(backend, resource, value)
    else:
        kept = backend.store.put(resource.table, entry.key, value)
        backend.changed(resource, kept)
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return reply(success, status=201)


def _refused(name: str, why: str) -> errors.APIStatusError:
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return errors.APIStatusError(409, "Conflict", message, details={"name": name, "kind": "pods/binding"})


def _mark_scheduled(value: Object, now: str) -> None:
    status = value.setdefault("status", {})
    conditions = status.setdefault("conditions", [])
    condition = next((item for item in conditions if item["type"] == "PodScheduled"), None)
    if condition is None:
        condition = {"type": "PodScheduled"}
        conditions.append(condition)
    elif condition.get("status") == "True":
        return
    condition.clear()
    condition |= {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
