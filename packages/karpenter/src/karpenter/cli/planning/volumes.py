"""
StorageClasses that volume claims name and that are not in the files.

Manifests of an application rarely have them: they are part of the cluster. A pod whose volume has no class
has no place, as on a cluster without the class. Where that is asked for, a class is assumed that binds a
volume where the pod goes, in any zone, as the default classes of EKS, GKE and AKS do.

https://kubernetes.io/docs/concepts/storage/storage-classes/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.meta import ObjectMeta
from karpenter.api.storage import StorageClass
from karpenter.cloud.catalogs.ec2.instancetypes import DOMAIN
from karpenter.core.state.pod import is_unscheduled
from karpenter.core.state.volumeusage import claimed_volumes, storage_class_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karpenter.api.pod import PersistentVolumeClaimSpec
    from karpenter.core.state.cluster import ClusterView

_EBS: Final = "ebs.csi.aws.com"
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_UNNAMED: Final = "assumed-default"


def missing_storage_classes(view: ClusterView) -> tuple[str, ...]:
    """Return the classes that volumes of pending pods need and that are not there; "" for a default class."""
    return tuple(sorted({spec.storage_class_name or "" for spec in _without_class(view)}))


def with_storage_classes(view: ClusterView, names: Sequence[str]) -> ClusterView:
    """Return the cluster with classes of these names, which bind a volume where its pod goes."""
    groups = {pool.spec.template.spec.node_class_ref.group for pool in view.pools.values()}
    assumed = {
        name or _UNNAMED: StorageClass(
            metadata=ObjectMeta(name=name or _UNNAMED, annotations={} if name else {_DEFAULT: "true"}),
            provisioner=_EBS if groups == {DOMAIN} else "",
            volume_binding_mode="WaitForFirstConsumer",
        )
        for name in names
    }
    return msgspec.structs.replace(view, storage_classes={**view.storage_classes, **assumed})


def storage_class_hint(names: Sequence[str]) -> str:
    """Return what helps where StorageClasses are missing."""
    named = ", ".join(name for name in names if name)
    what = f"StorageClass {named} is" if named else "A default StorageClass is"
    return (
        f"{what} not in the files: --assume-storage-classes plans as if volumes were made where their pods"
        " go, --context reads those of a cluster."
    )


def _without_class(view: ClusterView) -> Iterator[PersistentVolumeClaimSpec]:
    for pod in view.pods.values():
        if not is_unscheduled(pod):
            continue
        for key, volume in claimed_volumes(pod):
            claim = view.volume_claims.get(key)
            template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
            spec = claim.spec if claim is not None else template.spec if template is not None else None
            if spec is None or spec.volume_name or spec.storage_class_name == "":
                continue  # it exists already, or is to be bound to a volume that was made by hand
            if storage_class_of(spec, view) is None:
                yield spec
