"""
Workloads as the pods that their controllers would create, for clusters that exist only as manifests.

A workload whose pods are in the manifests is left alone. Any other Deployment, ReplicaSet, StatefulSet, Job
or CronJob is expanded to its pods, which share one spec. Fields that an API server or a controller fills in
(priority, volume claims) are filled in. More than :data:`MAX_PODS` pods are refused with the workload's
name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.meta import InvalidObject, ObjectMeta, OwnerReference, Resource
from karpenter.api.pod import PersistentVolumeClaimSource, Pod, Volume
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.workloads import CronJob, Deployment, Job, JobSpec, ReplicaSet, StatefulSet

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from karpenter.api.cluster import PriorityClass

MAX_PODS: Final = 1_000_000
"""The most pods that all workloads together are expanded to."""

# Every cluster has these two PriorityClasses:
# https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/
_BUILT_IN_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
# https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
_CREATED_THROUGH: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Workloads whose pods are owned by an object that they create, named ``<workload>-<suffix>``."""

Workload: TypeAlias = Deployment | ReplicaSet | StatefulSet | Job | CronJob
Identity: TypeAlias = tuple[str, str, str]
"""Namespace, kind and name."""


def expand_workloads(objects: Iterable[Resource]) -> list[Resource]:
    """
    Return the objects with every workload expanded that has no pods.

    Raises:
        InvalidObject: naming the workload that exceeds :data:`MAX_PODS`.
    """
    given = list(objects)
    present = {_identity(each) for each in given}
    owners = _owners_of_pods(given)
    found, left = list(given), MAX_PODS
    for each in given:
        if isinstance(each, Workload) and not _is_controlled(each, present) and not _has_pods(each, owners):
            count = _count(each)
            if count > left:
                raise InvalidObject(
                    subject=f"{type(each).kind}/{each.key}",
                    problem=f"would make {count} pods: expected at most {MAX_PODS} in all",
                )
            left -= count
            found.extend(_created_by(each, count, present))
    return found


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name:
        value = classes[name].value if name in classes else _BUILT_IN_PRIORITIES.get(name)
    else:
        value = next((each.value for each in classes.values() if each.global_default), None)
    if value is None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=value))


def _identity(each: Resource) -> Identity:
    return each.namespace, type(each).kind, each.name


def _owners_of_pods(objects: Iterable[Resource]) -> set[Identity]:
    return {
        (each.namespace, owner.kind, owner.name)
        for each in objects
        if isinstance(each, Pod)
        for owner in each.metadata.owner_references
    }


def _is_controlled(each: Workload, present: Container[Identity]) -> bool:
    """Whether another object of the manifests controls this workload and is expanded in its place."""
    return any(
        owner.controller and (each.namespace, owner.kind, owner.name) in present
        for owner in each.metadata.owner_references
    )


def _has_pods(each: Workload, owners: set[Identity]) -> bool:
    if _identity(each) in owners:
        return True
    between = _CREATED_THROUGH.get(type(each).kind)
    return between is not None and any(
        namespace == each.namespace and kind == between and name.rpartition("-")[0] == each.name
        for namespace, kind, name in owners
    )


def _count(each: Workload) -> int:
    """Return how many pods a workload's controller would run now."""
    if each.metadata.deletion_timestamp is not None:
        return 0
    match each:
        case Job():
            return 0 if each.status.completion_time else _parallel_pods(each.spec, each.status.succeeded)
        case CronJob():
            return 0 if each.spec.suspend else _parallel_pods(each.spec.job_template.spec, 0)
        case _:
            return 1 if each.spec.replicas is None else max(0, each.spec.replicas)


def _parallel_pods(job: JobSpec, succeeded: int) -> int:
    if job.suspend:
        return 0
    wanted = 1 if job.parallelism is None else job.parallelism
    if job.completions is not None:
        wanted = min(wanted, job.completions - succeeded)
    return max(0, wanted)


def _created_by(each: Workload, count: int, present: Container[Identity]) -> Iterator[Resource]:
    if isinstance(each, StatefulSet) and each.spec.volume_claim_templates:
        return _with_claims(each, count, present)
    return _pods(each, count)


def _pods(owner: Workload, count: int) -> Iterator[Pod]:
    template = owner.spec.job_template.spec.template if isinstance(owner, CronJob) else owner.spec.template
    kind = type(owner)
    references = (
        OwnerReference(
            api_version=kind.api_version,
            kind=kind.kind,
            name=owner.name,
            uid=owner.metadata.uid,
            controller=True,
        ),
    )
    for number in range(count):
        meta = ObjectMeta(
            name=f"{owner.name}-{number}",
            namespace=owner.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=references,
        )
        yield Pod(metadata=meta, spec=template.spec)


def _with_claims(owner: StatefulSet, count: int, present: Container[Identity]) -> Iterator[Resource]:
    """Yield pods with one volume claim per template, and the claims that the manifests lack."""
    templates = owner.spec.volume_claim_templates
    own = {each.metadata.name for each in templates}
    others = tuple(v for v in owner.spec.template.spec.volumes if v.name not in own)
    for number, pod in enumerate(_pods(owner, count)):
        claimed = []
        for template in templates:
            # The StatefulSet controller names claims this way:
            # https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/
            name = f"{template.metadata.name}-{owner.name}-{number}"
            source = PersistentVolumeClaimSource(claim_name=name)
            claimed.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
            if (owner.namespace, PersistentVolumeClaim.kind, name) not in present:
                meta = ObjectMeta(name=name, namespace=owner.namespace)
                yield PersistentVolumeClaim(metadata=meta, spec=template.spec)
        spec = msgspec.structs.replace(pod.spec, volumes=(*others, *claimed))
        yield msgspec.structs.replace(pod, spec=spec)
