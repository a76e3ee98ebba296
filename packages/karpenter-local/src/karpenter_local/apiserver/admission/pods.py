"""Admission of pods: the plugins ServiceAccount, Priority, RuntimeClass and DefaultTolerationSeconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.admission.limits import apply_limits

if TYPE_CHECKING:
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.resources import APIResource

PRIORITIES = "priorityclasses.scheduling.k8s.io"
RUNTIMES = "runtimeclasses.node.k8s.io"
# Every pod tolerates these for five minutes (DefaultTolerationSeconds):
# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions
_ABSENCES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# The labels of the node are copied to a pod that is bound, so that it can read them
# (PodTopologyLabelsAdmission):
# https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtopologylabels
_PLACE = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
_TOLERATION_SECONDS = 300
"""Seconds that a pod stays bound to a node that is not ready or unreachable."""


def admit_pod(backend: Backend, resource: APIResource, pod: Object) -> None:
    spec = pod["spec"]
    _account(backend, resource, pod)
    _priority(backend, resource, pod)
    _runtime(backend, resource, pod)
    tolerate_absence(spec)
    take_place(backend, pod)
    apply_limits(backend, resource, pod)


def take_place(backend: Backend, pod: Object) -> None:
    """Give a pod the zone and the region of the node it is bound to."""
    name = pod["spec"].get("nodeName")
    node = backend.store.get("nodes", name) if name else None
    place = {key: node.labels[key] for key in _PLACE if key in node.labels} if node is not None else {}
    if place:
        meta = pod["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), **place}


def _account(backend: Backend, resource: APIResource, pod: Object) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("serviceAccountName") or "default"
    if backend.store.get("serviceaccounts", f"{meta['namespace']}/{name}") is None:
        why = (
            f'error looking up service account {meta["namespace"]}/{name}: serviceaccount "{name}" not found'
        )
        raise errors.forbidden(resource, meta.get("name", ""), why)
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def _priority(backend: Backend, resource: APIResource, pod: Object) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("priorityClassName")
    found = backend.read(PRIORITIES, "", name) if name else _default_priority(backend)
    if name and found is None:
        raise errors.forbidden(resource, meta.get("name", ""), f"no PriorityClass with name {name} was found")
    value = found.get("value", 0) if found else 0
    policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    if spec.get("priority") not in {None, value}:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden(resource, meta.get("name", ""), why)
    if spec.get("preemptionPolicy") not in {None, policy}:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided "
            f"in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise errors.forbidden(resource, meta.get("name", ""), why)
    if found and not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _default_priority(backend: Backend) -> Object | None:
    """Return the class for pods that name none: the lowest of those marked as the default."""
    marked = [
        found
        for entry in backend.store.table(PRIORITIES).entries.values()
        if (found := entry.object()).get("globalDefault")
    ]
    return min(marked, key=lambda found: int(found.get("value", 0)), default=None)


def _runtime(backend: Backend, resource: APIResource, pod: Object) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = backend.read(RUNTIMES, "", name)
    if found is None:
        raise errors.forbidden(
            resource, meta.get("name", ""), f'pod rejected: RuntimeClass "{name}" not found'
        )
    fixed = (found.get("overhead") or {}).get("podFixed")
    if fixed:
        if spec.get("overhead") not in (None, fixed):
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise errors.forbidden(resource, meta.get("name", ""), why)
        spec["overhead"] = dict(fixed)
    scheduling = found.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    if scheduling.get("tolerations"):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *scheduling["tolerations"]]


def tolerate_absence(spec: Object) -> None:
    """Add tolerations for the taints not-ready and unreachable, unless the pod has its own."""
    given = spec.get("tolerations") or []
    for key in _ABSENCES:
        if not any(
            item.get("key", "") in {"", key} and item.get("effect", "") in {"", "NoExecute"} for item in given
        ):
            given = [
                *given,
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                },
            ]
    spec["tolerations"] = given
