"""
The next step of a stateful set: pods with names and claims of their own, made and removed one after the
other.

Ordered sets wait for each pod to be ready before the next is made, and remove the last first. An update
replaces pods from the last to the first, down to the partition, and never more than one at a time. Claims
are made before their pod and outlive it, unless the set says otherwise.

Pure: the set, its pods and its revisions in, one step and a status out.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime

import msgspec

from karpenter.api.pod import Pod
from karpenter.kube.targets import Plain
from karpenter_local.controllers import plain, pods
from karpenter_local.controllers.history import HASH, template_of

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSetStep(msgspec.Struct, frozen=True):
    """Pods to create and to delete now; what follows depends on how that goes."""

    create: tuple[tuple[int, str], ...] = ()
    """Ordinals that need a pod, with the name of the revision each is made from."""
    delete: tuple[Pod, ...] = ()


class StatefulSetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Settings in the spec of a stateful set."""

    name: str
    first: int
    replicas: int
    ordered: bool
    on_delete: bool
    partition: int
    min_ready: int

    @property
    def ordinals(self) -> range:
        """The ordinals that should have a pod."""
        return range(self.first, self.first + self.replicas)


def request_of(stateful_set: Plain) -> StatefulSetRequest:
    spec = plain.spec_of(stateful_set)
    strategy = spec.get("updateStrategy") or {}
    return StatefulSetRequest(
        name=plain.name_of(stateful_set),
        first=int((spec.get("ordinals") or {}).get("start", 0)),
        replicas=int(spec.get("replicas", 1)),
        ordered=spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady",
        on_delete=strategy.get("type") == "OnDelete",
        partition=int((strategy.get("rollingUpdate") or {}).get("partition", 0) or 0),
        min_ready=int(spec.get("minReadySeconds", 0)),
    )


def ordinal_of(request: StatefulSetRequest, pod: Pod) -> int | None:
    """Return a pod's ordinal; None if its name is not one that the set gives."""
    prefix, _, tail = pod.name.rpartition("-")
    return int(tail) if prefix == request.name and tail.isdecimal() else None


def by_ordinal(request: StatefulSetRequest, mine: Sequence[Pod]) -> dict[int, Pod]:
    found = ((ordinal_of(request, pod), pod) for pod in mine)
    return {ordinal: pod for ordinal, pod in sorted(found, key=lambda x: x[0] or 0) if ordinal is not None}


def is_healthy(pod: Pod, min_ready: int, now: datetime) -> bool:
    """Say whether a pod can be relied on."""
    return (
        pod.status.phase == "Running" and not pods.is_leaving(pod) and pods.is_available(pod, min_ready, now)
    )


def next_step(
    request: StatefulSetRequest, placed: Mapping[int, Pod], *, current: str, update: str, now: datetime
) -> StatefulSetStep:
    """Return what to do now; `current` and `update` name the revisions before and after an update."""
    create: list[tuple[int, str]] = []
    delete: list[Pod] = []
    for ordinal in request.ordinals:
        pod = placed.get(ordinal)
        if pod is None:
            held_back = request.on_delete or ordinal < request.first + request.partition
            create.append((ordinal, current if held_back and current else update))
        elif pods.is_finished(pod) and not pods.is_leaving(pod):
            delete.append(pod)  # made anew once it is gone
        if request.ordered and (pod is None or not is_healthy(pod, request.min_ready, now)):
            return StatefulSetStep(tuple(create), tuple(delete))
    surplus = [placed[ordinal] for ordinal in sorted(placed, reverse=True) if ordinal not in request.ordinals]
    if request.ordered and surplus:
        last = surplus[0]
        return StatefulSetStep((), (*delete, *([] if pods.is_leaving(last) else [last])))
    delete += [pod for pod in surplus if not pods.is_leaving(pod)]
    if create or delete or request.on_delete:
        return StatefulSetStep(tuple(create), tuple(delete))
    return StatefulSetStep((), _outdated(request, placed, update, now))


def _outdated(
    request: StatefulSetRequest, placed: Mapping[int, Pod], update: str, now: datetime
) -> tuple[Pod, ...]:
    """Return the pod that the update replaces next, if all above it are well."""
    for ordinal in reversed(range(request.first + request.partition, request.first + request.replicas)):
        pod = placed[ordinal]
        if pod.metadata.labels.get(HASH) != update:
            return () if pods.is_leaving(pod) else (pod,)
        if not is_healthy(pod, request.min_ready, now):
            return ()
    return ()


def pod_for(stateful_set: Plain, ordinal: int, revision: Plain) -> Plain:
    name = f"{plain.name_of(stateful_set)}-{ordinal}"
    spec = plain.spec_of(stateful_set)
    body = pods.from_template(template_of(revision), stateful_set, name=name)
    body["metadata"]["labels"] |= {
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        HASH: plain.name_of(revision),
    }
    body["spec"]["hostname"] = name
    if spec.get("serviceName"):
        body["spec"]["subdomain"] = spec["serviceName"]
    claims = [
        (each["metadata"]["name"], claim_name(stateful_set, each, ordinal)) for each in _templates(spec)
    ]
    replaced = {volume for volume, _ in claims}
    kept = [each for each in body["spec"].get("volumes") or () if each["name"] not in replaced]
    body["spec"]["volumes"] = [
        *({"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims),
        *kept,
    ]
    return body


def claims_for(stateful_set: Plain, ordinal: int) -> list[Plain]:
    spec = plain.spec_of(stateful_set)
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    result = []
    for template in _templates(spec):
        meta = template["metadata"]
        owned = deletes_when(stateful_set, "whenDeleted")
        owners = [plain.reference_to(stateful_set)] if owned else []
        result.append(
            {
                "metadata": {
                    "name": claim_name(stateful_set, template, ordinal),
                    "namespace": plain.namespace_of(stateful_set),
                    "labels": {**(meta.get("labels") or {}), **labels},
                    "annotations": dict(meta.get("annotations") or {}),
                    **({"ownerReferences": owners} if owners else {}),
                },
                "spec": deepcopy(template.get("spec") or {}),
            }
        )
    return result


def claim_name(stateful_set: Plain, template: Plain, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{plain.name_of(stateful_set)}-{ordinal}"


def claim_names(stateful_set: Plain, ordinal: int) -> list[str]:
    templates = _templates(plain.spec_of(stateful_set))
    return [claim_name(stateful_set, each, ordinal) for each in templates]


def deletes_when(stateful_set: Plain, event: str) -> bool:
    """Say whether claims go with the set (``whenDeleted``) or with their pod when it is scaled away."""
    policy = plain.spec_of(stateful_set).get("persistentVolumeClaimRetentionPolicy") or {}
    return bool(policy.get(event) == "Delete")


def status(
    stateful_set: Plain,
    request: StatefulSetRequest,
    placed: Mapping[int, Pod],
    *,
    current: str,
    update: str,
    now: datetime,
) -> Plain:
    made = list(placed.values())
    active = [pod for pod in made if not pods.is_leaving(pod)]
    ready = sum(pod.status.phase == "Running" and pods.is_ready(pod) for pod in active)
    updated = sum(pod.metadata.labels.get(HASH) == update for pod in active)
    finished = updated == request.replicas == ready == len(made) and not request.on_delete
    if finished and request.partition == 0:
        current = update
    result: Plain = {
        "observedGeneration": plain.generation_of(stateful_set),
        "replicas": len(made),
        "readyReplicas": ready,
        "availableReplicas": sum(is_healthy(pod, request.min_ready, now) for pod in active),
        "currentReplicas": sum(pod.metadata.labels.get(HASH) == current for pod in active),
        "updatedReplicas": updated,
        "currentRevision": current or update,
        "updateRevision": update,
        "collisionCount": int(plain.status_of(stateful_set).get("collisionCount", 0)),
    }
    always = {"replicas", "availableReplicas", "collisionCount"}
    return {key: value for key, value in result.items() if value or key in always}


def _templates(spec: Plain) -> list[Plain]:
    return spec.get("volumeClaimTemplates") or []
