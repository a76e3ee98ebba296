"""
The volumes of a pod that tie it to a place: claims, and claims made for the pod alone.

Every other kind of volume (secrets, empty directories and so on) is known by its name only.
"""

from msgspec import field

from karpenter.api.meta import ObjectMeta
from karpenter.api.wire import ResourceList, Wire


class VolumeResources(Wire, frozen=True, kw_only=True):
    """How much room a claim asks for."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """What a claim wants, and the volume it is bound to."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    storage_class_name: str | None = None
    """Absent means the default class; empty means no class at all."""

    volume_name: str = ""
    volume_mode: str = ""


class PersistentVolumeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claim that is made for a pod's ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True, kw_only=True):
    """A volume that lives as long as its pod; its claim is called ``<pod>-<volume>``."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class PersistentVolumeClaimSource(Wire, frozen=True, kw_only=True):
    """A claim of the pod's namespace, by name."""

    claim_name: str
    read_only: bool = False


class Volume(Wire, frozen=True, kw_only=True):
    """One volume of a pod."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
