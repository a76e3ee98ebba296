"""
What a fleet of type ``instant`` gets: the cheapest override that is not sold out, or the first by priority.

AWS chooses by price, by capacity or by the caller's priorities. Here capacity is a matter of what was sold
out on request, so that the cheapest available override stands for all strategies that do not go by priority.
Everything that a launch template says reaches the instance.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from moto.moto_api._internal import mock_random

from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter_local.aws.account import Account, CapacityError
from karpenter_local.aws.events import InstanceLaunched
from karpenter_local.aws.iam import has_spot_role
from karpenter_local.aws.instancestate import capacity_type_of, is_alive, switch_on
from karpenter_local.aws.quotas import shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_NEVER: Final = 1e9
_ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "arm64"}
_RESERVED: Final = {"capacity-block", "reserved-capacity"}


class FleetOverride(msgspec.Struct, frozen=True):
    """One override of one launch template."""

    specification: dict[str, Any]
    data: dict[str, Any]
    override: dict[str, Any]

    @property
    def instance_type(self) -> str:
        return str(self.override.get("InstanceType") or self.data["InstanceType"])

    @property
    def zone(self) -> str:
        return str(self.override["AvailabilityZone"])

    def as_answer(self) -> dict[str, Any]:
        return {"LaunchTemplateSpecification": self.specification, "Overrides": self.override}


@cache
def architectures() -> dict[str, str]:
    """Return what EC2 calls the processors of every instance type."""
    return {each.name: _ARCHITECTURES[each.arch] for each in load_data().types}


class InstantFleet:
    """A request for machines, and what comes of it."""

    def __init__(self, account: Account, backend: Any, ask: Callable[..., Any]) -> None:
        self._account = account
        self._backend = backend
        self._ask = ask
        target = ask("TargetCapacitySpecification", {})
        self._kind = target.get("DefaultTargetCapacityType") or "on-demand"
        self._wanted = int(target["TotalTargetCapacity"])

    def candidates(self) -> list[FleetOverride]:
        """Return every override, the one that is tried first in front."""
        found = [each for config in self._ask("LaunchTemplateConfigs", []) for each in self._of(config)]
        options = self._ask("SpotOptions" if self._kind == "spot" else "OnDemandOptions", {})
        if "prioritized" in options.get("AllocationStrategy", ""):
            return sorted(found, key=lambda each: float(each.override.get("Priority", _NEVER)))
        return sorted(found, key=self._price)

    def launch(self, tags: dict[str, dict[str, str]]) -> dict[str, Any]:
        """Launch as many machines as were asked for, as far as there are any."""
        instances, errors = [], []
        left = self._wanted
        for each in self.candidates():
            if not left:
                break
            trouble, room = self._trouble(each)
            count = min(left, room)
            if count:
                instances.append(self._launched(each, count, tags))
                left -= count
            if left and trouble is not None:
                errors.append(self._error(each, trouble))
        return {"FleetId": f"fleet-{mock_random.uuid4()}", "Instances": instances, "Errors": errors}

    def _of(self, config: dict[str, Any]) -> Iterator[FleetOverride]:
        named = config["LaunchTemplateSpecification"]
        template = (
            self._backend.get_launch_template(named["LaunchTemplateId"])
            if named.get("LaunchTemplateId")
            else self._backend.get_launch_template_by_name(named["LaunchTemplateName"])
        )
        version = template.get_version(named.get("Version", "$Default"))
        specification = {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "Version": str(version.number),
        }
        for override in config.get("Overrides") or [{}]:
            zone = self._backend.get_subnet(override["SubnetId"]).availability_zone
            yield FleetOverride(specification, version.data, {**override, "AvailabilityZone": zone})

    def _price(self, candidate: FleetOverride) -> float:
        price = self._account.price(self._kind, candidate.instance_type, candidate.zone)
        return _NEVER if price is None else price

    def _trouble(self, candidate: FleetOverride) -> tuple[CapacityError | None, int]:
        """Return how many machines can be had of a candidate, and why not more."""
        found = (
            self._unlinked()
            or self._mismatch(candidate)
            or self._account.trouble(self._capacity_type(candidate), candidate.instance_type, candidate.zone)
        )
        if found is not None:
            return found, 0
        reservation = self._reservation(candidate)
        if reservation is not None:
            left = reservation["AvailableInstanceCount"]
            return CapacityError(
                code="ReservationCapacityExceeded", message="The reservation is used up."
            ), left
        short = shortage(
            self._account,
            self._capacity_type(candidate),
            candidate.instance_type,
            self._backend.all_instances(),
        )
        left = self._left(candidate)
        if left is None and short is None:
            return None, self._wanted
        if short is not None and (left is None or short[1] < left):
            return short
        return CapacityError(), left or 0

    def _unlinked(self) -> CapacityError | None:
        """
        Return why EC2 launches no spot instances for an account: it has no service-linked role for them.

        EC2 makes the role for a caller that may make it; Karpenter's role may not.
        https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
        """
        if self._kind != "spot" or has_spot_role(self._account):
            return None
        return CapacityError(
            code="AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            message="The provided credentials do not have permission to create the service-linked role for"
            " EC2 Spot Instances.",
        )

    def _mismatch(self, candidate: FleetOverride) -> CapacityError | None:
        """Return why a machine could not start from its image: one is for other processors than the other."""
        image = self._backend.amis.get(candidate.override.get("ImageId") or candidate.data["ImageId"])
        runs_on = architectures().get(candidate.instance_type)
        if image is None or runs_on is None or image.architecture == runs_on:
            return None
        return CapacityError(
            code="InvalidParameterValue",
            message=f"The architecture '{runs_on}' of the specified instance type does not match"
            f" the architecture '{image.architecture}' of the specified AMI.",
        )

    def _left(self, candidate: FleetOverride) -> int | None:
        """Return how many more machines of a candidate there are; None where there is no limit."""
        place = self._capacity_type(candidate), candidate.instance_type, candidate.zone
        limits = self._account.limits(*place)
        if not limits:
            return None
        running = [
            (capacity_type_of(each), each.instance_type, each.placement.zone)
            for each in self._backend.all_instances()
            if is_alive(each)
        ]
        return max(
            0,
            min(count - sum(pattern.holds(*each) for each in running) for pattern, count in limits.items()),
        )

    def _capacity_type(self, candidate: FleetOverride) -> str:
        if self._kind in _RESERVED or self._reservation(candidate) is not None:
            return "reserved"
        return str(self._kind)

    def _reservation(self, candidate: FleetOverride) -> dict[str, Any] | None:
        said = candidate.data.get("CapacityReservationSpecification") or {}
        wanted = (said.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
        return self._account.reservations.get(wanted) if wanted else None

    def _error(self, candidate: FleetOverride, trouble: CapacityError) -> dict[str, Any]:
        message = trouble.message or (
            f"We currently do not have sufficient {candidate.instance_type} capacity in the Availability Zone"
            f" you requested ({candidate.zone})."
        )
        return {
            "LaunchTemplateAndOverrides": candidate.as_answer(),
            "Lifecycle": "spot" if self._kind == "spot" else "on-demand",
            "ErrorCode": trouble.code,
            "ErrorMessage": message,
        }

    def _launched(
        self, candidate: FleetOverride, count: int, tags: dict[str, dict[str, str]]
    ) -> dict[str, Any]:
        data, override = candidate.data, candidate.override
        nics = data.get("NetworkInterfaces") or [{}]
        made = self._backend.run_instances(
            image_id=override.get("ImageId") or data["ImageId"],
            count=count,
            user_data=data.get("UserData"),
            security_group_names=[],
            security_group_ids=list(nics[0].get("Groups") or data.get("SecurityGroupIds") or []),
            instance_type=candidate.instance_type,
            is_instance_type_default=False,
            subnet_id=override["SubnetId"],
            region_name=self._account.region,
            tags=tags,
            block_device_mappings=[each for each in data.get("BlockDeviceMappings") or [] if each.get("Ebs")],
            metadata_options=data.get("MetadataOptions") or {},
            monitoring_state="enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled",
            lifecycle="spot" if self._kind == "spot" else None,
        )
        for instance in made.instances:
            self._equip(instance, candidate, nics)
            switch_on(self._account, instance)
            self._account.tell(InstanceLaunched(instance.id))
        return {
            "LaunchTemplateAndOverrides": candidate.as_answer(),
            "Lifecycle": "spot" if self._kind == "spot" else "on-demand",
            "InstanceIds": [instance.id for instance in made.instances],
            "InstanceType": candidate.instance_type,
        }

    def _equip(self, instance: Any, candidate: FleetOverride, nics: list[dict[str, Any]]) -> None:
        """Give an instance what the imitation forgets: identity, spot request, reservation, interfaces."""
        data = candidate.data
        instance.launch_template_data = data
        if self._kind == "spot":
            instance.spot_instance_request_id = f"sir-{mock_random.uuid4().hex[:8]}"
        profile = (data.get("IamInstanceProfile") or {}).get("Name")
        if profile:
            instance.iam_instance_profile = {
                "Arn": f"arn:aws:iam::{self._account.number}:instance-profile/{profile}",
                "Id": profile,
            }
        specification = data.get("CapacityReservationSpecification")
        if specification:
            instance.capacity_reservation_specification = specification
        reservation = self._reservation(candidate)
        if reservation is not None:
            reservation["AvailableInstanceCount"] -= 1
            instance.capacity_reservation_id = reservation["CapacityReservationId"]
            market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
            instance.lifecycle = market or instance.lifecycle
        for place, said in enumerate(nics):
            if place:
                more = self._backend.create_network_interface(candidate.override["SubnetId"], None)
                instance.attach_eni(more, place)
            instance.nics[place].interface_type = said.get("InterfaceType") or "interface"
        self._place(instance, data.get("Placement") or {})

    def _place(self, instance: Any, placement: dict[str, Any]) -> None:
        instance.placement.tenancy = placement.get("Tenancy") or "default"
        group = self._account.placement_groups.get(placement.get("GroupId", ""))
        if group is None:
            return
        instance.placement.group_id = group["GroupId"]
        instance.placement.group_name = group["GroupName"]
        if group["Strategy"] == "partition":
            self._account.partitions[group["GroupId"]] += 1
            turn = self._account.partitions[group["GroupId"]] % group["PartitionCount"] + 1
            instance.placement.partition_number = placement.get("PartitionNumber") or turn
