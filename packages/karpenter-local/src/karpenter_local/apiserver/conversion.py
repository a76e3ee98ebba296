"""
The same object in two versions.

Of the built-in kinds, Events and autoscalers of pods have two versions: the events group renames
what the core group calls otherwise, and ``autoscaling/v1`` knows one metric, the use of cpu.
Versions of a custom kind differ in nothing else, because CRDs here convert with strategy None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.entry import Object, encode

if TYPE_CHECKING:
    from karpenter_local.apiserver.resources import APIResource

# events.k8s.io/v1 renamed fields of the older Event of the core group; both are one object in storage:
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def to_stored(resource: APIResource, value: Object) -> Object:
    """Return an object in the version of `resource` as it is stored."""
    if resource.custom:
        return value
    if resource.group == "autoscaling":
        return _autoscaler_to_stored(value)
    renamed = {_OLD_NAMES.get(key, key): part for key, part in value.items()}
    renamed["apiVersion"] = "v1"
    renamed.setdefault("source", {})
    for key in ("firstTimestamp", "lastTimestamp"):
        renamed.setdefault(key, None)
    return renamed


def from_stored(resource: APIResource, value: Object) -> Object:
    """Return a stored object in the version of `resource`."""
    if resource.stored:
        return value
    value = {**value, "apiVersion": resource.api_version}
    if resource.custom:
        return value
    if resource.group == "autoscaling":
        return _autoscaler_from_stored(value)
    return {_NEW_NAMES.get(key, key): part for key, part in value.items()}


# https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/autoscaling/annotations.go
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
"""Where an object in v1 keeps the metrics that v1 has no field for."""


def _autoscaler_to_stored(value: Object) -> Object:
    spec = {**(value.get("spec") or {})}
    meta = {**(value.get("metadata") or {})}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    notes = {**(meta.get("annotations") or {})}
    metrics = _metrics(notes.pop(_METRICS)) if _METRICS in notes else []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics = [*metrics, {"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if metrics:
        spec["metrics"] = metrics
    if "annotations" in meta:
        meta["annotations"] = notes
    status = {**(value.get("status") or {})}
    used = status.pop("currentCPUUtilizationPercentage", None)
    if used is not None:
        current = {"name": "cpu", "current": {"averageUtilization": used}}
        status["currentMetrics"] = [{"type": "Resource", "resource": current}]
    found = {**value, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": spec}
    return {**found, "status": status} if "status" in value else found


def _metrics(text: str) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.MsgspecError as error:
        raise errors.bad_request(f"metadata.annotations[{_METRICS}]: {error}") from None


def _autoscaler_from_stored(value: Object) -> Object:
    spec, meta = {**(value.get("spec") or {})}, {**value["metadata"]}
    others = []
    for metric in spec.pop("metrics", None) or ():
        source = metric.get("resource") or {}
        percent = (source.get("target") or {}).get("averageUtilization")
        if source.get("name") == "cpu" and percent is not None:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(metric)
    spec.pop("behavior", None)
    if others:
        meta["annotations"] = {**(meta.get("annotations") or {}), _METRICS: encode(others).decode()}
    given = value.get("status") or {}
    status = {"currentReplicas": given.get("currentReplicas", 0), "desiredReplicas": 0}
    known = ("observedGeneration", "lastScaleTime", "desiredReplicas")
    status |= {key: given[key] for key in known if key in given}
    return {**value, "metadata": meta, "spec": spec, "status": status}
