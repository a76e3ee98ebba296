"""Instances of an account as hardware: what a machine would find out about itself when it boots."""

from __future__ import annotations

import base64
import binascii
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends

from karpenter.cloud.catalogs.ec2.data import InstanceFacts, load_data
from karpenter_local.aws.boot.bootconfig import CannotJoin
from karpenter_local.aws.boot.hardware import Hardware

if TYPE_CHECKING:
    from karpenter_local.aws.account import Account

_EFA: Final = frozenset({"efa", "efa-only"})


class InstanceInventory:
    """Looks at the instances of one account."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._backend: Any = ec2_backends[account.number][account.region]

    def all(self) -> list[Any]:
        """Return every instance, those that are gone but remembered included."""
        return list(self._backend.all_instances())

    def find(self, instance: str) -> Any | None:
        """Return an instance; None when EC2 no longer shows it."""
        return next((each for each in self.all() if each.id == instance), None)

    def forget(self, instance: str) -> None:
        """Forget an instance that is gone, as EC2 does after a while."""
        for number, reservation in tuple(self._backend.reservations.items()):
            kept = [each for each in reservation.instances if each.id != instance]
            if not kept:
                del self._backend.reservations[number]
            reservation.instances[:] = kept
        self._account.consoles.pop(instance, None)
        self._account.ailments.pop(instance, None)

    def hardware(self, instance: Any) -> Hardware:
        """
        Return what an instance is made of.

        Raises:
            CannotJoin: its user data is not encoded, so that it cannot even be read.
        """
        image = self._backend.amis.get(instance.image_id)
        template = getattr(instance, "launch_template_data", None) or {}
        subnet = self._backend.get_subnet(instance.subnet_id)
        return Hardware(
            id=instance.id,
            facts=_facts()[instance.instance_type],
            region=self._account.region,
            zone=instance.placement.zone,
            zone_id=subnet.availability_zone_id,
            address=instance.private_ip,
            name=instance.private_dns_name,
            image=image.name if image is not None else "",
            root_device=instance.root_device_name,
            user_data=_decoded(str(instance.user_data or "")),
            profile=(instance.iam_instance_profile or {}).get("Id", ""),
            disks={
                each["DeviceName"]: int(each["Ebs"]["VolumeSize"])
                for each in template.get("BlockDeviceMappings") or ()
                if (each.get("Ebs") or {}).get("VolumeSize")
            },
            efa=sum(1 for each in instance.nics.values() if getattr(each, "interface_type", "") in _EFA),
        )

    def role_of(self, profile: str) -> str:
        """Return the ARN of the role of an instance profile; empty when it has none, or does not exist."""
        found = next(
            (
                each
                for each in iam_backends[self._account.number]["aws"].instance_profiles.values()
                if each.name == profile
            ),
            None,
        )
        return str(found.roles[0].arn) if found is not None and found.roles else ""


def _decoded(user_data: str) -> str:
    try:
        return base64.b64decode(user_data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CannotJoin(f"cloud-init: the user data cannot be decoded: {error}") from None


@cache
def _facts() -> dict[str, InstanceFacts]:
    return {each.name: each for each in load_data().types}
