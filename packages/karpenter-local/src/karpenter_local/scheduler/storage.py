"""
The claims, volumes and classes of the cluster, and what a pod's claims amount to at this moment.

:meth:`Storage.survey` sorts the claims of a pod: bound ones tie it to where their volumes are, unbound ones
of a class that waits for the first consumer are bound together with the pod, anything else keeps it waiting.
Which nodes that leaves is decided in :mod:`.volumes`.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from karpenter.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from karpenter.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from karpenter.core.model.resources import parse_amount
from karpenter_local.scheduler import reasons
from karpenter_local.scheduler.volumelimits import NodeVolumes, VolumeId

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONCE_POD = "ReadWriteOncePod"

_WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_ZONE_SEPARATOR = "__"
_CSI_NAMES = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim as a pod names it."""

    name: str
    ephemeral: bool = False
    """Made for this pod alone, by a controller that may not have got to it yet."""


class PodVolumeClaims(msgspec.Struct, frozen=True):
    """Constraints that the claims of one pod put on its node."""

    refusal: str = ""
    """Why no node will do, whichever it is."""
    volume_gone: bool = False
    """Some claim is bound to a volume that does not exist."""
    reachable: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    """Per bound volume with node affinity: the terms of which one must hold."""
    zones: tuple[NodeSelectorTerm, ...] = ()
    """Per bound volume with zone labels: what a node must have, as far as it has such labels at all."""
    to_bind: tuple[PersistentVolumeClaim, ...] = ()
    volumes: frozenset[VolumeId] = frozenset()
    """Every volume that will be attached, bound or not."""
    once_in_use: bool = False
    """Some claim may have one user in the whole cluster, and has one."""


NO_CLAIMS = PodVolumeClaims()


class Storage:
    """Claims, volumes and classes, one event at a time."""

    def __init__(self, attached: NodeVolumes) -> None:
        self._attached = attached
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._users: dict[str, Counter[int]] = {}
        """Claim key to the pods that use it, by row."""
        self._counted_as: dict[str, VolumeId] = {}
        self._on_offer: dict[str, dict[str, PersistentVolume]] = {}
        """Volumes that are not bound for good, by class; the many that are never need looking at."""
        self.assumed: dict[str, str] = {}
        """Volume name to the claim it was just chosen for, until the API server says so too."""

    def set_claim(self, claim: PersistentVolumeClaim) -> None:
        self.claims[claim.key] = claim
        self._recount(claim.key)

    def drop_claim(self, key: str) -> None:
        self.claims.pop(key, None)
        self._recount(key)

    def set_volume(self, volume: PersistentVolume) -> None:
        self._withdraw(volume.name)
        self.volumes[volume.name] = volume
        held_by = volume.spec.claim_ref
        if volume.status.phase != "Bound" and volume.metadata.deletion_timestamp is None:
            self._on_offer.setdefault(volume.spec.storage_class_name, {})[volume.name] = volume
        if held_by is not None:
            self.assumed.pop(volume.name, None)
            self._recount(f"{held_by.namespace}/{held_by.name}")

    def drop_volume(self, name: str) -> None:
        self._withdraw(name)
        volume = self.volumes.pop(name, None)
        if volume is not None and volume.spec.claim_ref is not None:
            self._recount(f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}")

    def use(self, claim: str, row: int, *, by: int = 1) -> None:
        """Note one more pod (or `by`) at `row` that uses the claim with this key."""
        users = self._users.setdefault(claim, Counter())
        users[row] += by
        self._attached.use(self._counted_as.setdefault(claim, self.volume_of(claim)), row, by=by)
        if not users[row]:
            del users[row]
        if not users:
            del self._users[claim], self._counted_as[claim]

    def volume_of(self, key: str) -> VolumeId:
        """Return what attaching the claim with this key means to its driver."""
        claim = self.claims.get(key)
        if claim is None:
            return VolumeId("", key)
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is not None:
            if volume.spec.csi is not None:
                return VolumeId(volume.spec.csi.driver, volume.spec.csi.volume_handle)
            if volume.spec.aws_elastic_block_store is not None:
                return VolumeId(
                    _CSI_NAMES["kubernetes.io/aws-ebs"], volume.spec.aws_elastic_block_store.volume_id
                )
            return VolumeId("", volume.name)
        chosen = self.classes.get(claim.spec.storage_class_name or "")
        if claim.spec.volume_name or chosen is None:
            return VolumeId("", key)
        return VolumeId(_CSI_NAMES.get(chosen.provisioner, chosen.provisioner), key)

    def pod_volumes(self, namespace: str, uses: Iterable[ClaimUse]) -> PodVolumeClaims:
        found = _Finding()
        for use in uses:
            key = f"{namespace}/{use.name}"
            claim = self.claims.get(key)
            refusal = self._refusal(use, claim)
            if refusal:
                return PodVolumeClaims(refusal=refusal)
            assert claim is not None
            found.ids.add(self.volume_of(key))
            found.once = found.once or (ONCE_POD in claim.spec.access_modes and key in self._users)
            if claim.spec.volume_name:
                found.bound(self.volumes.get(claim.spec.volume_name))
            else:
                found.to_bind.append(claim)
        return found.pod_volumes()

    def waits(self, claim: PersistentVolumeClaim) -> bool:
        """Say whether the claim is bound only when a pod that uses it gets a node."""
        chosen = self.classes.get(claim.spec.storage_class_name or "")
        return chosen is not None and chosen.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER

    def available(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes that the claim could be bound to, the smallest first."""
        wanted = claim.spec
        on_offer = self._on_offer.get(wanted.storage_class_name or "", {})
        size = parse_amount("storage", wanted.resources.requests.get("storage", 0))
        fitting = [
            (parse_amount("storage", volume.spec.capacity.get("storage", 0)), volume.name)
            for volume in on_offer.values()
            if self._is_free_for(volume, claim)
            and set(wanted.access_modes) <= set(volume.spec.access_modes)
            and (volume.spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        ]
        return [self.volumes[name] for capacity, name in sorted(fitting) if capacity >= size]

    def provisioned_where(self, claim: PersistentVolumeClaim) -> tuple[NodeSelectorTerm, ...] | None:
        """Return the terms under which the class makes volumes: empty for anywhere, None for nowhere."""
        chosen = self.classes.get(claim.spec.storage_class_name or "")
        if chosen is None or chosen.provisioner == NO_PROVISIONER:
            return None
        return tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=e.key, operator="In", values=e.values)
                    for e in term.match_label_expressions
                )
            )
            for term in chosen.allowed_topologies
        )

    def _is_free_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        if self.assumed.get(volume.name, claim.key) != claim.key:
            return False
        held_by = volume.spec.claim_ref
        if held_by is None:
            return volume.status.phase in {"", "Available"}
        return f"{held_by.namespace}/{held_by.name}" == claim.key and held_by.uid in {"", claim.metadata.uid}

    def _withdraw(self, name: str) -> None:
        known = self.volumes.get(name)
        if known is not None:
            self._on_offer.get(known.spec.storage_class_name, {}).pop(name, None)

    def _refusal(self, use: ClaimUse, claim: PersistentVolumeClaim | None) -> str:
        if claim is None:
            return reasons.claim_awaited(use.name) if use.ephemeral else reasons.claim_missing(use.name)
        if claim.status.phase == "Lost":
            return reasons.claim_lost(use.name, claim.spec.volume_name)
        if claim.metadata.deletion_timestamp is not None:
            return reasons.claim_leaving(use.name)
        completed = BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
        if claim.spec.volume_name:
            return "" if completed else reasons.UNBOUND_CLAIMS
        return "" if self.waits(claim) else reasons.UNBOUND_CLAIMS

    def _recount(self, claim: str) -> None:
        users = self._users.get(claim)
        if users is None:
            return
        before, now = self._counted_as[claim], self.volume_of(claim)
        if before == now:
            return
        for row, pods in users.items():
            self._attached.use(before, row, by=-pods)
            self._attached.use(now, row, by=pods)
        self._counted_as[claim] = now


class _Finding:
    """A survey in the making."""

    def __init__(self) -> None:
        self.ids: set[VolumeId] = set()
        self.once = False
        self.gone = False
        self.reachable: list[tuple[NodeSelectorTerm, ...]] = []
        self.zones: list[NodeSelectorTerm] = []
        self.to_bind: list[PersistentVolumeClaim] = []

    def bound(self, volume: PersistentVolume | None) -> None:
        if volume is None:
            self.gone = True
            return
        affinity = volume.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            self.reachable.append(affinity.required.node_selector_terms)
        conditions = [
            NodeSelectorRequirement(key=key, operator="In", values=tuple(value.split(_ZONE_SEPARATOR)))
            for key in ZONE_LABELS
            if (value := volume.metadata.labels.get(key))
        ]
        if conditions:
            self.zones.append(NodeSelectorTerm(match_expressions=tuple(conditions)))

    def pod_volumes(self) -> PodVolumeClaims:
        return PodVolumeClaims(
            volume_gone=self.gone,
            reachable=tuple(self.reachable),
            zones=tuple(self.zones),
            to_bind=tuple(self.to_bind),
            volumes=frozenset(self.ids),
            once_in_use=self.once,
        )
