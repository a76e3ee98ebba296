"""
Volume topology: from which nodes the volumes of a pod can be reached.

A bound PersistentVolumeClaim is reachable where the node affinity of its volume says; one that is not bound
yet may be provisioned wherever the allowed topologies of its StorageClass say. A claim for which the pod
would wait forever (missing, lost, being deleted, or bound before pods are scheduled) is a reason not to
launch a node at all.

How many volumes a node can attach is in :mod:`.volumeusage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.api.labels import BIND_COMPLETED, HOSTNAME
from karpenter.core.model.requirement import RequirementError, requirement
from karpenter.core.model.requirements import NOTHING_REQUIRED, Requirements
from karpenter.core.state.volumeusage import VolumeProblem, claimed_volumes, storage_class_of, volume_claim

if TYPE_CHECKING:
    from karpenter.api.pod import PersistentVolumeClaimSpec, Pod
    from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from karpenter.core.state.cluster import ClusterView

_MAX_ALTERNATIVES: Final = 256
"""How many combinations of the topologies of several volumes are considered."""


def volume_requirements(pod: Pod, view: ClusterView) -> tuple[Requirements, ...]:
    """
    Return the places from which all volumes of a pod can be reached; nothing means anywhere.

    Raises:
        VolumeProblem: when the pod would wait in vain.
    """
    found: tuple[Requirements, ...] = ()
    for key, volume in claimed_volumes(pod):
        claim, spec = volume_claim(key, volume, view)
        topology = _topology(key, claim, spec, view)
        if topology:
            found = _combined(found, topology) if found else topology
            if not found:
                raise VolumeProblem(
                    f"no node that reaches PersistentVolumeClaim {key} reaches the others too"
                )
    return found


def _topology(
    key: str, claim: PersistentVolumeClaim | None, spec: PersistentVolumeClaimSpec, view: ClusterView
) -> tuple[Requirements, ...]:
    if claim is not None and spec.volume_name:
        return _volume_topology(_volume(key, claim, view))
    return _storage_class_topology(_binding_class(key, spec, view))


def _volume(key: str, claim: PersistentVolumeClaim, view: ClusterView) -> PersistentVolume:
    volume = view.volumes.get(claim.spec.volume_name)
    if volume is None:
        raise VolumeProblem(f"PersistentVolume {claim.spec.volume_name} of claim {key} does not exist")
    if volume.metadata.deletion_timestamp is not None:
        raise VolumeProblem(f"PersistentVolume {volume.name} of claim {key} is being deleted")
    # The PersistentVolume controller names the volume first and completes the binding later:
    # https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
    if BIND_COMPLETED not in claim.metadata.annotations and claim.status.phase != "Bound":
        raise VolumeProblem(f"PersistentVolumeClaim {key} is not bound to {volume.name} yet")
    return volume


def _volume_topology(volume: PersistentVolume) -> tuple[Requirements, ...]:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ()
    # A local volume pins its pod to a host name that no new node has; Karpenter drops that key, so that the
    # pod gets a node and kube-scheduler decides (https://kubernetes.io/docs/concepts/storage/volumes/).
    is_local = volume.spec.local is not None or volume.spec.host_path is not None
    found = []
    for term in affinity.required.node_selector_terms:
        entries = [e for e in term.match_expressions if not (is_local and e.key == HOSTNAME)]
        try:
            found.append(Requirements.from_entries(entries))
        except RequirementError as error:
            raise VolumeProblem(f"PersistentVolume {volume.name} cannot be placed: {error}") from None
    return () if NOTHING_REQUIRED in found else tuple(found)


def _binding_class(key: str, spec: PersistentVolumeClaimSpec, view: ClusterView) -> StorageClass:
    """Return the storage class that makes a volume for a claim once its pod has a node."""
    found = storage_class_of(spec, view)
    if found is None and spec.storage_class_name:
        raise VolumeProblem(
            f"StorageClass {spec.storage_class_name} of PersistentVolumeClaim {key} does not exist"
        )
    if found is None:
        raise VolumeProblem(f"PersistentVolumeClaim {key} is not bound and has no storage class")
    # An Immediate class binds before a pod is scheduled, so the pod has to wait for the volume first:
    # https://kubernetes.io/docs/concepts/storage/storage-classes/
    if found.volume_binding_mode != "WaitForFirstConsumer":
        raise VolumeProblem(
            f"PersistentVolumeClaim {key} is not bound,"
            f" and StorageClass {found.name} binds claims before pods are placed"
        )
    return found


def _storage_class_topology(storage_class: StorageClass) -> tuple[Requirements, ...]:
    # The terms of allowedTopologies are alternatives; the expressions of one term must all hold:
    # https://kubernetes.io/docs/concepts/storage/storage-classes/#allowed-topologies
    found = tuple(
        Requirements.of(requirement(e.key, "In", e.values) for e in term.match_label_expressions)
        for term in storage_class.allowed_topologies
    )
    return () if NOTHING_REQUIRED in found else found


def _combined(held: tuple[Requirements, ...], more: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Return every way to satisfy one of each side, each once."""
    pairs = [(one, other) for one in held for other in more if one.conflict(other) is None]
    return tuple(dict.fromkeys(one.intersect(other) for one, other in pairs))[:_MAX_ALTERNATIVES]
