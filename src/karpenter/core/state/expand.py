"""
Workloads as the pods they would make, for clusters that are only described.

A workload that has pods in the view already speaks for itself; one that has none is
expanded to as many pods as it asks for, all sharing one spec. What an API server would
fill in before anyone sees the object (namespaces, priorities, volume claims) is filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from karpenter.api.jobs import CronJob, Job
from karpenter.api.meta import ObjectMeta, OwnerReference, Resource
from karpenter.api.pod import Pod
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.api.volume import PersistentVolumeClaimSource, Volume
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.pod import PodTemplateSpec
    from karpenter.api.policy import PriorityClass


def expand(objects: Iterable[Resource]) -> list[Resource]:
    """Return the objects with every workload expanded that has no pods."""
    given = list(objects)
    owned = _owned(given)
    claims = {each.key for each in given if isinstance(each, PersistentVolumeClaim)}
    found = list(given)
    for each in given:
        if not _has_owner(each) and not _has_pods(each, owned):
            found.extend(_made_by(each, claims))
    return found


def with_priority(pod: Pod, classes: dict[str, PriorityClass]) -> Pod:
    """Return the pod with the priority that its class gives it."""
    if pod.spec.priority is not None:
        return pod
    chosen = classes.get(pod.spec.priority_class_name)
    if chosen is None and not pod.spec.priority_class_name:
        chosen = next((each for each in classes.values() if each.global_default), None)
    if chosen is None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=chosen.value))


def _owned(objects: Iterable[Resource]) -> set[tuple[str, str, str]]:
    """Return (namespace, kind, name) of everything that owns a pod."""
    return {
        (each.namespace, owner.kind, owner.name)
        for each in objects
        if isinstance(each, Pod)
        for owner in each.metadata.owner_references
    }


def _has_owner(each: Resource) -> bool:
    return not isinstance(each, Pod) and any(owner.controller for owner in each.metadata.owner_references)


def _has_pods(each: Resource, owned: set[tuple[str, str, str]]) -> bool:
    if (each.namespace, type(each).kind, each.name) in owned:
        return True
    if isinstance(each, Deployment):
        return any(
            namespace == each.namespace and kind == "ReplicaSet" and name.rpartition("-")[0] == each.name
            for namespace, kind, name in owned
        )
    if isinstance(each, CronJob):
        return any(
            namespace == each.namespace and kind == "Job" and name.rpartition("-")[0] == each.name
            for namespace, kind, name in owned
        )
    return False


def _made_by(each: Resource, claims: set[str]) -> Iterator[Resource]:
    match each:
        case Deployment() | ReplicaSet():
            yield from _replicas(each, each.spec.template, each.spec.replicas)
        case StatefulSet():
            yield from _stateful(each, claims)
        case Job():
            yield from _replicas(each, each.spec.template, _at_once(each.spec.parallelism, each.spec.completions))
        case CronJob():
            job = each.spec.job_template.spec
            yield from _replicas(each, job.template, _at_once(job.parallelism, job.completions))
        case _:
            return


def _at_once(parallelism: int | None, completions: int | None) -> int:
    wanted = 1 if parallelism is None else parallelism
    return wanted if completions is None else min(wanted, completions)


def _replicas(owner: Resource, template: PodTemplateSpec, count: int | None) -> Iterator[Pod]:
    for number in range(1 if count is None else count):
        yield _pod(owner, template, number)


def _pod(owner: Resource, template: PodTemplateSpec, number: int) -> Pod:
    reference = OwnerReference(
        api_version=type(owner).api_version,
        kind=type(owner).kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"{owner.name}-{number}",
            namespace=owner.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(reference,),
        ),
        spec=template.spec,
    )


def _stateful(owner: StatefulSet, claims: set[str]) -> Iterator[Resource]:
    """Pods of a StatefulSet mount a claim each per template; claims that are not there are made."""
    templates = owner.spec.volume_claim_templates
    for number, pod in enumerate(_replicas(owner, owner.spec.template, owner.spec.replicas)):
        volumes = list(pod.spec.volumes)
        for template in templates:
            name = f"{template.metadata.name}-{owner.name}-{number}"
            source = PersistentVolumeClaimSource(claim_name=name)
            volumes.append(Volume(name=template.metadata.name, persistent_volume_claim=source))
            if f"{owner.namespace}/{name}" not in claims:
                meta = ObjectMeta(name=name, namespace=owner.namespace)
                yield PersistentVolumeClaim(metadata=meta, spec=template.spec)
        if templates:
            yield msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=tuple(volumes)))
        else:
            yield pod
