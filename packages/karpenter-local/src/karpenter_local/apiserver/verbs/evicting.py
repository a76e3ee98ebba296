"""
Evict: a delete that asks the disruption budgets first.

A budget's status says how many disruptions it allows now; each eviction that is let through takes one away
and is noted in ``disruptedPods`` until the budget's controller has seen the pod go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver import errors
from karpenter_local.apiserver.admission.policies import AdmissionAttributes
from karpenter_local.apiserver.bodies import read
from karpenter_local.apiserver.presenting import reply
from karpenter_local.apiserver.selectors import from_object
from karpenter_local.apiserver.verbs.deleting import options_from, remove

if TYPE_CHECKING:
    from karpenter.kube.transport import Response
    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Entry, Object
    from karpenter_local.apiserver.request import RequestInfo

PDBS = "poddisruptionbudgets.policy"
# MaxDisruptedPodSize of the eviction registry: https://github.com/kubernetes/kubernetes
_MAX_NOTED = 2000
# Seconds after which the eviction registry asks to try again:
# https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/storage/eviction.go
_RETRY_SECONDS = 10


def evict(backend: Backend, call: RequestInfo) -> Response:
    """Delete a pod if every budget that covers it allows one more disruption."""
    body = read(call.request, "Eviction").value
    name = (body.get("metadata") or {}).get("name")
    if name not in {None, "", call.name}:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    entry = backend.entry(call.resource, call.namespace, call.name)
    if entry is None:
        raise errors.not_found(call.resource, call.name)
    options = options_from(body.get("deleteOptions") or {}, dict(call.request.query))
    pod = entry.object()
    if backend.policies:
        asked = AdmissionAttributes(
            operation="CREATE",
            resource=call.resource,
            subresource="eviction",
            namespace=call.namespace,
            name=call.name,
            object={"kind": "Eviction", "apiVersion": "policy/v1", **body},
            old=None,
            user=backend.user(call.request),
            dry_run=options.dry_run,
        )
        backend.policies.validate(backend, asked)
    if not _free_to_go(pod):
        budgets = _covering(backend, entry)
        if len(budgets) > 1:
            why = "This pod has more than one PodDisruptionBudget"
            raise errors.APIStatusError(500, "", f"{why}, which the eviction subresource does not support.")
        for budget in budgets:
            _spend(backend, budget, pod, dry_run=options.dry_run)
    if not options.dry_run:
        entry = _mark(backend, call, entry)
    remove(backend, call.resource, entry, options)
    return reply(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, status=201
    )


def _mark(backend: Backend, call: RequestInfo, entry: Entry) -> Entry:
    """Say in the pod's status why it goes."""
    pod = entry.object()
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": backend.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod.setdefault("status", {})
    others = [item for item in status.get("conditions") or () if item["type"] != condition["type"]]
    status["conditions"] = [*others, condition]
    return backend.store.put(call.resource.table, entry.key, pod)


def _free_to_go(pod: Object) -> bool:
    """Return whether no budget counts the pod: it has finished, never ran, or is leaving already."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _covering(backend: Backend, pod: Entry) -> list[Entry]:
    table = backend.store.table(PDBS)
    found = []
    for key in table.between(pod.namespace):
        entry = table.entries[key]
        conditions = from_object((entry.object().get("spec") or {}).get("selector"))
        if conditions is not None and all(item.matches(pod.labels) for item in conditions):
            found.append(entry)
    return found


def _spend(backend: Backend, entry: Entry, pod: Object, *, dry_run: bool) -> None:
    budget = entry.object()
    spec, status = budget.get("spec") or {}, budget.setdefault("status", {})
    if _healthy_enough(spec, status, pod):
        return
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _blocked(f"The disruption budget {name} is still being processed by the server.")
    allowed = status.get("disruptionsAllowed", 0)
    noted: dict[str, Any] = status.get("disruptedPods") or {}
    if allowed <= 0 or len(noted) > _MAX_NOTED:
        raise _blocked(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
    if dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**noted, pod["metadata"]["name"]: backend.now()}
    backend.store.put(PDBS, entry.key, budget)


def _healthy_enough(spec: Object, status: Object, pod: Object) -> bool:
    """Return whether an unready pod may go without being counted, as its budget's policy says."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
        return False
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(current >= desired > 0)


def _blocked(why: str) -> errors.APIStatusError:
    cause = {"reason": "DisruptionBudget", "message": why}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    retry = 0 if "needs" in why else _RETRY_SECONDS
    return errors.too_many_requests(message, retry_after=retry, causes=[cause])
