"""A machine before it has booted: what EC2 gave it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from karpenter.cloud.catalogs.ec2.data import InstanceFacts


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware and placement of an instance."""

    id: str
    facts: InstanceFacts
    region: str
    zone: str
    zone_id: str
    address: str
    name: str
    """Its private DNS name."""

    image: str

    root_device: str
    user_data: str
    profile: str = ""
    """The instance profile that it has; empty if none."""

    disks: Mapping[str, int] = {}
    """Volumes that were asked for: device to GiB."""

    efa: int = 0
    """Network interfaces that speak EFA."""

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"
