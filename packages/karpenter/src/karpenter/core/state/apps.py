"""
Workloads as the pods they would make, for clusters that are only described.

A workload that has pods in the view already speaks for itself; one that has none is
expanded to as many pods as it asks for, all sharing one spec. What an API server would
fill in before anyone sees the object (namespaces, priorities, volume claims) is filled in.

Refuses to make more pods than anyone could plan for; says whose they would have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from karpenter.api.meta import ObjectMeta, OwnerReference
from karpenter.api.pod import PersistentVolumeClaimSource, Pod, Volume
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.wire import InvalidObject
from karpenter.api.workloads import CronJob, Deployment, Job, ReplicaSet, StatefulSet

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from karpenter.api.cluster import PriorityClass
    from karpenter.api.meta import Resource
    from karpenter.api.workloads import JobSpec

MAX_PODS: Final = 1_000_000
"""How many pods all workloads together may be expanded to."""

_BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_MADE_THROUGH: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Workloads whose pods belong to something that they make first, named ``<workload>-<suffix>``."""

Workload: TypeAlias = Deployment | ReplicaSet | StatefulSet | Job | CronJob
Identity: TypeAlias = tuple[str, str, str]
"""Namespace, kind and name."""


def expand_workloads(objects: Iterable[Resource]) -> list[Resource]:
    """
    Return the objects with every workload expanded that has no pods.

    Raises:
        InvalidObject: naming the workload that asks for more pods than can be planned for.
    """
    given = list(objects)
    there = {_identity(each) for each in given}
    owners = _owners_of_pods(given)
    found, left = list(given), MAX_PODS
    for each in given:
        if isinstance(each, Workload) and not _is_made_by(each, there) and not _has_pods(each, owners):
            count = _count(each)
            if count > left:
                raise InvalidObject(
                    subject=f"{type(each).kind}/{each.key}",
                    problem=f"would make {count} pods: expected at most {MAX_PODS} in all",
                )
            left -= count
            found.extend(_made_by(each, count, there))
    return found


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """Return the pod with the priority that its class gives it."""
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name:
        value = classes[name].value if name in classes else _BUILT_IN.get(name)
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


def _is_made_by(each: Workload, there: Container[Identity]) -> bool:
    """Whether something else that is there makes this workload, and speaks for it."""
    return any(
        owner.controller and (each.namespace, owner.kind, owner.name) in there
        for owner in each.metadata.owner_references
    )


def _has_pods(each: Workload, owners: set[Identity]) -> bool:
    if _identity(each) in owners:
        return True
    between = _MADE_THROUGH.get(type(each).kind)
    return between is not None and any(
        namespace == each.namespace and kind == between and name.rpartition("-")[0] == each.name
        for namespace, kind, name in owners
    )


def _count(each: Workload) -> int:
    """Return how many pods a workload asks for now."""
    if each.metadata.deletion_timestamp is not None:
        return 0
    match each:
        case Job():
            return 0 if each.status.completion_time else _at_once(each.spec, each.status.succeeded)
        case CronJob():
            return 0 if each.spec.suspend else _at_once(each.spec.job_template.spec, 0)
        case _:
            return 1 if each.spec.replicas is None else max(0, each.spec.replicas)


def _at_once(job: JobSpec, succeeded: int) -> int:
    if job.suspend:
        return 0
    wanted = 1 if job.parallelism is None else job.parallelism
    if job.completions is not None:
        wanted = min(wanted, job.completions - succeeded)
    return max(0, wanted)


def _made_by(each: Workload, count: int, there: Container[Identity]) -> Iterator[Resource]:
    if isinstance(each, StatefulSet) and each.spec.volume_claim_templates:
        return _with_claims(each, count, there)
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


def _with_claims(owner: StatefulSet, count: int, there: Container[Identity]) -> Iterator[Resource]:
    """Yield pods that mount a claim each per template, and the claims that are not there yet."""
    templates = owner.spec.volume_claim_templates
    own = {each.metadata.name for each in templates}
    others = tuple(v for v in owner.spec.template.spec.volumes if v.name not in own)
    for number, pod in enumerate(_pods(owner, count)):
        claimed = []
        for template in templates:
            name = f"{template.metadata.name}-{owner.name}-{number}"
            source = PersistentVolumeClaimSource(claim_name=name)
            claimed.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
            if (owner.namespace, PersistentVolumeClaim.kind, name) not in there:
                meta = ObjectMeta(name=name, namespace=owner.namespace)
                yield PersistentVolumeClaim(metadata=meta, spec=template.spec)
        spec = msgspec.structs.replace(pod.spec, volumes=(*others, *claimed))
        yield msgspec.structs.replace(pod, spec=spec)
